"""Scores of choices → the choices with their probabilities, the likeliest first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_bert.decoding.labels import softmax


@dataclass(frozen=True)
class Choice:
    """One of the choices of a question, its place among them, and the probability that it is the right one."""

    text: str
    index: int
    probability: float

    def __str__(self) -> str:
        return f"{self.text} ({self.probability:.0%})"


def rank_choices(scores: np.ndarray, choices: Sequence[str]) -> list[Choice]:
    """All choices of one question, the likeliest first.

    Args:
        scores: A number for each choice, `[choices]`.
        choices: Their texts.

    Example:
        >>> [str(choice) for choice in rank_choices(np.array([0.0, 3.0]), ["by boat", "on foot"])]
        ['on foot (95%)', 'by boat (5%)']
    """
    if np.shape(scores) != (len(choices),):
        raise ValueError(f"There are scores of shape {np.shape(scores)} for {len(choices)} choices; expected one each.")
    probabilities = softmax(np.asarray(scores, np.float64))
    order = np.argsort(-probabilities, kind="stable")
    return [Choice(choices[index], int(index), float(probabilities[index])) for index in order]
