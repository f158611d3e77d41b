"""What earlier versions saved opens in this one, with the same answers.

A directory for each version, written by `make_corpus.py` of that version and never changed afterwards.
"""

from pathlib import Path

import pytest
from compat_artifacts import INDEX, ask, differences, read_json

from keras_bert.tasks.base.registry import BUILT_IN

HERE = Path(__file__).parent
CORPORA = sorted(path.parent for path in HERE.glob(f"*/{INDEX}"))
ARTIFACTS = [(corpus, row) for corpus in CORPORA for row in read_json(corpus / INDEX)["artifacts"]]
KINDS = {"task", "tflite", "serving", "checkpoint", "pretraining", "finetuning"}
FORMATS = {
    *(".json", ".jsonl", ".txt", ".md", ".config"),
    *(".safetensors", ".h5", ".model", ".tflite", ".pb", ".tfrecord", ".index", ".data-00000-of-00001"),
}


@pytest.mark.parametrize(
    ("corpus", "row"), [pytest.param(corpus, row, id=f"{corpus.name}-{row['path']}") for corpus, row in ARTIFACTS]
)
def test_artifact_opens_with_the_same_answers(corpus, row, tmp_path):
    recorded = read_json(corpus / row["answers"])
    found = ask(row["kind"], corpus, row["path"], recorded["inputs"], tmp_path)
    assert not differences(recorded["answers"], found, row["tolerance"])


def test_every_registered_task_is_in_a_corpus():
    registered = set(BUILT_IN)
    saved, exported = ({row.get("task") for _, row in ARTIFACTS if row["kind"] == kind} for kind in ("task", "tflite"))
    assert registered <= saved, "add the new task to make_corpus.py, raise the version and run `make compat`"
    assert registered - {"zero_shot"} <= exported  # which wraps another task, and has no model of its own


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_corpus_has_every_kind_of_artifact(corpus):
    index = read_json(corpus / INDEX)
    assert index["version"] == corpus.name
    assert {row["kind"] for row in index["artifacts"]} >= KINDS
    formats = {row["format"] for row in index["artifacts"] if row["kind"] == "checkpoint"}
    assert formats >= {"huggingface", "google", "keras_hub"}


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_corpus_is_data_that_names_no_machine(corpus):
    for path in (path for path in corpus.rglob("*") if path.is_file()):
        assert path.suffix in FORMATS or path.name == "tf_serving_warmup_requests", path
        content = path.read_bytes()
        assert not [word for word in (b"/tmp/", b"/work/", b"/home/", b"/root/", b"/Users/") if word in content], path


def test_differences_are_found():
    answer = {"name": "good", "probability": 0.7, "places": [1, 2]}
    assert differences(answer, {**answer, "probability": 0.700001, "new": 1}, 1e-5) == []
    assert differences(answer, {**answer, "probability": 0.8}, 1e-5) == [".probability: expected 0.7, found 0.8"]
    assert differences(answer, {**answer, "places": [1, 3]}, 1e-5) == [".places[1]: expected 2, found 3"]
    assert differences(answer, {**answer, "places": [1]}, 1e-5) == [".places: expected [1, 2], found [1]"]
    assert differences(answer, {"name": "good", "places": [1, 2]}, 1e-5) == [".probability: missing"]
    assert len(differences([20.0, 20.0], [20.0001, 20.001], 1e-5)) == 1
    assert differences({"value": 0.5}, {"value": float("nan")}, 1e-5) == [".value: expected 0.5, found nan"]
