"""Make a smaller model for a teacher's task, with as many of the teacher's weights as fit.

`make_student` takes any task and smaller sizes, or the name of a small pretrained encoder. It prints which blocks come
from which of the teacher's, because a wrong block is a mistake that nothing else shows. A block of the same width is
copied. For another width, the token table is projected on its main directions, and the blocks start fresh.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoint import load_encoder
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import TOKEN_TABLE, copy_weights, to_numpy
from keras_bert.tasks.base.task import Task

LAYER_CHOICES = ("spread", "first", "last")


@dataclass(frozen=True)
class LayerMap:
    """Which block of the teacher each block of the student comes from; counted from 0, printed from 1.

    Example:
        >>> print(pick_layers(6, 4))
        student block 1 ← teacher block 2 of 6
        student block 2 ← teacher block 3 of 6
        student block 3 ← teacher block 5 of 6
        student block 4 ← teacher block 6 of 6
    """

    teacher_layers: int
    blocks: tuple[int, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"student block {index} ← teacher block {block + 1} of {self.teacher_layers}"
            for index, block in enumerate(self.blocks, 1)
        )


def pick_layers(teacher_layers: int, student_layers: int, choice: str | Sequence[int] = "spread") -> LayerMap:
    """Choose the blocks of a student.

    Args:
        teacher_layers: The blocks of the teacher.
        student_layers: The blocks of the student.
        choice: `"spread"` takes evenly spaced blocks with the last one, `"first"` the lowest, `"last"` the highest; or
            the numbers of the teacher's blocks, counted from 0.

    Example:
        >>> pick_layers(12, 6).blocks
        (1, 3, 5, 7, 9, 11)
    """
    if not 1 <= student_layers <= teacher_layers:
        raise ValueError(
            f"Got a student of {student_layers} blocks; expected 1 to {teacher_layers}, the blocks of the teacher."
        )
    if not isinstance(choice, str):
        blocks = tuple(choice)
        fits = len(blocks) == student_layers and all(0 <= block < teacher_layers for block in blocks)
        if not fits or list(blocks) != sorted(set(blocks)):
            raise ValueError(
                f"Got layers={list(blocks)}; expected {student_layers} different blocks of the teacher in ascending "
                f"order, from 0 to {teacher_layers - 1}."
            )
        return LayerMap(teacher_layers, blocks)
    if choice not in LAYER_CHOICES:
        raise ValueError(
            f"Got layers={choice!r}; expected one of {', '.join(LAYER_CHOICES)}, or the numbers of blocks."
        )
    if choice == "first":
        return LayerMap(teacher_layers, tuple(range(student_layers)))
    if choice == "last":
        return LayerMap(teacher_layers, tuple(range(teacher_layers - student_layers, teacher_layers)))
    return LayerMap(
        teacher_layers, tuple(-(-(index + 1) * teacher_layers // student_layers) - 1 for index in range(student_layers))
    )


def make_student(
    teacher: Task,
    config: BertConfig | None = None,
    *,
    encoder: str | os.PathLike[str] | None = None,
    layers: str | Sequence[int] = "spread",
    seed: int = 0,
    verbose: bool = True,
    **sizes: Any,
) -> Task:
    """Make a smaller model for the teacher's task.

    Args:
        teacher: A fine-tuned task; it stays as it is. To give the student a smaller vocabulary, trim the teacher's
            first (`trim_vocabulary`).
        config: All sizes of the student; `None` takes the teacher's, with `sizes` changed.
        encoder: Instead of sizes, a pretrained model whose encoder and vocabulary the student has: a directory or a
            name that `load_encoder` opens, such as `"tiny-en"`.
        layers: The teacher's blocks to start from; see `pick_layers`.
        seed: The seed of the fresh weights.
        verbose: Whether to print which weights come from the teacher.
        sizes: Fields of `BertConfig`, e.g. `num_layers=3, hidden_dim=192, num_heads=6, intermediate_dim=768,
            embedding_dim=128`.

    Example:
        ```python
        student = make_student(teacher, num_layers=3)
        ```
    """
    if encoder is not None:
        if config is not None or sizes:
            raise ValueError(
                f"Got encoder={str(encoder)!r} and sizes; a pretrained encoder has its own. Pass one of the two."
            )
        return _on_pretrained(teacher, encoder, seed, verbose)
    if config is not None and sizes:
        raise ValueError(f"Got config and {', '.join(sizes)}; pass one or the other.")
    config = teacher.config.replace(**sizes) if config is None else config
    if config.vocabulary_size != teacher.config.vocabulary_size:
        raise ValueError(
            f"The student has {config.vocabulary_size:,} tokens, the teacher {teacher.config.vocabulary_size:,}; "
            "expected the same vocabulary. Trim the teacher's first, with trim_vocabulary."
        )
    chosen = pick_layers(teacher.config.num_layers, min(config.num_layers, teacher.config.num_layers), layers)
    student = teacher.on_encoder(config, seed=seed)
    copied = _copy(teacher.model, student.model, chosen) | _project(teacher, student)
    if verbose:
        whole = config.hidden_dim == teacher.config.hidden_dim
        print(chosen if whole else "the student is narrower than its teacher: its blocks start fresh")
        share = sum(int(np.prod(weight.shape)) for weight in student.model.weights if weight.path in copied)
        total = student.model.count_params()
        print(f"{total:,} parameters, {share / total:.0%} of them from the teacher's {teacher.model.count_params():,}")
    student.fresh_heads = False  # fresh weights come from the given seed
    return student


def _on_pretrained(teacher: Task, encoder: str | os.PathLike[str], seed: int, verbose: bool) -> Task:
    """The teacher's task on a pretrained encoder, with fresh heads."""
    source, tokenizer = load_encoder(encoder)
    if tokenizer is None:
        raise ValueError(f"The encoder {encoder} has no vocabulary; expected a model directory with one.")
    student = teacher.on_encoder(encoder_config(source), tokenizer=tokenizer, seed=seed)
    copy_weights(source, student.model, allow_missing=True)
    if verbose:
        mine, theirs = student.model.count_params(), teacher.model.count_params()
        print(f"{mine:,} parameters, the encoder's from {encoder}; the teacher has {theirs:,}")
    student.fresh_heads = False  # the fresh heads come from the given seed
    return student


