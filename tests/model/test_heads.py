"""Heads give the promised outputs, tie the MLM decoder to the token table, and say what is missing. Both backends."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_encoders import CONFIG, batch, numpy, randomize

from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import HEADS, MarkedStates, bert_model

SHAPES = {
    "mlm_logits": (3, 8, CONFIG.vocabulary_size),
    "nsp_logits": (3, 2),
    "class_logits": (3, 5),
    "token_logits": (3, 8, 5),
    "span_logits": (3, 8, 2),
    "replaced_logits": (3, 8),
    "relation_logits": (3, 5),
}


def test_all_heads_at_once():
    outputs = bert_model(CONFIG, HEADS, num_classes=5, marker_ids=(1, 2))(batch())
    assert {name: tuple(value.shape) for name, value in outputs.items()} == SHAPES


def test_mlm_decoder_is_the_token_table():
    model = bert_model(CONFIG.replace(embedding_dim=6), "masked_lm")
    weights = randomize(model)
    inputs = batch()
    transformed = keras.Model(model.input, model.get_layer("mlm_transform").output)(inputs)
    expected = numpy(transformed) @ weights["token_embedding/embeddings"].T + weights["mlm_bias/bias"]
    np.testing.assert_allclose(numpy(model(inputs)["mlm_logits"]), expected, atol=1e-4)


def test_heads_share_the_given_encoder():
    encoder = bert_encoder(CONFIG, seed=0)
    model = bert_model(CONFIG, "classification", num_classes=2, encoder=encoder)
    assert model.get_layer("block_0") is encoder.get_layer("block_0")
    assert model.count_params() == encoder.count_params() + 2 * CONFIG.hidden_dim + 2


def test_only_what_a_head_needs_is_in_the_model():
    assert "pooler" not in [layer.name for layer in bert_model(CONFIG, "question_answering").layers]


def test_logits_are_float32_under_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        outputs = bert_model(CONFIG, ("classification", "next_sentence"), num_classes=5)(batch())
    finally:
        keras.config.set_dtype_policy("float32")
    assert {keras.backend.standardize_dtype(v.dtype) for v in outputs.values()} == {"float32"}


def test_classifier_dropout_is_its_own():
    model = bert_model(CONFIG, "classification", num_classes=2, classifier_dropout=0.4)
    assert model.get_layer("classifier_dropout").rate == 0.4
    assert ops.ndim(model(batch())["class_logits"]) == 2


def test_a_head_begins_as_transformers_draws_it():
    kernel = numpy(bert_model(CONFIG, "classification", num_classes=2000, seed=1).get_layer("classifier").kernel)
    assert np.std(kernel) == pytest.approx(CONFIG.initializer_range, rel=0.03)  # cut at two deviations: 0.88 of it


@pytest.mark.parametrize(
    ("heads", "message"),
    [("sentiment", "heads=.*sentiment.*expected one or more of masked_lm"), ((), "expected one or more")],
)
def test_unknown_heads_are_named(heads, message):
    with pytest.raises(ValueError, match=message):
        bert_model(CONFIG, heads)


def test_number_of_classes_is_asked_for():
    with pytest.raises(ValueError, match="num_classes=None: the classifier head needs the number of classes"):
        bert_model(CONFIG, "classification")
    with pytest.raises(ValueError, match="marker_ids=None: the relation head needs"):
        bert_model(CONFIG, "relation", num_classes=2)
    with pytest.raises(ValueError, match="two different tokens"):
        MarkedStates((4, 4))


def test_states_of_markers_are_those_of_a_gather():
    random = np.random.default_rng(0)
    states = random.normal(size=(2, 8, 3)).astype("float32")
    ids = np.array([[1, 7, 3, 9, 3, 0, 0, 0], [1, 3, 9, 3, 3, 7, 3, 0]], "int32")
    plain = numpy(MarkedStates((7, 9))(states, ids))
    expected = np.concatenate([states[[0, 1], [1, 5]], states[[0, 1], [3, 2]]], axis=1)
    np.testing.assert_array_equal(plain, expected)
    # The same texts in one row, the second first, and a third that is not there.
    ids, states = (np.concatenate([part[1, :7], part[0, :5]])[None] for part in (ids, states))
    numbers = np.array([[2] * 7 + [1] * 5], "int32")
    packed = numpy(MarkedStates((7, 9))(states, ids, numbers, np.array([7, 0, 0], "int32")))
    np.testing.assert_array_equal(packed, np.concatenate([expected, np.zeros((1, 6), "float32")]))
