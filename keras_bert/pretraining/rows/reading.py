"""Reads rows in an order that is a function of seed and step, so that a run goes on at any step at once.

The rows of a directory are cut into chunks of neighbours. Every pass mixes the chunks, and the rows within windows of
many chunks: it reads long pieces of the files, and knows which row comes at which place without reading those before.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_bert.pretraining.corpus.manifest import Manifest, load_manifest
from keras_bert.pretraining.corpus.reading import check_shards
from keras_bert.pretraining.rows.layout import as_batch, row_dtype

_CHUNK = 32  # neighbouring rows that are read together
_WINDOW = 512  # chunks whose rows are mixed


class StoredRows:
    """The rows of a directory that `write_examples` wrote with the layout `"padded"` or `"packed"`.

    Example:
        ```python
        rows = StoredRows("rows-128", tokenizer=tokenizer)
        batch = next(rows.batches(256, seed=1, start=5_000))  # of step 5,000, without reading those before
        ```

    Args:
        directory: Where the shards and their manifest are.
        tokenizer: The one that they must have been made with; `None` accepts any.
    """

    def __init__(self, directory: str | os.PathLike[str], *, tokenizer: Any = None) -> None:
        manifest = load_manifest(os.fspath(directory))
        self.dtype = manifest_dtype(manifest)
        self.paths = check_shards(directory, tokenizer=tokenizer, expected={"layout": manifest.settings.layout})
        counts = [shard.bytes // self.dtype.itemsize for shard in manifest.shards]
        self.counts = np.array(counts, np.int64)

    def __len__(self) -> int:
        return int(self.counts.sum())

    def batches(self, batch_size: int, *, seed: int, start: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """Endless batches from a step on; a pass follows the other, also within a batch."""
        place = start * batch_size
        windows = self._windows(seed, *divmod(place, len(self)))
        held = np.zeros(0, self.dtype)
        while True:
            while len(held) < batch_size:
                held = np.concatenate([held, next(windows)])
            yield as_batch(held[:batch_size])
            held = held[batch_size:]

    def in_order(self, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
        """All rows once, in the order of the files; the last batch may be smaller."""
        for first in range(0, len(self), batch_size):
            yield as_batch(self._read(first, min(first + batch_size, len(self))))

    def _windows(self, seed: int, epoch: int, place: int) -> Iterator[np.ndarray]:
        """The rows from a place of a pass on, window by window; then those of the passes after it."""
        while True:
            begins, ends = self._chunks
            order = np.random.default_rng((seed, epoch)).permutation(len(begins))
            passed = np.concatenate([[0], np.cumsum((ends - begins)[order])[_WINDOW - 1 :: _WINDOW], [len(self)]])
            for number in range(int(np.searchsorted(passed, place, side="right")) - 1, -(-len(order) // _WINDOW)):
                mine = order[number * _WINDOW : (number + 1) * _WINDOW]
                rows = np.concatenate([self._read(begins[chunk], ends[chunk]) for chunk in mine.tolist()])
                mixed = np.random.default_rng((seed, epoch, number)).permutation(len(rows))
                yield rows[mixed[max(0, place - int(passed[number])) :]]
            epoch, place = epoch + 1, 0

    @functools.cached_property
    def _chunks(self) -> tuple[np.ndarray, np.ndarray]:
        """The first row and the end of each chunk; no chunk goes over the end of a file."""
        firsts = np.cumsum(self.counts) - self.counts
        pieces = [np.arange(0, count, _CHUNK) for count in self.counts.tolist()]
        begins = np.concatenate([first + piece for first, piece in zip(firsts.tolist(), pieces, strict=True)])
        return begins, np.append(begins[1:], len(self))

    def _read(self, begin: int, end: int) -> np.ndarray:
        """Read rows by their numbers."""
        parts, lasts = [], np.cumsum(self.counts)
        shard = int(np.searchsorted(lasts, begin, side="right"))
        while begin < end:
            first, until = int(lasts[shard] - self.counts[shard]), min(int(end), int(lasts[shard]))
            parts.append(self._read_shard(self.paths[shard], int(begin) - first, until - first))
            begin, shard = until, shard + 1
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _read_shard(self, path: str, begin: int, end: int) -> np.ndarray:
        if "://" not in path:
            return np.fromfile(path, self.dtype, end - begin, offset=begin * self.dtype.itemsize)
        import tensorflow as tf

        with tf.io.gfile.GFile(path, "rb") as file:
            file.seek(begin * self.dtype.itemsize)
            return np.frombuffer(file.read((end - begin) * self.dtype.itemsize), self.dtype)


def manifest_dtype(manifest: Manifest) -> np.dtype[Any]:
    """Return the type of a directory's records."""
    settings = manifest.settings
    length, size = settings.sequence_length, manifest.vocabulary_size
    return row_dtype(settings.layout, sequence_length=length, vocabulary_size=size)
