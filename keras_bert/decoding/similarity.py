"""Compares vectors by their cosine, and searches a collection for the nearest ones.

A collection may be large, so it is searched in parts, and only the best results of each part are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SMALLEST = 1e-12  # as in the model's graph; a vector of zeros stays a vector of zeros


@dataclass(frozen=True)
class Hit:
    """A result of a search: its index in the collection, its cosine with the query, and its text if it is known."""

    index: int
    score: float
    text: str | None = None

    def __str__(self) -> str:
        return f"{f'number {self.index}' if self.text is None else self.text} ({self.score:.2f})"


def normalize_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return the vectors scaled to length 1, float32.

    Example:
        >>> normalize_vectors(np.array([[3.0, 4.0]])).round(3).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.sqrt(np.sum(vectors * vectors, axis=-1, keepdims=True) + np.float32(_SMALLEST))


def shorten_vectors(vectors: np.ndarray, dimensions: int, *, normalize: bool = True) -> np.ndarray:
    """Return the first numbers of vectors, float32, scaled to length 1 again unless told otherwise.

    Example:
        >>> shorten_vectors(np.array([[0.6, 0.0, 0.8]]), 2).tolist()
        [[1.0, 0.0]]
    """
    vectors = np.asarray(vectors, np.float32)
    if type(dimensions) is not int or not 1 <= dimensions <= vectors.shape[-1]:
        raise ValueError(f"dimensions={dimensions!r}: expected 1 to {vectors.shape[-1]}, the numbers of a vector.")
    return normalize_vectors(vectors[..., :dimensions]) if normalize else vectors[..., :dimensions]


def cosine_matrix(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each vector of `first [n, H]` with each of `second [m, H]`, as `[n, m]`.

    Example:
        >>> cosine_matrix(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]])).round(3).tolist()
        [[1.0, 0.0]]
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise ValueError(
            f"The vectors have shapes {list(first.shape)} and {list(second.shape)}; expected [n, H] and [m, H]: pass "
            "vectors of the same model."
        )
    return normalize_vectors(first) @ normalize_vectors(second).T


def search_vectors(
    queries: np.ndarray,
    collection: np.ndarray,
    *,
    top: int = 5,
    texts: Sequence[str] | None = None,
    part: int = 16_384,
) -> list[list[Hit]]:
    """Return the vectors of a collection that are nearest to each query, the nearest first.

    Args:
        queries: `[n, H]`.
        collection: `[m, H]`.
        top: The number of hits for each query.
        texts: The texts of the collection, which the hits then have.
        part: How many vectors of the collection are compared at a time.

    Example:
        >>> hits = search_vectors(np.eye(2), np.array([[1.0, 1.0], [0.0, 2.0]]), top=1, texts=["both", "second"])
        >>> [str(found[0]) for found in hits]
        ['both (0.71)', 'second (1.00)']
    """
    collection = np.asarray(collection)
    if top < 1:
        raise ValueError(f"top={top}: expected at least 1 hit for each query.")
    if texts is not None and len(texts) != len(collection):
        raise ValueError(f"Got {len(texts):,} texts for {len(collection):,} vectors; expected one for each.")
    places = np.zeros((len(queries), 0), np.int64)
    scores = np.zeros((len(queries), 0), np.float32)
    for begin in range(0, len(collection), part):
        more = cosine_matrix(queries, collection[begin : begin + part])
        places = np.concatenate([places, np.broadcast_to(begin + np.arange(more.shape[1]), more.shape)], axis=1)
        scores = np.concatenate([scores, more], axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top]  # of equal ones the first in the collection
        places, scores = (np.take_along_axis(values, best, axis=1) for values in (places, scores))
    return [
        [
            Hit(int(place), float(score), None if texts is None else texts[place])
            for place, score in zip(*row, strict=True)
        ]
        for row in zip(places, scores, strict=True)
    ]
