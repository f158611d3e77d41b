"""A run that knows word frequencies alone is told so, with what to do; one that learns is left alone."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.plateau import WarnOnPlateau, frequency_loss

COUNTS = 1_000_000 / np.arange(1, 8001)
LEVEL = frequency_loss(COUNTS)
CONFIG = BertConfig.preset("tiny", vocabulary_size=8000)
PLAN = PretrainingPlan(steps=10_000, initial="random").for_config(CONFIG)


def watch(losses, plan=PLAN, name="val_mlm_logits_perplexity", **options):
    callback = WarnOnPlateau(COUNTS, plan, CONFIG, **options)
    for epoch, loss in enumerate(losses):
        callback.on_epoch_end(epoch, {name: math.exp(loss), "loss": 0.0})


def test_the_loss_of_guessing_by_frequency():
    whole = {"mask_share": 1.0, "random_share": 0.0}
    assert frequency_loss(np.array([5, 5, 0, 5, 5]), **whole) == pytest.approx(math.log(4))
    p = np.array([0.5, 0.3, 0.2])
    joint = np.concatenate([0.8 * p[:, None], 0.1 * np.diag(p) + 0.1 * p[:, None] / 3], axis=1)  # [true, shown]
    assert frequency_loss(p * 1000) == pytest.approx(-(joint * np.log(joint / joint.sum(0))).sum())
    assert frequency_loss(COUNTS) < frequency_loss(COUNTS, **whole)


@pytest.mark.parametrize("name", ["val_mlm_logits_perplexity", "mlm_logits_perplexity", "perplexity"])
def test_a_run_on_the_plateau_is_told_once(name):
    with pytest.warns(UserWarning, match="After 2,000 steps the loss .* guessing by frequency") as found:
        watch([LEVEL + 0.2, LEVEL + 0.05, LEVEL, LEVEL - 0.1, LEVEL - 0.1, LEVEL - 0.1], name=name)
    assert len(found) == 1
    assert 'initial="neighbours"' in str(found[0].message)


def test_a_run_that_learns_is_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch([LEVEL, LEVEL - 0.3, LEVEL - 0.7, LEVEL - 0.9, LEVEL - 1.2])
        watch([float("nan")] * 5)
        watch([LEVEL] * 5, plan=replace(PLAN, steps=100_000))  # not enough steps of so long a run yet


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, learning_rate=1e-4), "raise the learning rate from 0.0001 towards 0.002"),
        (replace(PLAN, learning_rate=1e-2), "lower the learning rate from 0.01 to 0.002"),
        (PLAN, "train longer, or take a smaller model"),
    ],
)
def test_the_advice_suits_the_plan(plan, words):
    with pytest.warns(UserWarning, match=words):
        watch([LEVEL] * 6, plan=plan)


def test_a_model_that_was_there_needs_no_other_beginning():
    with pytest.warns(UserWarning, match="guessing by frequency") as found:
        watch([LEVEL] * 6, from_nothing=False)
    assert "neighbours" not in str(found[0].message)
