"""Augment texts: copies in which a pretrained model replaces some words.

Takes texts or pairs and a proposer from `data/word_proposals.py`; gives the copies, and for each the row of its
original. This is the data augmentation of TinyBERT (Jiao et al. 2019), for small data and for distillation. The rest of
a text, its case and its spaces stay as they are.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from keras_bert.data.word_proposals import Blank, MaskedLMProposals, NearestWords, Proposer, is_word
from keras_bert.system.progress import hides_bar
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS

__all__ = ["Augmented", "MaskedLMProposals", "NearestWords", "augment"]

_APOSTROPHES = {"'", "’"}


@dataclass(frozen=True)
class Augmented:
    """Texts with their copies: `texts`, `pairs` (or `None`), and `rows`, the row of the original of each text."""

    texts: list[str]
    pairs: list[str] | None
    rows: np.ndarray
    without_copy: int  # texts in which no word could be replaced

    def spread(self, labels: ArrayLike) -> np.ndarray:
        """Repeat the labels of the original texts for their copies.

        Example:
            >>> Augmented(["good", "fine", "bad"], None, np.array([0, 0, 1]), 0).spread([1, 0]).tolist()
            [1, 1, 0]
        """
        return np.asarray(labels)[self.rows]


def augment(
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    proposer: Proposer,
    seed: int,
    per_text: int = 10,
    replace_rate: float = 0.4,
    keep: Sequence[str] = (),
    include_originals: bool = True,
    progress: bool = True,
) -> Augmented:
    """Make copies of texts, or of pairs, in which a proposer replaces some words.

    Only words of letters are replaced: no special tokens, numbers or punctuation, no single letters, and nothing next
    to an apostrophe (`don't`). Copies are distinct and differ from their text; a short text may have fewer.

    Args:
        texts: The texts.
        pairs: As many second texts, or `None`.
        proposer: `MaskedLMProposals` or `NearestWords`.
        seed: Random seed. The copies of a text depend on it and on the text's row, not on the other texts.
        per_text: Maximum number of copies of each text.
        replace_rate: The share of words to replace; at least one in each copy.
        keep: Words and phrases that are never replaced, such as those that carry the label: negations, slot values.
            scikit-learn's `ENGLISH_STOP_WORDS` keeps function words, which TinyBERT does too.
        include_originals: Whether each text itself comes before its copies.
        progress: Whether to show a progress bar.

    Example:
        ```python
        encoder, tokenizer = keras_bert.load_encoder("all-MiniLM-L6-v2")
        more = augment(texts, proposer=NearestWords(encoder, tokenizer), seed=1, keep=["not", "no", "never"])
        model.fit(more.texts, more.spread(labels))
        ```
    """
    _check(texts, pairs, per_text, replace_rate)
    finder = _WordFinder(proposer.tokenizer, keep)
    results, chunk = [], 256
    with tqdm(total=len(texts), desc="augment", unit=" texts", disable=hides_bar(progress)) as bar:
        for start in range(0, len(texts), chunk):
            sides = [finder(texts[start : start + chunk])]
            if pairs is not None:
                sides.append(finder(pairs[start : start + chunk]))
            parts = enumerate(zip(*sides, strict=True), start)
            rows = [_Row(row, words, seed, per_text, replace_rate) for row, words in parts]
            proposals = iter(proposer([blank for row in rows for blank in row.blanks()]))
            results += [row.copies(proposals) for row in rows]
            bar.update(len(rows))
    first = 0 if include_originals else 1
    made: list[tuple[Any, ...]] = [(row, *copy) for row, copies in enumerate(results) for copy in copies[first:]]
    return Augmented(
        texts=[copy[1] for copy in made],
        pairs=None if pairs is None else [copy[2] for copy in made],
        rows=np.array([copy[0] for copy in made], np.int64),
        without_copy=sum(len(copies) == 1 for copies in results),
    )


def _check(texts: Sequence[str], pairs: Sequence[str] | None, per_text: int, replace_rate: float) -> None:
    for name, value in (("texts", texts), ("pairs", pairs)):
        if isinstance(value, str):
            raise TypeError(f"{name} is one string; expected a list of strings: pass [{name}].")
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"There are {len(texts)} texts and {len(pairs)} pairs; expected a second text for each text.")
    if per_text < 1 or not 0 < replace_rate <= 1:
        raise ValueError(
            f"per_text={per_text}, replace_rate={replace_rate}: expected per_text of at least 1, and replace_rate "
            "above 0 and at most 1."
        )


# === Words in texts ===


class _Words(NamedTuple):
    """A text, its ids, and the words that may be replaced: begin and end in pieces, begin and end in characters."""

    text: str
    ids: list[int]
    spans: list[tuple[int, int, int, int]]


class _WordFinder:
    """Finds the words that may be replaced."""

    def __init__(self, tokenizer: BertTokenizer, keep: Sequence[str]):
        if isinstance(keep, str):
            raise TypeError(f"keep={keep!r} is one string; expected a list of words: [{keep!r}].")
        self.tokenizer = tokenizer
        self.continues = np.array([token.startswith("##") for token in tokenizer.vocabulary])
        # Kept words are found by their ids, so case and accents count as they do for the model. Special tokens in a
        # text are plain pieces to the tokenizer, "[", "cls" and "]", and are kept in the same way.
        self.kept: dict[int | None, list[list[int]]] = {}
        for ids in tokenizer([*keep, *SPECIAL_TOKENS]).to_list():
            self.kept.setdefault(ids[0] if ids else None, []).append(ids)

    def __call__(self, texts: Sequence[str]) -> list[_Words]:
        columns = (column.to_list() for column in self.tokenizer.tokenize_with_offsets(list(texts)))
        return [
            _Words(text, ids, self._spans(text, ids, starts, ends))
            for text, ids, starts, ends in zip(texts, *columns, strict=True)
        ]

    def _spans(self, text: str, ids: list[int], starts: list[int], ends: list[int]) -> list[tuple[int, int, int, int]]:
        begins = [place for place, index in enumerate(ids) if not self.continues[index]] + [len(ids)]
        kept = self._kept_places(ids, begins)
        spans = []
        for begin, end in itertools.pairwise(begins):
            start, stop = starts[begin], ends[end - 1]
            beside = {*text[max(start - 1, 0) : start], *text[stop : stop + 1]}
            known = self.tokenizer.unk_id not in ids[begin:end]
            if begin not in kept and known and is_word(text[start:stop]) and not beside & _APOSTROPHES:
                spans.append((begin, end, start, stop))
        return spans

    def _kept_places(self, ids: list[int], begins: list[int]) -> set[int]:
        words, kept = set(begins), set[int]()
        for place in begins[:-1]:
            for phrase in self.kept.get(ids[place], ()):
                end = place + len(phrase)
                if end in words and ids[place:end] == phrase:
                    kept.update(range(place, end))
        return kept


# === Copies ===


class _Row:
    """A text, or pair, and the random choices for its copies, which are made at once by a generator of its own."""

    def __init__(self, row: int, sides: Sequence[_Words], seed: int, per_text: int, replace_rate: float):
        self.sides = sides
        self.words = [(side, span) for side, words in enumerate(sides) for span in words.spans]
        random = np.random.default_rng((seed, row))
        shape = (per_text, len(self.words))
        self.replaced = random.random(shape) < replace_rate
        self.choices = random.random(shape)
        if self.words:  # at least one word in each copy
            self.replaced[np.arange(per_text), random.integers(len(self.words), size=per_text)] |= ~self.replaced.any(1)
        self.asked = np.flatnonzero(self.replaced.any(axis=0))

    def blanks(self) -> list[Blank]:
        """The words that at least one copy replaces."""
        blanks = []
        for side, (begin, end, *_) in (self.words[word] for word in self.asked):
            companion = self.sides[1 - side].ids if len(self.sides) == 2 else None
            blanks.append(Blank(self.sides[side].ids, begin, end, companion))
        return blanks

    def copies(self, proposals: Iterator[list[str]]) -> list[tuple[str, ...]]:
        """The text itself, then its distinct copies. Takes one proposal from the iterator for each blank."""
        proposed = {word: next(proposals) for word in self.asked}
        copies = [tuple(words.text for words in self.sides)]
        for replaced, choices in zip(self.replaced, self.choices, strict=True):
            copy = list(copies[0])
            for word in np.flatnonzero(replaced)[::-1]:  # from the end, so that earlier offsets stay valid
                if words := proposed[word]:
                    side, (*_, start, stop) = self.words[word]
                    copy[side] = copy[side][:start] + words[int(choices[word] * len(words))] + copy[side][stop:]
            copies.append(tuple(copy))
        return list(dict.fromkeys(copies))
