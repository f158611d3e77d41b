"""Logits → what a text says of an aspect: the answers of aspect-based sentiment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_bert.decoding.labels import rank_labels


@dataclass(frozen=True)
class AspectPolarity:
    """What a text says of an aspect, with its probability."""

    aspect: str
    label: str
    probability: float

    def __str__(self) -> str:
        return f"{self.aspect}: {self.label} ({self.probability:.0%})"


def choose_polarities(logits: np.ndarray, labels: Sequence[str], aspects: Sequence[str]) -> list[AspectPolarity]:
    """The likeliest polarity of each aspect, from logits `[aspects, classes]`.

    Example:
        >>> print(choose_polarities(np.array([[0.0, 3.0]]), ["negative", "positive"], ["food"])[0])
        food: positive (95%)
    """
    best = [rank_labels(row, labels)[0] for row in logits]
    return [AspectPolarity(aspect, label.name, label.probability) for aspect, label in zip(aspects, best, strict=True)]
