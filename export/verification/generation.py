"""Compare a `Seq2Seq` with its file: the scores along one text, and the texts that both write.

Gives numbers for `ParityReport`, or an error before a new file is written. One different token changes everything after
it, so scores are compared along a text that is the same for both, and whole texts separately. The scores of Keras come
from the model over whole rows, not from the graphs with a cache that the file was made from.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from export.file.metadata_reader import read_metadata
from export.recipes import Recipe
from export.runtime import make_reader
from export.runtime.writer import Writer
from export.runtime.writer_graphs import WriterRunner
from export.serving.generation import as_row, expect_greedily
from export.serving.rows import ServedRows
from export.tasks.base.examples import PROBES, Examples
from export.tasks.generation import SourceReader, source_rows
from export.verification.parity import VerificationError, count_differences
from keras_bert.decoding.token_choice import TextTokens, TokenChoice, restrict_scores
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.tasks.generation.cached_decoder import score_tokens
from keras_bert.tasks.generation.sampling import Decoding
from keras_bert.tasks.generation.task import Seq2Seq

_PROBE_TOKENS = 8  # of the text that a new file is checked with


def check_writer(task: Seq2Seq, content: bytes, recipe: Recipe) -> None:
    """Raise a `VerificationError` if a new file is further from its task than its recipe allows.

    Args:
        task: The task.
        content: The file.
        recipe: The recipe, for its tolerance.

    Example:
        >>> check_writer(translator, Path("model.tflite").read_bytes(), RECIPES["float32"])  # doctest: +SKIP
    """
    metadata = read_metadata(content)
    reader = make_reader("The file", metadata)
    runner, ours = WriterRunner(content, metadata, reader), _task_reader(task, reader.sequence_length)
    data = reader.prepare(list(PROBES))
    if count_differences(ours.prepare(list(PROBES)), data):
        raise VerificationError(
            "The device would split texts into other tokens than the task does; please report this."
        )
    rows = source_rows(data.tokenized)
    texts = [row[1 : min(_PROBE_TOKENS, task.target_length)] for row in rows]  # any tokens work: the source's own
    error = _Scores(task).compare(runner, rows, texts)["relative_error"]
    if not error <= recipe.tolerance:
        raise VerificationError(
            f"The file by {recipe.name} would differ too much from its model: its scores differ by {error:.2g} of "
            f"their size, expected at most {recipe.tolerance}. Use a recipe with more bits, or check=False to write "
            "it anyway."
        )


def compare_writing(task: Seq2Seq, writer: Writer, examples: Examples) -> dict[str, Any]:
    """Compare a file that writes with its task; give the numbers of a `ParityReport`.

    The errors are those of the scores along the texts that Keras writes. `agreement` is the share of their tokens that
    the file would choose too; `same_texts` is the share of texts that the file, writing alone, writes in the same way.
    With targets, the metric is the share of their tokens that get the highest score.

    Args:
        task: The task.
        writer: Its file.
        examples: Sources, with or without targets.
    """
    reader = _task_reader(task, writer.longest)
    data, theirs = (one.prepare(examples.inputs) for one in (reader, writer.reader))
    rows, scores = source_rows(data.tokenized), _Scores(task)
    texts = task.writer(Decoding())[0].write(*task.padded(rows))
    written = writer.outputs(theirs.tokenized)["written_ids"]
    same = [text == row[row != task.tokenizer.pad_id].tolist() for text, row in zip(texts, written, strict=True)]
    numbers = scores.compare(writer, rows, [text[: task.target_length - 1] for text in texts])
    numbers |= {"same_texts": float(np.mean(same)), "tokens_differ": count_differences(data, theirs)}
    if examples.labelled is None:
        return numbers | {"metric": None, "keras_score": None, "file_score": None}
    ids, splits = task.tokenizer.tokenize_flat(examples.labelled.targets)
    targets = [ids[begin:end][: task.target_length - 1] for begin, end in itertools.pairwise(splits)]
    accuracy = [scores.accuracy(source, rows, targets) for source in (scores, writer)]
    return numbers | {"metric": "accuracy", "keras_score": accuracy[0], "file_score": accuracy[1]}


def compare_served(task: Seq2Seq, served: ServedRows, examples: Examples) -> dict[str, Any]:
    """Compare a SavedModel that writes with its task. It computes what Keras does, so its texts must be the same.

    Args:
        task: The task.
        served: Its SavedModel.
        examples: Sources of one text.
    """
    texts = [text for given in examples.inputs for (text,) in as_row(given)]
    parts = [served.answers(texts[start : start + 32])["written_ids"] for start in range(0, len(texts), 32)]
    ours, theirs = expect_greedily(task, texts)["written_ids"].numpy(), np.concatenate(parts)
    is_text = (ours != task.tokenizer.pad_id) | (theirs != task.tokenizer.pad_id)
    share = float(np.mean((ours == theirs)[is_text])) if is_text.any() else 1.0
    return {
        "max_error": 1 - share,
        "relative_error": 1 - share,
        "agreement": share,
        "agreement_of": "same tokens",
        "same_texts": float(np.mean(np.all(ours == theirs, axis=1))),
        "tokens_differ": 0,
        **dict.fromkeys(("metric", "keras_score", "file_score")),
    }


def _task_reader(task: Seq2Seq, length: int) -> SourceReader:
    settings = {"target_length": task.target_length, "keeps": task.keeps}
    return SourceReader(task.tokenizer, sequence_length=length, settings=settings)


class _Scores:
    """The scores of a task's model along known texts."""

    def __init__(self, task: Seq2Seq):
        self._model, self._tokens = task.model, TextTokens.of(task.tokenizer, task.config.vocabulary_size)
        # Not as a graph: tracing takes longer than running the few rows.
        self._states = keras.Model(task.model.input, task.model.get_layer("mlm_transform").input)

    def scores(self, ids: np.ndarray, text: Sequence[int]) -> np.ndarray:
        """As `WriterRunner.scores`."""
        row = np.concatenate([ids, np.asarray(text, np.int32)]).astype(np.int32)[None]
        segments = (np.arange(row.shape[1])[None] >= len(ids)).astype(np.int32)
        inputs = dict(zip(INPUT_NAMES, (row, segments, np.ones_like(row)), strict=True))
        return score_tokens(self._model, self._states(inputs, training=False)[0, len(ids) - 1 :]).numpy()

    def compare(self, other: Any, rows: list[np.ndarray], texts: Sequence[Any]) -> dict[str, Any]:
        """Compare the scores of a file, and the tokens that they choose, with these."""
        squares, sizes, worst, same = 0.0, 0.0, 0.0, []
        for ids, text in zip(rows, texts, strict=True):
            ours, theirs = (one.scores(ids, text).astype(np.float64) for one in (self, other))
            squares, sizes = squares + np.mean((ours - theirs) ** 2), sizes + np.mean(ours**2)
            worst = max(worst, float(np.abs(ours - theirs).max()))
            same.append(self._chosen(ours, text) == self._chosen(theirs, text))
        return {
            "max_error": worst,
            "relative_error": float(np.sqrt(squares / max(sizes, 1e-12))),
            "agreement": float(np.mean(np.concatenate(same))),
        }

    def accuracy(self, source: Any, rows: list[np.ndarray], targets: Sequence[Any]) -> float:
        """The share of the targets' tokens, their end included, that get the highest score."""
        hits = [
            self._chosen(source.scores(ids, text), text) == np.append(text, self._tokens.end_id)
            for ids, text in zip(rows, targets, strict=True)
        ]
        return float(np.mean(np.concatenate(hits)))

    def _chosen(self, scores: np.ndarray, text: Any) -> np.ndarray:
        """The token with the highest score at each position, among those that can be text."""
        written = np.full((1, 2 + len(text)), self._tokens.pad_id, np.int32)
        free = restrict_scores(scores, np.repeat(written, len(scores), axis=0), 1, self._tokens, TokenChoice())
        return np.argmax(free, axis=-1)
