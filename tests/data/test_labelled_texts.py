"""Rows: what each format gives, and what is dropped and named."""

import csv
import gzip
import json
import random
import subprocess
import sys

import pytest
from places import ROOT

from keras_bert.data.labelled_texts import Example, Rows, read_rows
from keras_bert.tasks.base.class_labels import find_class


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


# === Formats ===


def test_tsv_takes_quotes_as_they_are(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"never closed\tgood\nsaid "no" twice\tbad\n')
    rows = read_rows(path)
    assert rows.texts == ['"never closed', 'said "no" twice']
    assert rows.labels == ["good", "bad"]
    assert [example.row for example in rows] == [2, 3]
    assert str(rows.report) == "2 rows read, 2 kept, 0 dropped"


def test_tsv_breaks_lines_at_newlines_alone(tmp_path):
    rows = read_rows(written(tmp_path, "a.tsv", "text\tlabel\r\none\u2028two\x85three\x0cfour\tx\r\n"))
    assert rows.texts == ["one\u2028two\x85three\x0cfour"]
    assert rows.labels == ["x"]


def test_csv_gives_back_what_pythons_writer_wrote(tmp_path):
    generator = random.Random(3)
    texts = ["".join(generator.choices('ab ,"\n\té漢', k=generator.randint(1, 30))) + "x" for _ in range(300)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["label", "text"], *(["l", text] for text in texts)])
    rows = read_rows(path)
    assert rows.texts == texts
    assert not rows.report.dropped
    lines = path.read_text(encoding="utf-8").split("\n")
    assert all(lines[example.row - 1].startswith("l,") for example in rows)


def test_csv_quote_that_is_never_closed_costs_one_row(tmp_path):
    content = 'text,label\n"fine, it is",a\n"broken,a\nplain,b\n"quoted",b\n"at the end,b\n'
    rows = read_rows(written(tmp_path, "a.csv", content))
    assert rows.texts == ["fine, it is", "plain", "quoted"]
    assert [(drop.reason, drop.line) for drop in rows.report.dropped] == [("broken quoting", 3), ("broken quoting", 6)]


def test_delimiter_of_csv(tmp_path):
    path = written(tmp_path, "a.csv", 'text;label\n"a; b";x\n')
    assert read_rows(path, delimiter=";")[0] == Example("a; b", None, "x", 2)
    with pytest.raises(ValueError, match=r"no column named 'text'.*'text;label'"):
        read_rows(path)


def test_json_lines_and_json_documents(tmp_path):
    objects = [
        {"s": "a", "l": 1},
        {"s": "b", "l": True},
        {"s": "c\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "l": "x"},
    ]
    lines = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, objects)))
    listed = written(tmp_path, "a.json", json.dumps(objects))
    keyed = written(tmp_path, "b.json", json.dumps({str(i): value for i, value in enumerate(objects)}, indent=1))
    for path in (lines, listed, keyed):
        rows = read_rows(path, text="s", label="l")
        assert rows.texts == ["a", "b", "c😀"]
        assert rows.labels == ["1", "true", "x"]
        assert [example.row for example in rows] == [1, 2, 3]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_gzip_and_byte_order_mark(tmp_path, name):
    content = (
        '{"text": "ü", "label": "x"}\n'
        if name == "a.jsonl"
        else "text{0}label\nü{0}x\n".format("\t" if name == "a.tsv" else ",")
    )
    marked = b"\xef\xbb\xbf" + content.encode("utf-8")
    plain, packed = written(tmp_path, name, marked), written(tmp_path, name + ".gz", gzip.compress(marked))
    assert read_rows(plain).examples == read_rows(packed).examples
    assert read_rows(plain)[0].text == "ü"
    both = read_rows([plain, packed])
    assert len(both) == 2 and both.report.files == (str(plain), str(packed))


def test_columns_by_number(tmp_path):
    path = written(tmp_path, "cola.tsv", "gj04\t1\t\tA sentence.\nbc01\t0\t*\tSentence a.\n")
    assert read_rows(path, text=3, label=1).labels == ["1", "0"]
    assert read_rows(path, text=3, label=1, header=True).labels == ["0"]
    headed = written(tmp_path, "b.tsv", "id\tfirst\tsecond\n7\tone\ttwo\n")
    assert read_rows(headed, text="first", pair=2, label=None)[0] == Example("one", "two", None, 2)


# === Labels ===


def test_several_labels_by_separator_and_by_list(tmp_path):
    separated = written(tmp_path, "a.tsv", "text\tlabel\none\tx| y |x\ntwo\t\nthree\tz\n")
    rows = read_rows(separated, label_separator="|")
    assert rows.labels == [("x", "y"), (), ("z",)]
    listed = written(tmp_path, "b.jsonl", '{"text": "one", "label": ["x", "y"]}\n{"text": "two", "label": []}\n')
    assert read_rows(listed).labels == [("x", "y"), ()]
    cells = written(tmp_path, "c.tsv", 'text\tlabel\none\t["x", "y"]\ntwo\t["x", "y\n')
    rows = read_rows(cells)
    assert rows.labels == [("x", "y")]
    assert [(drop.reason, drop.line) for drop in rows.report.dropped] == [("label is no list, as in other rows", 3)]


