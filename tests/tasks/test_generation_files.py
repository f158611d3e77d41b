"""Sources and targets from every form that `fit` takes; what cannot be used is named."""

import gzip
import json

import pytest
import tensorflow as tf

from keras_bert.tasks.generation.files import GenerationExample, as_generation_rows, read_generation, read_parallel


def test_tables_by_name_and_by_number(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\na dog\tein Hund\n\tnichts\na cat\t\n", encoding="utf-8")
    rows = read_generation(path)
    assert rows[:] == (GenerationExample("a dog", "ein Hund", 2),)
    assert rows.report.reasons == {"empty source": 1, "empty target": 1}
    with pytest.raises(ValueError, match="has no column 'text'; it has 0, 1, 'source', 'target'"):
        read_generation(path, source="text")
    with pytest.raises(ValueError, match="line 3: empty source"):
        read_generation(path, strict=True)
    plain = tmp_path / "cmn.txt"
    plain.write_text("Hi.\t嗨。\tlicence\nRun.\t你用跑的。\tlicence\nalone\n", encoding="utf-8")
    rows = read_generation(plain, source=1, target=0)
    assert rows.sources == ["嗨。", "你用跑的。"] and rows.targets == ["Hi.", "Run."]
    assert rows.report.reasons == {"no column 1": 1}
    assert read_generation(plain, source=0, target=None).targets == [None] * 3


def test_turns_in_json(tmp_path):
    path = tmp_path / "dialogues.jsonl"
    lines = [{"source": ["Hello!", "Who is it?"], "target": "Me."}, {"source": [], "target": "a"}, {"source": 3}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    rows = read_generation(path)
    assert rows.sources == [("Hello!", "Who is it?")]
    assert sum(rows.report.reasons.values()) == 2


def test_two_files_whose_lines_belong_together(tmp_path):
    (tmp_path / "en.txt").write_text("a dog\n\na cat\n", encoding="utf-8")
    with gzip.open(tmp_path / "de.gz", "wt", encoding="utf-8") as file:
        file.write("ein Hund\nnichts\neine Katze\n")
    rows = read_parallel(tmp_path / "en.txt", tmp_path / "de.gz")
    assert rows[:] == (GenerationExample("a dog", "ein Hund", 1), GenerationExample("a cat", "eine Katze", 3))
    assert rows.report.reasons == {"empty source": 1}
    (tmp_path / "en.txt").write_text("a dog\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has 1 lines and .*de.gz has 3"):
        read_parallel(tmp_path / "en.txt", tmp_path / "de.gz")


def test_values():
    assert as_generation_rows([("a", "b")]).targets == ["b"]
    rows = as_generation_rows([["a", "b"], "c"], ["d", "e"])
    assert rows.sources == [("a", "b"), "c"] and as_generation_rows(rows) is rows
    assert as_generation_rows(list(rows)).sources == rows.sources
    batched = tf.data.Dataset.from_tensor_slices((["a", "b"], ["c", "d"])).batch(2)
    assert as_generation_rows(batched).targets == ["c", "d"]
    turns = tf.data.Dataset.from_tensors((["a", "b"], "c"))
    assert as_generation_rows(turns).sources == [("a", "b")]
    with pytest.raises(TypeError, match="expected \\(source, target\\)"):
        as_generation_rows([("a", "b", "c")])
    with pytest.raises(ValueError, match="no sources"):
        as_generation_rows([])
    with pytest.raises(ValueError, match="columns=.* are for files"):
        as_generation_rows([("a", "b")], source="x")
