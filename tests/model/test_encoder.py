"""The encoder equals the paper's forward pass. Runs on the TensorFlow and on the JAX backend (test_backends.py)."""

import keras
import numpy as np
import pytest
from keras import ops
from reference_bert import reference_forward
from tiny_encoders import CONFIG, batch, numpy, randomize, slope

from keras_bert.model.encoder import MASK_BIAS, PaddingBias, SelfAttention, bert_encoder, encoder_config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation": "relu"},
        {"activation": "gelu_tanh"},
        {"position": "sinusoidal"},
        {"embedding_dim": 6},
        {"num_heads": 4, "num_layers": 1},
        {"num_heads": 3, "attention_dim": 12},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "default",
)
def test_encoder_equals_the_reference(changes):
    config = CONFIG.replace(**changes)
    encoder = bert_encoder(config)
    inputs = batch()
    hidden_states, pooled = reference_forward(randomize(encoder), config, inputs)
    outputs = encoder(inputs)
    assert sorted(outputs) == ["hidden_states", "pooled_output", "sequence_output"]
    assert len(outputs["hidden_states"]) == config.num_layers + 1
    for ours, reference in zip(outputs["hidden_states"], hidden_states, strict=True):
        np.testing.assert_allclose(numpy(ours), reference, atol=1e-5)
    np.testing.assert_allclose(numpy(outputs["sequence_output"]), hidden_states[-1], atol=1e-5)
    np.testing.assert_allclose(numpy(outputs["pooled_output"]), pooled, atol=1e-5)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_long_rows_equal_the_reference(together, monkeypatch):
    """On JAX few heads attend at a time where rows are long."""
    monkeypatch.setattr("keras_bert.model.encoder._LONG", 8)
    monkeypatch.setattr("keras_bert.model.encoder._HEADS_AT_ONCE", together)
    config = CONFIG.replace(num_heads=6, attention_dim=12)
    encoder = bert_encoder(config, return_attentions=True)
    expected, _ = reference_forward(randomize(encoder), config, batch())
    outputs = encoder(batch())
    np.testing.assert_allclose(numpy(outputs["sequence_output"]), expected[-1], atol=1e-5)
    assert {tuple(probabilities.shape) for probabilities in outputs["attentions"]} == {(3, 6, 8, 8)}


def test_long_rows_have_the_gradient_of_softmax(monkeypatch):
    """On JAX they divide by the sum after the product; with dropout too."""
    rng = np.random.default_rng(0)
    x, upstream = rng.normal(size=(2, 2, 8, CONFIG.hidden_dim)).astype("float32")
    bias = ops.convert_to_tensor(np.where(np.arange(8) < 6, 0, -120).reshape(1, 1, 1, 8), dtype="float32")

    def gradient():
        layer = SelfAttention(CONFIG.replace(attention_dropout=0.2, initializer_range=1.0), seed=1)
        layer.build(x.shape)
        return slope(lambda x: layer(x, bias, training=True)[0] * upstream, x)

    expected = gradient()
    monkeypatch.setattr("keras_bert.model.encoder._LONG", 8)
    monkeypatch.setattr("keras_bert.model.encoder._HEADS_AT_ONCE", CONFIG.num_heads)
    np.testing.assert_allclose(gradient(), expected, atol=1e-6 * np.abs(expected).max())


def test_padding_changes_nothing():
    encoder = bert_encoder(CONFIG, seed=1)
    randomize(encoder)
    short = batch(rows=2, length=5)
    short["padding_mask"][:] = 1
    padded = {name: np.pad(array, ((0, 0), (0, 4))) for name, array in short.items()}
    padded["token_ids"][:, 5:] = 7
    expected = numpy(encoder(short)["sequence_output"])
    np.testing.assert_allclose(numpy(encoder(padded)["sequence_output"])[:, :5], expected, atol=1e-6)


def test_attentions_on_request_sum_to_one_and_skip_padding():
    encoder = bert_encoder(CONFIG, return_attentions=True, seed=1)
    inputs = batch()
    attentions = encoder(inputs)["attentions"]
    assert len(attentions) == CONFIG.num_layers
    for probabilities in map(numpy, attentions):
        assert probabilities.shape == (3, CONFIG.num_heads, 8, 8)
        np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-6)
        hidden = np.broadcast_to(inputs["padding_mask"][:, None, None, :] == 0, probabilities.shape)
        assert hidden.any()
        assert probabilities[hidden].max() == 0.0


def test_bias_of_one_row_and_of_a_full_matrix_agree():
    layer = SelfAttention(CONFIG, seed=3)
    x = np.random.default_rng(0).normal(size=(2, 6, CONFIG.hidden_dim)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], "int32")
    row = PaddingBias()(mask)
    assert tuple(row.shape) == (2, 1, 1, 6)
    full = ops.broadcast_to(row, (2, 1, 6, 6))
    np.testing.assert_allclose(numpy(layer(x, row)[0]), numpy(layer(x, full)[0]), atol=1e-6)


