"""The table of weight names is whole: each weight of each model has one row, in every format."""

import numpy as np
import pytest
from tiny_models import TINY, tiny_model

from keras_bert.checkpoint.names import (
    ENCODER_PARTS,
    FORMATS,
    HEAD_PARTS,
    TABLE,
    from_stored,
    our_shape,
    stored_shape,
    to_stored,
    weights,
)
from keras_bert.checkpoint.stored_weights import find_variable
from keras_bert.model.heads import HEADS

NARROW = TINY.replace(embedding_dim=8)
CLASSES = {"classifier": 3, "token_classifier": 3, "relation_classifier": 3}


def rows_of(config, heads):
    parts = {part for head in heads for part in HEAD_PARTS[head]}
    return weights(config, {*ENCODER_PARTS, *parts} if heads == () else {*ENCODER_PARTS[:3], *parts})


@pytest.mark.parametrize("embedding_dim", [None, 8])
@pytest.mark.parametrize("heads", [(), HEADS])
def test_rows_are_exactly_the_weights_of_a_model(heads, embedding_dim):
    config = TINY.replace(embedding_dim=embedding_dim)
    model = tiny_model(heads, embedding_dim=embedding_dim)
    rows = rows_of(config, heads)
    found = [find_variable(model, row) for row in rows]
    assert sorted(map(id, found)) == sorted(map(id, model.weights))
    for row, variable in zip(rows, found, strict=True):
        assert our_shape(row, config, CLASSES) == tuple(variable.shape), row


@pytest.mark.parametrize("format", FORMATS)
def test_no_two_weights_of_a_model_share_a_name(format):
    rows = weights(NARROW, {row.part for row in TABLE})
    names = [getattr(row, format) for row in rows if getattr(row, format) is not None]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("format", FORMATS)
def test_stored_arrays_have_the_format_s_shape_and_come_back(format):
    random = np.random.default_rng(0)
    for row in weights(NARROW, {row.part for row in TABLE}):
        array = random.normal(size=our_shape(row, NARROW, CLASSES))
        stored = to_stored(array, row, format, NARROW)
        assert stored.shape == stored_shape(row, format, NARROW, CLASSES), row
        np.testing.assert_array_equal(from_stored(stored, row, format), array, err_msg=row.ours)


def test_names_are_those_of_the_published_checkpoints():
    by_ours = {row.ours: row for row in weights(TINY, {row.part for row in TABLE})}
    query = by_ours["block_1.attention.query.kernel"]
    assert query.google == "bert/encoder/layer_1/attention/self/query/kernel"
    assert query.huggingface == "bert.encoder.layer.1.attention.self.query.weight"
    assert query.keras_hub == "layers/transformer_encoder_1/_self_attention_layer/query_dense/vars/0"
    assert by_ours["next_sentence.kernel"].google == "cls/seq_relationship/output_weights"
    assert by_ours["mlm_bias.bias"].google == "cls/predictions/output_bias"


def test_google_s_names_are_hugging_face_s_by_rule():
    """Hugging Face made its names from Google's by a rule; its own are proved beside transformers, so both are."""
    endings = {"kernel": "weight", "gamma": "weight", "beta": "bias", "output_weights": "weight"}
    for row in weights(TINY, {row.part for row in TABLE}):
        if row.google is None or row.part in ("classifier", "span_classifier"):  # heads with names of their own
            continue
        *path, ending = row.google.replace("layer_", "layer/").split("/")
        if ending.endswith("_embeddings"):
            path, ending = [*path, ending], "weight"
        ending = "bias" if ending == "output_bias" else endings.get(ending, ending)
        assert ".".join([*path, ending]) == row.huggingface


def test_google_keeps_output_weights_as_hugging_face_does_and_kernels_as_we_do():
    for row in weights(TINY, {row.part for row in TABLE}):
        if row.google is not None and row.shape in ("H2", "HC"):
            assert row.google.endswith("output_weights")
            assert stored_shape(row, "google", TINY, CLASSES) == our_shape(row, TINY, CLASSES)[::-1]
        elif row.google is not None:
            assert stored_shape(row, "google", TINY, CLASSES) == our_shape(row, TINY, CLASSES)
