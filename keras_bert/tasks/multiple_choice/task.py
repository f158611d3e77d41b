"""Multiple choice: endings of a story, answers of a test (SWAG, RACE, ARC).

`MultipleChoice` reads `[CLS] context [SEP] choice [SEP]` for each choice and gives it a score; the scores of a
question's choices are compared by softmax. The model is that of transformers' BertForMultipleChoice.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_model
from keras_bert.checkpoint.files import read_json, write_json
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import open_checkpoint
from keras_bert.decoding.labels import Choice, rank_choices
from keras_bert.evaluation.ranking import ChoiceReport, choice_report
from keras_bert.finetuning.best_weights import Score
from keras_bert.model.heads import bert_model
from keras_bert.model.pooling import grouped_model
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.multiple_choice.files import ChoiceRows, as_choices, is_question
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts

_OUTPUT, _CHOICES = "class_logits", "choice_logits"
_ARCHITECTURE = "BertForMultipleChoice"
ABSENT = -1e9  # the logit of a missing choice: finite, and far below every real one


@keras.saving.register_keras_serializable("keras_bert")
class ChoiceLoss(keras.losses.Loss):
    """Cross-entropy over the choices of a question.

    Takes targets `[B, 2]` (the index of the right choice, and the number of choices) and logits `[B, G, 1]`. The
    number of choices is in the targets because a loss has no other input, and questions may have different numbers.

    Example:
        >>> round(float(ChoiceLoss()(np.array([[0, 2]]), np.zeros((1, 4, 1)))), 4)  # two choices, both alike: log 2
        0.6931
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "choice_loss", **kwargs: Any):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        targets = ops.cast(y_true, "int32")
        there = ops.arange(y_pred.shape[1], dtype="int32")[None] < targets[:, 1:]  # [B, G]
        scores = ops.where(there, y_pred[:, :, 0], ABSENT)
        return ops.sparse_categorical_crossentropy(targets[:, 0], scores, from_logits=True)


