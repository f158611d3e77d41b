"""Check that a new file gives the outputs of its model, before it is written.

Takes the Keras model, the bytes of its file and some rows; it needs no texts and no labels, because plain models have
none. `verification/parity.py` compares a task with its file on the user's data.
"""

from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np

from export.file.contents import Signature, describe
from export.file.interpreter import open_interpreter
from export.file.metadata_reader import read_metadata
from export.quantization.statistics import token_rows
from export.recipes import Recipe
from export.runtime import make_reader
from export.tasks.base.examples import PROBES
from export.tasks.base.inputs import read_examples, task_reader
from export.verification.parity import VerificationError, relative_error
from keras_bert.model.attention_bias import MASK_BIAS
from keras_bert.model.encoder import INPUT_NAMES, encoder_config
from keras_bert.tasks.base.task import Task

_MAX_ROWS = 8
_MASKED_OUTPUTS = ("start_logits", "end_logits")


def check_conversion(
    task_or_model: Task | keras.Model,
    model: keras.Model,
    content: bytes,
    recipe: Recipe,
    rows: list[dict[str, np.ndarray]] | None = None,
) -> None:
    """Raise a `VerificationError` if a file differs from its model by more than its recipe allows.

    Args:
        task_or_model: The converted task or model.
        model: The model that the file was made from: the model itself, or a task's with the outputs of its file.
        content: The file.
        recipe: The recipe, for its tolerance.
        rows: Rows `[1, T]` of model inputs without padding, of which the first few are run; `None` takes built-in texts
            for a task, and random ids for a model.

    Example:
        >>> check_conversion(task, app_model(task), Path("model.tflite").read_bytes(), RECIPES["float32"])
        ... # doctest: +SKIP
    """
    if not rows:
        rows = _task_rows(task_or_model) if isinstance(task_or_model, Task) else _random_rows(model)
    interpreter = open_interpreter(content)
    for signature in describe(content).signatures:
        run = interpreter.get_signature_runner(signature.name)
        pairs = list(_both_outputs(model, run, signature, rows[:_MAX_ROWS]))
        error = relative_error(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        if not error <= recipe.tolerance:
            raise VerificationError(
                f"The file by {recipe.name} would differ too much from its model: the outputs of its signature "
                f"{signature.name!r} differ by {error:.2g} of their size, expected at most {recipe.tolerance}. Use a "
                "recipe with more bits, calibrate with more texts like those of its users, or pass check=False to "
                "write it anyway."
            )
    if isinstance(task_or_model, Task):
        _check_device(task_or_model, content)


def _both_outputs(
    model: keras.Model,
    run: Callable[..., Mapping[str, np.ndarray]],
    signature: Signature,
    rows: list[dict[str, np.ndarray]],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The outputs of model and file for the same inputs, flat, without padding."""
    length = signature.inputs["token_ids"].shape[1]
    by_width: dict[int, list[tuple[int, dict[str, np.ndarray]]]] = {}
    for row in rows:
        row = {name: row[name] if length < 0 else row[name][:, :length] for name in INPUT_NAMES}
        tokens = row["token_ids"].shape[1]
        by_width.setdefault(max(length, tokens), []).append((tokens, row))
    for (
        width,
        group,
    ) in by_width.items():  # rows of one width are one batch for the model, and run one by one in the file
        padded = [{name: _padded(values, width) for name, values in row.items()} for _, row in group]
        batch = {name: np.concatenate([row[name] for row in padded]) for name in INPUT_NAMES}
        expected = {name: np.asarray(value, np.float64) for name, value in model(batch, training=False).items()}
        for number, (tokens, _) in enumerate(group):
            found = run(**padded[number])
            for name, values in expected.items():
                cut = np.s_[:, :tokens] if values.shape[1:2] == (width,) else np.s_[:]
                value, other = values[number : number + 1][cut], found[name][cut]
                # The large values of masked logits of a span would hide every other difference.
                counts = value > MASK_BIAS / 2 if name in _MASKED_OUTPUTS else np.full(value.shape, True)
                yield value[counts], other[counts].astype(np.float64)


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    return np.pad(values, [(0, 0), (0, max(0, length - values.shape[1]))])


def _task_rows(task: Task) -> list[dict[str, np.ndarray]]:
    reader = task_reader(task, task.sequence_length)
    return token_rows(reader.prepare(read_examples(task).inputs).tokenized)


def _random_rows(model: keras.Model) -> list[dict[str, np.ndarray]]:
    config, random = encoder_config(model), np.random.default_rng(0)
    rows = []
    for length in {3, min(17, config.max_sequence_length), min(64, config.max_sequence_length)}:
        ids = random.integers(0, config.vocabulary_size, (1, length), np.int32)
        segments = np.broadcast_to(np.arange(length) > length // 2, ids.shape).astype(np.int32)
        rows.append({"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)})
    return rows


def _check_device(task: Task, content: bytes) -> None:
    """Check that the device accepts the file's metadata, and splits texts as the task does."""
    reader = make_reader("The file", read_metadata(content))
    ours, theirs = (tokenizer.tokenize_flat(PROBES) for tokenizer in (task.tokenizer, reader.tokenizer))
    if not all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True)):
        raise VerificationError(
            "The device would split texts into other tokens than the task does; please report this."
        )
