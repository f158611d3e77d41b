"""Tells when a pretraining run stands still where a model knows the tokens' frequencies and nothing else.

Takes how often tokens occur and the logs of `fit`, gives a warning that says what to do.
"""

import math
import warnings

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.plan import PretrainingPlan, pretraining_rate

_LEAST_STEPS = 1000
_MARGIN = 0.35  # nats: tokens that are masked by themselves or by a random one are worth a little less than the entropy


def unigram_entropy(token_counts: np.ndarray) -> float:
    """The loss of a model that predicts every token by its frequency alone, in nats.

    Example:
        >>> round(unigram_entropy(np.array([0, 2, 1, 1])), 3)
        1.04
    """
    counts = np.asarray(token_counts, "float64")
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


class WarnOnPlateau(keras.callbacks.Callback):
    """Warns once where, after enough steps, masked tokens are still predicted by their frequency alone.

    Enough are 1,000 steps and four times the warm-up. The loss is that of validation, where there is one.

    Args:
        token_counts: How often each token occurs, as `token_counts` of `pretraining/batches.py` gives it.
        plan: How the run is done.
        config: The sizes of the model.
        from_nothing: Whether it started from fresh weights.

    Example:
        ```python
        model.fit(data, steps_per_epoch=500, callbacks=[WarnOnPlateau(counts, plan, config)])
        ```
    """

    def __init__(
        self, token_counts: np.ndarray, plan: PretrainingPlan, config: BertConfig, *, from_nothing: bool = True
    ):
        super().__init__()
        self.entropy, self.plan, self.config, self.from_nothing = (
            unigram_entropy(token_counts),
            plan,
            config,
            from_nothing,
        )
        self.enough = max(_LEAST_STEPS, 4 * plan.warmup * plan.steps)
        self.warned = False

    def on_epoch_end(self, epoch, logs=None):
        step = (epoch + 1) * self.plan.save_every
        perplexity = _perplexity(logs or {})
        if self.warned or step < self.enough or perplexity is None or not math.isfinite(perplexity):
            return
        loss = math.log(perplexity)
        if loss > self.entropy - _MARGIN:
            self.warned = True
            warnings.warn(
                f"After {step:,} steps the loss of masked tokens is {loss:.2f}, about that of guessing by frequency "
                f"({self.entropy:.2f}): the model does not use context yet. {self._advice()}",
                stacklevel=2,
            )

    def _advice(self):
        suited, rate = pretraining_rate(self.config), self.plan.learning_rate
        words = []
        if self.from_nothing and self.plan.initial == "random":
            words.append('start from initial="neighbours", which leaves this plateau in some hundred steps')
        if rate is not None and rate < suited / 2:
            words.append(f"raise the learning rate from {rate:g} towards {suited:g}")
        if rate is not None and rate > 2 * suited:
            words.append(f"lower the learning rate from {rate:g} to {suited:g}")
        words.append("train longer, or take a smaller model")
        words.append("check that the text is prose and not lists or noise")
        return "What helps: " + "; ".join(words) + "."


def _perplexity(logs):
    """Of validation, or of training; Keras leaves out the output's name where a model has one output."""
    names = ("val_mlm_logits_perplexity", "val_perplexity", "mlm_logits_perplexity", "perplexity")
    return next((float(logs[name]) for name in names if name in logs), None)