def test_a_causal_bias_hides_the_future():
    layer = SelfAttention(CONFIG, seed=3)
    x = np.random.default_rng(0).normal(size=(1, 6, CONFIG.hidden_dim)).astype("float32")
    causal = ((1 - np.tri(6)) * MASK_BIAS).astype("float32")[None, None]
    changed = x.copy()
    changed[:, 4:] += 1.0
    before, after = numpy(layer(x, causal)[0]), numpy(layer(changed, causal)[0])
    np.testing.assert_allclose(before[:, :4], after[:, :4], atol=1e-6)
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 1e-3


def test_seed_gives_equal_weights_and_distinct_layers():
    first, second, other = (bert_encoder(CONFIG, seed=seed) for seed in (5, 5, 6))
    kernel = "block_0/attention/query/kernel"
    weights = [{v.path: numpy(v) for v in model.trainable_variables} for model in (first, second, other)]
    assert all(np.array_equal(weights[0][path], weights[1][path]) for path in weights[0])
    assert not np.array_equal(weights[0][kernel], weights[2][kernel])
    assert not np.array_equal(weights[0][kernel], weights[0][kernel.replace("query", "key")])
    assert not np.array_equal(weights[0][kernel], weights[0][kernel.replace("block_0", "block_1")])


def test_sinusoidal_positions_do_not_train():
    encoder = bert_encoder(CONFIG.replace(position="sinusoidal"))
    table = next(v for v in encoder.variables if v.path == "embeddings/position")
    assert not table.trainable
    np.testing.assert_allclose(numpy(table)[0, :4], [0, 1, 0, 1], atol=1e-7)
    np.testing.assert_allclose(numpy(table)[3, 0], np.sin(3.0), atol=1e-6)


def test_sequence_over_the_limit_says_what_to_do():
    inputs = batch(length=13)
    with pytest.raises(ValueError, match="sequence_length=13 exceeds max_sequence_length=12; shorten"):
        bert_encoder(CONFIG)(inputs)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_is_close_and_keeps_float32_weights(policy):
    encoder = bert_encoder(CONFIG, seed=1)
    inputs = batch()
    expected = numpy(encoder(inputs)["sequence_output"])
    keras.config.set_dtype_policy(policy)
    try:
        mixed = bert_encoder(CONFIG, seed=1)
        outputs = mixed(inputs)["sequence_output"]
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    assert {keras.backend.standardize_dtype(v.dtype) for v in mixed.trainable_variables} == {"float32"}
    real = inputs["padding_mask"] == 1
    tolerance = 0.1 if policy == "mixed_bfloat16" else 0.02
    np.testing.assert_allclose(numpy(outputs)[real], expected[real], atol=tolerance)


def test_config_is_found_in_any_model_on_the_encoder():
    encoder = bert_encoder(CONFIG)
    head = keras.layers.Dense(3)(encoder.output["pooled_output"])
    assert encoder_config(keras.Model(encoder.input, head)) == CONFIG
    with pytest.raises(ValueError, match="has no BertEmbeddings layer"):
        encoder_config(keras.Sequential([keras.layers.Dense(1)]))


@pytest.mark.slow
def test_it_learns_with_fit():
    encoder = bert_encoder(CONFIG.replace(dropout=0.0, attention_dropout=0.0), seed=2)
    logits = keras.layers.Dense(2, name="logits")(encoder.output["pooled_output"])
    model = keras.Model(encoder.input, logits)
    inputs = batch(rows=32, seed=4)
    labels = (inputs["token_ids"][:, 0] % 2).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    history = model.fit(inputs, labels, batch_size=16, epochs=30, verbose=0).history["loss"]
    assert history[0] > 0.5
    assert history[-1] < 0.1


def test_tables_are_looked_up_in_full_precision_and_score_in_half():
    """A row's gradient is a sum over all places of its token, of which half precision would lose most."""
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        encoder = bert_encoder(CONFIG)
    finally:
        keras.config.set_dtype_policy("float32")
    table = encoder.get_layer("token_embedding")
    vectors = table(np.array([[1, 2]]))
    assert keras.backend.standardize_dtype(vectors.dtype) == "float32"
    scores = table(keras.ops.cast(vectors, "bfloat16"), reverse=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "bfloat16"
    states = encoder(batch())["sequence_output"]
    assert keras.backend.standardize_dtype(states.dtype) == "bfloat16"
    assert bert_encoder(CONFIG).get_layer("token_embedding").get_config()["reverse_dtype"] is None
