"""From a text file to a pretrained directory; resumed as if never killed; a NaN leaves its batch."""

import functools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.checkpoint import load_model
from keras_bert.config import BertConfig
from keras_bert.pretraining.corpus import write_examples
from keras_bert.tokenizer import BertTokenizer
from keras_bert.training.pretrain import PretrainingPlan, StopOnNaN, pretrain, read_history, training_batches

WORDS = [f"w{number}" for number in range(40)]
TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS])
CONFIG = BertConfig(
    vocabulary_size=TOKENIZER.vocabulary_size,
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=32,
)
PLAN = PretrainingPlan(steps=60, batch_size=16, learning_rate=3e-3, max_predictions=6, save_every=20, strategy="one")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Documents that each walk through the words in order, so that a masked word follows from its neighbours."""
    root = tmp_path_factory.mktemp("pretrain")
    chooser, lines = random.Random(0), []
    for _ in range(150):
        start = chooser.randrange(40)
        for sentence in range(8):
            lines.append(" ".join(WORDS[(start + 4 * sentence + word) % 40] for word in range(5)) + " .")
        lines.append("")
    (root / "corpus.txt").write_text("\n".join(lines))
    write_examples(root / "corpus.txt", root / "examples", TOKENIZER, sequence_length=32, workers=1, progress=False)
    return root / "examples"


@pytest.mark.slow
def test_it_learns_resumes_and_saves(examples, tmp_path):
    whole = pretrain(examples, tmp_path / "whole", CONFIG, TOKENIZER, PLAN, verbose=0)
    assert whole["step"] == [20, 40, 60]
    assert whole["mlm_logits_perplexity"][-1] < whole["mlm_logits_perplexity"][0]

    class Killed(BaseException):
        pass

    def kill(self, epoch, logs=None):
        original(self, epoch, logs)
        if epoch == 1:  # the line of step 40 is written, its state is not
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        from keras_bert.training.pretrain import History

        original = History.on_epoch_end
        patch.setattr(History, "on_epoch_end", kill)
        with pytest.raises(Killed):
            pretrain(examples, tmp_path / "killed", CONFIG, TOKENIZER, PLAN, verbose=0)
    resumed = pretrain(examples, tmp_path / "killed", CONFIG, TOKENIZER, PLAN, verbose=0)
    assert resumed["step"] == whole["step"]
    np.testing.assert_allclose(resumed["loss"], whole["loss"], atol=1e-5)
    models = [load_model(tmp_path / name / "model")[0] for name in ("whole", "killed")]
    for ours, theirs in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert sorted(models[0].output) == ["mlm_logits", "nsp_logits"]


def test_batches_from_a_later_step_are_those_of_the_whole(examples):
    def batches(start, count):
        data = training_batches(examples, CONFIG, TOKENIZER, PLAN, start=start).take(count)
        return [np.concatenate([value.numpy().ravel() for value in inputs.values()]) for inputs, _, _ in data]

    whole, later = batches(0, 100), batches(90, 10)  # over the end of an epoch
    np.testing.assert_array_equal(np.stack(whole[90:]), np.stack(later))
    assert not np.array_equal(whole[0], whole[1])


def test_a_nan_leaves_its_batch(examples, tmp_path):
    batches_from = functools.partial(training_batches, examples, CONFIG, TOKENIZER, PLAN)
    callback = StopOnNaN(tmp_path, batches_from)

    class Model:
        class optimizer:
            iterations = tf.constant(3)

    callback.set_model(Model)
    callback.on_train_batch_end(0, {"loss": 1.0})
    with pytest.raises(FloatingPointError, match="The loss at step 3 is nan; its batch is in .*nan-batch-3.npz"):
        callback.on_train_batch_end(0, {"loss": float("nan")})
    third = list(batches_from(0).take(3))[2][0]
    np.testing.assert_array_equal(np.load(tmp_path / "nan-batch-3.npz")["token_ids"], third["token_ids"])


def test_history_survives_half_a_line(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps({"step": 20, "loss": 2.0}) + '\n{"step": 40, "lo')
    assert read_history(path) == {"step": [20], "loss": [2.0]}


def test_bad_input_is_named(examples, tmp_path):
    with pytest.raises(ValueError, match="steps=50 must be a multiple of save_every=20"):
        PretrainingPlan(steps=50, save_every=20)
    with pytest.raises(ValueError, match=r"vocabulary_size=99, but the tokenizer has 46 tokens"):
        pretrain(examples, tmp_path, CONFIG.replace(vocabulary_size=99), TOKENIZER, PLAN)
    with pytest.raises(ValueError, match="rows of 32 tokens, over max_sequence_length=16"):
        training_batches(examples, CONFIG.replace(max_sequence_length=16), TOKENIZER, PLAN)
