"""The Unigram tokenizer without TensorFlow: normalization, and the best path through the pieces, in Python.

Takes the model in a file; gives the ids and offsets of `UnigramTokenizer`, with its methods. The Rust `tokenizers` is
not used: it sums scores in float64 where SentencePiece rounds each sum to float32, and so cuts some texts differently.
"""

from array import array
from collections.abc import Sequence

import numpy as np

from export.runtime.tokenizer import check_texts
from keras_bert.text.character_map import CharacterMap
from keras_bert.text.unigram_model import BYTE, CLS, NORMAL, PAD, SEP, UNKNOWN, UnigramModel

_UNKNOWN_PENALTY = 10.0  # SentencePiece's, below the lowest score


class DeviceUnigramTokenizer:
    """A `FlatTokenizer` for the model of a `UnigramTokenizer`; special tokens in a text are text.

    Args:
        model: The model.

    Example:
        >>> tokenizer = DeviceUnigramTokenizer(UnigramModel.from_pieces([("▁un", -2.0), ("able", -3.0)]))
        >>> ids, splits, starts, ends = tokenizer.tokenize_flat_with_offsets([" unable"])
        >>> list(zip(ids.tolist(), starts.tolist(), ends.tolist()))
        [(4, 1, 3), (5, 3, 7)]
    """

    pair_separators = 2

    def __init__(self, model: UnigramModel):
        self.vocabulary = model.tokens
        self._ids = {token: index for index, token in enumerate(model.tokens)}
        self.unk_id = int(np.argmax(model.kinds == UNKNOWN))
        self.pad_id, self.cls_id, self.sep_id = (self.token_to_id(token) for token in (PAD, CLS, SEP))
        is_normal = model.kinds == NORMAL
        self._scores = model.scores.tolist()
        self._unknown_score = float(np.float32(model.scores[is_normal].min(initial=0.0)) - np.float32(_UNKNOWN_PENALTY))
        # Every beginning of a piece, with the id of the piece that ends there, or -1.
        self._prefixes: dict[str, int] = {}
        for index in np.flatnonzero(is_normal).tolist():
            token = model.tokens[index]
            for size in range(1, len(token)):
                self._prefixes.setdefault(token[:size], -1)
            self._prefixes[token] = index
        self._map = CharacterMap(model)
        self._bytes: list[int] | None = None
        if model.has_bytes:
            found = {int(token[3:5], 16): i for i, token in enumerate(model.tokens) if model.kinds[i] == BYTE}
            self._bytes = [found[byte] for byte in range(256)]

    def tokenize_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize texts; give all ids, int32, and where each text begins and ends among them."""
        ids, splits, _, _ = self.tokenize_flat_with_offsets(texts)
        return ids, splits

    def tokenize_flat_with_offsets(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tokenize texts; give ids, splits, and each token's begin and end in its text, in characters."""
        check_texts(texts)
        rows: list[tuple[int, int, int]] = []
        splits = [0]
        for text in texts:
            rows += self._locate(text, *self._map.normalize(text))
            splits.append(len(rows))
        ids, starts, ends = np.array(rows, np.int32).reshape(-1, 3).T
        return ids, np.array(splits, np.int64), starts, ends

    def _locate(self, text: str, changed: str, origins: list[int]) -> list[tuple[int, int, int]]:
        """Return the id, the begin and the end of each token of a text."""
        rows: list[tuple[int, int, int]] = []
        was_unknown = False
        for index, begin, end in self._cut(changed):
            is_unknown = index == self.unk_id
            first, last = self._place(text, origins[begin], origins[end])
            if is_unknown and self._bytes is not None:
                rows += self._spell(changed[begin], first, last)
            elif is_unknown and was_unknown:
                rows[-1] = (index, rows[-1][1], last)  # unknown characters side by side are one token
            else:
                rows.append((index, first, last))
            was_unknown = is_unknown
        return rows

    def _cut(self, text: str) -> list[tuple[int, int, int]]:
        """Return the pieces on the best path: their ids, and where they begin and end."""
        size = len(text)
        best = array("f", bytes(4 * (size + 1)))  # rounds each sum to float32
        came_from, pieces = [-1] * (size + 1), [-1] * (size + 1)
        prefixes, scores = self._prefixes, self._scores
        for start in range(size):
            before, is_known = best[start], False
            for end in range(start + 1, size + 1):
                index = prefixes.get(text[start:end])
                if index is None:
                    break
                if index >= 0:
                    score = before + scores[index]
                    if came_from[end] < 0 or score > best[end]:
                        best[end], came_from[end], pieces[end] = score, start, index
                    is_known |= end == start + 1
            if not is_known:
                score = float(np.float32(before + self._unknown_score))
                if came_from[start + 1] < 0 or score > best[start + 1]:
                    best[start + 1], came_from[start + 1], pieces[start + 1] = score, start, self.unk_id
        path, end = [], size
        while end > 0:
            path.append((pieces[end], came_from[end], end))
            end = came_from[end]
        return path[::-1]

    def _spell(self, char: str, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return the bytes of a character; the last of them is where the character is."""
        ids = [self._bytes[byte] for byte in char.encode()] if self._bytes else []
        return [*((index, begin, begin) for index in ids[:-1]), (ids[-1], begin, end)]

    def _place(self, text: str, begin: int, end: int) -> tuple[int, int]:
        while begin < end and text[begin] in self._map.spaces:
            begin += 1
        return begin, end

    def token_to_id(self, token: str) -> int:
        """The id of a token."""
        if token not in self._ids:
            raise ValueError(f"There is no token {token!r} among the {len(self._ids)} tokens of the vocabulary.")
        return self._ids[token]

    def id_to_token(self, index: int) -> str:
        """The token of an id."""
        return self.vocabulary[index]

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return len(self.vocabulary)
