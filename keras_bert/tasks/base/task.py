"""A BERT for one task, as users call it: `from_pretrained`, `fit`, `predict`, `evaluate`, `save`, `load`."""

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.batching.inference import inference_graph, row_outputs
from keras_bert.checkpoint import load_encoder, load_model
from keras_bert.checkpoint.saving import saving_pretrained
from keras_bert.finetuning.recipes import Recipe, find_recipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import encoder_config
from keras_bert.tasks.base.definition import TaskDefinition
from keras_bert.tasks.base.fitting import fit_compiled, fit_recipe
from keras_bert.tasks.base.pooling_choice import suited_pooling, with_pooling
from keras_bert.tasks.base.quantization_ranges import FILE as RANGES
from keras_bert.tasks.base.quantization_ranges import LearnedRanges, read_ranges, write_ranges
from keras_bert.tasks.base.saved_tasks import SETTINGS, read_settings, write_settings
from keras_bert.tasks.base.training_method import TrainingMethod
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts

if TYPE_CHECKING:
    from typing_extensions import Self


class Task(TaskDefinition):
    """A BERT for one task. Use a subclass, such as `TextClassifier`; `load_task` opens any saved one.

    Args:
        model: A functional model with the task's heads.
        tokenizer: Its tokenizer.
        sequence_length: The most tokens of a row.
        long_texts: What to do with longer ones: `"cut"` them (and say how many), or read them in `"windows"`.
        fresh_heads: Whether the heads are untrained, so that each seed of a recipe draws them anew.
    """

    # What `export.train_quantized` learned beside the weights; training in any other way makes it worthless.
    quantization: LearnedRanges | None = None

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
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
        self.is_compiled = False
        self._last_forward: tuple[keras.Model, Callable[[dict[str, Any]], dict[str, Any]]] | None = None
        check_vocabulary(tokenizer, encoder_config(model))

    # === Training ===

    def compile(self, optimizer: Any = "adamw", loss: Any = None, **options: Any) -> None:
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
        x: Any,
        y: Any = None,
        *,
        validation_data: Any = None,
        validation_split: float = 0.0,
        recipe: str | Recipe | None = None,
        metric: str | None = None,
        class_weight: dict[str, float] | str | None = None,
        columns: dict[str, Any] | None = None,
        directory: str | os.PathLike[str] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        method: TrainingMethod | None = None,
        verbose: int | str = "auto",
        **changes: Any,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on texts.

        Args:
            x: Texts, pairs of texts, a `tf.data.Dataset` of `(text, label)`, rows from `read_rows`, or the path of a
                TSV, CSV or JSONL file.
            y: The labels, where `x` is texts.
            validation_data: The same, as `(x, y)` or as one value. It decides when to stop and which weights to keep.
            validation_split: Without `validation_data`: the share of the examples that is held out for it, the last
                ones, as in `keras.Model.fit`. Shuffle data that is sorted by label first.
            recipe: A name in `RECIPES` or a `Recipe`; the default is `"standard"`. Not after `compile`.
            metric: What decides on the validation data; `None` is the task's own. An unknown one is an error that lists
                those of the task.
            class_weight: What each class counts, by name, or `"balanced"`.
            columns: Columns of a file, e.g. `{"text": "sentence", "pair": "hypothesis", "label": 3}`.
            directory: Where the state is kept, so that a killed run goes on when it is started again.
            callbacks: Keras callbacks, as for `keras.Model.fit`. With a recipe they are called on the run of each seed;
                an epoch is what lies between two measurements, and `logs` has `val_loss` and the metric, such as
                `val_accuracy`.
            method: A `TrainingMethod`, which changes how the task trains; `export.distill`, `export.prune` and
                `export.train_quantized` pass one.
            verbose: As for `keras.Model.fit`; `"auto"` is a bar on a terminal and a line for each epoch elsewhere.
            changes: Settings of the recipe to change, e.g. `learning_rate=5e-5, epochs=2, seeds=(0, 1)`.

        Returns:
            A `FinetuneReport` to print, whose `.history` is that of Keras; after `compile`, Keras's `History`.
        """
        columns = columns or {}
        train = self.prepare(x, y, class_weight=class_weight, **columns)
        validation = None
        if validation_data is not None:
            inputs, targets = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
            validation = self.prepare(inputs, targets, **columns)
        elif validation_split:
            train, validation = train.split(validation_split)
        self.check_training(train)
        if self.is_compiled:
            if recipe is not None:
                raise ValueError("The task is compiled, which replaces a recipe; pass one of the two.")
            if metric is not None or directory is not None or method is not None:
                raise ValueError(
                    "metric, directory and method belong to recipes; after compile() use Keras's own callbacks."
                )
            return fit_compiled(self, train, validation, callbacks=callbacks, verbose=verbose, **changes)
        return fit_recipe(
            self,
            train,
            validation,
            find_recipe(recipe or "standard", **changes),
            metric=metric,
            method=method,
            directory=directory,
            callbacks=callbacks or (),
            verbose=verbose,
        )

    def on_encoder(
        self, config: BertConfig, *, tokenizer: SubwordTokenizer | None = None, seed: int | None = None
    ) -> "Self":
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
        twin.fresh_heads, twin.is_compiled, twin.quantization = True, False, None
        twin.forget_graph()
        return twin

    # === Answers ===

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> tuple[TokenizedTexts, np.ndarray, tuple[str, ...]]:
        """Texts as rows of at most `sequence_length` tokens, the text that each row is of, and what was cut."""
        tokenized = tokenize_texts(self.tokenizer, texts, pairs)
        if self.long_texts == "windows":
            stride = max(1, self.sequence_length // 2)
            tokenized, owners = tokenized.windows(self.sequence_length, stride)
            return tokenized, owners, ()
        tokenized, cut = tokenized.trimmed(self.sequence_length)
        note = f"{cut:,} of {len(tokenized):,} texts were cut to {self.sequence_length} tokens"
        return tokenized, np.arange(len(tokenized)), (note,) if cut else ()

    def outputs(
        self, tokenized: TokenizedTexts, model: keras.Model | None = None, batch_size: int = 64
    ) -> dict[str, np.ndarray]:
        """The outputs for each row, in the order of the rows; those of tokens as `row_outputs` gives them."""
        forward = self.forward(self.model if model is None else model)
        sizes = {"sequence_length": self.sequence_length, "batch_size": batch_size}
        return row_outputs(forward, tokenized, token_outputs=self.token_outputs, **sizes)

    def forward(self, model: keras.Model) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Inference as one graph for all lengths; the last model's is kept, because tracing takes seconds."""
        if self._last_forward is None or self._last_forward[0] is not model:
            self._last_forward = (model, inference_graph(model))
        return self._last_forward[1]

    def forget_graph(self) -> None:
        """Let go of the graph that `forward` keeps."""
        self._last_forward = None

    # === Directories ===

    @classmethod
    def load_parts(
        cls, directory_or_name: str | os.PathLike[str], seed: int | None, *, pooling: str | None = "as stored"
    ) -> tuple[keras.Model, SubwordTokenizer]:
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

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write model, tokenizer, labels and settings to one directory, which transformers opens too."""
        self._save(directory, self.all_settings())

    def _save(self, directory: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        """Model and settings come into place together: labels of one model beside weights of another answer wrongly."""
        parts: dict[str, Any] = {"tokenizer": self.tokenizer, "labels": self.labels}
        with saving_pretrained(self.model, directory, **parts, stale=(RANGES, *self.optional_files)) as partial:
            write_settings(partial, settings)
            if self.quantization is not None:
                write_ranges(partial, self.quantization)
            self.add_files(partial)

    def all_settings(self) -> dict[str, Any]:
        """Give what `save` writes beside the model."""
        return {
            "task": self.name,
            "sequence_length": self.sequence_length,
            "long_texts": self.long_texts,
            **self.settings(),
        }

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "Self":
        """Open what `save` wrote."""
        settings = read_settings(directory)
        task = settings.pop("task")
        if task != cls.name:
            raise ValueError(f"{directory} holds the task {task!r}, not {cls.name!r}; open it with load_task.")
        try:
            opened = cls.from_directory(directory, settings)
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(
                f"{Path(directory) / SETTINGS} has settings that {cls.__name__} cannot use ({error}); copy the "
                "directory again, or save the task again."
            ) from error
        opened.quantization = read_ranges(directory)
        return opened

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str], settings: dict[str, Any]) -> "Self":
        """The task of a directory by its settings, wherever these were kept."""
        model, tokenizer = load_with_tokenizer(directory)
        return cls(model, tokenizer, **cls.from_settings(settings, Path(directory)))


def load_with_tokenizer(
    directory_or_name: str | os.PathLike[str], *, seed: int | None = None
) -> tuple[keras.Model, SubwordTokenizer]:
    """Load a model with its heads and its tokenizer; raise an error where there is no vocabulary."""
    model, tokenizer = load_model(directory_or_name, seed=seed)
    if tokenizer is None:
        raise ValueError(
            f"{directory_or_name} has no vocab.txt, so texts cannot be tokenized; add the model's own vocabulary."
        )
    return model, tokenizer


def check_vocabulary(tokenizer: SubwordTokenizer, config: BertConfig) -> None:
    """An error where the tokenizer can give ids that the model has no vector for."""
    if tokenizer.vocabulary_size > config.vocabulary_size:
        raise ValueError(
            f"The vocabulary has {tokenizer.vocabulary_size:,} tokens, the model only {config.vocabulary_size:,}; "
            "use the vocab.txt that the model was trained with."
        )


def is_pair_of_xy(data: Any) -> bool:
    """Whether validation data is `(x, y)`, and not one value that brings its labels."""
    return isinstance(data, tuple) and len(data) == 2 and not all(isinstance(part, str) for part in data)
