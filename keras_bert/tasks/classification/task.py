"""Text classification: one label, several labels, or a number for a text or a pair of texts.

`TextClassifier` covers sentiment, topics, intents, languages, paraphrases, entailment and similarity scores
(regression).
"""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_labels
from keras_bert.checkpoint.configs import PROBLEM_TYPES
from keras_bert.checkpoint.files import read_json, write_json
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import open_checkpoint
from keras_bert.data.examples import Example
from keras_bert.data.inputs import as_rows
from keras_bert.decoding import choose_labels, mean_by_owner, rank_labels, sigmoid
from keras_bert.evaluation.reports import (
    ClassificationReport,
    MultilabelReport,
    RegressionReport,
    classification_report,
    multilabel_report,
    regression_report,
)
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.class_labels import check_labels, check_not_constant, find_class, weigh_classes
from keras_bert.tasks.base.saved_tasks import SETTINGS, read_settings
from keras_bert.tasks.base.task import Task, load_with_tokenizer
from keras_bert.text.subword_tokenizer import SubwordTokenizer

if TYPE_CHECKING:
    from typing_extensions import Self

_OUTPUT = "class_logits"

Report = ClassificationReport | MultilabelReport | RegressionReport


class TextClassifier(Task):
    """BERT with a classifier on its pooled output.

    The metrics of `fit` are, by kind:

    - `"single_label"`: `accuracy` (the default), `matthews`, `macro_f1`, `micro_f1`, `weighted_f1`; with two classes
      also `f1`, with the second label as the positive one (GLUE's metric for MRPC and QQP).
    - `"multi_label"`: `micro_f1` (the default), `macro_f1`, `weighted_f1`, `subset_accuracy`.
    - `"regression"`: `spearman` (the default), `pearson`.

    Args:
        model: A model with `class_logits`, from `bert_model(…, "classification")`.
        tokenizer: Its tokenizer.
        labels: The names of the classes; `None` for regression.
        kind: `"single_label"`, `"multi_label"` or `"regression"`.
        pairs: Whether it was trained on pairs of texts and takes only pairs; `fit` sets it. `None` is unknown.
        kwargs: As for `Task`: `sequence_length`, `long_texts`.

    Example:
        ```python
        classifier = TextClassifier.from_pretrained("all-MiniLM-L6-v2", labels=["negative", "positive"])
        print(classifier.fit("train.tsv", validation_data="dev.tsv"))
        classifier.predict(["What a lovely film!"])[0][0]  # Label('positive', 0.98)
        classifier.save("sentiment")
        ```
    """

    name = "classification"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        labels: Sequence[str] | None,
        kind: str = "single_label",
        pairs: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(model, tokenizer, **kwargs)
        self.kind, self.pairs, self._labels = kind, pairs, check_labels(labels, kind)
        if _OUTPUT not in model.output:
            raise ValueError(f"The model gives {', '.join(model.output)}; expected {_OUTPUT}: see bert_model.")
        classes = model.output[_OUTPUT].shape[-1]
        expected = 1 if self._labels is None else len(self._labels)
        if classes != expected:
            raise ValueError(f"The model has {classes} outputs, but there are {expected} labels: {labels}.")

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike[str],
        *,
        labels: Sequence[str] | None = None,
        kind: str | None = None,
        pooling: str | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> "Self":
        """Make a classifier with pretrained weights.

        Args:
            directory_or_name: A model directory, or the name of a model.
            labels: The names of the classes. Without them the checkpoint must have a classifier with named classes.
            kind: `"single_label"`, `"multi_label"` (any number of labels per text) or `"regression"` (a number, with
                a new head). `None` is the kind of the checkpoint's classifier without `labels`
                (`problem_type` in Hugging Face's `config.json`), otherwise `"single_label"`.
            pooling: The input of the head: `"cls"`, the first token, as in BERT's classifiers, or `"mean"`, the mean
                of all tokens. `None` is the mean for sentence encoders such as all-MiniLM-L6-v2, and the first token
                otherwise.
            seed: Random seed of the new head.
            kwargs: `sequence_length`, `long_texts`.
        """
        if labels is None and kind != "regression":
            directory = find_directory(directory_or_name)
            said = _read_kind(directory)
            kind = kind or said["kind"] or "single_label"
            known = None if kind == "regression" else load_labels(directory)
            if not known and kind != "regression":
                raise ValueError(
                    f"{directory_or_name} has no named classes; pass labels=[…], the classes of your data."
                )
            model, tokenizer = load_with_tokenizer(directory, seed=seed)
            return cls(model, tokenizer, labels=known, **{**said, "kind": kind, **kwargs})
        kind = kind or "single_label"
        labels = check_labels(labels, kind)
        encoder, tokenizer = cls.load_parts(directory_or_name, seed, pooling=pooling)
        model = bert_model(None, "classification", num_classes=len(labels or ("",)), encoder=encoder, seed=seed)
        return cls(model, tokenizer, labels=labels, kind=kind, fresh_heads=True, **kwargs)

    @property
    def labels(self) -> list[str] | None:
        return None if self._labels is None else list(self._labels)

    @property
    def default_metric(self) -> str:  # type: ignore[override]  # by the kind
        """The metric that decides on validation data."""
        return {"single_label": "accuracy", "multi_label": "micro_f1", "regression": "spearman"}[self.kind]

    # === Answers ===

    def predict(self, texts: Any, *, threshold: float = 0.5, batch_size: int = 64) -> Any:
        """Predict labels with their probabilities.

        Args:
            texts: Strings; or pairs of strings, if it was trained on pairs. One string gives one answer; one pair is
                a list of one.
            threshold: For `"multi_label"`: the minimum probability of a label.
            batch_size: Texts per batch.

        Returns:
            For each text a list of `Label`, the most likely first: all classes; for `"multi_label"`, those over the
            threshold. For regression a number.
        """
        if isinstance(texts, str):
            return self.predict([texts], threshold=threshold, batch_size=batch_size)[0]
        texts = list(texts)
        logits = self.logits(texts, batch_size=batch_size)
        if self.kind == "regression":
            return [float(value) for value in logits[:, 0]]
        if self.kind == "multi_label":
            return [choose_labels(row, self._labels or (), threshold=threshold) for row in sigmoid(logits)]
        return [rank_labels(row, self._labels or ()) for row in logits]

    def logits(self, texts: Any, *, batch_size: int = 64) -> np.ndarray:
        """Compute the logits, `[texts, classes]`; for a text in windows the mean of its windows."""
        texts = list(texts)
        if not texts:
            return np.zeros((0, self.model.output[_OUTPUT].shape[-1]), "float32")
        pairs = None
        if not isinstance(texts[0], str):
            texts, pairs = zip(*texts, strict=True)
        self._check_form(pairs is not None)
        tokenized, owners, notes = self.tokenize(list(texts), None if pairs is None else list(pairs))
        for note in notes:
            warnings.warn(f"{note}; long_texts='windows' reads them whole", stacklevel=2)
        return mean_by_owner(self.outputs(tokenized, batch_size=batch_size)[_OUTPUT], owners)

    def evaluate(self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None) -> Report:
        """Measure on labelled examples, in any form that `fit` takes.

        Returns:
            A report that prints as a table: `ClassificationReport`, `MultilabelReport` or `RegressionReport`.
        """
        data = self.prepare(x, y, **(columns or {}))
        self._check_form(data.tokenized.has_pairs)
        return self.report(self.outputs(data.tokenized), data)

    def _check_form(self, has_pairs: bool) -> None:
        """Raise an error for single texts if it was trained on pairs, or the other way round."""
        if self.pairs is None or self.pairs == has_pairs:
            return
        if self.pairs:
            raise ValueError(
                "These are single texts, but this classifier was trained on pairs of texts; pass pairs: "
                "[(first, second), …], or for a file columns={'pair': …}, the column of the second text."
            )
        raise ValueError(
            "These are pairs of texts, but this classifier was trained on single texts; pass single texts, or fit it "
            "on pairs."
        )

    # === Task definition ===

    trains_packed = True

    def begin_fit(self, train: PreparedData, validation: PreparedData | None, metric: str) -> None:
        super().begin_fit(train, validation, metric)
        _check_same_form(train, validation)

    def end_fit(
        self,
        train: PreparedData,
        validation: PreparedData | None,
        metric: str,
        *,
        report: FinetuneReport | None = None,
        outputs: Callable[[PreparedData], dict[str, np.ndarray]] | None = None,
    ) -> None:
        self.pairs = train.tokenized.has_pairs

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        classes = self.model.output[_OUTPUT].shape[-1]
        return bert_model(
            None,
            "classification",
            num_classes=classes,
            classifier_dropout=classifier_dropout,
            encoder=encoder,
            seed=seed,
        )

    def losses(self) -> dict[str, keras.losses.Loss]:
        reduction = "mean_with_sample_weight"
        if self.kind == "regression":
            return {_OUTPUT: keras.losses.MeanSquaredError(reduction=reduction)}
        if self.kind == "multi_label":
            return {_OUTPUT: keras.losses.BinaryCrossentropy(from_logits=True, reduction=reduction)}
        return {_OUTPUT: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)}

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedData:
        rows = as_rows(x, y, numeric=self.kind == "regression", **columns)
        labels = np.stack([self._encode(example) for example in rows])
        pairs: Any = rows.pairs if rows.has_pairs else None
        tokenized, owners, notes = self.tokenize(rows.texts, pairs)
        if rows.report.dropped:
            notes = (str(rows.report), *notes)
        weights = self._weights(labels, class_weight)
        if len(owners) != len(rows):  # the windows of a text together count as one text
            share = (1.0 / np.bincount(owners))[owners].astype("float32")
            weights = share if weights is None else weights[owners] * share
            labels = labels[owners]
        return PreparedData(tokenized, labels, weights, owners, notes)

    def check_training(self, data: PreparedData) -> None:
        super().check_training(data)
        if self.kind == "single_label":
            labels: Any = data.labels
            check_not_constant(labels, self._labels or (), data.num_examples)

    def _encode(self, example: Example) -> np.ndarray:
        """A label as the loss takes it."""
        label: Any = example.label
        place, classes = f"Row {example.row}", self._labels or ()
        if label is None:
            raise ValueError(f"{place} ({example.text[:40]!r}) has no label; expected one for every text.")
        if self.kind == "regression":
            try:
                return np.asarray([label], "float32").reshape(1)
            except (TypeError, ValueError):
                raise ValueError(f"{place} has the label {label!r}; regression expects a number.") from None
        if self.kind == "multi_label":
            names = (label,) if isinstance(label, (str, int)) else label
            hot = np.zeros(len(classes), "float32")
            hot[[find_class(name, classes, place) for name in names]] = 1.0
            return hot
        return np.asarray(find_class(label, classes, place), "int32")

    def _weights(self, labels: np.ndarray, class_weight: Any) -> np.ndarray | None:
        if class_weight is not None and self.kind != "single_label":
            raise ValueError(f"class_weight is for single_label, not for {self.kind}; leave it out.")
        return weigh_classes(labels, self._labels or (), class_weight)

    def report(self, outputs: dict[str, np.ndarray], data: PreparedData) -> Report:
        """Measure outputs on labelled data."""
        logits: Any = mean_by_owner(outputs[_OUTPUT], data.owners)
        labels = self._labels_by_owner(data)
        if self.kind == "regression":
            return regression_report(labels[:, 0], logits[:, 0])
        if self.kind == "multi_label":
            found: Any = (sigmoid(logits) >= 0.5).astype(int)
            return multilabel_report(labels.astype(int), found, names=self._labels or ())
        return classification_report(labels, logits.argmax(-1), names=self._labels)

    def check_metric(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> None:
        self._value(outputs, data, metric)

    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        labels: Any = data.labels
        logits, value = outputs[_OUTPUT], self._value(outputs, data, metric)
        if self.kind == "regression":
            degenerate = bool(np.ptp(logits) < 1e-3)
        elif self.kind == "multi_label":
            degenerate = bool(np.all((logits >= 0) == (logits[:1] >= 0)))
        else:
            degenerate = len(np.unique(logits.argmax(-1))) == 1 and len(np.unique(labels)) > 1
        # An undefined value (a correlation with a constant) counts as the worst.
        return Score(-1.0 if value is None else float(value), degenerate, {"val_loss": self._mean_loss(outputs, data)})

    def _value(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> float | None:
        """The value of a metric; `None` if it is undefined."""
        if metric == "accuracy" and self.kind == "single_label":  # the default needs no extra package
            logits = mean_by_owner(outputs[_OUTPUT], data.owners)
            return float(np.mean(logits.argmax(-1) == self._labels_by_owner(data)))
        numbers = self.report(outputs, data).to_dict()
        flat = {f"{part}_f1": numbers[part]["f1"] for part in ("micro", "macro", "weighted") if part in numbers}
        if self.kind == "single_label" and len(self._labels or ()) == 2:
            flat["f1"] = numbers["classes"][1]["f1"]
        numbers.pop("mse", None)  # lower is better
        flat |= {name: value for name, value in numbers.items() if value is None or isinstance(value, float)}
        if metric not in flat:
            raise ValueError(f"metric={metric!r} is unknown for {self.kind}; choose one of {', '.join(flat)}.")
        return flat[metric]

    @staticmethod
    def _labels_by_owner(data: PreparedData) -> Any:
        labels: Any = data.labels
        return labels[np.unique(data.owners, return_index=True)[1]]

    def _mean_loss(self, outputs: dict[str, np.ndarray], data: PreparedData) -> float:
        loss = self.losses()[_OUTPUT](data.labels, outputs[_OUTPUT])
        return float(loss)

    # === Directories ===

    def add_files(self, directory: Path) -> None:
        # transformers chooses the loss and the pipeline's activation by this.
        path = directory / "config.json"
        write_json(path, {**read_json(path), "problem_type": PROBLEM_TYPES[self.kind]})

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind} if self.pairs is None else {"kind": self.kind, "pairs": self.pairs}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        labels = None if settings["kind"] == "regression" else load_labels(directory)
        return {**settings, "labels": labels}


def _read_kind(directory: Path) -> dict[str, Any]:
    """The kind of a directory's classifier, from the task's settings or from the checkpoint's config."""
    settings = read_settings(directory) if (directory / SETTINGS).is_file() else {}
    settings = settings.get("wraps", settings)  # a zero-shot classifier wraps one
    kind = settings.get("kind") or open_checkpoint(directory).settings.kind
    return {"kind": kind, "pairs": settings.get("pairs")}


def _check_same_form(train: PreparedData, check: PreparedData | None) -> None:
    words = {True: "pairs of texts", False: "single texts"}
    if check is not None and train.tokenized.has_pairs != check.tokenized.has_pairs:
        raise ValueError(
            f"The training data has {words[train.tokenized.has_pairs]}, the validation data "
            f"{words[check.tokenized.has_pairs]}; expected the same form in both."
        )
