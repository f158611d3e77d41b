"""Relation classification: the relation between two entities of a text.

`RelationClassifier` puts marker tokens around both entities, and classifies the states of [CLS] and of the two markers
before the entities.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_labels
from keras_bert.decoding import rank_labels
from keras_bert.finetuning.best_weights import Score
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.class_labels import check_labels, check_not_constant, find_class, weigh_classes
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.relation.files import as_relation_rows, marked_or_error
from keras_bert.tasks.relation.marked_text import MarkedText, is_marked_form
from keras_bert.tasks.relation.metrics import NEGATIVE, RelationReport, relation_report
from keras_bert.tasks.relation.rows import SPECIAL_TOKENS, choose_markers, pack_marked
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts

_OUTPUT, _STATES = "relation_logits", "relation_states"


class RelationClassifier(Task):
    """BERT for the relation between two entities of a text.

    Args:
        model: A model with `relation_logits`, from `bert_model(…, "relation")`.
        tokenizer: Its tokenizer.
        labels: The names of the relations, in the order of the logits. Those that have a direction end in `(e1,e2)` or
            `(e2,e1)`.
        markers: The four tokens around the entities, from `choose_markers`; `None` chooses them.
        negative_label: The label of texts without a relation, which the metric leaves out; `None` if every
            label counts. The default is `"Other"`, if it is among the labels.
        kwargs: As for `Task`: `sequence_length`. A longer text is cut around its entities.

    Example:
        ```python
        rows = read_relations("TRAIN_FILE.TXT")
        classifier = RelationClassifier.from_pretrained("all-MiniLM-L6-v2", labels=rows.label_names)
        print(classifier.fit(rows, learning_rate=1e-4, epochs=5))
        classifier.predict("The <e1>lid</e1> of a <e2>jar</e2>.")[0]  # Label('Component-Whole(e1,e2)', 0.97)
        classifier.save("relations")
        ```
    """

    name = "relation"
    default_metric = "macro_f1"
    trains_packed = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        labels: Sequence[str],
        markers: Sequence[str] | None = None,
        negative_label: str | None = NEGATIVE,
        long_texts: str = "cut",
        **kwargs: Any,
    ):
        super().__init__(model, tokenizer, long_texts=long_texts, **kwargs)
        if long_texts != "cut":
            raise ValueError(f"long_texts={long_texts!r}: a text is cut around its two entities; expected 'cut'.")
        if self.sequence_length < SPECIAL_TOKENS + 2:
            raise ValueError(f"sequence_length={self.sequence_length}: expected at least {SPECIAL_TOKENS + 2} tokens.")
        self._labels = check_labels(labels, "single_label")
        if negative_label is not None and negative_label not in self._labels:
            if negative_label != NEGATIVE:
                raise ValueError(f"negative_label={negative_label!r}: expected one of the labels {list(self._labels)}.")
            negative_label = None
        self.negative_label = negative_label
        self.markers = tuple(choose_markers(tokenizer) if markers is None else markers)
        self._check_model(model)

    def _check_model(self, model: keras.Model) -> None:
        if _OUTPUT not in model.output:
            raise ValueError(f"The model gives {', '.join(model.output)}; expected {_OUTPUT}: see bert_model.")
        classes = model.output[_OUTPUT].shape[-1]
        if classes != len(self._labels):
            raise ValueError(f"The model has {classes} outputs, but there are {len(self._labels)} labels.")
        looked_for = model.get_layer(_STATES).marker_ids
        if len(set(self.markers)) != 4 or looked_for != self.marker_ids:
            raise ValueError(
                f"markers={self.markers}: expected four different tokens, of which the first and the third have the "
                f"ids {looked_for} that the model uses."
            )

    @classmethod
    def from_pretrained(
        cls, directory_or_name: str | os.PathLike[str], *, labels: Sequence[str], seed: int = 0, **kwargs: Any
    ) -> "RelationClassifier":
        """Make a classifier with pretrained weights and a new head. `load` opens a trained one.

        Args:
            directory_or_name: A model directory, or the name of a model.
            labels: The names of the relations; `read_relations(path).label_names` lists those of a file.
            seed: Random seed of the new head.
            kwargs: `markers`, `negative_label`, `sequence_length`.
        """
        labels = check_labels(labels, "single_label")
        encoder, tokenizer = cls.load_parts(directory_or_name, seed)
        markers = tuple(kwargs.pop("markers", None) or choose_markers(tokenizer))
        ids = [tokenizer.token_to_id(marker) for marker in markers[::2]]
        model = bert_model(None, "relation", num_classes=len(labels), marker_ids=ids, encoder=encoder, seed=seed)
        return cls(model, tokenizer, labels=labels, markers=markers, fresh_heads=True, **kwargs)

    @property
    def labels(self) -> list[str]:
        """The relations, in the order of the logits."""
        return list(self._labels)

    @property
    def marker_ids(self) -> tuple[int, int]:
        """The ids of the tokens before the first and the second entity."""
        first, _, second, _ = self.markers
        return self.tokenizer.token_to_id(first), self.tokenizer.token_to_id(second)

    # === Answers ===

    def predict(self, texts: Any, *, batch_size: int = 64) -> Any:
        """Predict relations with their probabilities.

        Args:
            texts: Strings with tags (`A <e1>lid</e1> of a <e2>jar</e2>.`), `MarkedText`s, or `(text, first, second)`,
                where an entity is `(start, end)` or an `Entity` from an `EntityTagger`. One text gives one answer.
            batch_size: Texts per batch.

        Returns:
            For each text a list of `Label`, all relations, the most likely first.
        """
        if is_marked_form(texts):
            return self.predict([texts], batch_size=batch_size)[0]
        return [rank_labels(row, self._labels) for row in self.logits(texts, batch_size=batch_size)]

    def logits(self, texts: Any, *, batch_size: int = 64) -> np.ndarray:
        """Compute the logits, `[texts, relations]`."""
        marked = [marked_or_error(text, number) for number, text in enumerate(texts, 1)]
        if not marked:
            return np.zeros((0, len(self._labels)), "float32")
        tokenized, notes = self.pack(marked)
        for note in notes:
            warnings.warn(note, stacklevel=2)
        return self.outputs(tokenized, batch_size=batch_size)[_OUTPUT]

    def evaluate(self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None) -> RelationReport:
        """Measure on labelled texts, in any form that `fit` takes."""
        data = self.prepare(x, y, **(columns or {}))
        report = self.report(self.outputs(data.tokenized), data)
        return replace(report, notes=(*report.notes, *data.notes))

    # === Task definition ===

    def build_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        marker_ids: Sequence[int] | None = None,
    ) -> keras.Model:
        return bert_model(
            None,
            "relation",
            num_classes=len(self._labels),
            marker_ids=self.marker_ids if marker_ids is None else marker_ids,
            classifier_dropout=classifier_dropout,
            encoder=encoder,
            seed=seed,
        )

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        # Every training text has all markers, so the table of used ids has them too.
        ids = None if table is None else np.searchsorted(table, self.marker_ids).tolist()
        return self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed, marker_ids=ids)

    def losses(self) -> dict[str, keras.losses.Loss]:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return {_OUTPUT: loss}

    def pack(self, texts: Sequence[MarkedText]) -> tuple[TokenizedTexts, tuple[str, ...]]:
        """Tokenize marked texts into rows; gives the rows and notes on what was cut."""
        return pack_marked(self.tokenizer, texts, self.markers, sequence_length=self.sequence_length)

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedData:
        rows = as_relation_rows(x, y, **columns)
        unlabelled = next((example.row for example in rows if example.label is None), None)
        if unlabelled is not None:
            raise ValueError(f"Row {unlabelled} has no label; expected one for every text.")
        labels = [find_class(example.label, self._labels, f"Row {example.row}") for example in rows]
        labels = np.array(labels, np.int32)
        tokenized, notes = self.pack(rows.texts)
        if rows.report.dropped:
            notes = (str(rows.report), *notes)
        weights = weigh_classes(labels, self._labels, class_weight)
        return PreparedData(tokenized, labels, weights, np.arange(len(labels)), notes)

    def check_training(self, data: PreparedData) -> None:
        super().check_training(data)
        labels: Any = data.labels
        check_not_constant(labels, self._labels)

    def report(self, outputs: dict[str, np.ndarray], data: PreparedData) -> RelationReport:
        """Measure outputs on labelled data."""
        labels: Any = data.labels
        true, found = ([self._labels[index] for index in part] for part in (labels, outputs[_OUTPUT].argmax(-1)))
        return relation_report(true, found, negative_label=self.negative_label)

    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        report = self.report(outputs, data)
        numbers = {"macro_f1": report.macro.f1, "micro_f1": report.micro.f1, "accuracy": report.accuracy}
        if metric not in numbers:
            raise ValueError(f"metric={metric!r} is unknown for relations; choose one of {', '.join(numbers)}.")
        labels: Any = data.labels
        predicted = outputs[_OUTPUT].argmax(-1)
        degenerate = len(np.unique(predicted)) == 1 and len(np.unique(labels)) > 1
        loss = float(self.losses()[_OUTPUT](data.labels, outputs[_OUTPUT]))
        return Score(numbers[metric], degenerate, {"val_loss": loss})

    def settings(self) -> dict[str, Any]:
        return {"markers": list(self.markers), "negative_label": self.negative_label}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {**settings, "labels": load_labels(directory)}
