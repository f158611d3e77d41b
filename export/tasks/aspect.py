"""Export aspect sentiment: pairs of a sentence and an aspect, answered with a polarity."""

import os
from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, GuideInput, ServedTask
from export.tasks.base.examples import PROBES, Examples, read_texts
from export.tasks.base.reader import split_pairs
from export.tasks.base.registry import register_export
from export.tasks.base.settings import Setting
from export.tasks.classification import (
    LabelReader,
    ServedClasses,
    class_answers,
    class_logits,
    class_probabilities,
    class_ranking,
    class_tensors,
)
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import AspectPolarity


class AspectReader(LabelReader):
    """Reads pairs of a sentence and an aspect; answers with polarities."""

    pairs_alone = True
    sample = ("a", "a")

    def prepare(self, inputs: list[Any]) -> PreparedData:
        if split_pairs(inputs)[1] is None:
            raise TypeError(f"There is no aspect for {str(inputs[0])[:40]!r}; expected pairs (sentence, aspect).")
        return super().prepare(inputs)

    def answers(  # type: ignore[override]  # it has no options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]
    ) -> list[AspectPolarity]:
        ranked = super().answers(outputs, data, inputs)
        return [
            AspectPolarity(aspect, labels[0].name, labels[0].probability)
            for (_, aspect), labels in zip(inputs, ranked, strict=True)
        ]

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        return float(np.mean([ours.label == theirs.label for ours, theirs in zip(answers, others, strict=True)]))


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    from keras_bert.tasks.classification.aspect_files import read_aspects

    if isinstance(x, str | os.PathLike):
        x, columns = read_aspects(x, **columns), {}
    return read_texts(task, [(text, "it") for text in PROBES] if x is None else x, y, **columns)


def _label_texts(teacher: Any, pairs: list[Any]) -> tuple[list[Any], list[str]]:
    return pairs, [answer.label for answer in teacher.predict(pairs)]


class ServedPolarities(ServedClasses):
    """Answers pairs of a sentence and an aspect."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Pairs alone."""
        return ("pairs",)

    @property
    def options(self) -> dict[str, Setting]:  # type: ignore[override]
        """None: an aspect has one polarity."""
        return {}


_GUIDE = GuideInput(
    '[("Great pizza, slow service.", "pizza")]', '{"text": "Great pizza, slow service.", "pair": "pizza"}'
)

register_export(
    ExportedTask(
        name="aspect",
        reader=AspectReader,
        in_graph=class_tensors,
        from_task=class_probabilities,
        to_task=class_logits,
        class_output="class_logits",
        read_examples=_read_examples,
        label_texts=_label_texts,
        served=ServedTask(class_answers, class_ranking, forms=("pairs",)),
        served_file=ServedPolarities,
        guide=lambda task: _GUIDE,
    )
)