class MultipleChoice(Task):
    """BERT for multiple choice.

    Args:
        model: A model with one `class_logits`, from `bert_model(…, "classification", num_classes=1)`.
        tokenizer: Its tokenizer.
        sequence_length: Maximum number of tokens of a context with a choice. A longer context is cut, never a choice.
        fresh_heads: As for `Task`.

    Example:
        ```python
        chooser = MultipleChoice.from_pretrained("all-MiniLM-L6-v2")
        print(chooser.fit("swag/train.csv", validation_data="swag/val.csv"))
        chooser.predict("She opens the umbrella.", ["It stops the rain.", "It sings."])[0]  # Choice('It stops…', 0, …)
        chooser.save("endings")
        ```
    """

    name = "multiple_choice"
    default_metric = "accuracy"
    trains_groups = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        sequence_length: int | None = None,
        fresh_heads: bool = False,
    ):
        super().__init__(model, tokenizer, sequence_length=sequence_length, fresh_heads=fresh_heads)
        classes = model.output[_OUTPUT].shape[-1] if _OUTPUT in model.output else None
        if classes != 1:
            found = f"{classes} class_logits" if classes else ", ".join(model.output)
            raise ValueError(f"The model gives {found}; expected one number: bert_model(…, num_classes=1).")

    @classmethod
    def from_pretrained(
        cls, directory_or_name: str | os.PathLike[str], *, seed: int = 0, **kwargs: Any
    ) -> "MultipleChoice":
        """Make a task with pretrained weights; from a BertForMultipleChoice with its trained head.

        Args:
            directory_or_name: A model directory, or the name of a model.
            seed: Random seed of the new head.
            kwargs: `sequence_length`.
        """
        directory = find_directory(directory_or_name)
        if open_checkpoint(directory).settings.architecture == _ARCHITECTURE:
            model, tokenizer = load_model(directory, seed=seed)
            if tokenizer is None:
                raise ValueError(
                    f"{directory} has no vocab.txt, so texts cannot be tokenized; add the model's vocabulary."
                )
            return cls(model, tokenizer, **kwargs)
        encoder, tokenizer = cls.load_parts(directory, seed)
        model = bert_model(None, "classification", num_classes=1, encoder=encoder, seed=seed)
        return cls(model, tokenizer, fresh_heads=True, **kwargs)

    # === Answers ===

    def predict(self, context: Any, choices: Sequence[str] | None = None, *, batch_size: int = 64) -> list[Any]:
        """Rank the choices by probability, the most likely first.

        Args:
            context: A text; or a list of `(context, [choice, …])`, which gives a list of answers.
            choices: The choices for one context, any number of them.
            batch_size: Choices per batch.

        Returns:
            For each context a list of `Choice(text, index, probability)`.
        """
        if isinstance(context, str):
            if choices is None or isinstance(choices, str):
                raise TypeError(
                    "There are no choices; expected predict(context, [choice, …]), or a list of (context, [choice, …])."
                )
            return self.predict([(context, list(choices))], batch_size=batch_size)[0]
        if choices is not None:
            raise TypeError("choices= is for one context; for several, pass predict([(context, [choice, …]), …]).")
        if is_question(context):
            return self.predict([context], batch_size=batch_size)[0]
        context = list(context)
        if not context:
            return []
        rows = as_choices(context)
        tokenized, notes = self.read(
            [(question.context, choice) for question in rows for choice in question.choices], rows
        )
        for note in notes:
            warnings.warn(note, stacklevel=2)
        scores = self.outputs(tokenized, batch_size=batch_size)[_OUTPUT][:, 0]
        parts = np.split(scores, np.cumsum([len(question.choices) for question in rows])[:-1])
        ranked: list[list[Choice]] = [
            rank_choices(part, question.choices) for part, question in zip(parts, rows, strict=True)
        ]
        return ranked

    def evaluate(self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None) -> ChoiceReport:
        """Measure on questions with right choices, in any form that `fit` takes."""
        data = self.prepare(x, y, **(columns or {}))
        return self.report(self.outputs(data.tokenized), data)

    # === Task definition ===

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        options: dict[str, Any] = {
            "num_classes": 1,
            "classifier_dropout": classifier_dropout,
            "encoder": encoder,
            "seed": seed,
        }
        return bert_model(None, "classification", **options)

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        model = self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        return grouped_model(model, _OUTPUT, self.texts_per_example, name=_CHOICES)

    def group_targets(self, values: np.ndarray, data: PreparedData) -> np.ndarray:
        labels: Any = data.labels
        there = np.arange(data.texts_per_example) < labels[:, 1:]
        return np.where(there, super().group_targets(values, data)[..., 0], ABSENT).astype(np.float32)

    def losses(self) -> dict[str, keras.losses.Loss]:
        return {_CHOICES: ChoiceLoss()}

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedData:
        if class_weight is not None:
            raise ValueError("class_weight is for classes, and choices have none; leave it out.")
        rows = as_choices(x, y, **columns)
        unknown = [question.row for question in rows if question.label is None]
        if unknown:
            raise ValueError(f"Question {unknown[0]} has no right choice; expected one for every question.")
        most = max(len(question.choices) for question in rows)
        # A question with fewer choices is filled up with empty texts, which the loss ignores.
        pairs = [
            pair
            for question in rows
            for pair in [(question.context, choice) for choice in question.choices]
            + [("", "")] * (most - len(question.choices))
        ]
        tokenized, notes = self.read(pairs, rows)
        if rows.report.dropped:
            notes = (str(rows.report), *notes)
        labels = np.array([(question.label, len(question.choices)) for question in rows], np.int32)
        owners = np.repeat(np.arange(len(rows)), most)
        return PreparedData(tokenized, labels, None, owners, notes, texts_per_example=most)

    def read(self, pairs: Sequence[tuple[str, str]], rows: ChoiceRows) -> tuple[TokenizedTexts, tuple[str, ...]]:
        """Tokenize pairs of context and choice, and cut contexts; gives the rows and notes on what was cut."""
        contexts, choices = zip(*pairs, strict=True)
        tokenized = tokenize_texts(self.tokenizer, list(contexts), list(choices))
        lengths, room = np.diff(np.asarray(tokenized.second_splits)), self.sequence_length - 2 - tokenized.separators
        if lengths.max() > room:
            raise ValueError(
                f"The choice {choices[int(lengths.argmax())][:40]!r} has {lengths.max()} tokens, and is never cut; "
                f"sequence_length={self.sequence_length} has room for {room}: use a larger one, or a shorter choice."
            )
        tokenized, cut = tokenized.trimmed_first(self.sequence_length)
        count = sum(len(question.choices) for question in rows)
        note = f"the contexts of {cut:,} of {count:,} choices were cut, to {self.sequence_length} tokens together"
        return tokenized, (note,) if cut else ()

    def _scores(self, outputs: dict[str, np.ndarray], data: PreparedData) -> list[np.ndarray]:
        """The scores of each question's choices."""
        labels: Any = data.labels
        groups = outputs[_OUTPUT].reshape(-1, data.texts_per_example)
        return [row[:count] for row, count in zip(groups, labels[:, 1], strict=True)]

    def report(self, outputs: dict[str, np.ndarray], data: PreparedData) -> ChoiceReport:
        """Measure outputs on labelled data."""
        labels: Any = data.labels
        return choice_report(self._scores(outputs, data), labels[:, 0], notes=data.notes)

    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        if metric != "accuracy":
            raise ValueError(f"metric={metric!r}: expected 'accuracy' for multiple choice.")
        report = self.report(outputs, data)
        degenerate = all(np.ptp(row) < 1e-4 for row in self._scores(outputs, data))
        return Score(report.accuracy, degenerate, {"val_loss": report.loss})

    # === Directories ===

    def add_files(self, directory: Path) -> None:
        # With this name, transformers opens it as BertForMultipleChoice.
        path = directory / "config.json"
        write_json(path, {**read_json(path), "architectures": [_ARCHITECTURE]})

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name != "long_texts"}  # contexts are always cut
