"""A converted file answers as the Keras model does, through LiteRT alone."""

import json

import numpy as np
import pytest

import export
from export.runtime import Classifier
from keras_bert.config import BertConfig
from keras_bert.heads import bert_model
from keras_bert.packing import pack
from keras_bert.tokenizer import BertTokenizer

LABELS = ["alarm", "music", "weather"]
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghij",
    "wake",
    "##up",
    "é",
    "play",
    "ra",
    "##in",
]
CONFIG = BertConfig.preset("tiny", vocabulary_size=len(VOCABULARY), initializer_range=0.1)
TEXTS = ["wakeup a b", "play RAIN", "é É", "", "a b c d e f g h i j a b c d e f g h i j a b c d e f g h i j"]


@pytest.fixture(scope="module", params=["float32", "float16", "dynamic_int8"])
def exported(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    model = bert_model(CONFIG, "classification", num_classes=3, seed=0)
    artifact = export.convert(model, directory / "model.tflite", recipe=request.param, lengths=(16, 8))
    (directory / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    (directory / "labels.txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return model, directory, artifact


def test_answers_equal_the_keras_model(exported):
    model, directory, artifact = exported
    classify, tokenizer = Classifier(directory), BertTokenizer(VOCABULARY)
    tolerance = {"float32": 1e-5, "float16": 2e-3, "dynamic_int8": 0.05}[artifact.recipe]
    for text in TEXTS:
        batch = pack(tokenizer, [text], sequence_length=16)
        logits = model(batch, training=False)["class_logits"].numpy()[0]
        expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        answers = {label.name: label.probability for label in classify(text)}
        np.testing.assert_allclose([answers[name] for name in LABELS], expected, atol=tolerance)


def test_artifact_tells_what_was_written(exported):
    _, directory, artifact = exported
    assert artifact.lengths == (8, 16)
    assert artifact.num_bytes == (directory / "model.tflite").stat().st_size
    assert str(artifact).endswith("MB")
    assert [path.name for path in directory.glob("*partial*")] == []


def test_bad_input_is_named(tmp_path):
    model = bert_model(CONFIG, "classification", num_classes=3)
    with pytest.raises(ValueError, match="recipe='int3' is unknown; choose one of float32"):
        export.convert(model, tmp_path / "x.tflite", recipe="int3")
    with pytest.raises(ValueError, match="expected one or more sequence lengths"):
        export.convert(model, tmp_path / "x.tflite", lengths=())
    with pytest.raises(FileNotFoundError, match="has no model.tflite"):
        Classifier(tmp_path)


def test_text_must_be_a_string(exported):
    with pytest.raises(TypeError, match="Expected one string; got list"):
        Classifier(exported[1])(["a"])
