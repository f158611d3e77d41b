"""Arrays → answers: NumPy alone, shared by the Keras models and the device runtime.

Takes logits and labels, gives what a person reads. A room of its own because a phone has no Keras: whatever turns
numbers into answers must stand here once, or the two would drift apart.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Label:
    """A class with its probability."""

    name: str
    probability: float

    def __str__(self) -> str:
        return f"{self.name} ({self.probability:.0%})"


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis.

    Example:
        >>> softmax(np.array([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    shifted = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """A probability for each number by itself, where several labels may hold at once.

    Example:
        >>> sigmoid(np.array([0.0])).tolist()
        [0.5]
    """
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits)))  # no overflow, unlike 1 / (1 + exp(-x))


def rank_labels(logits: np.ndarray, labels: list[str] | tuple[str, ...]) -> list[Label]:
    """All classes of one text, the likeliest first.

    Example:
        >>> [str(label) for label in rank_labels(np.array([0.0, 3.0]), ["no", "yes"])]
        ['yes (95%)', 'no (5%)']
    """
    if np.shape(logits) != (len(labels),):
        raise ValueError(
            f"logits have shape {np.shape(logits)} but there are {len(labels)} labels; "
            "the labels must be those of the model, in its order."
        )
    probabilities = softmax(np.asarray(logits, dtype=np.float64))
    order = np.argsort(-probabilities, kind="stable")
    return [Label(labels[index], float(probabilities[index])) for index in order]
