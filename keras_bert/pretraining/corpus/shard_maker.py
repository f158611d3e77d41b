"""Turns one unit of the corpus into a shard of examples and a report about it.

The steps: text → documents → sentences → ids → pairs → records. Random choices depend only on the seed and the name of
the unit, so units can be processed anywhere, in any order, by a process pool or a Beam pipeline.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.pretraining.corpus.documents import CorpusError
from keras_bert.pretraining.corpus.manifest import BAD_LINES_NAMED, Settings
from keras_bert.pretraining.corpus.pairs import SPECIAL_TOKENS, Documents, cut_long_sentences, make_pairs
from keras_bert.pretraining.corpus.sentences import split_sentences
from keras_bert.pretraining.corpus.shards import Shard, encode_examples, write_rows, write_shard
from keras_bert.pretraining.corpus.units import Unit, decode_documents
from keras_bert.pretraining.rows.layout import make_rows, row_dtype

if TYPE_CHECKING:
    from keras_bert.text.tokenizer import BertTokenizer

Tokenize = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]  # sentences → flat ids, and the tokens of each
_BATCH_CHARACTERS = 1 << 20
_ENOUGH_DOCUMENTS = 8  # a unit with fewer takes random segments from its neighbours too


@dataclasses.dataclass(frozen=True)
class ShardMaker:
    """Makes shards in a directory, from units in any order; the same unit gives the same bytes.

    ```python
    maker = ShardMaker.build(tokenizer, Settings(sequence_length=128), "examples")
    report = maker.make(unit)
    ```
    """

    settings: Settings
    directory: str
    tokenize: Tokenize
    cls_id: int
    sep_id: int
    row_type: np.dtype[Any] | None = None  # of rows of one width, where the layout has them
    pad_id: int = 0

    @classmethod
    def build(cls, tokenizer: "BertTokenizer", settings: Settings, directory: str) -> "ShardMaker":
        """Make one for a `BertTokenizer`, which tokenizes in batches on the CPU."""
        row_type = None
        if settings.layout != Settings.layout:
            sizes = {"sequence_length": settings.sequence_length, "vocabulary_size": tokenizer.vocabulary_size}
            row_type = row_dtype(settings.layout, **sizes)
        ids = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
        return cls(settings, directory, _batch_tokenizer(tokenizer), row_type=row_type, **ids)

    def make(self, unit: Unit) -> dict[str, Any]:
        """Write the shard of a unit; return a report about it, as a value for JSON."""
        texts, bad_lines = decode_documents(unit.blocks, self.settings.text_field)
        lent: list[str] = []
        if self.settings.pairs == "next_sentence" and len(texts) < _ENOUGH_DOCUMENTS:
            lent, _ = decode_documents(unit.neighbours, self.settings.text_field)
        ids, documents, counts = self._tokenize_documents(texts, lent)
        rows = self._make_rows(documents, unit)
        shard = self._write(unit, ids, rows)
        text_tokens = int((rows[:, 1] - rows[:, 0] + rows[:, 3] - rows[:, 2]).sum())
        is_split = bool(unit.blocks[0].continues)
        counts = {
            "text_bytes": unit.text_bytes,
            "bad_lines": len(bad_lines),
            "documents": len(texts) - is_split,
            "split_documents": int(is_split),
            **counts,
            "unused_tokens": _count_unused(rows, counts["text_tokens"]),
            "examples": shard.examples,
            "random_or_swapped": int(rows[:, 4].sum()),
            "tokens": text_tokens + SPECIAL_TOKENS[self.settings.pairs] * shard.examples,
        }
        report = {"shard": dataclasses.asdict(shard), "counts": counts, "bad_lines": bad_lines[:BAD_LINES_NAMED]}
        return report | {"checksum": unit.checksum}

    def _write(self, unit: Unit, ids: np.ndarray, pairs: np.ndarray) -> Shard:
        if self.row_type is None:
            records = encode_examples(ids, pairs, cls_id=self.cls_id, sep_id=self.sep_id)
            return write_shard(self.directory, unit.name, records)
        rows = make_rows(ids, pairs, self.row_type, special=(self.cls_id, self.sep_id, self.pad_id))
        # Full rows come first in a window.
        order = list(range(len(rows)))
        random.Random(f"{self.settings.seed}/{unit.name}/rows").shuffle(order)
        return write_rows(self.directory, unit.name, rows[order], len(pairs))

    def _tokenize_documents(self, texts: list[str], lent: list[str]) -> tuple[np.ndarray, Documents, dict[str, int]]:
        """Tokenize texts; return their ids, where sentences and documents begin, and counts for the report."""
        split = [split_sentences(text) for text in (*texts, *lent)]
        ids, lengths = self.tokenize([sentence for sentences in split for sentence in sentences])
        document = np.repeat(np.arange(len(split)), [len(sentences) for sentences in split])
        document, lengths = document[lengths > 0], lengths[lengths > 0]  # without sentences that have no tokens
        piece_lengths, pieces = cut_long_sentences(lengths, self.settings.pairs, self.settings.sequence_length)
        sizes = np.bincount(np.repeat(document, pieces), minlength=len(split))
        own, is_own = int(np.count_nonzero(sizes[: len(texts)])), document < len(texts)
        counts = {
            "documents_without_tokens": len(texts) - own,
            "sentences": int(is_own.sum()),
            "cut_sentences": int((pieces[is_own] > 1).sum()),
            "text_tokens": int(lengths[is_own].sum()),
        }
        starts, firsts = np.cumsum(piece_lengths).tolist(), np.cumsum(sizes[sizes > 0]).tolist()
        return ids, Documents([0, *starts], [0, *firsts], own), counts

    def _make_rows(self, documents: Documents, unit: Unit) -> np.ndarray:
        if self.settings.pairs == "next_sentence" and documents.own and documents.count < 2:
            raise CorpusError(
                f"{unit.blocks[0].path} has one document, but a random segment needs a second one; put a "
                "blank line between documents, pass more files, or use pairs='sentence_order' or 'single'."
            )
        rng = random.Random(f"{self.settings.seed}/{unit.name}")
        lengths: dict[str, Any] = {"sequence_length": self.settings.sequence_length}
        lengths["short_sequence_rate"] = self.settings.short_sequence_rate
        passes = [
            make_pairs(documents, self.settings.pairs, rng=rng, **lengths) for _ in range(self.settings.duplicates)
        ]
        rows = np.concatenate(passes)
        order = list(range(len(rows)))
        rng.shuffle(order)
        return rows[order]


def _count_unused(rows: np.ndarray, tokens: int) -> int:
    """Count the tokens, among the first `tokens`, that trimming left out of all examples."""
    change = np.bincount(rows[:, [0, 2]].ravel(), minlength=tokens + 1)[: tokens + 1]
    change -= np.bincount(rows[:, [1, 3]].ravel(), minlength=tokens + 1)[: tokens + 1]
    return int(np.count_nonzero(np.cumsum(change[:tokens]) == 0))


def _batch_tokenizer(tokenizer: "BertTokenizer") -> Tokenize:
    import tensorflow as tf

    def tokenize(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
        # Eagerly: batches are so large that a graph would save nothing, and tracing one takes time.
        with tf.device("CPU"):
            batches = [tokenizer(tf.constant(batch, tf.string)) for batch in _batches(sentences)]
        ids = [ids.flat_values.numpy() for ids in batches]
        lengths = [ids.row_lengths().numpy() for ids in batches]
        return np.concatenate([np.zeros(0, np.int32), *ids]), np.concatenate([np.zeros(0, np.int64), *lengths])

    return tokenize


def _batches(sentences: list[str]) -> Iterator[list[str]]:
    """Split a list into batches of about equal length of text."""
    batch, size = [], 0
    for sentence in sentences:
        batch.append(sentence)
        size += len(sentence)
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
