"""Warns when a pretraining run is stuck at predicting tokens by their frequency.

Takes how often each token occurs and the logs of `fit`; gives a warning that says what to do.
"""

import math
import warnings
from typing import Any

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.plan import PretrainingPlan, pretraining_rate

_LEAST_STEPS = 1000
_MARGIN = 0.2  # in nats


def frequency_loss(token_counts: np.ndarray, *, mask_share: float = 0.8, random_share: float = 0.1) -> float:
    """The lowest loss of masked tokens, in nats, of a model that does not use the context.

    At `[MASK]` it is the entropy of the token frequencies. At the other places it is lower, because the token that is
    shown there may be the true one.

    Args:
        token_counts: How often each token occurs. Tokens with count 0 (special ones) are never used as random tokens.
        mask_share, random_share: As for `Masking`.

    Example:
        >>> round(frequency_loss(np.array([0, 2, 1, 1]), mask_share=1.0, random_share=0.0), 3)  # the entropy
        1.04
    """
    counts = np.asarray(token_counts, "float64")
    p = counts[counts > 0] / counts.sum()
    entropies = -p * np.log(p)
    entropy = entropies.sum()
    kept, swapped = max(0.0, 1 - mask_share - random_share), random_share / len(p)
    shown = kept * p + swapped  # [V], how often a token is shown at a place to predict
    if not shown.any():
        return float(mask_share * entropy)
    same = kept * p + swapped * p  # and is the true one
    others = swapped * (1 - p)  # and another one is true
    loss = -(same * np.log(same / shown)).sum()
    if swapped:
        loss += (swapped * (entropy - entropies) - others * np.log(swapped / shown)).sum()
    return float(mask_share * entropy + loss)


class WarnOnPlateau(keras.callbacks.Callback):
    """Warns once if the model still predicts masked tokens by their frequency only, after enough steps.

    It waits for 1,000 steps, or four times the warm-up if that is longer. It uses the validation loss if there is one.

    Args:
        token_counts: How often each token occurs, as given by `token_counts` of `pretraining/batches.py`.
        plan: The plan of the run.
        config: The sizes of the model.
        from_nothing: Whether the run started from random weights.

    Example:
        ```python
        model.fit(data, steps_per_epoch=500, callbacks=[WarnOnPlateau(counts, plan, config)])
        ```
    """

    def __init__(
        self, token_counts: np.ndarray, plan: PretrainingPlan, config: BertConfig, *, from_nothing: bool = True
    ) -> None:
        super().__init__()
        self.level = frequency_loss(token_counts)
        self.plan, self.config, self.from_nothing = plan, config, from_nothing
        self.enough = max(_LEAST_STEPS, 4 * plan.warmup * plan.steps)
        self.warned = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
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

    def _advice(self) -> str:
        suited, rate = pretraining_rate(self.config), self.plan.learning_rate
        words = []
        if self.from_nothing and self.plan.initial == "random":
            words.append('start from initial="neighbours", which leaves this plateau in some hundred steps')
        if rate is not None and rate < suited / 2:
            words.append(f"raise the learning rate from {rate:g} towards {suited:g}")
        if rate is not None and rate > 2 * suited:
            words.append(f"lower the learning rate from {rate:g} to {suited:g}")
        words.append("train longer, or use a smaller model")
        words.append("check that the text is prose and not lists or noise")
        return "What helps: " + "; ".join(words) + "."


def _perplexity(logs: dict[str, Any]) -> float | None:
    """The perplexity of validation or, without it, of training."""
    # Keras leaves out the name of the output if a model has only one.
    names = ("val_mlm_logits_perplexity", "val_perplexity", "mlm_logits_perplexity", "perplexity")
    return next((float(logs[name]) for name in names if name in logs), None)
