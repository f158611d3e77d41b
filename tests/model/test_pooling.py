"""What a text's vector is made of, first token or mean: in plain and packed rows, in checkpoints and in files."""

import json

import numpy as np
import pytest
from keras import ops
from tiny_encoders import CONFIG, batch, numpy, randomize
from tiny_tasks import pretrained_directory, reviews

import export
import keras_bert
from keras_bert.checkpoint.files import CheckpointError
from keras_bert.finetuning.trained_parts import reinitialize_top
from keras_bert.model.encoder import bert_encoder, encoder_config, pool_examples, with_example_starts
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.classification.task import TextClassifier

MEAN = CONFIG.replace(pooling="mean", dropout=0.0, attention_dropout=0.0)
QUICK = {"learning_rate": 3e-3, "batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}


@pytest.fixture(scope="module")
def encoder():
    encoder = bert_encoder(MEAN, seed=1)
    randomize(encoder)
    return encoder


def test_the_mean_is_that_of_the_tokens_alone(encoder):
    inputs = batch(rows=3, length=7)
    outputs = encoder(inputs)
    states, mask = numpy(outputs["sequence_output"]), np.asarray(inputs["padding_mask"])[:, :, None]
    assert 0 < mask.mean() < 1  # some is padding
    dense = encoder.get_layer("pooler").dense
    expected = np.tanh((states * mask).sum(1) / mask.sum(1) @ numpy(dense.kernel) + numpy(dense.bias))
    np.testing.assert_allclose(numpy(outputs["pooled_output"]), expected, atol=1e-5)
    first = bert_encoder(MEAN.replace(pooling="cls"))
    copy_weights(encoder, first)  # the same weights by the same names
    assert np.abs(numpy(first(inputs)["pooled_output"]) - expected).max() > 0.01


def test_packed_rows_pool_each_text_as_rows_of_their_own(encoder):
    """Three texts of 4, 3 and 5 tokens in two rows, numbered through, and in each row anew."""
    rng = np.random.default_rng(0)
    texts = [rng.integers(5, 40, size) for size in (4, 3, 5)]
    alone = [
        numpy(
            encoder({"token_ids": t[None], "segment_ids": t[None] * 0, "padding_mask": t[None] * 0 + 1})[
                "pooled_output"
            ]
        )
        for t in texts
    ]
    ids = np.zeros((2, 8), "int32")
    ids[0, :4], ids[0, 4:7], ids[1, :5] = texts
    through, anew = np.zeros_like(ids), np.zeros_like(ids)
    through[0, :4], through[0, 4:7], through[1, :5] = 1, 2, 3
    anew[0, :4], anew[0, 4:7], anew[1, :5] = 1, 2, 1
    packed = bert_encoder(MEAN, packed=True)
    copy_weights(encoder, packed)
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": through}
    by_place = with_example_starts(packed)({**inputs, "example_starts": np.array([0, 4, 8])})["pooled_output"]
    np.testing.assert_allclose(numpy(by_place), np.concatenate(alone), atol=1e-5)
    inputs["padding_mask"] = anew
    np.testing.assert_allclose(
        numpy(packed(inputs)["pooled_output"]), np.concatenate([alone[0], alone[2]]), atol=1e-5
    )  # the first of each row
    pooled = packed.get_layer("pooler")(packed(inputs)["sequence_output"], ops.array([[0, 4], [0, 0]]), visible=anew)
    np.testing.assert_allclose(numpy(pooled)[0], np.concatenate(alone[:2]), atol=1e-5)
    np.testing.assert_allclose(numpy(pooled)[1, :1], alone[2], atol=1e-5)
    assert pool_examples(packed, ops.array([0, 4, 8])) is not None


def test_a_sentence_encoder_begins_with_the_mean_and_others_with_the_first_token(tmp_path):
    plain = pretrained_directory()
    assert TextClassifier.from_pretrained(plain, labels=["bad", "good"]).config.pooling == "cls"
    asked = TextClassifier.from_pretrained(plain, labels=["bad", "good"], pooling="mean")
    np.testing.assert_array_equal(numpy(asked.model.get_layer("pooler").dense.kernel), np.eye(asked.config.hidden_dim))
    keras_bert.SentenceEmbedder.from_pretrained(plain).save(tmp_path / "sentences")
    assert TextClassifier.from_pretrained(tmp_path / "sentences", labels=["a", "b"]).config.pooling == "mean"
    with pytest.warns(UserWarning, match="has no pooler"):  # which the mean does without
        first = TextClassifier.from_pretrained(tmp_path / "sentences", labels=["a", "b"], pooling="cls")
    assert first.config.pooling == "cls"
    modules = json.loads((tmp_path / "sentences/modules.json").read_text(encoding="utf-8"))
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (tmp_path / "sentences/modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with pytest.warns(UserWarning, match="has no pooler"):
        assert TextClassifier.from_pretrained(tmp_path / "sentences", labels=["a", "b"]).config.pooling == "cls"
    with pytest.raises(ValueError, match="pooling='max' is unknown"):
        TextClassifier.from_pretrained(plain, labels=["a", "b"], pooling="max")


@pytest.mark.slow
def test_it_learns_saves_and_exports(tmp_path):
    train, held_out = reviews(128, seed=1), reviews(60, seed=2)
    task = TextClassifier.from_pretrained(
        pretrained_directory(), labels=["bad", "good"], pooling="mean", sequence_length=32
    )
    report = task.fit(*train, validation_data=held_out, epochs=12, **QUICK)
    assert report.best.score > 0.9
    task.save(tmp_path / "task")
    opened = keras_bert.load_task(tmp_path / "task")
    assert opened.config.pooling == "mean"
    np.testing.assert_allclose(opened.logits(held_out[0]), task.logits(held_out[0]), atol=1e-6)
    config = json.loads((tmp_path / "task/config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertModel"]  # transformers' classifier would pool something else
    path = export.convert(task, tmp_path / "model.tflite", recipe="dynamic_int8", lengths="dynamic").path
    answers = [row[0].name for row in export.load(path)(held_out[0])]
    assert np.mean([a == b[0].name for a, b in zip(answers, task.predict(held_out[0]), strict=True)]) > 0.95
    assert set(export.file.ops.audit_ops(path, count_partitions=True).partitions.values()) == {1}


@pytest.mark.parametrize("format", ["google", "keras_hub"])
def test_formats_that_cannot_say_it_refuse(format, encoder, tmp_path):
    model = bert_model(None, "classification", num_classes=2, encoder=encoder) if format == "google" else encoder
    with pytest.raises(CheckpointError, match="pools the state of the first token"):
        keras_bert.save_pretrained(model, tmp_path / "m", format=format)


def test_fresh_top_layers_leave_the_mean_as_it_is(encoder):
    twin = bert_encoder(MEAN, seed=2)
    assert reinitialize_top(twin, 1, seed=0) == [f"block_{MEAN.num_layers - 1}"]
    assert encoder_config(twin).pooling == "mean"