def take_layers(task: Task, chosen: LayerMap) -> Task:
    """Make the same task with some of its blocks; the task itself does not change.

    Example:
        ```python
        shorter = take_layers(classifier, pick_layers(6, 3))
        ```
    """
    shorter = task.on_encoder(task.config.replace(num_layers=len(chosen.blocks)))
    _copy(task.model, shorter.model, chosen)
    shorter.fresh_heads = task.fresh_heads
    return shorter


def _copy(teacher: keras.Model, student: keras.Model, chosen: LayerMap) -> set[str]:
    """Copy weights of the same shape, block by block; give the paths of those that were copied."""
    theirs = {weight.path: to_numpy(weight) for weight in teacher.weights}
    for index, block in enumerate(chosen.blocks):
        _narrow_block(theirs, f"block_{block}", student.get_layer(f"block_{index}"))
    copied = set()
    for weight in student.weights:
        layer, _, rest = weight.path.partition("/")
        if layer.startswith("block_"):
            index = int(layer.removeprefix("block_"))
            layer = f"block_{chosen.blocks[index]}" if index < len(chosen.blocks) else ""
        value = theirs.get(f"{layer}/{rest}")
        if value is not None and value.shape == tuple(weight.shape):
            weight.assign(value)
            copied.add(weight.path)
    return copied


def _narrow_block(weights: dict[str, np.ndarray], name: str, layer: Any) -> None:
    """Keep the teacher's largest neurons if the student's block is as wide but has fewer neurons."""
    kernel, count = weights[f"{name}/intermediate/kernel"], layer.intermediate.units
    if kernel.shape[0] != layer.config.hidden_dim or kernel.shape[1] <= count:
        return
    out = weights[f"{name}/output/kernel"]
    importance = np.linalg.norm(kernel, axis=0) * np.linalg.norm(out, axis=1)
    kept = np.sort(np.argsort(-importance, kind="stable")[:count])
    weights[f"{name}/intermediate/kernel"] = kernel[:, kept]
    weights[f"{name}/intermediate/bias"] = weights[f"{name}/intermediate/bias"][kept]
    weights[f"{name}/output/kernel"] = out[kept]


def _project(teacher: Task, student: Task) -> set[str]:
    """Project the teacher's tables on their main directions for a narrower student; give the paths that were set."""
    theirs = {weight.path: weight for weight in teacher.model.weights}
    ours = {weight.path: weight for weight in student.model.weights}
    table = to_numpy(theirs[TOKEN_TABLE])
    width = ours[TOKEN_TABLE].shape[-1]
    if width >= table.shape[-1]:
        return set()
    directions = np.linalg.svd(table.T @ table)[0][:, :width]  # [E of the teacher, E of the student]
    done = set()
    for path in (TOKEN_TABLE, "embeddings/position", "embeddings/segment/embeddings"):
        if path in ours and path in theirs and theirs[path].shape[0] == ours[path].shape[0]:
            ours[path].assign(to_numpy(theirs[path]) @ directions)
            done.add(path)
    back = "embeddings/projection/kernel"
    if back in ours and back not in theirs and ours[back].shape == (width, table.shape[-1]):
        ours[back].assign(directions.T)
        done.add(back)
    return done
