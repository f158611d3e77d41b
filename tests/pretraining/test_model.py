"""The pretraining model equals the full heads at the masked positions, its loss the definition, and it learns."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_encoders import CONFIG, batch, randomize
from tiny_masked import MASKED, masked_batch

from keras_bert.checkpoint import load_encoder, load_model, save_pretrained
from keras_bert.model.heads import bert_model
from keras_bert.pretraining.model import (
    features_and_labels,
    losses_and_metrics,
    pretrained_encoder,
    pretraining_model,
)
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.optimizers import bert_optimizer


def test_logits_are_those_of_the_full_heads():
    model = pretraining_model(CONFIG, max_predictions=MASKED, seed=0)
    randomize(model)
    full = bert_model(CONFIG, ("masked_lm", "next_sentence"))
    weights = {variable.path: variable for variable in model.trainable_variables}
    for variable in full.trainable_variables:
        variable.assign(weights[variable.path])
    inputs, _, _ = features_and_labels(masked_batch())
    ours = model(inputs)
    everything = full({name: inputs[name] for name in full.input})
    expected = tf.gather(everything["mlm_logits"], inputs["masked_positions"], batch_dims=1)
    np.testing.assert_allclose(ours["mlm_logits"], expected, atol=1e-4)
    np.testing.assert_allclose(ours["nsp_logits"], everything["nsp_logits"], atol=1e-5)


def test_loss_and_metrics_by_definition():
    model = pretraining_model(CONFIG.replace(dropout=0.0, attention_dropout=0.0), max_predictions=MASKED, seed=0)
    randomize(model)
    model.compile("sgd", **losses_and_metrics(model))
    inputs, labels, weights = features_and_labels(masked_batch())
    reported = model.evaluate(inputs, labels, sample_weight=weights, batch_size=6, verbose=0, return_dict=True)
    logits = {name: np.asarray(value, "float64") for name, value in model(inputs).items()}
    log_p = {name: x - np.log(np.exp(x).sum(-1, keepdims=True)) for name, x in logits.items()}
    w, ids = weights["mlm_logits"].numpy(), labels["mlm_logits"].numpy()
    mlm = -(np.take_along_axis(log_p["mlm_logits"], ids[..., None], -1)[..., 0] * w).sum() / w.sum()
    nsp = -np.take_along_axis(log_p["nsp_logits"], labels["nsp_logits"].numpy()[:, None], -1).mean()
    hits = ((logits["mlm_logits"].argmax(-1) == ids) * w).sum() / w.sum()
    assert reported["loss"] == pytest.approx(mlm + nsp, rel=1e-5)
    assert reported["mlm_logits_perplexity"] == pytest.approx(np.exp(mlm), rel=1e-4)
    assert reported["mlm_logits_accuracy"] == pytest.approx(hits, abs=1e-6)


@pytest.mark.slow
def test_it_learns_with_fit():
    model = pretraining_model(CONFIG.replace(dropout=0.0), max_predictions=MASKED, seed=0)
    model.compile(bert_optimizer(3e-3, 120), **losses_and_metrics(model))
    data = tf.data.Dataset.from_tensors(features_and_labels(masked_batch(rows=12))).repeat(120)
    history = model.fit(data, steps_per_epoch=40, epochs=3, shuffle=False, verbose=0).history
    assert history["mlm_logits_perplexity"][-1] < history["mlm_logits_perplexity"][0] / 5
    assert history["nsp_logits_accuracy"][-1] > 0.9


def test_saved_model_loads_with_its_heads(tmp_path):
    model = pretraining_model(CONFIG, max_predictions=MASKED, seed=0)
    randomize(model)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(45))]
    save_pretrained(model, tmp_path / "bert", tokenizer=BertTokenizer(tokens))
    loaded, _ = load_model(tmp_path / "bert")
    assert sorted(loaded.output) == ["mlm_logits", "nsp_logits"]
    encoder, _ = load_encoder(tmp_path / "bert")
    inputs = batch()
    expected = pretrained_encoder(model)(inputs)["pooled_output"]
    np.testing.assert_array_equal(encoder(inputs)["pooled_output"], expected)


def test_without_next_sentence():
    model = pretraining_model(CONFIG, max_predictions=MASKED, next_sentence=False)
    assert list(model.output) == ["mlm_logits"]
    assert "pooler" not in [layer.name for layer in model.layers]
    inputs, labels, weights = features_and_labels(masked_batch(), next_sentence=False)
    model.compile("sgd", **losses_and_metrics(model))
    assert np.isfinite(model.evaluate(inputs, labels, sample_weight=weights, verbose=0)[0])


def test_the_file_round_trip(tmp_path):
    model = pretraining_model(CONFIG, max_predictions=MASKED, seed=0)
    model.compile(bert_optimizer(1e-3, 10), **losses_and_metrics(model))
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs, _, _ = features_and_labels(masked_batch())
    np.testing.assert_array_equal(loaded(inputs)["mlm_logits"], model(inputs)["mlm_logits"])
