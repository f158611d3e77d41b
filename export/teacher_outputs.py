"""A teacher and texts → what it thinks of them, computed once and kept on the disk.

Takes a task, tokenized texts and the names of tensors; gives arrays. A room of its own because a teacher is several
times as slow as its student: asked again in every epoch, it would cost most of the training.
"""

import hashlib
import json
import os
from pathlib import Path

import keras
import numpy as np

from keras_bert.bucketing import bucket_boundaries, length_sorted_batches, restore_order, restore_token_order
from keras_bert.tasks.task import Task
from keras_bert.tokenized_texts import TokenizedTexts
from keras_bert.weight_copying import to_numpy
from keras_bert.whole_files import write_whole


def teacher_outputs(
    task: Task,
    model: keras.Model,
    tokenized: TokenizedTexts,
    *,
    token_outputs: tuple[str, ...],
    cache: str | os.PathLike | None = None,
    batch_size: int = 64,
    verbose: bool = True,
) -> dict[str, np.ndarray]:
    """The outputs of a model on its task's inputs, in the order of the texts; from the cache where it has them.

    Args:
        task: The task that the model belongs to.
        model: A functional model on the same inputs, with named outputs.
        tokenized: The texts.
        token_outputs: The outputs with a vector for each token: they come as `[tokens, D]`, without padding.
        cache: A directory to keep them in; `None` keeps them in memory alone.
        batch_size: Texts at a time.
        verbose: Whether to show progress.

    Returns:
        float32 `[texts, C]`; float16 for vectors of tokens, of which there are many.
    """
    place = None if cache is None else Path(cache) / _fingerprint(model, tokenized, token_outputs)
    if place is not None and (place / "done.json").is_file():
        names = json.loads((place / "done.json").read_text(encoding="utf-8"))
        return {name: np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    found = _compute(task, model, tokenized, token_outputs, batch_size, verbose)
    if place is not None:
        _keep(place, found)
    return found


def _compute(task, model, tokenized, token_outputs, batch_size, verbose):
    forward = task._forward(model)
    boundaries = bucket_boundaries(tokenized.lengths, sequence_length=task.sequence_length)
    batches, order = length_sorted_batches(tokenized, batch_size=batch_size, boundaries=boundaries)
    progress = keras.utils.Progbar(-(-len(tokenized) // batch_size), unit_name="batch", verbose=int(verbose))
    collected: dict[str, list] = {}
    for inputs in batches:
        real = inputs["padding_mask"].numpy() > 0
        for name, value in forward(inputs).items():
            value = value.numpy()
            value = value[real].astype(np.float16) if name in token_outputs else value.astype(np.float32)
            collected.setdefault(name, []).append(value)
        progress.add(1)
    outputs = {name: np.concatenate(values) for name, values in collected.items()}
    return {
        name: restore_token_order(values, order, tokenized.lengths)
        if name in token_outputs
        else restore_order(values, order)
        for name, values in outputs.items()
    }


def _fingerprint(model, tokenized, token_outputs):
    """A name for this teacher on these texts: of its weights, its outputs and every token."""
    digest = hashlib.sha256(repr((sorted(model.output), sorted(token_outputs))).encode())
    for weight in model.weights:
        digest.update(weight.path.encode())
        digest.update(np.ascontiguousarray(to_numpy(weight)).tobytes())
    for array in tokenized.packed():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _keep(place, arrays):
    place.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array, allow_pickle=False)
    # Last, so that arrays without it are not taken for whole.
    write_whole(place / "done.json", json.dumps(sorted(arrays)) + "\n")
