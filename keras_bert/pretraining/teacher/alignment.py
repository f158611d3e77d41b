"""The student's rows → rows that the teacher reads, and which of its tokens belong to which of the student's.

With `pieces` both read the same pieces, and ids are renumbered. With `words` the teacher cuts every word its own way;
a unit that is compared is then a word, and its vector the mean over its pieces. Words are put together from the
student's pieces, so the text itself is not needed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.pretraining.corpus.manifest import hash_vocabulary
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS


@dataclass(frozen=True)
class TeacherRow:
    """A row as the teacher reads it: its ids, segments and texts (from 1 on), and the unit of each token."""

    token_ids: np.ndarray
    segment_ids: np.ndarray
    texts: np.ndarray
    units: np.ndarray


class Alignment:
    """How a student's tokens meet a teacher's.

    Args:
        student, teacher: Both tokenizers.
        kind: `"pieces"`, `"words"` or `"auto"`, which is `"pieces"` where the teacher knows all of the student's.
        max_length: The most tokens of a row that the teacher can read; words that stand behind are not compared.

    Example:
        >>> ours = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##able"])
        >>> theirs = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "u", "##na", "##ble"])
        >>> Alignment(ours, theirs).kind
        'words'
    """

    def __init__(
        self, student: BertTokenizer, teacher: BertTokenizer, kind: str = "auto", *, max_length: int = 512
    ) -> None:
        self.student, self.teacher, self.max_length = student, teacher, max_length
        ids = {token: index for index, token in enumerate(teacher.vocabulary)}
        missing = [token for token in student.vocabulary if token not in ids and token not in SPECIAL_TOKENS]
        same_rules = _rules(student) == _rules(teacher)
        if kind == "pieces" and missing:
            raise ValueError(
                f"alignment='pieces': the teacher has no {len(missing):,} of the student's {student.vocabulary_size:,} "
                f"pieces, such as {missing[0]!r}; use alignment='words'."
            )
        self.kind = ("words" if missing or not same_rules else "pieces") if kind == "auto" else kind
        self._renumbered = np.array([ids.get(token, teacher.unk_id) for token in student.vocabulary], np.int32)
        self._continues = np.array([token.startswith("##") for token in student.vocabulary])
        self._special = {
            index: ids.get(token, teacher.unk_id)
            for index, token in enumerate(student.vocabulary)
            if token in SPECIAL_TOKENS
        }
        self._spelled: dict[bytes, np.ndarray] = {}

    def describe(self) -> dict[str, Any]:
        """What decides about the teacher's rows, ready for JSON."""
        tokenizers = {
            who: {"vocabulary_sha256": hash_vocabulary(tokenizer.vocabulary), **_rules(tokenizer)}
            for who, tokenizer in (("student", self.student), ("teacher", self.teacher))
        }
        return {"alignment": self.kind, "longest_row": self.max_length, "tokenizers": tokenizers}

    def word_ids(self, token_ids: np.ndarray, texts: np.ndarray) -> np.ndarray:
        """The number of the word that each of a row's tokens is in, from 0 on; -1 for padding.

        Args:
            token_ids, texts: Of rows, `[R, T]`: the student's ids, and the number of the text of each, 0 for padding.
        """
        real = texts > 0
        begins = ~self._continues[token_ids]
        begins[:, 0] = True
        begins[:, 1:] |= texts[:, 1:] != texts[:, :-1]
        # What follows a special token begins a word, also where a cut left the end of one there.
        special = np.isin(token_ids, list(self._special))
        begins[:, 1:] |= special[:, :-1]
        words = np.cumsum(begins & real, axis=1) - 1
        return np.where(real, words, -1).astype(np.int32)

    def teacher_rows(self, rows: dict[str, np.ndarray]) -> list[TeacherRow]:
        """What the teacher reads for some of the student's rows, without padding."""
        tokens, segments, texts = (rows[name] for name in ("token_ids", "segment_ids", "padding_mask"))
        lengths = (texts > 0).sum(axis=1)
        if self.kind == "pieces":
            return [
                TeacherRow(self._renumbered[tokens[row, :n]], segments[row, :n], texts[row, :n], np.arange(n))
                for row, n in enumerate(lengths)
            ]
        words = self.word_ids(tokens, texts)
        starts = [np.flatnonzero(np.diff(words[row, :n], prepend=-1)) for row, n in enumerate(lengths)]
        spelled = [np.split(tokens[row, :n], starts[row][1:]) for row, n in enumerate(lengths)]
        self._spell({word.tobytes(): word for row in spelled for word in row})
        found = []
        for row, words_of_row in enumerate(spelled):
            pieces = [self._spelled[word.tobytes()] for word in words_of_row]
            counts = np.array([len(piece) for piece in pieces])
            kept = np.cumsum(counts) <= self.max_length
            pieces, counts, first = [p for p, k in zip(pieces, kept, strict=True) if k], counts[kept], starts[row][kept]
            where = np.repeat(first, counts)
            units = np.repeat(np.arange(len(counts)), counts)
            ids = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
            found.append(TeacherRow(ids, segments[row, where], texts[row, where], units))
        return found

    def unknown_share(self, rows: dict[str, np.ndarray]) -> float:
        """Which share of the teacher's tokens, special ones left out, are unknown to it."""
        ids = np.concatenate([row.token_ids for row in self.teacher_rows(rows)])
        special = [index for index in self._special.values() if index != self.teacher.unk_id]
        ids = ids[~np.isin(ids, special)]
        return float(np.mean(ids == self.teacher.unk_id)) if len(ids) else 1.0

    def token_texts(self) -> list[str]:
        """The student's tokens as the teacher can read them: continuations without their mark."""
        return [token if token in SPECIAL_TOKENS else token.removeprefix("##") for token in self.student.vocabulary]

    def teacher_pieces(self) -> list[np.ndarray]:
        """For each of the student's tokens the teacher's ids: the same piece, or the pieces of its text."""
        ids = {token: index for index, token in enumerate(self.teacher.vocabulary)}
        texts = self.token_texts()
        pieces = [np.array([ids.get(token, self.teacher.unk_id)]) for token in self.student.vocabulary]
        others = [index for index, token in enumerate(self.student.vocabulary) if token not in ids]
        if others:
            flat, splits = self.teacher.tokenize_flat([texts[index] for index in others])
            for index, first, end in zip(others, splits[:-1], splits[1:], strict=True):
                pieces[index] = flat[first:end] if end > first else pieces[index]
        return pieces

    def _spell(self, words: dict[bytes, np.ndarray]) -> None:
        """Cut the words that were not seen yet into the teacher's pieces."""
        new, texts = [], []
        for key, ids in words.items():
            if key in self._spelled:
                continue
            if len(ids) == 1 and int(ids[0]) in self._special:
                self._spelled[key] = np.array([self._special[int(ids[0])]], np.int32)
                continue
            new.append(key)
            texts.append("".join(self.student.id_to_token(int(index)).removeprefix("##") for index in ids))
        if not new:
            return
        flat, splits = self.teacher.tokenize_flat(texts)
        unknown = np.array([self.teacher.unk_id], np.int32)
        for key, first, end in zip(new, splits[:-1], splits[1:], strict=True):
            self._spelled[key] = flat[first:end].astype(np.int32) if end > first else unknown


def _rules(tokenizer: BertTokenizer) -> dict[str, Any]:
    return {name: value for name, value in tokenizer.get_config().items() if name != "vocabulary"}