def test_a_class_in_brackets_is_a_class(tmp_path):
    assert read_rows(written(tmp_path, "a.tsv", "text\tlabel\none\t[other]\n")).labels == ["[other]"]


def test_lists_as_python_writes_them(tmp_path):
    path = written(
        tmp_path, "a.csv", "text,label\none,\"['x', 'it\\'s, y']\"\ntwo,[]\nthree,\"('x',)\"\nfour,\"[1, 2.5,]\"\n"
    )
    assert read_rows(path).labels == [("x", "it's, y"), (), ("x",), ("1", "2.5")]
    assert read_rows(path, label_separator=",").labels == [("x", "it's, y"), (), ("x",), ("1", "2.5")]
    marked = written(tmp_path, "b.tsv", "text\tlabel\none\t[a]|[b]\ntwo\t[a]\nthree\t(no, one)\n")
    assert read_rows(marked, label_separator="|").labels == [("[a]", "[b]"), ("[a]",), ("(no, one)",)]


@pytest.mark.parametrize("cell", ["['x' 'y']", "[x, y]", "['x', ['y']]", "['x', None]", "['x', __import__('os')]"])
def test_a_list_that_cannot_be_read_is_no_class(tmp_path, cell):
    path = written(tmp_path, "a.tsv", f"text\tlabel\none\t{cell}\ntwo\t{cell}\nthree\t[]\n")
    with pytest.raises(ValueError, match=r"a.tsv, line 2: the label .* label_separator="):
        read_rows(path)
    path = written(tmp_path, "b.tsv", f"text\tlabel\none\t{cell}\ntwo\t['x']\nthree\t[]\n")
    rows = read_rows(path)
    assert rows.labels == [("x",), ()] and rows.report.reasons == {"label is a broken list": 1}


