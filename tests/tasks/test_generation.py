"""Seq2Seq: learns to write from pairs, by a loss that looks at targets alone, and keeps what it learned."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_tasks import pretrained_directory
from tiny_writers import CONFIG, random_writer, recomputed_scores, reversals, tokenizer

import keras_bert
from keras_bert.checkpoint import save_pretrained
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.tasks.generation.sampling import Decoding
from keras_bert.tasks.generation.task import Seq2Seq
from keras_bert.tasks.generation.training import NextTokenLoss, place_count, spoil_targets
from keras_bert.text.tokenizer import BertTokenizer

LENGTHS = {"sequence_length": 16, "target_length": 8}


@pytest.fixture(scope="module")
def trained():
    """A writer that has learned to turn words around, and the report of its training."""
    task = Seq2Seq.from_scratch(CONFIG, tokenizer(), **LENGTHS)
    options = {"learning_rate": 1e-2, "epochs": 4, "evaluations": 1, "verbose": 0, "label_smoothing": 0.02}
    return task, task.fit(reversals(1100, seed=0), validation_data=reversals(40, seed=1), **options)


def writer():
    """One with random weights, for what needs no training."""
    return Seq2Seq(random_writer(num_layers=1), tokenizer(), **LENGTHS)


# === From pairs to texts ===


@pytest.mark.slow
def test_it_learns_to_write(trained):
    task, report = trained
    assert report.metric == "log_likelihood" and report.best.score > -0.2
    pairs = reversals(40, seed=2)
    result = task.evaluate(pairs)
    assert result.exact_match > 0.9
    assert result.bleu > 90 and result.rouge_l > 95 and 0 < result.loss < 0.3 and result.length == pytest.approx(1, 0.1)
    assert "ROUGE-L" in str(result) and "40 texts" in str(result)
    assert result.to_dict()["count"] == 40
    wrong = [(source, "f f f") for source, _ in pairs]
    assert task.evaluate(wrong, max_length=4).exact_match == 0  # what is written is held against the references
    assert task.predict("a b c") == "c b a"
    assert task.predict(["a b", "d e f"], sampler="beam", num_beams=2) == ["b a", "f e d"]
    assert "".join(task.stream("a b c")) == "c b a"


def test_what_was_saved_writes_the_same(tmp_path):
    task = writer()
    task.fresh_heads = False
    task.save(tmp_path / "writer")
    opened = keras_bert.load_task(tmp_path / "writer")
    assert isinstance(opened, Seq2Seq) and not opened.fresh_heads
    assert (opened.sequence_length, opened.target_length, opened.keeps) == (16, 8, "start")
    for ours, theirs in zip(task.model.weights, opened.model.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert opened.predict("f e d") == task.predict("f e d")


def test_other_encoders_write_with_graphs_of_their_own():
    task = writer()
    task.predict("a b")
    twin = task.on_encoder(task.config.replace(hidden_dim=16))
    assert twin.writer(Decoding())[0].config.hidden_dim == 16


# === Loss ===


def test_the_loss_is_that_of_targets_alone():
    task = writer()
    pairs = [("a b", "c"), ("d", "e f a"), ("b b b c", "a a")]
    data = task.prepare(pairs, None)
    batches, steps = task_batches(task, data, 3, packed=True)
    (inputs, labels, weights), *more = batches(0, 0, 1)
    assert steps == 1 and not more
    model = fresh_model(task, Recipe(), 0, None)
    logits = model({name: inputs[name] for name in model.input})["target_logits"]
    loss = NextTokenLoss()(labels["target_logits"], logits, weights["target_logits"])
    expected = []
    for source, target in pairs:
        ids = tokenizer().tokenize_flat([source, target])[0].tolist()
        before, wanted = (2, *ids[: len(source.split())], 3), (*ids[len(source.split()) :], 3)
        for place, token in enumerate(wanted):
            scores = recomputed_scores(task.model, before, wanted[:place])
            expected.append(np.log(np.exp(scores).sum()) - scores[token])
    assert float(loss) == pytest.approx(np.mean(expected), abs=1e-5)
    measured = task.score(task.outputs(data.tokenized), data, "log_likelihood")
    assert -measured.value == pytest.approx(np.mean(expected), abs=1e-5)
    # Rows of several devices are padded, and score all tokens: the same loss.
    (inputs, labels, weights), *_ = task_batches(task, data, 3)[0](0, 0, 1)
    plain = task.losses()["mlm_logits"](labels["mlm_logits"], task.model(inputs)["mlm_logits"], weights["mlm_logits"])
    assert float(plain) == pytest.approx(np.mean(expected), abs=1e-5)


def test_label_smoothing_is_that_of_keras():
    random = np.random.default_rng(0)
    logits, wanted = random.normal(size=(5, 7)).astype("float32"), np.array([0, 3, 6, 2, 2])
    reference = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    ours = NextTokenLoss(0.1)
    assert float(ours(wanted, logits)) == pytest.approx(float(reference(np.eye(7)[wanted], logits)), abs=1e-6)
    assert NextTokenLoss.from_config(ours.get_config()).label_smoothing == 0.1


def test_places_for_targets():
    assert place_count(np.full(10, 4), 8) == 32
    task = Seq2Seq(random_writer(num_layers=1), tokenizer(), **LENGTHS)
    data = task.prepare([("a", "b")] * 30 + [("a", "b c d e f a")] * 2, None)
    batches, _ = task_batches(task, data, 4, packed=True)
    sizes = {inputs["target_places"].shape[0] for inputs, _, _ in batches(0, 0, 2)}
    counted = sum(float(tf.reduce_sum(weights["target_logits"])) for _, _, weights in batches(0, 0, 1))
    assert len(sizes) <= 2 and counted == 30 * 2 + 2 * 7


def test_spoiling_takes_targets_alone_and_repeats_by_step():
    ids = np.full((1, 4, 50), 5, "int32")
    segments = np.broadcast_to(np.arange(50) >= 25, ids.shape).astype("int32")
    data = tf.data.Dataset.from_tensor_slices(({"token_ids": ids, "segment_ids": segments}, ids, ids)).repeat(3)
    options = {"seed": 1, "mask_id": None, "vocabulary_size": 16}
    first = [inputs["token_ids"].numpy() for inputs, _, _ in spoil_targets(data, 0.4, first_step=0, **options)]
    later = [inputs["token_ids"].numpy() for inputs, _, _ in spoil_targets(data, 0.4, first_step=2, **options)]
    np.testing.assert_array_equal(first[2], later[0])
    assert not np.array_equal(first[0], first[1])
    assert np.all(first[0][:, :25] == 5)
    assert 0.25 < np.mean(first[0][:, 25:] != 5) < 0.5
    masked, *_ = spoil_targets(data, 0.4, first_step=0, seed=1, mask_id=4, vocabulary_size=16)
    assert set(np.unique(masked[0]["token_ids"])) == {4, 5}
    np.testing.assert_array_equal(masked[1], ids[0])


@pytest.mark.slow
def test_plain_keras_and_a_run_that_goes_on(tmp_path):
    pairs = reversals(24, seed=3)
    task = Seq2Seq.from_scratch(CONFIG.replace(num_layers=1, hidden_dim=16), tokenizer(), **LENGTHS)
    options = {"epochs": 1, "batch_size": 8, "verbose": 0, "target_spoiling": 0.2, "spoilt_by": "mask"}
    report = task.fit(pairs, directory=tmp_path, **options)
    assert task.fit(pairs, directory=tmp_path, **options).best == report.best  # it was done already
    assert not task.fresh_heads
    task.compile(keras.optimizers.Adam(1e-3))
    history = task.fit(pairs, epochs=1, batch_size=8, verbose=0).history
    assert np.isfinite(history["loss"]).all()


# === Checkpoints ===


def test_a_head_that_is_missing_is_fresh_and_one_that_is_there_is_kept(tmp_path):
    fresh = Seq2Seq.from_pretrained(pretrained_directory())
    assert fresh.fresh_heads and fresh.target_length == 8  # a quarter of 32 positions
    config = BertConfig(vocabulary_size=13, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=8)
    model = bert_model(config, ("masked_lm", "next_sentence"), seed=3)
    save_pretrained(model, tmp_path / "bert", tokenizer=tokenizer())
    task = Seq2Seq.from_pretrained(tmp_path / "bert", sequence_length=64)
    assert not task.fresh_heads
    for name in ("mlm_transform", "mlm_bias", "block_0", "token_embedding"):
        for ours, theirs in zip(task.model.get_layer(name).weights, model.get_layer(name).weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_frequent_tokens_are_likely_from_the_start():
    task = Seq2Seq.from_scratch(CONFIG.replace(num_layers=1, hidden_dim=16), tokenizer(), **LENGTHS)
    task._token_counts = np.bincount([5, 5, 5, 6], minlength=16)
    bias = np.asarray(fresh_model(task, Recipe(), 0, None).get_layer("mlm_bias").bias)
    assert bias.argmax() == 5 and np.exp(bias).sum() == pytest.approx(1, abs=1e-5)


# === Bad input ===


def test_a_source_over_the_window_is_cut_and_said():
    task = writer()
    with pytest.warns(UserWarning, match="1 of 2 sources were cut to 8 tokens"):
        task.predict(["a b c d e f a b c", "a"], max_length=2)
    report = task.evaluate([("a b c d e f a b c", "a"), ("a", "b c d e f a b c")], max_length=2)
    assert "1 of 2 sources were cut to 8 tokens" in str(report)
    assert "1 of 2 targets were cut to 8 tokens" in str(report)


def test_the_end_of_a_dialogue_is_kept():
    task, rows = writer(), {}
    for task.keeps in ("start", "end"):
        _, room = task.writer(Decoding())
        with pytest.warns(UserWarning, match="cut"):
            (rows[task.keeps],) = task._source_rows([("a b c", "d e f", "a b")], room)
    assert rows == {"start": [2, 5, 6, 7, 3, 8, 9, 3], "end": [2, 8, 9, 10, 3, 5, 6, 3]}


def test_a_cut_target_does_not_learn_to_end():
    data = writer().prepare([("a", "b c d e f a b c d"), ("a", "b")], None)
    labels = data.labels.values
    assert labels[:11].tolist() == [-1, -1, 6, 7, 8, 9, 10, 5, 6, -1, -1]
    assert labels[11:].tolist() == [-1, -1, 6, 3, -1]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda task: task.predict(["a", "  "]), "Text 2: empty source"),
        (lambda task: task.predict([[]]), "neither a text nor a list"),
        (lambda task: task.predict(["a"], max_length=30), "leaves no room for a source: the model has 32 positions"),
        (lambda task: task.predict(["a"], sampler="bean"), "expected one of 'greedy'"),
        (lambda task: task.fit(["a"], [""]), "empty target"),
        (lambda task: task.fit(["a", "b"]), "pass the targets as y"),
        (lambda task: task.fit(["a", "b"], ["c"]), "2 sources and 1 targets"),
        (lambda task: task.fit([("a", None)]), "has no target"),
        (lambda task: task.fit([("a", "b")], class_weight="balanced"), "leave it out"),
        (lambda task: task.fit([("a", "b")], label_smoothing=1.0), "from 0 to below 1"),
        (lambda task: task.fit([("a", "b")], spoilt_by="noise"), "'random' or 'mask'"),
        (lambda task: task.fit([("a", "b")], metric="bleu", verbose=0), "evaluate"),
    ],
)
def test_bad_input_is_named(act, words):
    with pytest.raises(ValueError, match=words):
        act(writer())


def test_models_that_cannot_write():
    odd = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "a"])
    with pytest.raises(ValueError, match=r"The vocabulary has no \[SEP\]"):
        Seq2Seq(random_writer(), odd)
    with pytest.raises(ValueError, match="expected mlm_logits on bert_encoder"):
        Seq2Seq(bert_model(CONFIG, "masked_lm"), tokenizer())
    with pytest.raises(ValueError, match="expected mlm_logits on bert_encoder"):
        Seq2Seq(bert_encoder(CONFIG, prefix_lm=True), tokenizer())
    for target_length in (1, 14):
        with pytest.raises(ValueError, match=f"target_length={target_length}: expected 2 to 13"):
            Seq2Seq(random_writer(), tokenizer(), sequence_length=16, target_length=target_length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert writer().predict([]) == []
