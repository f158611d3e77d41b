"""Convert a `Seq2Seq` to a `.tflite` file with two graphs: one reads a source, one writes the next token.

The signatures `read_source` and `next_token` share their weights. The caches of source and text go in and out as named
tensors, so that no graph has a loop or a branch, and delegates take it as a whole. `runtime/writer_graphs.py` runs the
file.

The token table is looked up and also multiplied with. In float32 and int8, both read the same bytes, because rows of a
table and of a matrix are rounded in the same way. With 4-bit matrices the shared table keeps 8 bits: one table of 8
bits is smaller than one of 4 and one of 8. In float16 there are two tables, the one for lookups in int16, because older
runtimes cannot look up float16.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from export.file.contents import parse, serialize
from export.file.editor import editors, share_equal_buffers
from export.file.ops import audit_ops
from export.file.parsed import TFLiteFile
from export.quantization.learned_scales import learned_ranges
from export.recipes import Recipe
from export.runtime.writer_graphs import NEXT, NEXT_OF_BEAMS, READ
from export.tflite.conversion import Artifact, describe_file, rewrite
from export.tflite.float_graph import convert_saved_model, whole_numbers
from export.tflite.quantized_matrices import quantize_dynamic
from export.verification.generation import check_writer
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.generation.cached_decoder import next_token_model, source_reader
from keras_bert.tasks.generation.task import Seq2Seq

_LENGTH = 128  # the default length of a source


def convert_writer(
    task: Seq2Seq,
    path: str | Path,
    *,
    recipe: Recipe,
    lengths: int | Sequence[int] | str | None = "auto",
    num_beams: int | None = None,
    check: bool = True,
) -> Artifact:
    """Write the file of a task that writes; `export.convert` calls it.

    Args:
        task: The task. Its `target_length` is the most tokens of a written text.
        path: The file.
        recipe: How numbers are stored; recipes that need calibration are refused.
        lengths: Tokens of a source, `[CLS]` and `[SEP]` included: one, or several, whose signatures end in the length.
            `"auto"` is the task's own, at most 128.
        num_beams: Adds the signature `next_tokens`, which runs this many beams at once. Without it, beams run one after
            the other.
        check: Whether to raise an error if the scores differ from the model's by more than the recipe's tolerance.

    Example:
        >>> print(convert_writer(translator, "model.tflite", recipe=RECIPES["dynamic_int8"]))  # doctest: +SKIP
        model.tflite  dynamic_int8  lengths 96  23.6 MB
    """
    if recipe.calibration == "needed":
        raise ValueError(
            f"The recipe {recipe.name!r} needs calibration, which files that write do not support; use 'dynamic_int8', "
            "'float16' or 'float32'."
        )
    if num_beams is not None and (not isinstance(num_beams, int) or num_beams < 2):
        raise ValueError(f"Got num_beams={num_beams!r}; expected a whole number of at least 2, or None.")
    lengths = _check_lengths(task, lengths)
    archive, keys = _trace(task, lengths, num_beams)
    content = _rewrite(convert_saved_model(archive, keys), recipe, task)
    audit_ops(content).check()
    content = describe_file(content, task, Path(path).stem, recipe)
    if check:
        check_writer(task, content, recipe)
    return Artifact(write_whole(path, content), recipe.name, lengths, len(content))


def _check_lengths(task: Seq2Seq, lengths: int | Sequence[int] | str | None) -> tuple[int, ...]:
    room = task.sequence_length - task.target_length
    if isinstance(lengths, str) and lengths == "auto":
        lengths = min(_LENGTH, room)
    found = whole_numbers(lengths)
    if not found or min(found) < 3 or max(found) > room:
        raise ValueError(
            f"Got lengths={lengths!r}; expected one or more numbers of tokens of a source, from 3 to {room}, which is "
            f"sequence_length={task.sequence_length} without target_length={task.target_length}. Tasks that write "
            "cannot have 'dynamic' lengths, because their caches have a fixed size."
        )
    return tuple(sorted(set(found)))


# === The float graphs ===


def _trace(
    task: Seq2Seq, lengths: Sequence[int], num_beams: int | None
) -> tuple[keras.export.ExportArchive, list[str]]:
    """The graphs of every length, and their names."""
    archive, models = keras.export.ExportArchive(), {}
    for length in lengths:
        ending = f"_{length}" * (len(lengths) > 1)
        sizes = {"source_length": length, "target_length": task.target_length}
        models[READ + ending] = source_reader(task.model, sequence_length=length, batch_size=1)
        models[NEXT + ending] = next_token_model(task.model, batch_size=1, **sizes)
        if num_beams is not None:
            models[NEXT_OF_BEAMS + ending] = next_token_model(task.model, batch_size=num_beams, **sizes)
    for key, model in models.items():
        archive.track(model)
        spec = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name) for tensor in model.inputs}
        archive.add_endpoint(key, _forward(model), input_signature=[spec])
    return archive, list(models)


def _forward(model: keras.Model) -> Callable[[Any], Any]:
    # A separate function, because a lambda in a loop would see only the last model.
    return lambda inputs: model(inputs, training=False)


# === Rewriting ===


def _rewrite(content: bytes, recipe: Recipe, task: Seq2Seq) -> bytes:
    file = parse(content)
    if recipe.weights in ("int8", "int4"):
        quantize_dynamic(file, 8, only=_shared_tables(file))
    learned = learned_ranges(task, recipe)
    file = parse(rewrite(serialize(file), recipe, model=task.model, learned=learned))
    share_equal_buffers(file)
    return serialize(file)


def _shared_tables(file: TFLiteFile) -> set[int]:
    """The buffers that are both looked up and multiplied with."""
    readers: dict[str, set[int]] = {"GATHER": set(), "FULLY_CONNECTED": set()}
    for editor in editors(file):
        for operator in editor.graph.operators:
            for name, place in (("GATHER", 0), ("FULLY_CONNECTED", 1)):
                if editor.is_op(operator, name):
                    readers[name].add(editor.tensor(int(operator.inputs[place])).buffer)
    return readers["GATHER"] & readers["FULLY_CONNECTED"]
