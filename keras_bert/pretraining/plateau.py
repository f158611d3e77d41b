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
_MARGIN = 0.2  # nats


def frequency_loss(token_counts: np.ndarray, *, mask_share: float = 0.8, random_share: float = 0.1) -> float:
    """The least loss of masked tokens, in nats, without a look at any other token.

    It is the entropy of the tokens' frequencies where `[MASK]` stands, and less where a token does: it may be the true
    one.

    Args:
        token_counts: How often each token occurs; those that never do (special ones) are never drawn at random either.
        mask_share, random_share: As for `Masking`.

    Example:
        >>> round(frequency_loss(np.array([0, 2, 1, 1]), mask_share=1.0, random_share=0.0), 3)  # the entropy
        1.04
    """
    counts = np.asarray(token_counts, "float64")
    p = counts[counts > 0] / counts.sum()
    entropies = -p * np.log(p)
    entropy = entropies.sum()
    kept, drawn = max(0.0, 1 - mask_share - random_share), random_share / len(p)
    shown = kept * p + drawn  # [V], how often a token stands at a place to predict
    if not shown.any():
        return float(mask_share * entropy)
    same = kept * p + drawn * p  # it is the true one
    others = drawn * (1 - p)  # another is
    loss = -(same * np.log(same / shown)).sum()
    if drawn:
        loss += (drawn * (entropy - entropies) - others * np.log(drawn / shown)).sum()
    return float(mask_share * entropy + loss)


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
        self.level = frequency_loss(token_counts)
        self.plan, self.config, self.from_nothing = plan, config, from_nothing
        self.enough = max(_LEAST_STEPS, 4 * plan.warmup * plan.steps)
        self.warned = False

    def on_epoch_end(self, epoch, logs=None):
        step = (epoch + 1) * self.plan.save_every
        perplexity = _perplexity(logs or {})
        if self.warned or step < self.enough or perplexity is None or not math.isfinite(perplexity):
            return
        loss = math.log(perplexity)
        if loss > self.level - _MARGIN:
            self.warned = True
            warnings.warn(
                f"After {step:,} steps the loss of masked tokens is {loss:.2f}, about that of guessing by frequency "
                f"({self.level:.2f}): the model does not use context yet. {self._advice()}",
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
