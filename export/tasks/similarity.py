"""Export similarity: texts, answered with vectors."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, ServedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader, check_texts, cut_or_windows
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import FLAG
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import mean_by_owner
from keras_bert.decoding.similarity import normalize_vectors
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts

# === The device ===


class VectorReader(Reader):
    """Reads texts; answers with one float32 vector for each."""

    outputs = ("embedding",)
    expected = {**Reader.expected, "normalize": FLAG}

    def prepare(self, inputs: list[Any]) -> PreparedData:
        check_texts(inputs)
        tokenized = tokenize_texts(self.tokenizer, inputs)
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

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        return {"embedding": self.reader.answers(outputs, data, inputs), "truncated": self.truncated(data, inputs)}


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    return {"embedding": outputs["sentence_embedding"]}


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
        served=ServedTask(_served_answers),
        served_file=ServedVectors,
        matches_states=False,
    )
)
