"""A model that reads no padding gives the outputs of the model, and computes as many tokens as there are."""

import json

import numpy as np
import pytest
import tensorflow as tf
from saved_model_servers import ServedModel
from tiny_models import batch, tiny_model

import export.serving.unpadded
from export.serving.saving import save_serving
from export.serving.unpadded import UnpaddedModel
from export.verification.parity import verify
from keras_bert.model.encoder import INPUT_NAMES
from tests.export.runtime.test_tagging_and_answers import loud_answerer
from tests.export.serving.test_saved_model import make_task, make_texts

VARIANTS = {
    "first token": {},
    "mean": {"pooling": "mean"},
    "narrow tables": {"embedding_dim": 8},
    "tanh gelu": {"activation": "gelu_tanh"},
}


def random_batch(rows, length, *, seed=0):
    random = np.random.default_rng(seed)
    mask = (np.arange(length) < random.integers(1, length + 1, (rows, 1))).astype("int32")
    ids = random.integers(1, 40, mask.shape).astype("int32") * mask
    return {"token_ids": ids, "segment_ids": (np.arange(length) > 2).astype("int32") * mask, "padding_mask": mask}


def largest_difference(first, second):
    assert set(first) == set(second)
    return max(float(tf.reduce_max(tf.abs(first[name] - second[name]))) for name in first)


@pytest.mark.parametrize("name", VARIANTS)
def test_outputs_are_those_of_the_model(name):
    model = tiny_model(("classification", "relation", "next_sentence"), **VARIANTS[name])
    assert UnpaddedModel.fits(model)
    unpadded = UnpaddedModel(model)
    holes = {**batch(), "padding_mask": np.array([[1, 0, 1, 1, 0, 1, 0, 0, 1]] * 3, "int32")}
    for inputs in (batch(), random_batch(7, 12), random_batch(1, 3), holes):
        expected = model(inputs, training=False)
        found = unpadded({key: tf.constant(value) for key, value in inputs.items()})
        assert largest_difference(expected, found) < 1e-5


def test_batches_without_rows_or_without_tokens():
    model = tiny_model("classification")
    unpadded = tf.function(
        UnpaddedModel(model).__call__, input_signature=[{n: tf.TensorSpec([None, None], tf.int32) for n in INPUT_NAMES}]
    )
    none = {name: tf.zeros([0, 4], tf.int32) for name in INPUT_NAMES}
    assert unpadded(none)["class_logits"].shape == (0, 3)
    padding = {name: tf.zeros([2, 4], tf.int32) for name in INPUT_NAMES}
    assert np.isfinite(unpadded(padding)["class_logits"]).all()


def test_dense_layers_see_only_tokens(monkeypatch):
    seen, product = set(), export.serving.unpadded._Product.__call__

    def watch(self, layer, x):
        seen.add(x.shape[0])
        return product(self, layer, x)

    monkeypatch.setattr(export.serving.unpadded._Product, "__call__", watch)
    inputs = {key: tf.constant(value) for key, value in random_batch(9, 12).items()}
    UnpaddedModel(tiny_model("classification"))(inputs)
    assert seen == {int(tf.reduce_sum(inputs["padding_mask"]))} and seen != {9 * 12}


def test_models_that_it_does_not_fit():
    assert not UnpaddedModel.fits(tiny_model(("classification", "token_classification")))
    assert not UnpaddedModel.fits(tiny_model("question_answering"))
    assert not UnpaddedModel.fits(tiny_model())  # an encoder gives states of tokens
    with pytest.raises(ValueError, match=r"precision='int8'; expected one of 'float32', 'bfloat16'"):
        UnpaddedModel(tiny_model("classification"), "int8")


@pytest.mark.filterwarnings("ignore:.*texts were cut")
@pytest.mark.slow
def test_bfloat16_is_saved_checked_and_found_again(tmp_path):
    task, texts = make_task(), make_texts(40)
    artifact = save_serving(task, tmp_path / "tone", precision="bfloat16", inputs="texts")
    assert 1e-5 < artifact.max_error < 5e-2
    report = verify(task, artifact.path, texts).check()
    assert report.tolerance == 5e-2
    served = ServedModel("tone", artifact.path)
    found = served.predict("tone", "serving_default", {"text": tf.constant(texts)})["probabilities"]
    expected = [[one.probability for one in sorted(row, key=lambda one: task.labels.index(one.name))]
                for row in task.predict(texts)]  # fmt: skip
    np.testing.assert_allclose(found, expected, atol=5e-2)
    assert json.dumps(report.to_dict())


def test_a_task_with_answers_for_tokens_is_served_in_float32_only(tmp_path):
    with pytest.raises(ValueError, match="served in 'float32' only, because its outputs are for each token"):
        save_serving(loud_answerer(), tmp_path / "answers", precision="bfloat16", long_texts="cut")
    with pytest.raises(ValueError, match="precision='float16'; expected one of"):
        save_serving(make_task(), tmp_path / "tone", precision="float16")
