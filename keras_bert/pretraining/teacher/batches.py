"""Rows with a teacher's vectors → the batches of a student's step, as `fit` takes them.

Every batch is a function of seed and step, whether its vectors come from the disk or from the teacher at work.
"""

import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from keras_bert.batching.datasets import prompt
from keras_bert.pretraining.batches import max_predictions
from keras_bert.pretraining.masking import Masking, falling_rate, mask_batches
from keras_bert.pretraining.model import features_and_labels
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.teacher.alignment import Alignment
from keras_bert.pretraining.teacher.cache import CachedRows, split_rows
from keras_bert.pretraining.teacher.hidden_states import TeacherOutputs
from keras_bert.pretraining.teacher.plan import Targets, Teacher
from keras_bert.pretraining.teacher.student import SENTENCE
from keras_bert.text.tokenizer import BertTokenizer

_INPUTS = ("token_ids", "segment_ids", "padding_mask")
TaughtRows = tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]


def shuffled_rows(rows: CachedRows, batch_size: int, start: int, *, seed: tuple[int, ...]) -> Iterator[TaughtRows]:
    """Endless batches of cached rows from a step on, in another order at every pass."""
    steps = len(rows) // batch_size
    current, order = -1, np.zeros(0, int)
    step = start
    while True:
        number, place = divmod(step, steps)
        if number != current:
            current, order = number, np.random.default_rng((*seed, number)).permutation(len(rows))
        yield rows.take(order[place * batch_size : (place + 1) * batch_size])
        step += 1


def rows_in_order(rows: CachedRows, batch_size: int) -> Iterator[TaughtRows]:
    """All cached rows once, as many full batches as there are."""
    for first in range(0, len(rows) - batch_size + 1, batch_size):
        yield rows.take(np.arange(first, first + batch_size))


def asked_rows(batches: Iterator[dict[str, np.ndarray]], outputs: TeacherOutputs) -> Iterator[TaughtRows]:
    """Batches for which the teacher is asked now."""
    for rows in batches:
        vectors, counts = outputs(rows)
        yield rows, split_rows(vectors, counts, rows["token_ids"].shape[1]), counts


class StudentBatches:
    """Rows with a teacher's vectors → inputs, labels and weights.

    Args:
        examples, tokenizer, plan: As for `training_batches`.
        teacher: What to learn.
        targets: Its layers.
        alignment: How tokens meet.
        next_sentence: Whether the model has that head.
    """

    def __init__(
        self,
        examples: str | os.PathLike[str],
        tokenizer: BertTokenizer,
        plan: PretrainingPlan,
        teacher: Teacher,
        targets: Targets,
        alignment: Alignment,
        *,
        next_sentence: bool,
    ) -> None:
        self.examples, self.tokenizer, self.plan = examples, tokenizer, plan
        self.teacher, self.targets, self.alignment = teacher, targets, alignment
        self.next_sentence = next_sentence

    def training(self, rows: Callable[[], Iterator[TaughtRows]], start: int = 0) -> tf.data.Dataset:
        """The batches of an iterator; `start` is the step of the first one, which decides about its masks."""
        rate = falling_rate(self.plan.mask_rate, self.plan.last_mask_rate, self.plan.steps)
        return self._dataset(rows, start, rate)

    def validation(self, rows: Callable[[], Iterator[TaughtRows]]) -> tf.data.Dataset:
        """The batches of an iterator, masked at the rate that the run ends with and in the same way each time."""
        return self._dataset(rows, 0, None)

    def _dataset(
        self,
        rows: Callable[[], Iterator[TaughtRows]],
        start: int,
        rate: Callable[[tf.Tensor], tf.Tensor] | None,
    ) -> tf.data.Dataset:
        first = next(iter(rows()))
        shape = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in self._flat(first).items()}
        data = tf.data.Dataset.from_generator(lambda: map(self._flat, rows()), output_signature=shape)
        if self.teacher.mlm:
            most = max_predictions(self.examples, self.plan)
            masking = Masking.for_tokenizer(
                self.tokenizer, max_predictions=most, rate=self.plan.last_mask_rate, unit=self.plan.mask_unit
            )
            data = mask_batches(data, masking, seed=self.plan.seed, start=start, rate=rate)
        return prompt(data.map(self._labelled).prefetch(4))

    def _flat(self, taught: TaughtRows) -> dict[str, np.ndarray]:
        """All arrays of a batch by name, with what can be said of units before masking."""
        rows, vectors, counts = taught
        texts = rows["padding_mask"]
        place = np.arange(texts.shape[1])[None]
        if self.alignment.kind == "words":
            words = self.alignment.word_ids(rows["token_ids"], texts)
            words = np.where(words < counts[:, None], words, -1)
            word_texts = np.zeros_like(texts)
            where = np.nonzero(words >= 0)
            word_texts[where[0], words[where]] = texts[where]
            rows = {**rows, "word_ids": words, "word_texts": word_texts}
        weights = (place < counts[:, None]).astype("float32")
        flat = {name: np.asarray(value, _dtype(value)) for name, value in rows.items()}
        return {**flat, **{f"teacher_{name}": value for name, value in vectors.items()}, "unit_weights": weights}

    def _labelled(
        self, batch: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        inputs = {name: batch[name] for name in _INPUTS}
        labels: dict[str, tf.Tensor] = {}
        weights: dict[str, tf.Tensor] = {}
        if self.teacher.mlm:
            sampled = self.plan.negatives is not None
            inputs, labels, weights = features_and_labels(batch, next_sentence=self.next_sentence, sampled=sampled)
        if self.alignment.kind == "words":
            inputs |= {name: batch[name] for name in ("word_ids", "word_texts")}
        units = batch["unit_weights"]
        for kind, pairs, weight in (
            ("hidden", self.targets.hidden, self.teacher.hidden),
            ("relations", self.targets.relations, self.teacher.relations),
        ):
            for ours, theirs in pairs if weight else ():
                labels[f"{kind}_{ours}_{theirs}"] = batch[f"teacher_{kind}_{theirs}"]
                weights[f"{kind}_{ours}_{theirs}"] = units
        if self.targets.sentence:
            states = tf.cast(batch[f"teacher_hidden_{self.targets.hidden[-1][1]}"], tf.float32)
            count = tf.maximum(tf.reduce_sum(units, axis=1, keepdims=True), 1.0)
            labels[SENTENCE] = (tf.reduce_sum(states * units[..., None], axis=1) / count)[:, None, :]
            weights[SENTENCE] = tf.ones_like(units[:, 0])
        return inputs, labels, weights


def _dtype(values: np.ndarray) -> str:
    return "float32" if values.dtype.kind == "f" else "int32"
