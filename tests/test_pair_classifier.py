"""A classifier that reads how the two texts of a pair differ: its numbers, in packed rows, in directories and files."""

import json

import numpy as np
import pytest
from test_encoder import numpy
from tiny_models import TINY, batch, tiny_model

import export
import keras_bert
from keras_bert.checkpoint.files import CheckpointError
from keras_bert.cli import main
from keras_bert.encoder import bert_encoder, with_example_starts
from keras_bert.heads import bert_model
from keras_bert.tasks.classification import TextClassifier
from keras_bert.weight_copying import copy_weights
from tests.tiny_tasks import BAD, GOOD, NEUTRAL, pretrained_directory

PAIR = TINY.replace(pooling="pair", dropout=0.0, attention_dropout=0.0)


def same_or_not(count, *, seed):
    """Two sentences of a word each among others, and whether it is the same word: no text alone says so."""
    random, words = np.random.default_rng(seed), f"{GOOD} {BAD}".split()
    pairs, labels = [], []
    for _ in range(count):
        first = str(random.choice(words))
        second = first if random.integers(2) else str(random.choice([word for word in words if word != first]))
        pairs.append(tuple(f"{random.choice(NEUTRAL.split())} {word}" for word in (first, second)))
        labels.append("same" if first == second else "other")
    return pairs, labels


def test_what_the_classifier_reads_is_the_mean_the_distance_and_the_product():
    model = tiny_model(("classification",), pooling="pair")
    inputs = batch()
    encoder = bert_encoder(TINY.replace(pooling="mean"))
    copy_weights(model, encoder)
    outputs = encoder(inputs)
    states, segments = numpy(outputs["sequence_output"]), inputs["segment_ids"][:, :, None]
    mask = inputs["padding_mask"][:, :, None]
    means = [(states * part).sum(1) / part.sum(1) for part in (mask * (1 - segments), mask * segments)]
    features = np.concatenate([numpy(outputs["pooled_output"]), abs(means[0] - means[1]), means[0] * means[1]], -1)
    head = model.get_layer("classifier")
    expected = features @ numpy(head.kernel) + numpy(head.bias)
    np.testing.assert_allclose(numpy(model(inputs)["class_logits"]), expected, atol=1e-5)


def test_a_text_without_a_second_one_is_read_too():
    inputs = batch()
    alone = {**inputs, "segment_ids": inputs["segment_ids"] * 0}
    assert np.isfinite(numpy(tiny_model(("classification",), pooling="pair")(alone)["class_logits"])).all()


def test_packed_rows_give_what_rows_of_their_own_give():
    """The batch's three pairs of 9, 5 and 3 tokens, in two rows of 12."""
    model, inputs = bert_model(PAIR, "classification", num_classes=3, seed=1), batch()
    expected = numpy(model(inputs)["class_logits"])
    packed = {name: np.zeros((2, 12), "int32") for name in inputs}
    for number, (row, start, size) in enumerate([(0, 0, 9), (1, 0, 5), (1, 5, 3)]):
        for name in inputs:
            packed[name][row, start : start + size] = inputs[name][number, :size]
        packed["padding_mask"][row, start : start + size] = number + 1
    encoder = with_example_starts(bert_encoder(PAIR, packed=True))
    twin = bert_model(None, "classification", num_classes=3, encoder=encoder)
    copy_weights(model, twin)
    found = twin({**packed, "example_starts": np.array([0, 12, 17], "int32")})["class_logits"]
    np.testing.assert_allclose(numpy(found), expected, atol=1e-5)


def test_it_learns_saves_and_exports(tmp_path):
    train, held_out = same_or_not(256, seed=1), same_or_not(80, seed=2)
    task = TextClassifier.from_pretrained(
        pretrained_directory(), labels=["other", "same"], pooling="pair", sequence_length=16
    )
    quick = {"learning_rate": 3e-3, "batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}
    assert task.fit(*train, validation_data=held_out, epochs=12, **quick).best.score > 0.9
    task.save(tmp_path / "task")
    opened = keras_bert.load_task(tmp_path / "task")
    assert opened.config.pooling == "pair"
    np.testing.assert_allclose(opened.logits(held_out[0]), task.logits(held_out[0]), atol=1e-6)
    config = json.loads((tmp_path / "task/config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertModel"]  # transformers' classifier reads something else
    path = export.convert(task, tmp_path / "model.tflite", recipe="dynamic_int8", lengths="dynamic").path
    answers = [row[0].name for row in export.load(path)(held_out[0])]
    assert np.mean([a == b[0].name for a, b in zip(answers, task.predict(held_out[0]), strict=True)]) > 0.95
    assert set(export.op_audit.audit_ops(path, count_partitions=True).partitions.values()) == {1}


def test_the_command_line_asks_for_it(tmp_path, capsys):
    pairs, labels = same_or_not(24, seed=3)
    rows = [f"{first}\t{second}\t{label}" for (first, second), label in zip(pairs, labels, strict=True)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["text\tpair\tlabel", *rows]) + "\n", encoding="utf-8")
    command = ["finetune", str(tmp_path / "pairs.tsv"), str(tmp_path / "out"), "--model", str(pretrained_directory())]
    flags = "--pair pair --epochs 1 --sequence-length 16 --pooling pair --json"
    assert main([*command, *flags.split()]) == 0
    assert keras_bert.load_task(tmp_path / "out").config.pooling == "pair"
    assert main([*command, "--pooling", "pair", "--task", "tagging"]) == 1
    assert "--pooling is for --task classification" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["google", "keras_hub"])
def test_formats_that_cannot_say_it_refuse(format, tmp_path):
    model = tiny_model(("classification",) if format == "google" else (), pooling="pair")
    with pytest.raises(CheckpointError, match="pools the state of the first token"):
        keras_bert.save_pretrained(model, tmp_path / "m", format=format)
