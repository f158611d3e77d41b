"""Stores vectors in a byte or a bit for each dimension, and searches them.

Takes float vectors; gives `SmallVectors`, whose ranges and thresholds are learned from vectors like those that it will
hold. Only NumPy is needed, so a device searches in the same way.
"""

import io
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from keras_bert.decoding.similarity import Hit, normalize_vectors
from keras_bert.system.atomic_files import write_whole

KINDS = ("int8", "binary")
_LEVELS = 255
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.uint8)  # ones in a byte


@dataclass(frozen=True, eq=False)
class SmallVectors:
    """Vectors with a byte for each dimension and, for a first look, with a bit; `quantize_vectors` makes them.

    Args:
        codes: int8 `[n, H]`: a vector is `low + (codes + 128) * step`.
        low, step: float32 `[H]`.
        bits: uint8 `[n, H / 8]`: which numbers of the vectors, scaled to length 1, are above `thresholds`; `None` for
            the kind `"int8"`.
        thresholds: float32 `[H]`, or `None`.
    """

    codes: np.ndarray
    low: np.ndarray
    step: np.ndarray
    bits: np.ndarray | None = None
    thresholds: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def to_float(self) -> np.ndarray:
        """Return the vectors as float32, as near as the codes say.

        Example:
            >>> quantize_vectors(np.array([[0.0, 1.0], [1.0, 0.0]])).to_float().round(2).tolist()
            [[0.0, 1.0], [1.0, 0.0]]
        """
        return self.low + (self.codes.astype(np.float32) + 128) * self.step

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vectors to one file, atomically; `SmallVectors.load` opens it.

        ```python
        quantize_vectors(vectors, "binary").save("vectors.npz")
        ```
        """
        content = io.BytesIO()
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez(content, **{name: array for name, array in arrays.items() if array is not None})
        write_whole(Path(path), content.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SmallVectors":
        """Open what `save` wrote.

        ```python
        SmallVectors.load("vectors.npz").search(queries)
        ```
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                return cls(**stored)
        except (ValueError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{path} has no vectors ({error}); expected a file that SmallVectors.save wrote."
            ) from None

    def search(
        self, queries: np.ndarray, *, top: int = 5, candidates: int | None = None, texts: Sequence[str] | None = None
    ) -> list[list[Hit]]:
        """Return the vectors that are nearest to each query by their cosine, the nearest first.

        Args:
            queries: Float vectors `[n, H]`, which stay floats.
            top: The number of hits for each query.
            candidates: With bits: how many times `top` vectors, those with the fewest different bits, are compared
                by their codes. `None` is a tenth of the vectors, and at least 40 times `top`.
            texts: The texts of the vectors, which the hits then have.

        Example:
            >>> small = quantize_vectors(np.array([[0.0, 1.0], [1.0, 0.0]]))
            >>> str(small.search(np.array([[0.1, 0.9]]), top=1, texts=["up", "right"])[0][0])
            'up (0.99)'
        """
        queries = normalize_vectors(_matrix(queries, "queries"))
        if queries.shape[1] != self.codes.shape[1]:
            raise ValueError(f"The queries have {queries.shape[1]} dimensions, the vectors {self.codes.shape[1]}.")
        if top < 1 or (candidates is not None and candidates < 1):
            raise ValueError(f"top={top}, candidates={candidates}: expected at least 1.")
        if texts is not None and len(texts) != len(self):
            raise ValueError(f"Got {len(texts):,} texts for {len(self):,} vectors; expected one for each.")
        count = top * candidates if candidates is not None else max(40 * top, len(self) // 10)
        return [self._search_one(query, top, count, texts) for query in queries]

    def _search_one(self, query: np.ndarray, top: int, count: int, texts: Sequence[str] | None) -> list[Hit]:
        places = np.arange(len(self))
        if self.bits is not None and count < len(self):
            differing = _count_ones(self.bits ^ np.packbits(query > self.thresholds))
            places = np.sort(np.argpartition(differing, count)[:count])
        vectors = self.low + (self.codes[places].astype(np.float32) + 128) * self.step
        scores = normalize_vectors(vectors) @ query
        best = np.argsort(-scores, kind="stable")[:top]
        return [
            Hit(int(places[index]), float(scores[index]), None if texts is None else texts[places[index]])
            for index in best.tolist()
        ]


def _count_ones(rows: np.ndarray) -> np.ndarray:
    """Return how many bits of each row are 1."""
    if hasattr(np, "bitwise_count"):  # since NumPy 2
        wide = rows.view(np.uint64) if rows.shape[1] % 8 == 0 else rows
        return np.bitwise_count(wide).sum(axis=1, dtype=np.int32)
    return _BITS[rows].sum(axis=1, dtype=np.int32)


def quantize_vectors(vectors: np.ndarray, kind: str = "int8", *, learn_from: np.ndarray | None = None) -> SmallVectors:
    """Store vectors in a byte for each dimension, a quarter of float32.

    Args:
        vectors: Float vectors `[n, H]`, such as `SentenceEmbedder.predict` gives.
        kind: `"int8"`; or `"binary"`, which adds a bit for each dimension, by which a search looks at all vectors
            before it compares the best of them by their bytes.
        learn_from: Vectors of your own texts, from which the range of each dimension, and the threshold of its bit,
            are learned; `None` learns from `vectors`. Numbers outside of a range are cut.

    Example:
        >>> small = quantize_vectors(np.random.default_rng(0).normal(size=(100, 16)), "binary")
        >>> small.codes.nbytes, small.bits.nbytes
        (1600, 200)
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}; choose one of {', '.join(map(repr, KINDS))}.")
    vectors = _matrix(vectors, "vectors")
    known = vectors if learn_from is None else _matrix(learn_from, "learn_from")
    if not len(known) or known.shape[1] != vectors.shape[1]:
        raise ValueError(
            f"Got learn_from of shape {list(known.shape)}; expected vectors of {vectors.shape[1]} dimensions."
        )
    low = known.min(axis=0)
    step = np.maximum((known.max(axis=0) - low) / _LEVELS, np.finfo(np.float32).tiny).astype(np.float32)
    codes = (np.clip(np.rint((vectors - low) / step), 0, _LEVELS) - 128).astype(np.int8)
    if kind == "int8":
        return SmallVectors(codes, low, step)
    thresholds = np.median(normalize_vectors(known), axis=0).astype(np.float32)
    return SmallVectors(codes, low, step, np.packbits(normalize_vectors(vectors) > thresholds, axis=1), thresholds)


def _matrix(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values, np.float32)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"The {name} have the shape {list(values.shape)}; expected [n, H], finite numbers.")
    return values
