"""Propose words that could replace a word in a text.

Takes blanks (the ids of a text and the place of the word); gives for each a list of whole words of the vocabulary, the
best first. `MaskedLMProposals` asks a masked language model. `NearestWords` searches the token table, for encoders
without an MLM head, such as MiniLM.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import keras
import numpy as np

from keras_bert.batching.length_buckets import TokenizedTexts, length_sorted_batches, restore_order
from keras_bert.model.encoder import encoder_config
from keras_bert.pretraining.model import GatherPositions
from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece


class Blank(NamedTuple):
    """A word to replace: the ids of its text, its pieces `ids[begin:end]`, and the other text of a pair."""

    ids: list[int]
    begin: int
    end: int
    companion: list[int] | None = None


class Proposer(Protocol):
    """Proposes words: has a tokenizer, and gives for each blank a list of words, the best first."""

    tokenizer: BertTokenizer

    def __call__(self, blanks: Sequence[Blank]) -> list[list[str]]: ...


def is_word(text: str) -> bool:
    """Whether a text consists of letters only, and is not a single Latin letter.

    Example:
        >>> [is_word(text) for text in ("word", "x", "中", "3rd", "##ing")]
        [True, False, True, False, False]
    """
    return text.isalpha() and (len(text) > 1 or not text.isascii())


# === Proposers ===


class NearestWords:
    """Proposes the nearest neighbours in the token table, by cosine. The text around the word is not used.

    In a token table opposites are neighbours too (`worst` and `best`): keep the words that carry the label, or require
    a higher similarity.

    Args:
        encoder: Any model with a token table, from `load_encoder` or `load_model`.
        tokenizer: Its tokenizer.
        top_k: Maximum number of words to propose.
        min_similarity: Neighbours with a smaller cosine are not proposed; a word may then have none.
        several_pieces: Whether words of several pieces have neighbours too, by the mean of their pieces. These are
            often neighbours of the first piece only (`over`, `##wr`, `##ough`, `##t` is near `under`).

    Example:
        ```python
        nearest = NearestWords(*keras_bert.load_encoder("all-MiniLM-L6-v2"))
        nearest.of("terrible")  # ['horrible', 'awful', 'dreadful', 'horrific', 'bad']
        ```
    """

    def __init__(
        self,
        encoder: keras.Model,
        tokenizer: BertTokenizer,
        *,
        top_k: int = 5,
        min_similarity: float = 0.4,
        several_pieces: bool = False,
    ):
        self.tokenizer = require_wordpiece(tokenizer, "NearestWords")
        self.top_k = _check_top_k(top_k)
        self.min_similarity = min_similarity
        self.several_pieces = several_pieces
        table = np.asarray(encoder.get_layer("token_embedding").embeddings, np.float32)
        _check_vocabulary(table.shape[0], tokenizer)
        self._directions = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
        self._ids = np.flatnonzero(_ordinary_words(tokenizer))
        self._candidates = self._directions[self._ids].T
        self._found: dict[tuple[int, ...], list[str]] = {}

    def __call__(self, blanks: Sequence[Blank]) -> list[list[str]]:
        words = [tuple(blank.ids[blank.begin : blank.end]) for blank in blanks]
        new = list(dict.fromkeys(word for word in words if word not in self._found))
        for start in range(0, len(new), 512):  # limits the memory for similarities
            self._find(new[start : start + 512])
        return [self._found[word] if self.several_pieces or len(word) == 1 else [] for word in words]

    def of(self, word: str) -> list[str]:
        """The neighbours of one word, the nearest first."""
        ids = self.tokenizer(word).numpy().tolist()
        return self([Blank(ids, 0, len(ids))])[0]

    def _find(self, words: Sequence[tuple[int, ...]]) -> None:
        vectors = np.stack([self._directions[list(word)].mean(axis=0) for word in words])
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        similarities = vectors @ self._candidates  # [words, candidates]
        for word, row in zip(words, similarities, strict=True):
            itself = self._ids == (word[0] if len(word) == 1 else -1)
            row = np.where(itself | (row < self.min_similarity), -np.inf, row)
            self._found[word] = [self.tokenizer.id_to_token(self._ids[place]) for place in _best(row, self.top_k)]


class MaskedLMProposals:
    """Proposes what a masked language model predicts in the place of the word.

    The word, of one piece or of several, becomes one `[MASK]`, and whole words of the vocabulary are proposed.

    Args:
        model: A model with an MLM head, from `load_model` or `bert_model(config, "masked_lm")`.
        tokenizer: Its tokenizer.
        top_k: Maximum number of words to propose.
        show_original: Whether the model reads the text itself as second segment, as in TinyBERT: proposals are then
            closer to the word. Without it, the second segment is the other text of a pair.
        sequence_length: Maximum number of tokens that the model reads; `None` is 128, or the model's maximum if less.
        batch_size: How many words are masked at a time.

    Example:
        ```python
        model, tokenizer = keras_bert.load_model("google-bert/bert-base-uncased")
        more = augment(texts, proposer=MaskedLMProposals(model, tokenizer), seed=1)
        ```
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: BertTokenizer,
        *,
        top_k: int = 15,
        show_original: bool = True,
        sequence_length: int | None = None,
        batch_size: int = 32,
    ):
        config = encoder_config(model)
        _check_vocabulary(config.vocabulary_size, require_wordpiece(tokenizer, "MaskedLMProposals"))
        self.tokenizer = tokenizer
        self.top_k = _check_top_k(top_k)
        self.show_original = show_original
        self.sequence_length = sequence_length or min(128, config.max_sequence_length)
        self.batch_size = batch_size
        self._allowed = _ordinary_words(tokenizer)
        self._scorer = _score_masks(model)

    def __call__(self, blanks: Sequence[Blank]) -> list[list[str]]:
        if not blanks:
            return []
        rows = [self._mask(blank) for blank in blanks]
        tokenized = self._tokenized([row[0] for row in rows], [row[1] for row in rows])
        positions = np.array([[1 + row[2]] for row in rows], np.int32)  # after [CLS]
        # Fixed widths and full batches: XLA compiles each width once.
        boundaries = sorted({*(2**n for n in range(4, 12) if 2**n < self.sequence_length), self.sequence_length})
        batches, order = length_sorted_batches(
            tokenized, batch_size=self.batch_size, boundaries=boundaries, fill_last=True
        )
        proposed = []
        for batch, rows in zip(batches, order.reshape(-1, self.batch_size), strict=True):
            rows = np.where(rows < 0, rows[0], rows)  # fillers are copies of a batch's first row
            scores = self._scorer.predict_on_batch({**batch, "masked_positions": positions[rows]})[:, 0]
            proposed += [self._choose(blanks[row], row_scores) for row, row_scores in zip(rows, scores, strict=True)]
        places = restore_order(np.arange(len(order)), order)
        return [proposed[place] for place in places]

    def _choose(self, blank: Blank, scores: np.ndarray) -> list[str]:
        scores = np.where(self._allowed, scores[: len(self._allowed)], -np.inf)
        if blank.end - blank.begin == 1:
            scores[blank.ids[blank.begin]] = -np.inf
        return [self.tokenizer.id_to_token(index) for index in _best(scores, self.top_k)]

    def _mask(self, blank: Blank) -> tuple[list[int], list[int] | None, int]:
        """The ids with one mask for the word, the second segment, and the place of the mask."""
        masked = [*blank.ids[: blank.begin], self.tokenizer.mask_id, *blank.ids[blank.end :]]
        beside = blank.ids if self.show_original else blank.companion
        room = self.sequence_length - (2 if beside is None else 3)
        size = room if beside is None or len(masked) + len(beside) <= room else room // 2
        low = max(0, min(blank.begin - size // 2, len(masked) - size))
        if beside is not None and size < room:
            beside = beside[low : low + size] if self.show_original else beside[:size]
        return masked[low : low + size], beside, blank.begin - low

    def _tokenized(self, firsts: list[list[int]], seconds: list[list[int] | None]) -> TokenizedTexts:
        special = {name: getattr(self.tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
        given = [second for second in seconds if second is not None]  # all of them, or none
        return TokenizedTexts(*_flat(firsts), *(_flat(given) if given else (None, None)), **special)


def _score_masks(model: keras.Model) -> keras.Model:
    """The model with its MLM head at one position only: the scores of all positions would need too much memory."""
    names = {layer.name for layer in model.layers}
    if not {"mlm_transform", "mlm_bias"} <= names or "masked_positions" in model.input:
        raise ValueError(
            f"{model.name} has no MLM head over all tokens; load a checkpoint that has one with load_model, or use "
            "NearestWords, which needs only the token table."
        )
    positions = keras.Input((1,), dtype="int32", name="masked_positions")
    transform = model.get_layer("mlm_transform")
    vectors = transform(GatherPositions(name="masked_vectors")(transform.input, positions))
    scores = model.get_layer("mlm_bias")(model.get_layer("token_embedding")(vectors, reverse=True))  # [B, 1, V]
    return keras.Model({**model.input, "masked_positions": positions}, scores, name="score_masks")


def _ordinary_words(tokenizer: BertTokenizer) -> np.ndarray:
    """For each id, whether it is a whole word of letters: no special token, no piece, no number, no punctuation."""
    return np.array([is_word(token) for token in tokenizer.vocabulary])


def _best(scores: np.ndarray, count: int) -> list[int]:
    """The indices of the highest scores, the highest first, without those that are −inf."""
    count = min(count, len(scores))
    places = np.argpartition(-scores, count - 1)[:count]
    places = places[np.lexsort((places, -scores[places]))]
    return places[scores[places] > -np.inf].tolist()


def _flat(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The ids of all lists one after the other, and where each begins."""
    return np.concatenate(lists).astype(np.int32), np.cumsum([0, *map(len, lists)], dtype=np.int64)


def _check_top_k(top_k: int) -> int:
    if top_k < 1:
        raise ValueError(f"top_k={top_k}: expected at least 1 word to propose.")
    return top_k


def _check_vocabulary(size: int, tokenizer: BertTokenizer) -> None:
    if size < tokenizer.vocabulary_size:
        raise ValueError(
            f"The model has {size} tokens, the tokenizer {tokenizer.vocabulary_size}; pass the model's own tokenizer."
        )
