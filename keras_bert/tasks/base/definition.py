"""What a task defines: its model, its data, its losses and its score. `Task` adds what users call.

These methods are the protocol between a task, the training loop and `export`. The guide docs/your-own-task.md writes a
task with them.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.text.subword_tokenizer import SubwordTokenizer

if TYPE_CHECKING:
    from typing_extensions import Self

# From a seed (`None` keeps the order of the data), the first epoch and the number of epochs to batches.
Batches = Callable[[int | None, int, int], tf.data.Dataset]


class TaskDefinition(ABC):
    """What a task defines. Subclass `Task`, which builds on this class.

    A task has to define `name`, `default_metric`, `build_model`, `prepare`, `losses`, `score` and `settings`; the other
    methods have a default that suits most tasks.
    """

    name: ClassVar[str]
    """The name of the task in saved directories, in files and on the command line."""

    default_metric: ClassVar[str]
    """What decides on validation data where `fit` is not told otherwise."""

    trains_packed: ClassVar[bool] = False
    """Whether training can put several texts into one row: where heads take `pooled_output` or each token by itself."""

    trains_groups: ClassVar[bool] = False
    """Whether an example is a group of texts that a loss sees together. Such tasks train in shared rows only."""

    trains_all_tokens: ClassVar[bool] = False
    """Whether tokens that no training text has train too: where a loss compares tokens with all others."""

    token_outputs: ClassVar[tuple[str, ...]] = ()
    """The outputs `[B, T, …]` that have a value for each token."""

    training_layers: ClassVar[tuple[str, ...]] = ()
    """Layers that `build_training_model` adds; what they learn goes through `extra_state` and `keep_extra_state`."""

    optional_files: ClassVar[tuple[str, ...]] = ()
    """Files of a saved directory that not every task of the kind has."""

    # Set by `Task`.
    model: keras.Model
    tokenizer: SubwordTokenizer
    sequence_length: int
    texts_per_example: int = 1

    @property
    def config(self) -> BertConfig:
        """The sizes of the encoder."""
        return encoder_config(self.model)

    @property
    def labels(self) -> list[str] | None:
        """The names of the classes, in the order of the logits; `None` where there are none."""
        return None

    # === Models ===

    @abstractmethod
    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        """Put the heads on an encoder: a functional model with outputs by name."""

    def build_encoder(self, config: BertConfig, **options: Any) -> keras.Model:
        """Make a fresh encoder of the kind that the task needs; `options` are those of `bert_encoder`."""
        return bert_encoder(config, **options)

    def build_from_config(self, config: BertConfig) -> keras.Model:
        """Make the task's model with fresh weights."""
        return self.build_model(self.build_encoder(config), classifier_dropout=None, seed=None)

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        """Make the model that trains, where a loss needs more than the outputs of `build_model`.

        `table` has the ids of the token table's rows where training renumbers them, for heads that know tokens by id.
        """
        return self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)

    def set_start_weights(self, model: keras.Model) -> None:  # noqa: B027  most tasks have nothing to set
        """Set weights of a fresh training model that no initializer knows."""

    # === Data ===

    @abstractmethod
    def prepare(self, x: Any, y: Any, **options: Any) -> PreparedData:
        """Turn examples in any of the accepted forms into what the model trains on."""

    def check_training(self, data: PreparedData) -> None:
        """Raise an error where there is nothing to learn from; tasks know more reasons."""
        if not len(data.tokenized):
            raise ValueError("There are no examples to train on; expected at least one.")

    def targets(self, labels: Any) -> Mapping[str, Any]:
        """Give the labels by the name of the output."""
        if isinstance(labels, dict):
            return labels
        (output,) = self.losses()
        return {output: labels}

    def group_targets(self, values: np.ndarray, data: PreparedData) -> np.ndarray:
        """Arrange a teacher's outputs, a row for each text, as the labels of groups: `[groups, texts, …]`."""
        return values.reshape(-1, data.texts_per_example, values.shape[-1])

    def change_batches(
        self, batches: Batches, data: PreparedData, *, batch_size: int, steps: int, packed: bool
    ) -> Batches:
        """Change training batches, where a loss needs more than inputs and labels.

        Args:
            batches: Gives the batches.
            data: What they were made from.
            batch_size: Examples of a batch.
            steps: Batches of an epoch.
            packed: Whether several texts share a row.
        """
        return batches

    # === Losses and scores ===

    @abstractmethod
    def losses(self) -> dict[str, keras.losses.Loss]:
        """Give the loss of each output."""

    def training_losses(self) -> dict[str, keras.losses.Loss]:
        """Give the loss of each output of the model that trains."""
        return self.losses()

    @abstractmethod
    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        """Say how good outputs are, by one number."""

    def check_metric(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> None:
        """Measure a few rows before anything trains, so that an unknown metric is an error at once."""
        self.score(outputs, data, metric)

    def metric_for(self, data: PreparedData) -> str:
        """Give the metric that suits data, where nobody asked for another."""
        return self.default_metric

    # === Around training ===

    def begin_fit(self, train: PreparedData, validation: PreparedData | None, metric: str) -> None:
        """Look at the data before training: choose what depends on it, or raise an error."""
        self.texts_per_example = train.texts_per_example

    def end_fit(  # noqa: B027  most tasks have nothing to keep
        self,
        train: PreparedData,
        validation: PreparedData | None,
        metric: str,
        *,
        report: FinetuneReport | None = None,
        outputs: Callable[[PreparedData], dict[str, np.ndarray]] | None = None,
    ) -> None:
        """Keep what training showed beside the weights.

        Args:
            train, validation, metric: As for `begin_fit`.
            report: What the recipe did; `None` after `compile`.
            outputs: Gives the outputs of the model that was trained, for prepared data; `None` after `compile`.
        """

    def for_data(self, data: PreparedData) -> "Self":
        """Give a copy of the task, with the same model, that is ready to be measured or trained on data."""
        ready = copy.copy(self)
        ready.begin_fit(data, None, ready.metric_for(data))
        return ready

    def extra_state(self, model: keras.Model) -> dict[str, np.ndarray]:
        """Give what the layers that only the training model has have learned; `score` finds it among the outputs."""
        return {}

    def keep_extra_state(self, state: dict[str, np.ndarray]) -> None:  # noqa: B027  most tasks have nothing to keep
        """Keep the same for answers."""

    # === Directories ===

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Give what `__init__` needs beside model and tokenizer, as JSON can hold it."""

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        """Turn saved settings into arguments of `__init__`."""
        return settings

    def add_files(self, directory: Path) -> None:
        """Write what else a task's directory has, for libraries that open it; here nothing."""
        return
