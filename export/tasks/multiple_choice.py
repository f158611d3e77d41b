"""Export multiple choice: a context with choices, answered with the choices in order."""

from dataclasses import replace
from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, GuideInput, ServedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import Choice, rank_choices
from keras_bert.tasks.multiple_choice.files import as_choices, is_question
from keras_bert.text.tokenized_texts import tokenize_texts

# === The device ===


class ChoiceReader(Reader):
    """Reads contexts with their choices; answers with the choices, the likeliest first. Each choice is a row.

    The file gives one score for a row. The app knows how many choices there are, and takes the softmax over them.
    """

    outputs = ("class_logits",)
    sample = ("a", ["a", "b"])

    def inputs(self, context: Any, choices: Any = None) -> tuple[list[Any], bool]:
        if isinstance(context, str):
            if choices is None or isinstance(choices, str):
                raise TypeError("There are no choices; expected (context, [choice, …]), or a list of such.")
            return [(context, list(choices))], True
        if choices is not None:
            raise TypeError("Got several contexts, and choices beside them; expected [(context, [choice, …]), …].")
        return ([context], True) if is_question(context) else (list(context), False)

    @classmethod
    def from_line(cls, line: str) -> tuple[str, list[str]]:
        context, *choices = line.split("\t")
        return context, choices

    def prepare(self, inputs: list[Any]) -> PreparedData:
        questions = as_choices(inputs)
        pairs = [(question.context, choice) for question in questions for choice in question.choices]
        rows, _ = tokenize_texts(self.tokenizer, *map(list, zip(*pairs, strict=True))).trimmed_first(
            self.sequence_length
        )
        owners = np.repeat(np.arange(len(questions)), [len(question.choices) for question in questions])
        return PreparedData(rows, None, None, owners)

    def answers(  # type: ignore[override]  # it has no options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]
    ) -> list[list[Choice]]:
        scores = outputs["class_logits"]
        if scores.shape[1:] != (1,):
            raise ValueError(
                f"The file gives scores of shape {scores.shape[1:]} for a choice; expected (1,). Export it again."
            )
        parts = np.split(scores[:, 0], np.cumsum(np.bincount(data.owners))[:-1])
        return [rank_choices(part, list(choices)) for part, (_, choices) in zip(parts, inputs, strict=True)]

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        return float(np.mean([ours[0].index == theirs[0].index for ours, theirs in zip(answers, others, strict=True)]))


# === Data ===


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    rows = as_choices([(text, list(PROBES[:3])) for text in PROBES] if x is None else x, y, **columns)
    known = all(question.label is not None for question in rows)
    return Examples([(question.context, list(question.choices)) for question in rows], rows if known else None)


def _label_texts(teacher: Any, questions: list[Any]) -> tuple[list[Any], list[int]]:
    return questions, [ranked[0].index for ranked in teacher.predict(questions)]


# === The servers ===


class ServedChoices(ServedFile):
    """Answers with a score for each pair of a context and a choice."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Pairs of a context and a choice."""
        return ("pairs",)

    def prepare(self, inputs: list[Any]) -> PreparedData:
        limit = self.reader.sequence_length
        contexts, choices = map(list, zip(*inputs, strict=True))
        second, _ = tokenize_texts(self.reader.tokenizer, choices).trimmed(limit - 1)  # beside [CLS] and two [SEP]
        rows = tokenize_texts(self.reader.tokenizer, contexts)
        rows = replace(rows, second_ids=second.first_ids, second_splits=second.first_splits)
        return PreparedData(rows.trimmed_first(limit)[0], None, None, np.arange(len(rows)))

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        return {"score": list(outputs["class_logits"][:, 0]), "truncated": self.truncated(data, inputs)}

    def _read_named(self, given: dict[str, Any]) -> Any:
        if set(given) != {"context", "choices"}:
            raise ValueError("An input is an object with other names than expected: context, choices.")
        return given["context"], given["choices"]


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    return {"score": outputs["class_logits"][:, 0]}


def _serve(graph: Any, context: Any, choice: Any) -> dict[str, Any]:
    tensors, truncated = graph.pack_cutting_first(context, choice)
    return {**_served_answers(graph.task, graph.forward(tensors)), "truncated": truncated}


def _expected_scores(task: Any, contexts: list[str], choices: list[str]) -> dict[str, Any]:
    import tensorflow as tf

    limit = task.sequence_length
    second, _ = tokenize_texts(task.tokenizer, choices).trimmed(limit - 1)  # beside [CLS] and two [SEP]
    rows = tokenize_texts(task.tokenizer, contexts)
    rows = replace(rows, second_ids=second.first_ids, second_splits=second.first_splits)
    return {"score": tf.constant(task.outputs(rows.trimmed_first(limit)[0])["class_logits"][:, 0])}


_NOTES = (
    "A row is a context (`text`) with one choice (`pair`); the softmax over the scores of a question's choices gives "
    "their probabilities.",
)
_GUIDE = GuideInput('"She opens the umbrella.", ["It rains.", "It sings."]', None)

register_export(
    ExportedTask(
        name="multiple_choice",
        reader=ChoiceReader,
        read_examples=_read_examples,
        label_texts=_label_texts,
        served=ServedTask(
            _served_answers,
            forms=("pairs",),
            serve=_serve,
            expected=_expected_scores,
            rows=lambda given: [(given[0], choice) for choice in given[1]],
            notes=_NOTES,
        ),
        served_file=ServedChoices,
        guide=lambda task: _GUIDE,
    )
)
