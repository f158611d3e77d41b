"""Texts and labels that no model was trained for → which label fits.

`ZeroShotClassifier` turns each label into a sentence ("This text is about sport.") and asks a model that is there
already: one for entailment whether the text says it, or one for similarity how near the two are, which needs no tuning
at all. A room of its own because it is no model: it wraps a `TextClassifier` or a `SentenceEmbedder`, and its classes
come with the question. Any language that the model's vocabulary has will do: the template is the user's.
"""

import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.checkpoint import load_labels
from keras_bert.checkpoint.hub import find_directory
from keras_bert.data.inputs import as_rows
from keras_bert.decoding.labels import Label, sigmoid, softmax, sort_labels
from keras_bert.evaluation.reports import ClassificationReport, classification_report
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
    """A classifier whose classes are named when it is asked.

    Args:
        task: A `TextClassifier` with a class for entailment (by which `method` is `"entailment"`), or a
            `SentenceEmbedder` (`"similarity"`).
        labels: The labels to choose from where `predict` is given none.
        template: What is made of a label, with `{}` where it stands.
        temperature: Of similarity: what cosines are divided by before softmax.

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
            raise ValueError(f"temperature={temperature!r}: expected a number over 0, such as 0.05.")
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
        directory_or_name: str | os.PathLike,
        *,
        method: str = "auto",
        labels: Sequence[str] | Mapping[str, str] | None = None,
        template: str | None = None,
        temperature: float = 0.05,
        **kwargs,
    ) -> "ZeroShotClassifier":
        """On pretrained weights, a saved classifier for entailment, or a saved sentence embedder.

        Args:
            directory_or_name: A model directory, or a name.
            method: `"entailment"`, `"similarity"`, or `"auto"`: entailment where the directory has a class for it.
            labels: The labels to choose from where `predict` is given none; a dictionary says by which words a label
                stands in the template, e.g. `{"GetWeather": "the weather"}`.
            template: What is made of a label; `None` is `"This text is about {}."`.
            temperature: Of similarity.
            kwargs: Settings of what is wrapped, e.g. `sequence_length`.
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
    def _from_saved(cls, directory, method, labels, template):
        classifier = cls.load(directory)
        if method not in ("auto", classifier.method):
            raise ValueError(f"{directory} holds a classifier by {classifier.method}, not by {method}.")
        classifier.template = _check_template(template or classifier.template)
        classifier._words = classifier._words if labels is None else _check_words(labels)
        return classifier

    @property
    def labels(self) -> list[str] | None:
        """The labels to choose from where `predict` is given none."""
        return None if self._words is None else list(self._words)

    # === Training ===

    def fit(self, x, y=None, **options):
        """Fine-tune what is wrapped: a classifier on pairs with their classes (entailment …), an embedder on pairs.

        Args:
            x, y, options: As for `TextClassifier.fit` or `SentenceEmbedder.fit`.
        """
        return self.task.fit(x, y, **options)

    # === Answers ===

    def predict(
        self,
        texts,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        *,
        template: str | None = None,
        multi_label: bool = False,
        batch_size: int = 64,
    ) -> list:
        """The labels with their probabilities, the likeliest first.

        Args:
            texts: Strings. One string gives one answer.
            labels: The labels to choose from; `None` takes the classifier's own.
            template: Instead of the classifier's own.
            multi_label: Whether several labels may hold at once: each then has a probability by itself. By entailment
                it is that against contradiction; by similarity, that the text is nearer to the template with the label
                than to the template with nothing in it, which is rough: a good order, and many wrong labels over one
                half.
            batch_size: Texts at a time.

        Returns:
            For each text a list of `Label`, all of them.
        """
        if isinstance(texts, str):
            return self.predict([texts], labels, template=template, multi_label=multi_label, batch_size=batch_size)[0]
        names, probabilities = self._probabilities(list(texts), labels, template, multi_label, batch_size)
        ranked: list[list[Label]] = [sort_labels(row, names) for row in probabilities]
        return ranked

    def evaluate(
        self,
        x,
        y=None,
        *,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        template: str | None = None,
        columns: dict | None = None,
    ) -> ClassificationReport:
        """Accuracy and F1 on labelled texts, in any form that `TextClassifier` takes.

        Args:
            x: Texts, rows, a dataset or the path of a file.
            y: The labels of texts.
            labels: The labels to choose from; `None` takes the classifier's own, or else those of the data.
            template: Instead of the classifier's own.
            columns: Columns of a file, as for `Task.fit`.
        """
        rows = as_rows(x, y, **(columns or {}))
        wrong = [row.row for row in rows if not isinstance(row.label, str | int) or row.pair is not None]
        if wrong:
            raise ValueError(f"Row {wrong[0]} has a second text, or not one label; expected texts with a label each.")
        true = [str(label) for label in rows.labels]
        words = self._words if labels is None else _check_words(labels)
        words = words or _check_words(sorted(set(true)))
        names, probabilities = self._probabilities(rows.texts, words, template, False, 64)
        return classification_report(true, [names[place] for place in probabilities.argmax(-1)], names=names)

    def _probabilities(self, texts, labels, template, multi_label, batch_size):
        """The names of the labels, and `[texts, labels]`."""
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

    def _entailed(self, texts, sentences, multi_label, batch_size):
        pairs = [(text, sentence) for text in texts for sentence in sentences]
        logits = self.task.logits(pairs, batch_size=batch_size)
        chosen = logits[:, self._entailment]
        others = np.delete(logits, self._entailment, axis=1)
        if multi_label and self._contradiction is not None:
            chosen = chosen - logits[:, self._contradiction]
        elif multi_label or others.shape[1] == 1:
            # Of two classes the difference counts: both numbers may move together from pair to pair.
            top = others.max(axis=1)
            chosen = chosen - (top + np.log(np.exp(others - top[:, None]).sum(axis=1)))
        return chosen.reshape(len(texts), len(sentences))

    def _near(self, texts, sentences, nothing, batch_size):
        cosines = self.task.similarity(texts, sentences, batch_size=batch_size)
        if nothing is not None:
            cosines = cosines - self.task.similarity(texts, [nothing], batch_size=batch_size)
        return cosines / self.temperature

    # === Directories ===

    def save(self, directory: str | os.PathLike) -> None:
        """Write what is wrapped, and with it labels and template."""
        settings = {
            "task": self.name,
            "wraps": self.task.all_settings(),
            "labels": self._words,
            "template": self.template,
            "temperature": self.temperature,
        }
        self.task._save(directory, settings)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "ZeroShotClassifier":
        """Open what `save` wrote."""
        settings = read_settings(directory)
        if settings.pop("task") != cls.name:
            raise ValueError(f"{directory} holds another task; open it with load_task, or wrap it by from_pretrained.")
        wrapped = settings.pop("wraps")
        kinds = {kind.name: kind for kind in METHODS.values()}
        return cls(kinds[wrapped.pop("task")].from_directory(directory, wrapped), **settings)


def _find_class(labels, pattern):
    """The place of the class that a pattern names, however it is spelt; `not_entailment` is none."""
    for place, label in enumerate(labels):
        if pattern.fullmatch(re.sub(r"[\W_]", "", label.lower())):
            return place
    return None


def _check_template(template):
    try:
        said = {template.format(word) for word in ("a", "b")}
    except (IndexError, KeyError, ValueError):
        said = {}
    if len(said) != 2:
        raise ValueError(f"template={template!r}: expected a sentence with {{}} where the label stands.")
    return template


def _check_words(labels):
    """The words of each label."""
    names = check_labels(list(labels) if isinstance(labels, Mapping) else labels, "single_label")
    words = [str(labels[name]) for name in labels] if isinstance(labels, Mapping) else names
    return dict(zip(names, words, strict=True))
