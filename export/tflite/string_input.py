"""Convert a task to a `.tflite` file that takes raw strings, for apps that link tensorflow-text's tokenizer ops.

The file has one signature `text`, from one string to the model's outputs; the vocabulary is inside. It uses two custom
ops that a stock LiteRT lacks, `FastBertNormalize` and `FastWordpieceTokenizeWithOffsets`: in Python
`tensorflow_text.tflite_registrar` has them, in an app the library of the same name. For stock runtimes, use
`export.convert`.

The ids equal those of `BertTokenizer`, except for texts with words over 100 characters or with combining marks out of
canonical order: TFLite has no kernels for what those need (regular expressions, Unicode decoding).
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from export.file.interpreter import open_interpreter
from export.file.ops import audit_ops
from export.recipes import Recipe, find_recipe
from export.tasks.base.examples import PROBES
from export.tflite.conversion import Artifact, rewrite
from export.tflite.float_graph import convert_saved_model
from export.verification.parity import VerificationError, relative_error
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece

SIGNATURE = "text"
TEXT_OPS = ("FastBertNormalize", "FastWordpieceTokenizeWithOffsets")


def convert_strings(
    task: Task, path: str | Path, *, recipe: str | Recipe = "dynamic_int8", length: int = 128, check: bool = True
) -> Artifact:
    """Write a task as a TFLite file from strings to outputs, batch 1.

    Args:
        task: A task that reads single texts.
        path: The `.tflite` file to write; it is replaced in one step.
        recipe: A name in `RECIPES` or a `Recipe` that needs no calibration.
        length: Tokens of a row; a longer text is cut.
        check: Whether to raise an error, and write nothing, if the outputs for a few texts differ from the task's by
            more than the recipe's tolerance.

    Example:
        >>> convert_strings(task, "from_text.tflite", length=64)  # doctest: +SKIP
    """
    tokenizer, recipe = require_wordpiece(task.tokenizer, "convert_strings"), find_recipe(recipe)
    prompts = getattr(task, "prompts", None)
    if prompts is not None and prompts.find():
        raise ValueError(
            f"The task puts {prompts.find()!r} before texts, and a graph of LiteRT's ops cannot join strings; use "
            "export.convert, or a task with default_prompt_name=None."
        )
    if recipe.calibration == "needed":
        raise ValueError(f"The recipe {recipe.name!r} needs calibration, which runs on ids; use export.convert.")
    if not 4 <= length <= task.config.max_sequence_length:
        raise ValueError(
            f"Got length={length}; expected 4 to {task.config.max_sequence_length}, the model's positions."
        )
    archive = keras.export.ExportArchive()
    archive.track(task.model)
    spec = tf.TensorSpec([1], tf.string, name="text")
    archive.add_endpoint(
        SIGNATURE,
        lambda text: task.model(_model_inputs(tokenizer, text, length), training=False),
        input_signature=[spec],
    )
    content = rewrite(convert_saved_model(archive, [SIGNATURE], allow_custom_ops=True), recipe)
    audit_ops(content).check(allowed=TEXT_OPS)
    if check:
        _check_outputs(task, content, recipe, length)
    return Artifact(write_whole(path, content), recipe.name, (length,), len(content))


def _check_outputs(task: Task, content: bytes, recipe: Recipe, length: int) -> None:
    """Compare the outputs with the task's, using the kernels of tensorflow-text that an app links."""
    from tensorflow_text.core.pybinds import tflite_registrar

    run = open_interpreter(content, custom_ops=tflite_registrar.SELECT_TFTEXT_OPS).get_signature_runner(SIGNATURE)
    answers = [run(text=np.array([text.encode()], object)) for text in PROBES]
    expected = task.model(pack(task.tokenizer, PROBES, sequence_length=length), training=False)
    for name, value in expected.items():
        error = relative_error(np.asarray(value, np.float64), np.concatenate([answer[name] for answer in answers]))
        if not error <= recipe.tolerance:
            raise VerificationError(
                f"The file by {recipe.name} would differ too much from its task: {name} differ by {error:.2g} of their "
                f"size, expected at most {recipe.tolerance}. Use a recipe with more bits, or check=False to write it "
                "anyway."
            )


def _model_inputs(tokenizer: BertTokenizer, text: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
    """`[CLS] ids [SEP]` of one text, cut and padded, with core ops that TFLite has."""
    graph = tokenizer.graph
    normalized = tf_text.FastBertNormalizer(model_buffer=tf.constant(graph.normalizer)).normalize(text)
    pieces = tf_text.FastWordpieceTokenizer(model_buffer=tf.constant(graph.wordpiece), token_out_type=tf.int32)
    ids = pieces.tokenize(normalized).flat_values[: length - 2]
    cls, sep = (tf.constant([token], tf.int32) for token in (tokenizer.cls_id, tokenizer.sep_id))
    padding = tf.fill([length], tf.constant(tokenizer.pad_id, tf.int32))
    row = tf.concat([cls, ids, sep, padding], axis=0)
    token_ids = tf.reshape(row[:length], [1, length])
    visible = tf.cast(tf.range(length) < tf.size(ids) + 2, tf.int32)
    return {
        "token_ids": token_ids,
        "segment_ids": tf.zeros([1, length], tf.int32),
        "padding_mask": tf.reshape(visible, [1, length]),
    }