def test_deep_brackets_are_a_broken_label(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    rows = read_rows(written(tmp_path, "a.tsv", f"text\tlabel\none\t{deep}\ntwo\t['x']\n"))
    assert rows.labels == [("x",)] and len(rows.report.dropped) == 1


def test_numbers_never_merge_classes():
    """A class called 1 stands at place 0: a number that is no name is no place either."""
    stars = ["1", "2", "3", "4", "5"]
    assert [find_class(star, stars, "Row 1") for star in range(1, 6)] == [0, 1, 2, 3, 4]
    for names in (stars, ["1.0", "2.0"], ["10", "20"], ["other", "0"]):
        with pytest.raises(
            ValueError, match="Row 7 has the unknown label 1|Row 7 has the unknown label 0.*number is a name"
        ):
            [find_class(place, names, "Row 7") for place in range(len(names))]
    assert [find_class(place, ["weather", "911"], "Row 1") for place in (0, 1)] == [0, 1]
    assert [find_class(truth, ["1", "0"], "Row 1") for truth in (False, True)] == [1, 0]


def test_numbers(tmp_path):
    path = written(tmp_path, "a.tsv", "text\tlabel\na\t2.5\nb\tnan\nc\tfive\nd\t 1e-1 \ne\t\n")
    rows = read_rows(path, numeric=True)
    assert rows.labels == [2.5, 0.1]
    assert rows.report.reasons == {"label is no number": 2, "missing label": 1}
    path = written(tmp_path, "a.jsonl", f'{{"text": "a", "label": {10**400}}}\n{{"text": "b", "label": 1}}\n')
    assert read_rows(path, numeric=True).report.reasons == {"label is no number": 1}  # too large for a float


# === Bad rows ===


def bad_file(tmp_path):
    lines = [
        b"text\tlabel\tnote",
        b"good\tx\t",
        b"short",
        b" \tx\t",
        b"no label\t \t",
        b"caf\xe9\tx\t",
        b"",
        b"tab\tin\ttext\tx",
        b"fine\tx\t\xff is in a column that is not read",
        b"fine\tunheard-of\t\t\t",
    ]
    return written(tmp_path, "bad.tsv", b"\n".join(lines) + b"\n\n")


def test_every_bad_row_is_counted_and_named(tmp_path):
    rows = read_rows(bad_file(tmp_path), allowed_labels=["x"])
    assert [example.row for example in rows] == [2, 9]
    assert [(drop.line, drop.reason) for drop in rows.report.dropped] == [
        (3, "too few columns"),
        (4, "empty text"),
        (5, "missing label"),
        (6, "invalid UTF-8"),
        (7, "blank line"),
        (8, "too many columns"),
        (10, "unknown label"),
    ]
    assert rows.report.read == 9 == rows.report.kept + len(rows.report.dropped)
    assert "  too few columns: 1 (line 3)" in str(rows.report).splitlines()
    assert json.loads(json.dumps(rows.report.to_dict()))["reasons"]["empty text"] == 1


def test_strict_raises_with_file_line_and_reason(tmp_path):
    with pytest.raises(ValueError, match=r"bad\.tsv, line 3: too few columns; fix the row"):
        read_rows(bad_file(tmp_path), strict=True)


def test_bad_json_lines(tmp_path):
    lines = ['{"text": "a", "label": "x"}', "{", "7", '{"label": "x"}', '{"text": "b"}', '{"text": 5, "label": "x"}']
    lines += ['{"text": "\\ud800", "label": "x"}', '{"text": "c", "label": null}', '{"text": "d", "label": {"a": 1}}']
    rows = read_rows(written(tmp_path, "a.jsonl", "\n".join(lines)))
    assert rows.texts == ["a"]
    assert [drop.reason for drop in rows.report.dropped] == [
        "not a JSON object",
        "not a JSON object",
        "no key 'text'",
        "missing label",
        "text is no string",
        "invalid UTF-8",
        "missing label",
        "label is no string, number or list",
    ]


def test_a_long_list_of_lines_is_cut_with_a_count(tmp_path):
    rows = read_rows(written(tmp_path, "a.tsv", "text\tlabel\n" + "x\ty\n" + "short\n" * 25))
    assert str(rows.report).endswith("too few columns: 25 (line 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 15 more)")


def test_empty_texts_can_be_kept(tmp_path):
    path = written(tmp_path, "a.tsv", "a\tb\n\tx\ny\t\n")
    assert len(read_rows(path, text="a", pair="b", label=None, keep_empty=True)) == 2
    with pytest.raises(ValueError, match="No usable row") as caught:
        read_rows(path, text="a", pair="b", label=None)
    assert "empty pair: 1 (line 3)" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.tsv", "", {}, "has no header"),
        ("a.tsv", "sentence\tlabel\nx\ty\n", {}, "no column named 'text'.*'sentence', 'label'.*Pass text="),
        ("a.tsv", "text\nx\n", {}, "label=None for a file without labels"),
        ("a.tsv", "text\ttext\tlabel\n", {}, "2 columns named 'text'"),
        ("a.tsv", "text\tlabel\n", {}, "No usable row"),
        ("a.tsv", "x\ty\n", {"header": False}, "header=False: the columns have no names"),
        ("a.tsv", "x\ty\n", {"header": "yes"}, "header='yes': expected True, False"),
        ("a.tsv", "x\ty\n", {"text": -1}, "count from 0"),
        ("a.tsv", "x\ty\n", {"format": "xml"}, "format='xml': expected one of"),
        ("a.tsv", "x\ty\n", {"delimiter": ";"}, "delimiter=';' is for CSV"),
        ("a.tsv", "x\ty\n", {"numeric": True, "label_separator": "|"}, "numeric=True reads one number"),
        ("a.tsv", "x\ty\n", {"label_separator": ""}, "separates nothing"),
        ("a.xls", "x\ty\n", {}, "does not end in one of"),
        ("a.json", "[1", {}, "not a JSON document"),
        ("a.json", "7", {}, "expected a list or a dictionary"),
        ("a.tsv", "text\tlabel\n".encode("utf-16"), {}, "UTF-16; save it as UTF-8"),
        ("a.tsv.gz", b"\x1f\x8b\x08 and no more", {}, "not a complete gzip file"),
    ],
)
def test_clear_errors(tmp_path, name, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_rows(written(tmp_path, name, content), **options)


def test_no_file_at_all(tmp_path):
    with pytest.raises(ValueError, match="at least one path"):
        read_rows([])
    with pytest.raises(FileNotFoundError, match="missing.tsv"):
        read_rows(tmp_path / "missing.tsv")
    with pytest.raises(FileNotFoundError, match="trian does not exist"):  # not: "does not end in one of .tsv, …"
        read_rows(tmp_path / "trian")


def test_rows_are_a_frozen_sequence(tmp_path):
    rows = read_rows(written(tmp_path, "a.tsv", "text\tlabel\na\tx\nb\ty\n"))
    assert isinstance(rows, Rows) and list(rows) == [rows[0], rows[1]] and rows[1:] == (rows[1],)
    assert rows[0] in rows and rows.pairs == [None, None]
    with pytest.raises(AttributeError):
        rows[0].text = "other"


def test_reading_and_metrics_load_no_tensorflow():
    modules = ("data.labelled_texts", "data.glue", "evaluation.reports", "evaluation.confidence")
    code = "import sys\n" + "".join(f"import keras_bert.{name}\n" for name in modules)
    code += "print([m for m in ('tensorflow', 'keras', 'sklearn', 'scipy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
