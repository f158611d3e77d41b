"""Examples and a teacher → a student's model directory: one call that can be killed and started again.

The teacher reads some of the text and its outputs are kept; the student learns from them in several passes; then the
teacher reads on, where steps are left. The rest is as for `pretrain`: state, history, plan and report.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoint import load_model, save_pretrained
from keras_bert.checkpoint.sentence_transformers import write_sentence_modules
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.model.neighbour_heads import NeighbourHeads
from keras_bert.model.weights import copy_weights
from keras_bert.pretraining.batches import has_next_sentence, max_predictions, token_counts, unmasked_rows
from keras_bert.pretraining.corpus.manifest import FILE, load_manifest
from keras_bert.pretraining.model import TokenCountingModel, compile_for_run, config_of_run
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.records import (
    HISTORY,
    RecordHistory,
    StopOnNaN,
    describe_examples,
    keep_old_defaults,
    read_history,
    write_plan,
)
from keras_bert.pretraining.teacher import cache as teacher_cache
from keras_bert.pretraining.teacher.alignment import Alignment
from keras_bert.pretraining.teacher.batches import StudentBatches, asked_rows, rows_in_order, shuffled_rows
from keras_bert.pretraining.teacher.cache import CachedRows, TeacherCache, hash_text, load_or_make
from keras_bert.pretraining.teacher.groups import ReadingGroups, count_rows
from keras_bert.pretraining.teacher.hidden_states import TeacherOutputs, load_teacher
from keras_bert.pretraining.teacher.initial_weights import (
    require_blocks,
    shares_blocks,
    start_from_teacher,
    token_outputs,
)
from keras_bert.pretraining.teacher.plan import Targets, Teacher
from keras_bert.pretraining.teacher.student import student_losses, student_model
from keras_bert.system.directory_claim import claimed
from keras_bert.system.progress import fit_verbosity
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.devices import choose_devices
from keras_bert.training.resume import (
    SaveState,
    require_writable,
    restore_state,
    saved_when_terminated,
    steps_of_epoch,
)

_TOKEN_VECTORS = "token_vectors.npy"

# === Runs ===


def pretrain_with_teacher(
    examples: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    teacher: Teacher,
    *,
    validation: str | os.PathLike[str] | None = None,
    start_from: str | os.PathLike[str] | None = None,
    verbose: int | str = "auto",
) -> dict[str, list[float]]:
    """Train a student on raw text by what a teacher makes of it; `pretrain(…, teacher=…)` calls this.

    Args:
        examples, output, config, tokenizer, plan, validation, start_from, verbose: As for `pretrain`. The output also
            gets `teacher/`, the outputs that were kept; it may be deleted after the run.
        teacher: The teacher, and what to learn from it.
    """
    run = TaughtRun(examples, Path(output), config, tokenizer, plan, teacher, validation, start_from, verbose)
    with claimed(output) if run.devices.is_chief else contextlib.nullcontext():
        run.train()
    return read_history(Path(output) / HISTORY)


class TaughtRun:
    """One run: its parts, and their order. `pretrain_with_teacher` has the arguments."""

    def __init__(
        self,
        examples: str | os.PathLike[str],
        output: Path,
        config: BertConfig | None,
        tokenizer: BertTokenizer,
        plan: PretrainingPlan,
        teacher: Teacher,
        validation: str | os.PathLike[str] | None,
        start_from: str | os.PathLike[str] | None,
        verbose: int | str,
    ) -> None:
        require_writable(output)
        _check_plan(plan)
        self.examples, self.output, self.tokenizer = examples, output, tokenizer
        self.teacher, self.validation, self.start_from, self.verbose = teacher, validation, start_from, verbose
        self.devices = choose_devices(plan.strategy, precision=plan.precision)
        self.devices.replica_batch_size(plan.batch_size // plan.accumulation)
        self.source = None if start_from is None else load_model(start_from)[0]
        self.config = config_of_run(config, self.source, tokenizer)
        self.plan = plan = keep_old_defaults(plan, output).for_config(self.config)
        self.loaded = load_teacher(teacher)
        theirs = self.loaded.config
        self.targets = Targets.find(teacher, theirs, self.config, packed=plan.packed)
        require_blocks(teacher, theirs, self.config)
        self.alignment = Alignment(
            tokenizer, self.loaded.tokenizer, teacher.alignment, max_length=theirs.max_sequence_length
        )
        self.length = load_manifest(os.fspath(examples)).settings.sequence_length
        self.outputs = TeacherOutputs(
            self.loaded, teacher, self.targets, self.alignment, packed=plan.packed, sequence_length=self.length
        )
        self.next_sentence = bool(teacher.mlm) and has_next_sentence(examples)
        self.batches = StudentBatches(
            examples, tokenizer, plan, teacher, self.targets, self.alignment, next_sentence=self.next_sentence
        )
        row_bytes = 2 * self.length * sum(self.targets.widths.values()) + 12 * self.length
        self.available = available = count_rows(examples, plan)
        if available < plan.batch_size:
            raise ValueError(
                f"{examples} fills {available} rows, fewer than batch_size={plan.batch_size}; take a smaller batch, or "
                "more text."
            )
        live = teacher.cache_gb == 0
        self.groups = (
            ReadingGroups(min(teacher_cache.CHUNK_ROWS, available), 0, plan.steps)
            if live
            else ReadingGroups.find(plan, teacher, available, row_bytes)
        )
        self.cache = self.open_cache("teacher", examples, self.groups.chunk_rows)

    def train(self) -> None:
        """All steps that are left, and the saved model."""
        self.cache.measure()
        vectors = self._token_vectors()
        plan, chief = self.plan, self.devices.is_chief
        with self.devices.scope():
            encoder, model = self.build(vectors)
            done = restore_state(model, self.output / "state")
            plan.check_state(done, self.output)
            if chief:
                write_plan(self.output, self._describe())
                if self.verbose:
                    print(self._summary(done))
            while done < plan.steps:
                done = self._fit_group(model, done)
        plain = self.plain_model(model, encoder)
        if chief:
            save_pretrained(plain, self.output / "model", tokenizer=self.tokenizer)
            if self.targets.sentence:  # the mean of its states is what the student learned
                length, width = self.config.max_sequence_length, self.config.hidden_dim
                write_sentence_modules(
                    self.output / "model", pooling="mean", normalize=True, sequence_length=length, width=width
                )

    # === Steps ===

    def _fit_group(self, model: keras.Model, done: int) -> int:
        """The steps on what the teacher has read, from `done` on; gives the step after them."""
        plan, groups = self.plan, self.groups
        number = done // groups.steps
        end = min((number + 1) * groups.steps, plan.steps)
        data_from = self._asked_from if self.teacher.cache_gb == 0 else self._cached_from(number)
        steps, end = steps_of_epoch(done, plan.save_every, end)
        place = {"start": done, "steps_per_epoch": plan.save_every}
        callbacks = [StopOnNaN(self.output, data_from, **place)]
        if self.devices.is_chief:
            saving = SaveState(self.output / "state", steps_per_epoch=plan.save_every)
            callbacks += [RecordHistory(self.output, **place), saving]
        try:
            with saved_when_terminated(self.output / "state", **place) as saves:
                model.fit(
                    self.devices.distribute(data_from(done), batch_size=plan.batch_size),
                    initial_epoch=done // plan.save_every,
                    epochs=end // plan.save_every,
                    steps_per_epoch=steps,
                    validation_data=self._validation_data(),
                    shuffle=False,
                    verbose=fit_verbosity(self.verbose),
                    callbacks=[*callbacks, saves] if self.devices.num_workers == 1 else callbacks,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; states are in {self.output / 'state'}. Start the same again to go on from the newest."
            ) from None
        return end

    def _cached_from(self, number: int) -> Callable[[int], tf.data.Dataset]:
        """Step → batches of a group of chunks, which are made first; those of earlier groups go."""
        groups, plan = self.groups, self.plan
        first = number * groups.chunks
        self.cache.drop_before(first)
        rows = self.cache.rows(range(first, first + groups.chunks_of(number, plan, self.teacher.passes)))

        def data_from(step: int) -> tf.data.Dataset:
            place = step - number * groups.steps
            seed = (plan.seed, number)
            return self.batches.training(lambda: shuffled_rows(rows, plan.batch_size, place, seed=seed), start=step)

        return data_from

    def _asked_from(self, step: int) -> tf.data.Dataset:
        data = self._rows(self.examples, self.plan.batch_size).skip(step)
        return self.batches.training(lambda: asked_rows(data.as_numpy_iterator(), self.outputs), start=step)

    @property
    def validation_count(self) -> int:
        """The rows to measure on."""
        if self.validation is None:
            return 0
        count = count_rows(self.validation, self.plan)
        if self.plan.validation_steps is not None:
            count = min(count, self.plan.validation_steps * self.plan.batch_size)
        return count

    @functools.cached_property
    def _validation_rows(self) -> tuple[CachedRows, int] | None:
        if self.validation is None:
            return None
        count = self.validation_count
        size = min(self.plan.batch_size, count)
        size -= size % self.devices.num_replicas
        if not size:
            raise ValueError(f"{self.validation} fills {count} rows, too few to validate on; take more text.")
        cache = self.open_cache("teacher-validation", self.validation, count, shuffle=False)
        return cache.rows(range(1)), size

    def _validation_data(self) -> Any:
        if self._validation_rows is None:
            return None
        rows, size = self._validation_rows
        data = self.batches.validation(lambda: rows_in_order(rows, size))
        data = data.apply(tf.data.experimental.assert_cardinality(len(rows) // size))
        return self.devices.distribute(data)

    # === Parts ===

    def open_cache(
        self, name: str, examples: str | os.PathLike[str], chunk_rows: int, *, shuffle: bool = True
    ) -> TeacherCache:
        if self.devices.num_workers > 1:
            name = f"{name}-{self.devices.worker_index}"

        def rows_from(chunk: int) -> Iterator[dict[str, np.ndarray]]:
            rows = self._rows(examples, chunk_rows, shuffle=shuffle)
            return rows.skip(chunk).as_numpy_iterator()

        description = {
            "teacher": {"name": self.loaded.name, "weights_sha256": self.loaded.digest()},
            "outputs": sorted(self.targets.widths),
            **self.alignment.describe(),
            "examples_sha256": hash_text(Path(examples) / FILE),
            "rows": {"of_a_chunk": chunk_rows, "packed": self.plan.packed, "seed": self.plan.seed},
        }
        return TeacherCache(self.output / name, self.outputs, rows_from, description, progress=bool(self.verbose))

    def _rows(self, examples: str | os.PathLike[str], batch_size: int, *, shuffle: bool = True) -> tf.data.Dataset:
        return unmasked_rows(examples, self.config, self.tokenizer, self.plan, batch_size, shuffle=shuffle)

    @property
    def needs_token_vectors(self) -> bool:
        """Whether the student's token table begins with what the teacher makes of single tokens."""
        fresh = self.source is None and self.teacher.start != "random" and bool(self.targets.hidden)
        return fresh and self.teacher.token_table == "outputs" and not shares_blocks(self.loaded.config, self.config)

    def _token_vectors(self) -> np.ndarray | None:
        if not self.needs_token_vectors:
            return None
        make = functools.partial(token_outputs, self.outputs, self.alignment)
        return load_or_make(self.cache.directory / _TOKEN_VECTORS, make)

    @property
    def _takes_blocks(self) -> bool:
        """Whether the student's blocks are the teacher's, so that its states can become the teacher's, too."""
        return self.teacher.start != "random" and shares_blocks(self.loaded.config, self.config)

    @property
    def _initial(self) -> str | NeighbourHeads:
        """What the student begins with before it takes the teacher's weights, whose blocks bring their own heads."""
        return "random" if self.source is not None or self._takes_blocks else self.plan.initial

    def build(self, vectors: np.ndarray | None) -> tuple[keras.Model, keras.Model]:
        """The student's encoder and its training model, compiled."""
        plan, config = self.plan, self.config
        if plan.dropout is not None:
            config = config.replace(dropout=plan.dropout, attention_dropout=plan.dropout)
        encoder = bert_encoder(config, packed=plan.packed, initial=self._initial, seed=plan.seed)
        if self.source is None:
            start_from_teacher(encoder, self.teacher, self.loaded, self.alignment, vectors)
        model = student_model(
            encoder,
            self.teacher,
            self.targets,
            words=self.alignment.kind == "words",
            next_sentence=self.next_sentence,
            packed=plan.packed,
            max_predictions=max_predictions(self.examples, plan),
            negatives=plan.negatives,
            token_counts=token_counts(self.examples, self.tokenizer).tolist() if self.teacher.mlm else None,
            statistics=self.outputs.statistics if self._takes_blocks else None,
            seed=plan.seed,
            model_class=TokenCountingModel,
        )
        if self.source is not None:
            copy_weights(self.source, encoder, allow_missing=True)
            copy_weights(self.source, model, allow_missing=True)
        losses = student_losses(model, self.teacher, self.targets)
        compile_for_run(model, config, plan, self.devices, **losses)
        return encoder, model

    def plain_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        """The trained weights in an ordinary BERT, with the heads that were trained and without projections."""
        heads = [
            name
            for name, output in (("masked_lm", "mlm_logits"), ("next_sentence", "nsp_logits"))
            if output in model.output
        ]
        plain = bert_model(self.config, heads) if heads else bert_encoder(self.config)
        missing = copy_weights(model, plain, allow_missing=True)
        if missing:
            copy_weights(encoder, plain, allow_missing=True)
        return plain

    # === Records ===

    def _describe(self) -> dict[str, Any]:
        teacher = {**asdict(self.teacher), "model": str(self.teacher.model)}
        devices = self.devices
        return {
            "plan": asdict(self.plan) | {f"teacher_{name}": value for name, value in teacher.items()},
            "config": self.config.to_dict(),
            "examples": describe_examples(self.examples),
            "teacher": {
                "alignment": self.alignment.kind,
                "rows_kept": self.groups.chunks * self.groups.chunk_rows,
                "steps_on_them": self.groups.steps,
            },
            "devices": f"{devices.name}: {devices.num_replicas} × {devices.device_type}, {devices.precision}",
            "start_from": None if self.start_from is None else os.fspath(self.start_from),
        }

    def _summary(self, done: int) -> str:
        theirs, kept = self.loaded.config, self.groups.chunks * self.groups.chunk_rows
        read = f"{kept:,} rows kept for {self.groups.steps:,} steps" if kept else "asked in every step"
        size = f"{theirs.num_layers} × {theirs.hidden_dim}"
        return (
            f"{self.devices}\n{'teacher':<20} {self.loaded.name}, {size}, by {self.alignment.kind}, {read}\n"
            f"{'steps':<20} {done:,} of {self.plan.steps:,} done, to {self.output}"
        )


def _check_plan(plan: PretrainingPlan) -> None:
    if plan.service:
        raise ValueError(
            f"Got service={plan.service!r} and a teacher, but a teacher's rows are not read through a tf.data service; "
            "leave out one of the two."
        )
    if plan.growth:
        raise ValueError(
            f"Got growth={plan.growth} and a teacher, but a student of a teacher has all its blocks from the start; "
            "leave out one of the two."
        )
