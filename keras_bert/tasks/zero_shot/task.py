"""Zero-shot classification: choose among labels that no model was trained on.

`ZeroShotClassifier` turns each label into a sentence ("This text is about sport."), and asks another task: a
`TextClassifier` for entailment whether the text says so, or a `SentenceEmbedder` how similar the two are, which needs
no fine-tuning. The template can be in any language of the model.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoint import load_labels
from keras_bert.checkpoint.hub import find_directory
from keras_bert.data.inputs import as_rows
from keras_bert.decoding.labels import Label, sigmoid, softmax, sort_labels
from keras_bert.evaluation.reports import ClassificationReport, classification_report
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.tasks.base.class_labels import check_labels
from keras_bert.tasks.base.saved_tasks import SETTINGS, read_settings
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.similarity.task import SentenceEmbedder

TEMPLATE = "This text is about {}."
METHODS: dict[str, type[TextClassifier] | type[SentenceEmbedder]] = {
    "entailment": TextClassifier,
    "similarity": SentenceEmbedder,
}
_ENTAILMENT = re.compile(r"entail(s|ed|ment)?")
_CONTRADICTION = re.compile(r"contradict(s|ed|ion)?")


class ZeroShotClassifier:
    """A classifier whose classes are named at prediction time.

    Args:
        task: A `TextClassifier` with a class for entailment (by which `method` is `"entailment"`), or a
            `SentenceEmbedder` (`"similarity"`).
        labels: The default labels of `predict`.
        template: The sentence for a label, with `{}` in its place.
        temperature: For similarity: cosines are divided by it before softmax.

    Example:
        ```python
        classifier = ZeroShotClassifier.from_pretrained("all-MiniLM-L6-v2")
        classifier.predict("The striker scored twice.", labels=["sport", "politics"])[0]  # the likeliest label
        ```
    """

    name = "zero_shot"

    def __init__(
        self,
        task: TextClassifier | SentenceEmbedder,
        *,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        template: str = TEMPLATE,
        temperature: float = 0.05,
    ):
        found = [method for method, kind in METHODS.items() if isinstance(task, kind)]
        if not found:
            raise TypeError(f"task is a {type(task).__name__}; expected a TextClassifier or a SentenceEmbedder.")
        if not temperature > 0:
            raise ValueError(f"temperature={temperature!r}: expected a number above 0, such as 0.05.")
        self.task, self.method, self.temperature = task, found[0], temperature
        self.template = _check_template(template)
        self._words = None if labels is None else _check_words(labels)
        if self.method == "entailment":
            self._entailment = _find_class(task.labels or [], _ENTAILMENT)
            self._contradiction = _find_class(task.labels or [], _CONTRADICTION)
            if self._entailment is None:
                raise ValueError(
                    f"None of the classes {task.labels} is entailment; expected a classifier that was trained on pairs "
                    "such as those of MNLI or RTE. Use method='similarity' with a model for sentences."
                )

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike[str],
        *,
        method: str = "auto",
        labels: Sequence[str] | Mapping[str, str] | None = None,
        template: str | None = None,
        temperature: float = 0.05,
        **kwargs: Any,
    ) -> "ZeroShotClassifier":
        """Make a classifier from pretrained weights, a saved classifier for entailment, or a saved sentence embedder.

        Args:
            directory_or_name: A model directory, or the name of a model.
            method: `"entailment"`, `"similarity"`, or `"auto"`: entailment if the directory has a class for it.
            labels: The default labels of `predict`; a dictionary has the words of a label in the template, e.g.
                `{"GetWeather": "the weather"}`.
            template: The sentence for a label; `None` is `"This text is about {}."`.
            temperature: For similarity, see the class.
            kwargs: Settings of the wrapped task, e.g. `sequence_length`.
        """
        if method not in ("auto", *METHODS):
            raise ValueError(f"method={method!r}: expected 'auto', 'entailment' or 'similarity'.")
        directory = find_directory(directory_or_name)
        saved = read_settings(directory)["task"] if (directory / SETTINGS).is_file() else None
        if saved == cls.name:
            return cls._from_saved(directory, method, labels, template)
        if method == "auto":
            is_nli = _find_class(load_labels(directory) or [], _ENTAILMENT) is not None
            method = "entailment" if is_nli else "similarity"
        kind = METHODS[method]
        task = kind.load(directory) if saved == kind.name and not kwargs else kind.from_pretrained(directory, **kwargs)
        return cls(task, labels=labels, template=template or TEMPLATE, temperature=temperature)

    @classmethod
    def _from_saved(
        cls,
        directory: Path,
        method: str,
        labels: Sequence[str] | Mapping[str, str] | None,
        template: str | None,
    ) -> "ZeroShotClassifier":
        classifier = cls.load(directory)
        if method not in ("auto", classifier.method):
            raise ValueError(
                f"{directory} is a classifier by {classifier.method}, not by {method}; pass method='auto'."
            )
        classifier.template = _check_template(template or classifier.template)
        classifier._words = classifier._words if labels is None else _check_words(labels)
        return classifier

    @property
    def labels(self) -> list[str] | None:
        """The default labels of `predict`."""
        return None if self._words is None else list(self._words)

    # === Training ===

    def fit(self, x: Any, y: Any = None, **options: Any) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune the wrapped task: a classifier on pairs with their classes (entailment …), an embedder on pairs.

        Args:
            x, y, options: As for `TextClassifier.fit` or `SentenceEmbedder.fit`.
        """
        return self.task.fit(x, y, **options)

    # === Answers ===

    def predict(
        self,
        texts: Any,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        *,
        template: str | None = None,
        multi_label: bool = False,
        batch_size: int = 64,
    ) -> list[Any]:
        """Rank the labels by probability, the most likely first.

        Args:
            texts: Strings. One string gives one answer.
            labels: The labels to choose from; `None` uses the default labels.
            template: The sentence for a label; `None` uses the classifier's own.
            multi_label: Whether several labels may be right: each then has a probability by itself. By entailment it is
                relative to contradiction; by similarity it is the probability that the text is nearer to the template
                with the label than to the empty template. The latter is rough: the order is good, but many wrong labels
                have more than one half.
            batch_size: Texts per batch.

        Returns:
            For each text a list of `Label` with all labels.
        """
        if isinstance(texts, str):
            return self.predict([texts], labels, template=template, multi_label=multi_label, batch_size=batch_size)[0]
        names, probabilities = self._probabilities(list(texts), labels, template, multi_label, batch_size)
        ranked: list[list[Label]] = [sort_labels(row, names) for row in probabilities]
        return ranked

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        template: str | None = None,
        columns: dict[str, Any] | None = None,
    ) -> ClassificationReport:
        """Measure accuracy and F1 on labelled texts, in any form that `TextClassifier` takes.

        Args:
            x: Texts, rows, a dataset or the path of a file.
            y: The labels of texts.
            labels: The labels to choose from; `None` uses the default labels, or those of the data.
            template: The sentence for a label; `None` uses the classifier's own.
            columns: Columns of a file, as for `Task.fit`.
        """
        rows = as_rows(x, y, **(columns or {}))
        wrong = [row.row for row in rows if not isinstance(row.label, str | int) or row.pair is not None]
        if wrong:
            raise ValueError(
                f"Row {wrong[0]} has a second text, or not exactly one label; expected one text and one label."
            )
        true = [str(label) for label in rows.labels]
        words = self._words if labels is None else _check_words(labels)
        words = words or _check_words(sorted(set(true)))
        names, probabilities = self._probabilities(rows.texts, words, template, False, 64)
        return classification_report(true, [names[place] for place in probabilities.argmax(-1)], names=names)

    def _probabilities(
        self,
        texts: list[str],
        labels: Sequence[str] | Mapping[str, str] | None,
        template: str | None,
        multi_label: bool,
        batch_size: int,
    ) -> tuple[list[str], np.ndarray]:
        """The names of the labels, and probabilities `[texts, labels]`."""
        words = self._words if labels is None else _check_words(labels)
        if words is None:
            raise ValueError(
                "There are no labels to choose from; pass labels=[…] to predict() or to from_pretrained()."
            )
        template = self.template if template is None else _check_template(template)
        if not texts:
            return list(words), np.zeros((0, len(words)))
        sentences = [template.format(word) for word in words.values()]
        if self.method == "entailment":
            scores = self._entailed(texts, sentences, multi_label, batch_size)
        else:
            scores = self._near(texts, sentences, template.format("") if multi_label else None, batch_size)
        return list(words), (sigmoid if multi_label else softmax)(scores.astype(np.float64))

    def _entailed(self, texts: list[str], sentences: list[str], multi_label: bool, batch_size: int) -> np.ndarray:
        pairs = [(text, sentence) for text in texts for sentence in sentences]
        classifier: Any = self.task
        entailment: Any = self._entailment
        logits = classifier.logits(pairs, batch_size=batch_size)
        chosen = logits[:, entailment]
        others = np.delete(logits, entailment, axis=1)
        if multi_label and self._contradiction is not None:
            chosen = chosen - logits[:, self._contradiction]
        elif multi_label or others.shape[1] == 1:
            # With two classes only the difference counts: both logits may shift together from pair to pair.
            top = others.max(axis=1)
            chosen = chosen - (top + np.log(np.exp(others - top[:, None]).sum(axis=1)))
        return chosen.reshape(len(texts), len(sentences))

    def _near(self, texts: list[str], sentences: list[str], nothing: str | None, batch_size: int) -> np.ndarray:
        embedder: Any = self.task
        cosines = embedder.similarity(texts, sentences, batch_size=batch_size)
        if nothing is not None:
            cosines = cosines - embedder.similarity(texts, [nothing], batch_size=batch_size)
        return cosines / self.temperature

    # === Directories ===

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the wrapped task, with labels and template, to a directory."""
        settings = {
            "task": self.name,
            "wraps": self.task.all_settings(),
            "labels": self._words,
            "template": self.template,
            "temperature": self.temperature,
        }
        self.task._save(directory, settings)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "ZeroShotClassifier":
        """Open what `save` wrote."""
        settings = read_settings(directory)
        if settings.pop("task") != cls.name:
            raise ValueError(f"{directory} is another task; open it with load_task, or wrap it with from_pretrained.")
        kinds = {kind.name: kind for kind in METHODS.values()}
        try:
            wrapped = settings.pop("wraps")
            return cls(kinds[wrapped.pop("task")].from_directory(directory, wrapped), **settings)
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(
                f"{Path(directory) / SETTINGS} has settings that {cls.__name__} cannot use ({error}); copy the "
                "directory again, or save the task again."
            ) from error


def _find_class(labels: Sequence[str], pattern: re.Pattern[str]) -> int | None:
    """The index of the class that matches a pattern in any spelling; `not_entailment` does not match entailment."""
    for place, label in enumerate(labels):
        if pattern.fullmatch(re.sub(r"[\W_]", "", label.lower())):
            return place
    return None


def _check_template(template: str) -> str:
    # A saved task may come from anywhere: a width such as {:>1000000000} would take its bytes, and names would look
    # into the text's class.
    try:
        fields = [tuple(field) for _, *field in Formatter().parse(template) if field[0] is not None]
    except (TypeError, ValueError):
        fields = []
    if fields != [("", "", None)] and set(fields) != {("0", "", None)}:
        raise ValueError(f"template={template!r}: expected a sentence with {{}} in the place of the label.")
    return template


def _check_words(labels: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """The words of each label."""
    names = check_labels(list(labels) if isinstance(labels, Mapping) else labels, "single_label")
    words = [str(labels[name]) for name in labels] if isinstance(labels, Mapping) else names
    return dict(zip(names, words, strict=True))
