"""Export similarity: texts, answered with vectors."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, ServedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader, check_texts, cut_or_windows
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import COUNT, FLAG, Setting
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import mean_by_owner
from keras_bert.decoding.prompts import Prompts
from keras_bert.decoding.similarity import normalize_vectors
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts

# === The device ===

_LONGEST_PROMPT = 1000  # characters
_PROMPTS = Setting(
    lambda value: (
        value is None
        or (
            isinstance(value, dict)
            and all(isinstance(text, str) and len(text) < _LONGEST_PROMPT for text in value.values())
        )
    ),
    "an object of names and short texts",
)


class VectorReader(Reader):
    """Reads texts, with a prompt before each; answers with one float32 vector for each."""

    outputs = ("embedding",)
    expected = {
        **Reader.expected,
        "normalize": FLAG,
        "prompts": _PROMPTS,
        "default_prompt_name": Setting(lambda value: isinstance(value, str | None), "the name of a prompt"),
        "dimensions": Setting(lambda value: value is None or COUNT.allows(value), COUNT.words),
    }

    def check(self) -> None:
        self.prompts = Prompts(self.settings.get("prompts") or {}, self.settings.get("default_prompt_name"))

    def prepare(self, inputs: list[Any], prompt_name: str | None = None) -> PreparedData:
        """Turn texts into rows, with the default prompt before each or the one of a name."""
        check_texts(inputs)
        tokenized = tokenize_texts(self.tokenizer, self.prompts.add(inputs, prompt_name))
        return cut_or_windows(tokenized, self.sequence_length, self.settings.get("long_texts"))

    def answers(  # type: ignore[override]  # it has no options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]
    ) -> list[np.ndarray]:
        vectors = outputs["embedding"]
        pooled = mean_by_owner(vectors, data.owners)
        return list(normalize_vectors(pooled) if self.settings["normalize"] and len(pooled) < len(vectors) else pooled)

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        """The mean cosine between the answers of both."""
        return float(
            np.mean(np.sum(normalize_vectors(np.array(answers)) * normalize_vectors(np.array(others)), axis=-1))
        )

    @property
    def agreement_of(self) -> str:
        return "mean cosine"


# === The file ===


def _tensors(task: Any) -> dict[str, Any]:
    return {"embedding": task.model.output["sentence_embedding"]}  # the name that MediaPipe's TextEmbedder expects


def _from_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"embedding": outputs["sentence_embedding"]}


def _to_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"sentence_embedding": outputs["embedding"]}


def _metric(task: Any, data: Any) -> str:
    return "spearman" if data.labels.ndim == 1 else "accuracy@1"


# === Data ===


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    from keras_bert.tasks.similarity.files import as_sentence_groups

    if x is None or (isinstance(x, list | tuple) and all(isinstance(text, str) for text in x)):
        return Examples(list(PROBES if x is None else x))
    groups = as_sentence_groups(x, y, **columns)
    return Examples(list(groups.texts), groups)


def _label_texts(teacher: Any, texts: list[str]) -> tuple[list[tuple[str, str]], list[float]]:
    """Pair each text with the next, and label the pair with their cosine on the scale of the task's scores."""
    vectors = normalize_vectors(teacher.predict(texts))
    first = np.arange(0, len(texts), 2)
    second = (first + 1) % len(texts)
    cosines = np.sum(vectors[first] * vectors[second], axis=-1)
    if teacher.score_range is not None:
        low, high = teacher.score_range
        share = (cosines + 1) / 2 if low < 0 else np.clip(cosines, 0, 1)
        cosines = low + share * (high - low)
    cosines = np.clip(cosines, *(teacher.score_range or (-1, 1)))
    return [(texts[one], texts[other]) for one, other in zip(first, second, strict=True)], cosines.tolist()


# === The servers ===


class ServedVectors(ServedFile):
    """Answers with vectors."""

    vector = "embedding"

    def tokens_of(self, given: Any) -> int:
        return super().tokens_of(self.reader.prompts.find() + given)

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        return {"embedding": self.reader.answers(outputs, data, inputs), "truncated": self.truncated(data, inputs)}


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    return {"embedding": outputs["sentence_embedding"]}


def _serve(graph: Any, texts: Any) -> dict[str, Any]:
    import tensorflow as tf

    prompt = graph.task.prompts.find()
    inputs, truncated = graph.pack(tf.strings.join([prompt, texts]) if prompt else texts)
    return {**_served_answers(graph.task, graph.forward(inputs)), "truncated": truncated}


def _expected(task: Any, texts: list[str]) -> dict[str, Any]:
    from keras_bert.text.packing import pack

    inputs = pack(task.tokenizer, task.prompts.add(texts), sequence_length=task.sequence_length)
    return _served_answers(task, task.model(inputs, training=False))


register_export(
    ExportedTask(
        name="similarity",
        reader=VectorReader,
        in_graph=_tensors,
        from_task=_from_task,
        to_task=_to_task,
        metric=_metric,
        read_examples=_read_examples,
        label_texts=_label_texts,
        served=ServedTask(_served_answers, serve=_serve, expected=_expected),
        served_file=ServedVectors,
        matches_states=False,
    )
)
