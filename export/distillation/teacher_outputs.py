"""Compute a teacher's outputs for texts once, and keep them on disk.

A teacher is slower than its student, so it is not asked again in every epoch. An interrupted run continues with the
texts that have no outputs yet.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.batching.inference import row_outputs
from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.task import Task
from keras_bert.text.tokenized_texts import TokenizedTexts

_ANSWERED = "answered.json"
_TEXTS_OF_A_PART = 2048  # an interrupted run loses at most this many


def teacher_outputs(
    task: Task,
    model: keras.Model,
    tokenized: TokenizedTexts,
    *,
    token_outputs: tuple[str, ...],
    cache: str | os.PathLike[str] | None = None,
    batch_size: int = 64,
    verbose: bool = True,
) -> dict[str, np.ndarray]:
    """Compute a model's outputs for its task's inputs, in the order of the texts, or read them from the cache.

    Args:
        task: The task that the model belongs to.
        model: A functional model on the same inputs, with named outputs.
        tokenized: The texts.
        token_outputs: The outputs with a vector for each token: they come as `[tokens, D]`, without padding.
        cache: A directory to keep them in; `None` keeps them in memory only.
        batch_size: Texts per batch.
        verbose: Whether to show progress.

    Returns:
        float32 `[texts, C]`; float16 for vectors of tokens, of which there are many.
    """
    place = None if cache is None else Path(cache) / _fingerprint(model, tokenized, token_outputs)
    kept = _Kept(place, len(tokenized), int(tokenized.lengths.sum()), token_outputs)
    if kept.rows_done < len(tokenized):
        progress = keras.utils.Progbar(len(tokenized), unit_name="text", verbose=int(verbose))
        progress.update(kept.rows_done)
    ends = np.concatenate([[0], np.cumsum(tokenized.lengths)])  # where the tokens of each row begin
    forward = task.forward(model)
    for first in range(kept.rows_done, len(tokenized), _TEXTS_OF_A_PART):
        rows = np.arange(first, min(first + _TEXTS_OF_A_PART, len(tokenized)))
        sizes = {"sequence_length": task.sequence_length, "batch_size": batch_size}
        found = row_outputs(forward, tokenized.take(rows), token_outputs=token_outputs, **sizes)
        kept.add(found, rows[-1] + 1, token=int(ends[first]))
        progress.update(kept.rows_done)
    return kept.arrays()


class _Kept:
    """The arrays so far, in memory or in files that have their full length from the start."""

    def __init__(self, place: Path | None, rows: int, tokens: int, token_outputs: tuple[str, ...]) -> None:
        self.place, self.rows, self.tokens, self.token_outputs = place, rows, tokens, token_outputs
        self.rows_done = 0
        self._arrays: dict[str, Any] = {}
        if place is not None and (place / _ANSWERED).is_file():
            state = json.loads((place / _ANSWERED).read_text(encoding="utf-8"))
            self.rows_done = state["rows"]
            self._arrays = {name: _open(place, name, "r+") for name in state["outputs"]}

    def add(self, found: dict[str, np.ndarray], rows_done: int, *, token: int) -> None:
        """Add the outputs of the next rows, whose tokens begin at `token`."""
        for name, values in found.items():
            of_tokens = name in self.token_outputs
            if name not in self._arrays:
                shape = (self.tokens if of_tokens else self.rows, *values.shape[1:])
                self._arrays[name] = self._new(name, shape, np.float16 if of_tokens else np.float32)
            begin = token if of_tokens else self.rows_done
            self._arrays[name][begin : begin + len(values)] = values
        self.rows_done = int(rows_done)
        if self.place is not None:
            for array in self._arrays.values():
                array.flush()
            # Written last, so that rows count as answered only when their outputs are on disk.
            write_whole(
                self.place / _ANSWERED, json.dumps({"rows": self.rows_done, "outputs": sorted(self._arrays)}) + "\n"
            )

    def _new(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if self.place is None:
            return np.empty(shape, dtype)
        self.place.mkdir(parents=True, exist_ok=True)
        return np.lib.format.open_memmap(self.place / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays; those on disk are read-only."""
        place = self.place
        return self._arrays if place is None else {name: _open(place, name, "r") for name in self._arrays}


def _open(place: Path, name: str, mode: Any) -> np.ndarray:
    return np.load(place / f"{name}.npy", mmap_mode=mode, allow_pickle=False)


def _fingerprint(model: keras.Model, tokenized: TokenizedTexts, token_outputs: tuple[str, ...]) -> str:
    """A name for this teacher and these texts, from its weights, its outputs and every token."""
    digest = hashlib.sha256(repr((sorted(model.output), sorted(token_outputs))).encode())
    for weight in model.weights:
        digest.update(weight.path.encode())
        digest.update(np.ascontiguousarray(to_numpy(weight)).tobytes())
    for array in tokenized.packed():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
