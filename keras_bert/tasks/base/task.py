"""What every task shares: one face from raw text to answers, with plain Keras underneath.

A `Task` holds a functional model, its tokenizer and a few settings; it takes texts or files and gives answers. A room
of its own because loading, fitting, predicting in batches of similar length, saving and finding the class of a saved
directory are the same for all tasks; a task adds its heads, its loss, its measure and what an answer is.
"""

import copy
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.inference import inference_graph, row_outputs
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.training import training_batches
from keras_bert.checkpoint import load_encoder, load_model
from keras_bert.checkpoint.saving import saving_pretrained
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.recipes import Recipe, find_recipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.finetuning.run import finetune
from keras_bert.finetuning.run_identity import example_parts
from keras_bert.finetuning.trained_parts import is_head
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config, with_example_starts
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.pooling_choice import suited_pooling, with_pooling
from keras_bert.tasks.base.quantization_ranges import FILE as RANGES
from keras_bert.tasks.base.quantization_ranges import LearnedRanges, read_ranges, write_ranges
from keras_bert.tasks.base.saved_tasks import read_settings, write_settings
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts
from keras_bert.text.tokenizer import BertTokenizer

if TYPE_CHECKING:
    from typing_extensions import Self


class Task(ABC):
    """A BERT for one task. Use a subclass, such as `TextClassifier`; `load_task` opens any saved one.

    Args:
        model: A functional model with the task's heads.
        tokenizer: Its tokenizer.
        sequence_length: The most tokens of a row.
        long_texts: What to do with longer ones: `"cut"` them (and say how many), or read them in `"windows"`.
        fresh_heads: Whether the heads are untrained, so that each seed of a recipe draws them anew.
    """

    name: ClassVar[str]

    def __init__(
        self,
        model: keras.Model,
        tokenizer: BertTokenizer,
        *,
        sequence_length: int | None = None,
        long_texts: str = "cut",
        fresh_heads: bool = False,
    ):
        limit = encoder_config(model).max_sequence_length
        sequence_length = min(limit, 512) if sequence_length is None else sequence_length
        if not 4 <= sequence_length <= limit:
            raise ValueError(f"sequence_length={sequence_length}: expected 4 to {limit}, the model's positions.")
        if long_texts not in ("cut", "windows"):
            raise ValueError(f"long_texts={long_texts!r}: expected 'cut' or 'windows'.")
        self.model, self.tokenizer = model, tokenizer
        self.sequence_length, self.long_texts, self.fresh_heads = sequence_length, long_texts, fresh_heads
        self.is_compiled, self._last_forward = False, None
        check_vocabulary(tokenizer, encoder_config(model))

    # === What a task adds ===

    @abstractmethod
    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        """The heads on an encoder."""

    @abstractmethod
    def prepare(self, x: Any, y: Any, **options) -> PreparedData:
        """Examples in any of the accepted forms → what the model trains on."""

    @abstractmethod
    def losses(self) -> dict:
        """The loss of each output."""

    def training_losses(self) -> dict:
        """The loss of each output of the model that trains."""
        return self.losses()

    @abstractmethod
    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        """How good outputs are, by one number."""

    def check_metric(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> None:
        """Measure a few rows before anything trains: an unknown metric or a missing package is an error now."""
        self.score(outputs, data, metric)

    @abstractmethod
    def settings(self) -> dict:
        """What `__init__` needs beside model and tokenizer, as JSON."""

    default_metric: ClassVar[str]

    # What `export.train_quantized` learned beside the weights; training in any other way makes it worthless.
    quantization: LearnedRanges | None = None

    # Whether training can put several texts into one row: where heads take `pooled_output` or each token by itself.
    trains_packed: ClassVar[bool] = False

    # Whether an example is a group of texts that a loss sees together. Such tasks train packed, and in no other way.
    trains_groups: ClassVar[bool] = False

    # Whether tokens that no training text has train too: where a loss compares tokens with all others.
    trains_all_tokens: ClassVar[bool] = False

    # How many texts are a group in the data that is trained on: `build_training_model` shapes by it.
    texts_per_example: int = 1

    # The outputs `[B, T, …]` that have a value for each token.
    token_outputs: ClassVar[tuple[str, ...]] = ()

    # Layers that `build_training_model` adds; what they learn goes through `extra_state` and `keep_extra_state`.
    training_layers: ClassVar[tuple[str, ...]] = ()

    def build_training_model(self, encoder, *, classifier_dropout, seed, table=None) -> keras.Model:
        """The model that trains; it differs from `build_model`'s where a loss needs more than the outputs.

        `table` has the ids of the token table's rows where training renumbers them, for heads that know tokens by id.
        """
        return self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)

    def extra_state(self, model: keras.Model) -> dict[str, np.ndarray]:
        """What the layers that only the training model has have learned; `score` finds it among the outputs."""
        return {}

    def keep_extra_state(self, learned: dict[str, np.ndarray]) -> None:  # noqa: B027  most tasks have nothing to keep
        """Keep the same for answers."""

    def check_training(self, data: PreparedData) -> None:
        """An error where there is nothing to learn from; tasks know more reasons."""
        if not len(data.tokenized):
            raise ValueError("There are no examples to train on.")

    @property
    def labels(self) -> list[str] | None:
        """The names of the classes, in the order of the logits; `None` where there are none."""
        return None

    @property
    def config(self) -> BertConfig:
        """The sizes of the encoder."""
        return encoder_config(self.model)

    # === Training ===

    def compile(self, optimizer="adamw", loss=None, **options) -> None:
        """Plain Keras: after this, `fit` is `model.fit` with this optimizer instead of a recipe.

        Args:
            optimizer: As for `keras.Model.compile`.
            loss: A loss for the task's output; `None` takes the task's own.
            options: As for `keras.Model.compile`.
        """
        if self.trains_groups:
            raise ValueError(
                f"{type(self).__name__} trains on groups of texts, which model.fit cannot: leave compile() out, and "
                "pass fit() a recipe and changes of it, such as learning_rate=5e-5."
            )
        self.model.compile(optimizer, self.losses() if loss is None else loss, **options)
        self.is_compiled = True

    def fit(
        self,
        x,
        y=None,
        *,
        validation_data=None,
        recipe: str | Recipe | None = None,
        metric: str | None = None,
        class_weight: dict | str | None = None,
        columns: dict | None = None,
        directory: str | os.PathLike | None = None,
        callbacks: Sequence | None = None,
        verbose: int | str = "auto",
        **changes,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on texts.

        Args:
            x: Texts, pairs of texts, a `tf.data.Dataset` of `(text, label)`, rows from `read_rows`, or the path of a
                TSV, CSV or JSONL file.
            y: The labels, where `x` is texts.
            validation_data: The same, as `(x, y)` or as one value. It decides when to stop and which weights to keep.
            recipe: A name in `RECIPES` or a `Recipe`; the default is `"standard"`. Not after `compile`.
            metric: What decides on the validation data; `None` is the task's own. An unknown one is an error that lists
                those of the task.
            class_weight: What each class counts, by name, or `"balanced"`.
            columns: Columns of a file, e.g. `{"text": "sentence", "pair": "hypothesis", "label": 3}`.
            directory: Where the state is kept, so that a killed run goes on when it is started again.
            callbacks: After `compile`: as for `keras.Model.fit`.
            verbose: As for `keras.Model.fit`.
            changes: Settings of the recipe to change, e.g. `learning_rate=5e-5, epochs=2, seeds=(0, 1)`.

        Returns:
            A `FinetuneReport` to print; after `compile`, Keras's `History`.
        """
        columns = columns or {}
        train = self.prepare(x, y, class_weight=class_weight, **columns)
        self.check_training(train)
        self.texts_per_example = train.texts_per_example
        check = None
        if validation_data is not None:
            inputs, targets = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
            check = self.prepare(inputs, targets, **columns)
        if self.is_compiled:
            if recipe is not None:
                raise ValueError("The task is compiled, which replaces a recipe; pass one of the two.")
            if metric is not None or directory is not None:
                raise ValueError("metric and directory belong to recipes; after compile() use Keras's own callbacks.")
            return self._fit_compiled(train, check, callbacks, verbose, **changes)
        if callbacks is not None:
            raise ValueError("callbacks are for plain Keras: call compile() before fit().")
        recipe = find_recipe(recipe or "standard", **changes)
        return self._fit_recipe(train, check, recipe, metric or self.default_metric, directory, verbose)

    def _fit_recipe(self, train, check, recipe, metric, directory, verbose):
        recipe = recipe.for_width(self.config.hidden_dim)
        # Rows of the token table that no training text needs would get no gradient: they stay out of the training.
        table = train.tokenized.used_ids() if recipe.trains == "all" and not self.trains_all_tokens else None
        batches, steps = self._training_batches(train, recipe.batch_size, packed=self._packs(), table=table)
        # Without validation data the first rows of the training data still show whether a run has degenerated.
        sample = check if check is not None else self._training_sample(train)
        plain = self.build_from_config(self.config)

        def outputs_of(model, data):
            copy_weights(self.model, plain)  # for the rows of the table that do not train
            copy_weights(model, plain, table_rows=table)
            return self.outputs(data.tokenized, plain) | self.extra_state(model)

        def measure(model):
            return self.score(outputs_of(model, sample), sample, metric)

        def build(seed):
            model, few = self._fresh_model(recipe, seed, table), sample.first_rows(16)
            self.check_metric(outputs_of(model, few), few, metric)
            return model

        model, report = finetune(
            build,
            batches,
            recipe if check is not None else replace(recipe, patience=None, evaluations=1),
            loss=self.training_losses(),
            steps_per_epoch=steps,
            measure=measure,
            metric=metric if check is not None else f"training_{metric}",
            chooses=check is not None,
            directory=directory,
            depends_on=lambda: (
                example_parts("training", train)
                | example_parts("validation", check)
                | {"sequence_length": self.sequence_length}
            ),
            added_layers=self.training_layers,
            verbose=verbose,
        )
        copy_weights(model, self.model, table_rows=table)
        self.keep_extra_state(self.extra_state(model))
        self.fresh_heads, self._last_forward = False, None  # lets go of the model that was trained
        self.quantization = None
        return replace(report, notes=train.notes + (check.notes if check is not None else ()))

    def _training_sample(self, train):
        return train.first_rows(256)

    def _fit_compiled(self, train, check, callbacks, verbose, *, epochs=1, batch_size=32, seed=0):
        batches, steps = self._training_batches(train, batch_size)
        checks = None if check is None else self._training_batches(check, batch_size)[0](None, 0, 1)
        return self.model.fit(
            batches(seed, 0, epochs),
            steps_per_epoch=steps,
            epochs=epochs,
            validation_data=checks,
            callbacks=callbacks,
            shuffle=False,
            verbose=verbose,
        )

    def _training_batches(self, data, batch_size, *, packed=False, table=None):
        """A function from seed, epoch and number of epochs to batches, and how many an epoch has."""
        sizes = {"sequence_length": self.sequence_length, "hidden_dim": self.config.hidden_dim}
        options = {"batch_size": batch_size, "packed": packed, "table": table}
        return training_batches(data, self.targets(data.labels), **sizes, **options)

    def targets(self, labels):
        """The labels by the name of the output."""
        if isinstance(labels, dict):
            return labels
        (output,) = self.losses()
        return {output: labels}

    def _packs(self):
        # Under several devices each would get a part of the rows, and places that are in the others' parts.
        if self.trains_groups and tf.distribute.has_strategy():
            raise ValueError(
                f"{type(self).__name__} trains on groups of texts, on one device; call fit() outside of the "
                f"{type(tf.distribute.get_strategy()).__name__}'s scope."
            )
        return (self.trains_packed or self.trains_groups) and not tf.distribute.has_strategy()

    def _fresh_model(self, recipe, seed, table):
        """A new model to train, with the weights of this one; heads that never trained are drawn by the seed."""
        changes = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
        changes["vocabulary_size"] = None if table is None else len(table)
        config = self.config.replace(**{name: value for name, value in changes.items() if value is not None})
        rate = recipe.classifier_dropout
        encoder = self.build_encoder(config, packed=self._packs(), seed=seed)
        encoder = with_example_starts(encoder) if self._packs() else encoder
        model = self.build_training_model(encoder, classifier_dropout=rate, seed=seed, table=table)
        copy_weights(
            self.model,
            model,
            skip=is_head if self.fresh_heads else lambda path: False,
            allow_missing=bool(self.training_layers),
            table_rows=table,
        )
        return model

    def build_from_config(self, config):
        return self.build_model(self.build_encoder(config), classifier_dropout=None, seed=None)

    def build_encoder(self, config, **options) -> keras.Model:
        """A fresh encoder of the kind that the task needs; `options` are those of `bert_encoder`."""
        return bert_encoder(config, **options)

    def on_encoder(self, config: BertConfig, *, tokenizer: BertTokenizer | None = None, seed: int | None = None):
        """The same task, with its labels and settings, on another encoder with fresh weights.

        Args:
            config: The sizes of the encoder.
            tokenizer: Another vocabulary; `None` keeps this one.
            seed: Of the weights.

        Example:
            ```python
            smaller = classifier.on_encoder(classifier.config.replace(num_layers=3))
            ```
        """
        twin = copy.copy(self)
        twin.tokenizer = self.tokenizer if tokenizer is None else tokenizer
        check_vocabulary(twin.tokenizer, config)
        if config.max_sequence_length < self.sequence_length:
            raise ValueError(
                f"The encoder has {config.max_sequence_length} positions, the task reads {self.sequence_length} tokens."
            )
        twin.model = twin.build_model(twin.build_encoder(config, seed=seed), classifier_dropout=None, seed=seed)
        twin.fresh_heads, twin.is_compiled, twin._last_forward = True, False, None
        twin.quantization = None
        return twin

    # === Answers ===

    def tokenize(self, texts, pairs=None) -> tuple[TokenizedTexts, np.ndarray, tuple[str, ...]]:
        """Texts as rows of at most `sequence_length` tokens, the text that each row is of, and what was cut."""
        tokenized = tokenize_texts(self.tokenizer, texts, pairs)
        if self.long_texts == "windows":
            stride = max(1, self.sequence_length // 2)
            tokenized, owners = tokenized.windows(self.sequence_length, stride)
            return tokenized, owners, ()
        tokenized, cut = tokenized.trimmed(self.sequence_length)
        note = f"{cut:,} of {len(tokenized):,} texts were cut to {self.sequence_length} tokens"
        return tokenized, np.arange(len(tokenized)), (note,) if cut else ()

    def outputs(self, tokenized, model=None, batch_size: int = 64) -> dict[str, np.ndarray]:
        """The outputs for each row, in the order of the rows; those of tokens as `row_outputs` gives them."""
        forward = self.forward(self.model if model is None else model)
        sizes = {"sequence_length": self.sequence_length, "batch_size": batch_size}
        return row_outputs(forward, tokenized, token_outputs=self.token_outputs, **sizes)

    def forward(self, model):
        """Inference as one graph for all lengths; the last model's is kept, because tracing takes seconds."""
        if self._last_forward is None or self._last_forward[0] is not model:
            self._last_forward = (model, inference_graph(model))
        return self._last_forward[1]

    # === Directories ===

    @classmethod
    def load_parts(cls, directory_or_name, seed, *, pooling="as stored"):
        """An encoder with pretrained weights and its tokenizer; an error where there is no vocabulary.

        `pooling` is for tasks whose heads take `pooled_output`: `"cls"`, `"mean"`, or `None` for what suits the model.
        """
        pooling = suited_pooling(directory_or_name) if pooling is None else pooling
        with warnings.catch_warnings():
            if pooling == "mean":
                warnings.filterwarnings("ignore", ".* has no pooler", UserWarning)  # the mean needs none
            encoder, tokenizer = load_encoder(directory_or_name, seed=seed)
        if tokenizer is None:
            raise ValueError(
                f"{directory_or_name} has no vocab.txt, so texts cannot be tokenized; add the model's own vocabulary."
            )
        return encoder if pooling in (None, "as stored") else with_pooling(encoder, pooling), tokenizer

    def save(self, directory: str | os.PathLike) -> None:
        """Write model, tokenizer, labels and settings to one directory, which transformers opens too."""
        self._save(directory, self.all_settings())

    def _save(self, directory, settings):
        """Model and settings come into place together: labels of one model beside weights of another answer wrongly."""
        parts = {"tokenizer": self.tokenizer, "labels": self.labels}
        with saving_pretrained(self.model, directory, **parts, stale=self.optional_files) as partial:
            write_settings(partial, settings)
            if self.quantization is not None:
                write_ranges(partial, self.quantization)
            self.add_files(partial)

    def all_settings(self):
        return {
            "task": self.name,
            "sequence_length": self.sequence_length,
            "long_texts": self.long_texts,
            **self.settings(),
        }

    optional_files: tuple[str, ...] = (RANGES,)  # those of an earlier task go where there are none anew

    def add_files(self, directory):
        """What else a task's directory has, for libraries that open it; here nothing."""
        return

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Self":
        """Open what `save` wrote."""
        settings = read_settings(directory)
        task = settings.pop("task")
        if task != cls.name:
            raise ValueError(f"{directory} holds the task {task!r}, not {cls.name!r}; open it with load_task.")
        opened = cls.from_directory(directory, settings)
        opened.quantization = read_ranges(directory)
        return opened

    @classmethod
    def from_directory(cls, directory, settings):
        """The task of a directory by its settings, wherever these were kept."""
        model, tokenizer = load_model(directory)
        return cls(model, tokenizer, **cls.from_settings(settings, directory))

    @classmethod
    def from_settings(cls, settings, directory):
        return settings


def check_vocabulary(tokenizer: BertTokenizer, config: BertConfig) -> None:
    """An error where the tokenizer can give ids that the model has no vector for."""
    if tokenizer.vocabulary_size > config.vocabulary_size:
        raise ValueError(
            f"The vocabulary has {tokenizer.vocabulary_size:,} tokens, the model only {config.vocabulary_size:,}; "
            "use the vocab.txt that the model was trained with."
        )


def is_pair_of_xy(data: Any) -> bool:
    """Whether validation data is `(x, y)`, and not one value that brings its labels."""
    return isinstance(data, tuple) and len(data) == 2 and not all(isinstance(part, str) for part in data)
