"""A classifier that knows that it was trained on pairs: its file carries that along, and nothing stumbles over it."""

import pytest
from tiny_tasks import pretrained_directory

import export
from export.deployment.guides import loading_guides
from export.file.metadata import task_settings
from keras_bert import TextClassifier

PAIRS = [("a good film", "the plot"), ("dull", "it was bad")] * 4


@pytest.mark.slow
def test_the_files_for_people_and_servers_speak_of_pairs(tmp_path):
    task = TextClassifier.from_pretrained(pretrained_directory(), labels=["no", "yes"], sequence_length=32)
    assert "Type anything here." in loading_guides(task, ())[0][1]
    task.pairs = True
    for title, code in loading_guides(task, ()):
        assert title == "Android" or '[("A man sleeps.", "Nobody is awake.")]' in code
    served = export.save_serving(task, tmp_path / "pairs")
    signatures = {one.name: one for one in served.signatures}
    assert "pair" in " ".join(signatures["serving_default"].inputs) and "serving_pairs" not in signatures


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single_label", "regression"])
def test_the_file_of_a_model_of_pairs(kind, tmp_path):
    labels = ["bad", "good"] if kind == "single_label" else None
    task = TextClassifier.from_pretrained(pretrained_directory(), labels=labels, kind=kind, sequence_length=16)
    targets = ["good", "bad"] * 4 if labels else [4.5, 1.0] * 4
    task.fit(PAIRS, targets, epochs=1, verbose=0)
    file = export.convert(task, tmp_path / "model.tflite", recipe="float32", lengths=16)
    runtime = export.load(file.path)
    assert task_settings(task)["pairs"] is True and runtime.metadata.settings["pairs"] is True
    for ours, theirs in zip(task.predict(PAIRS[:2]), runtime(PAIRS[:2]), strict=True):
        if kind == "regression":
            assert theirs == pytest.approx(ours, rel=1e-4)
        else:
            assert [label.name for label in theirs] == [label.name for label in ours]
            assert theirs[0].probability == pytest.approx(ours[0].probability, abs=1e-4)
    assert export.verify(task, file, PAIRS, targets).check().tokens_differ == 0
    # A task from before this was noted, and a file of such a one, go together with the others.
    task.pairs = None
    assert "pairs" not in task_settings(task)
    older = export.convert(task, tmp_path / "older.tflite", recipe="float32", lengths=16)
    export.verify(task, file, PAIRS).check()
    task.pairs = True
    export.verify(task, older, PAIRS).check()
