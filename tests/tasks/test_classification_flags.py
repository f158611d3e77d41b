"""What the command line makes of the labels in a file: classes, several classes for a text, or numbers."""

from argparse import Namespace

import pytest

from keras_bert.tasks.classification.commands import find_kind, read_classes


def read(tmp_path, labels, **flags):
    path = tmp_path / "data.tsv"
    path.write_text("text\tlabel\n" + "".join(f"some words\t{label}\n" for label in labels), encoding="utf-8")
    arguments = Namespace(**{"kind": None, "glue": None, "text": None, "pair": None, "label": None, **flags})
    rows = read_classes(arguments, path, "train")
    return find_kind(arguments, rows), [row.label for row in rows]


@pytest.mark.parametrize(
    ("labels", "flags", "kind", "read_as"),
    [
        (["0.5", "3", "4.25"], {}, "regression", [0.5, 3.0, 4.25]),
        (["0.5", "3", "4.25"], {"kind": "single_label"}, "single_label", ["0.5", "3", "4.25"]),
        (["1", "3", "4"], {}, "single_label", ["1", "3", "4"]),
        (["1", "3", "4"], {"kind": "regression"}, "regression", [1.0, 3.0, 4.0]),
        (["nan", "0.5"], {}, "single_label", ["nan", "0.5"]),
        (["a|b", "b"], {"label_separator": "|"}, "multi_label", [("a", "b"), ("b",)]),
    ],
)
def test_kind_follows_from_flags_and_labels(tmp_path, labels, flags, kind, read_as, capsys):
    assert read(tmp_path, labels, **flags) == (kind, read_as)
    assert ("labels are numbers with fractions" in capsys.readouterr().err) == (kind == "regression" and not flags)
