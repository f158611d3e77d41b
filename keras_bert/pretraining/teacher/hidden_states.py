"""A teacher and rows of text → its hidden states, queries, keys and values for every token or word.

Takes the student's rows, gives float16 vectors without padding. Rows run sorted by length in batches of a few widths,
so that little is computed for padding and XLA compiles a few shapes alone. Hidden states are standardized by the mean
and deviation of each column, for a few columns of a BERT are many times larger than all others.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoint import load_encoder
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.pretraining.teacher.alignment import Alignment, TeacherRow
from keras_bert.pretraining.teacher.plan import Targets, Teacher
from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece
from keras_bert.training.layer_vectors import attention_vectors

_MOST_UNKNOWN = 0.5  # of the teacher's tokens: beyond, it does not read this language
_WIDTHS = 4  # of the teacher's rows
_NARROW = (4, 8)  # and of single tokens


@dataclass(frozen=True)
class LoadedTeacher:
    """A teacher's encoder, its tokenizer and what it was loaded from."""

    encoder: keras.Model
    tokenizer: BertTokenizer
    name: str

    @property
    def config(self) -> BertConfig:
        """The sizes of the encoder."""
        return encoder_config(self.encoder)

    def digest(self) -> str:
        """The sha256 of all weights."""
        digest = hashlib.sha256()
        for weight in self.encoder.weights:
            digest.update(weight.path.encode())
            digest.update(to_numpy(weight).tobytes())
        return digest.hexdigest()


def load_teacher(plan: Teacher) -> LoadedTeacher:
    """Open the model of a plan.

    Example:
        ```python
        load_teacher(Teacher(model="all-MiniLM-L6-v2")).config.hidden_dim
        ```
    """
    with _device(plan.device):
        encoder, tokenizer = load_encoder(plan.model)
    if tokenizer is None:
        raise ValueError(
            f"The teacher {plan.model} has no vocabulary, so it cannot read text; expected a model directory with one."
        )
    return LoadedTeacher(encoder, require_wordpiece(tokenizer, "A teacher of pretraining"), str(plan.model))


class TeacherOutputs:
    """What a teacher gives for rows of the student.

    Args:
        teacher: What `load_teacher` gave.
        plan: What is wanted of it.
        targets: Its layers.
        alignment: How tokens meet.
        packed: Whether rows hold several texts.
        sequence_length: The student's tokens of a row.

    Example:
        ```python
        outputs = TeacherOutputs(teacher, plan, targets, alignment, packed=False, sequence_length=128)
        vectors, counts = outputs(rows)  # {"hidden_6": float16 [units, 384]}, units of each row
        ```
    """

    def __init__(
        self,
        teacher: LoadedTeacher,
        plan: Teacher,
        targets: Targets,
        alignment: Alignment,
        *,
        packed: bool,
        sequence_length: int,
    ) -> None:
        config = teacher.config
        if alignment.kind == "pieces" and sequence_length > config.max_sequence_length:
            raise ValueError(
                f"Rows have {sequence_length} tokens, and the teacher reads at most {config.max_sequence_length}; "
                "write the examples shorter."
            )
        self.plan, self.targets, self.alignment = plan, targets, alignment
        self.statistics: dict[str, np.ndarray] = {}
        longest = sequence_length if alignment.kind == "pieces" else alignment.max_length
        self._step = max(16, -(-longest // _WIDTHS // 8) * 8)
        with _device(plan.device):
            encoder = bert_encoder(config, packed=packed)
            copy_weights(teacher.encoder, encoder)
            outputs = {name: _layer(encoder, name) for name in targets.widths}
            self.model = keras.Model(encoder.input, outputs)
            self.model.compile(jit_compile=True)

    def measure(self, rows: dict[str, np.ndarray]) -> None:
        """Find the mean and deviation of the columns of hidden states on some rows, for all that follow."""
        if (share := self.alignment.unknown_share(rows)) > _MOST_UNKNOWN:
            raise ValueError(
                f"The teacher {self.plan.model} does not know {share:.0%} of this text: its vocabulary and the "
                "student's have too little in common. Choose a teacher of the text's language."
            )
        self.statistics = {}
        vectors, _ = self(rows)
        for name, values in vectors.items():
            if name.startswith("hidden"):
                values = values.astype("float32")
                mean, deviation = values.mean(axis=0), values.std(axis=0)
                self.statistics[name] = np.stack([mean, np.maximum(deviation, 1e-3)])

    def __call__(self, rows: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The vectors of all units, row after row, by name; and how many units each row has."""
        read = self.alignment.teacher_rows(rows)
        lengths = np.array([len(row.token_ids) for row in read])
        order = np.argsort(-lengths, kind="stable")
        found: list[dict[str, np.ndarray]] = [{} for _ in read]
        for first in range(0, len(order), self.plan.batch_size):
            batch = order[first : first + self.plan.batch_size]
            for row, vectors in zip(batch, self._run([read[row] for row in batch]), strict=True):
                found[row] = vectors
        counts = np.array([row.units[-1] + 1 if len(row.units) else 0 for row in read], np.int32)
        return {name: np.concatenate([vectors[name] for vectors in found]) for name in self.targets.widths}, counts

    def _run(self, read: list[TeacherRow]) -> Iterator[dict[str, np.ndarray]]:
        widest = max(1, *(len(row.token_ids) for row in read))
        width = next((narrow for narrow in _NARROW if widest <= narrow), -(-widest // self._step) * self._step)
        width = min(width, max(self.alignment.max_length, widest))
        inputs = {name: np.zeros((self.plan.batch_size, width), np.int32) for name in self.model.input}
        for index, row in enumerate(read):
            n = len(row.token_ids)
            inputs["token_ids"][index, :n] = row.token_ids
            inputs["segment_ids"][index, :n] = row.segment_ids
            inputs["padding_mask"][index, :n] = row.texts
        with _device(self.plan.device):
            outputs = self.model.predict_on_batch(inputs)
        outputs = {name: self._standardized(name, np.asarray(value, "float32")) for name, value in outputs.items()}
        for index, row in enumerate(read):
            n = len(row.token_ids)
            yield {name: _unit_means(value[index, :n], row.units).astype(np.float16) for name, value in outputs.items()}

    def _standardized(self, name: str, values: np.ndarray) -> np.ndarray:
        if name not in self.statistics:
            return values
        mean, deviation = self.statistics[name]
        return (values - mean) / deviation


def _unit_means(vectors: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The mean of the vectors of each unit; units are numbered in order."""
    if not len(units) or units[-1] + 1 == len(units):
        return vectors
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    counts = np.diff(np.append(starts, len(units)))
    return np.add.reduceat(vectors, starts, axis=0) / counts[:, None]


def _layer(encoder: keras.Model, name: str) -> Any:
    kind, _, layer = name.rpartition("_")
    return encoder.output["hidden_states"][int(layer)] if kind == "hidden" else attention_vectors(encoder, int(layer))


def _device(name: str | None) -> AbstractContextManager[Any]:
    return contextlib.nullcontext() if name is None else keras.device(name)
