"""Turns the logits of classifiers into labels with their probabilities."""

from collections.abc import Sequence
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
    """Return probabilities over the last axis.

    Example:
        >>> softmax(np.array([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    shifted = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return a probability for each number separately, for several labels at once.

    Example:
        >>> sigmoid(np.array([0.0])).tolist()
        [0.5]
    """
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(logits)))  # no overflow, unlike 1 / (1 + exp(-x))


def inverse_sigmoid(probabilities: np.ndarray) -> np.ndarray:
    """Return the logits that have these probabilities, the inverse of `sigmoid`.

    They are limited to the range in which float32 probabilities are neither 0 nor 1.

    Example:
        >>> inverse_sigmoid(np.array([0.5])).tolist()
        [0.0]
    """
    limits = np.finfo(np.float32)
    probabilities = np.asarray(probabilities)
    return np.log(np.maximum(probabilities, limits.tiny)) - np.log(np.maximum(1.0 - probabilities, limits.epsneg))


def rank_labels(logits: np.ndarray, labels: Sequence[str]) -> list[Label]:
    """Return all classes of one text, the likeliest first.

    Example:
        >>> [str(label) for label in rank_labels(np.array([0.0, 3.0]), ["no", "yes"])]
        ['yes (95%)', 'no (5%)']
    """
    if np.shape(logits) != (len(labels),):
        raise ValueError(
            f"The logits have shape {np.shape(logits)}, but there are {len(labels)} labels; "
            "pass the labels of the model, in its order."
        )
    return sort_labels(softmax(np.asarray(logits, dtype=np.float64)), labels)


def sort_labels(probabilities: np.ndarray, labels: Sequence[str]) -> list[Label]:
    """Return all classes with their probabilities, the likeliest first.

    Example:
        >>> [str(label) for label in sort_labels(np.array([0.25, 0.75]), ["no", "yes"])]
        ['yes (75%)', 'no (25%)']
    """
    order = np.argsort(-np.asarray(probabilities), kind="stable")
    return [Label(labels[index], float(probabilities[index])) for index in order]


def choose_labels(probabilities: np.ndarray, labels: Sequence[str], *, threshold: float = 0.5) -> list[Label]:
    """Return the classes whose probability is at least the threshold, the likeliest first.

    Example:
        >>> [str(label) for label in choose_labels(np.array([0.9, 0.1, 0.95]), ["a", "b", "c"])]
        ['c (95%)', 'a (90%)']
    """
    return [label for label in sort_labels(probabilities, labels) if label.probability >= threshold]


def mean_by_owner(values: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Return the mean over the rows (windows) of each text: `[texts, …]` from `[rows, …]`.

    Example:
        >>> mean_by_owner(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1])).tolist()
        [[2.0], [5.0]]
    """
    if len(owners) == 0 or np.array_equal(owners, np.arange(len(owners))):
        return values
    sums = np.zeros((owners.max() + 1, *values.shape[1:]), "float64")
    np.add.at(sums, owners, values)
    return (sums / np.bincount(owners)[:, None]).astype(values.dtype)


@dataclass(frozen=True)
class AspectPolarity:
    """The opinion of a text about an aspect, with its probability."""

    aspect: str
    label: str
    probability: float

    def __str__(self) -> str:
        return f"{self.aspect}: {self.label} ({self.probability:.0%})"


def choose_polarities(logits: np.ndarray, labels: Sequence[str], aspects: Sequence[str]) -> list[AspectPolarity]:
    """Return the likeliest polarity of each aspect, from logits `[aspects, classes]`.

    Example:
        >>> print(choose_polarities(np.array([[0.0, 3.0]]), ["negative", "positive"], ["food"])[0])
        food: positive (95%)
    """
    best = [rank_labels(row, labels)[0] for row in logits]
    return [AspectPolarity(aspect, label.name, label.probability) for aspect, label in zip(aspects, best, strict=True)]


@dataclass(frozen=True)
class Choice:
    """One of the choices of a question, its index, and the probability that it is the right one."""

    text: str
    index: int
    probability: float

    def __str__(self) -> str:
        return f"{self.text} ({self.probability:.0%})"


def rank_choices(scores: np.ndarray, choices: Sequence[str]) -> list[Choice]:
    """Return all choices of one question, the likeliest first.

    Args:
        scores: A score for each choice, `[choices]`.
        choices: Their texts.

    Example:
        >>> [str(choice) for choice in rank_choices(np.array([0.0, 3.0]), ["by boat", "on foot"])]
        ['on foot (95%)', 'by boat (5%)']
    """
    if np.shape(scores) != (len(choices),):
        raise ValueError(f"Got scores of shape {np.shape(scores)} for {len(choices)} choices; expected one for each.")
    probabilities = softmax(np.asarray(scores, np.float64))
    order = np.argsort(-probabilities, kind="stable")
    return [Choice(choices[index], int(index), float(probabilities[index])) for index in order]
