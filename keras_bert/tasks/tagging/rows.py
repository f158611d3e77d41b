"""Tokenize sentences of words into rows, with the token of each word.

Takes a tokenizer and words; gives `TaggedData`. Training puts labels on these tokens, and answers read their logits.
Only NumPy is used, because the device runtime does the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.entities import Entity, find_entities, widest_context
from keras_bert.text.token_labels import TokenLabels
from keras_bert.text.tokenized_texts import FlatTokenizer, tokenize_words
from keras_bert.text.words import split_words

if TYPE_CHECKING:
    from typing_extensions import Self

_WORDS_LOOKED_AT = 10_000


@dataclass(frozen=True)
class TaggedData(PreparedData):
    """Sentences as a tagger trains on them; `places` and `tags` have an entry for each word of all sentences.

    Args:
        places: The index of the first piece of each word among the tokens of all rows; with several windows, in the
            one with the most context. −1 for words without pieces, and for words that were cut off.
        word_splits: Where the words of each sentence begin and end.
        tags: The tags of the words, as classes of the model; `None` if they are unknown.
    """

    places: np.ndarray = field(kw_only=True)
    word_splits: np.ndarray = field(kw_only=True)
    tags: np.ndarray | None = None

    def first_rows(self, count: int) -> "Self":
        """The sentences that are completely in the first `count` rows; at least the first one."""
        sentences = self.num_examples if count >= len(self.owners) else max(1, int(self.owners[count]))
        return replace(self.slice_examples(0, sentences), weights=None)

    def slice_examples(self, start: int, stop: int) -> "Self":
        """The sentences from `start` to before `stop`, with their words."""
        first, last = int(self.word_splits[start]), int(self.word_splits[stop])
        before = int(self.tokenized.lengths[: np.searchsorted(self.owners, start)].sum())
        places = self.places[first:last]
        return replace(
            super().slice_examples(start, stop),
            places=np.where(places < 0, -1, places - before),
            word_splits=self.word_splits[start : stop + 1] - first,
            tags=None if self.tags is None else self.tags[first:last],
        )

    def by_sentence(self, values: np.ndarray) -> list[np.ndarray]:
        """Split an array of values for all words by sentence."""
        return np.split(values, self.word_splits[1:-1])

    def token_labels(self, labels: np.ndarray, *, chained: bool = False) -> TokenLabels:
        """Put the labels of words on their tokens. Every word counts once, in its best window.

        Args:
            labels: One label for each word whose place is not −1.
            chained: Whether the loss uses the labels of a row together.
        """
        lengths = self.tokenized.lengths
        values = np.full(lengths.sum(), -1, np.int32)
        values[self.places[self.places >= 0]] = labels
        return TokenLabels(values, np.concatenate([[0], np.cumsum(lengths)]), chained)


def arrange_words(
    tokenizer: FlatTokenizer,
    sentences: Sequence[Sequence[str]],
    *,
    sequence_length: int,
    long_texts: str = "windows",
) -> TaggedData:
    """Tokenize sentences into rows of at most `sequence_length` tokens, with the place of each word.

    Args:
        tokenizer: A `BertTokenizer`, or another with its flat methods.
        sentences: The words of each sentence.
        sequence_length: Maximum number of tokens of a row, including special ones.
        long_texts: `"windows"` reads long sentences in overlapping windows, `"cut"` cuts them, with a note.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c"])
        >>> arrange_words(tokenizer, [["ab", "c"], ["c"]], sequence_length=8).places.tolist()
        [1, 3, 6]
    """
    tokenized, first_pieces = tokenize_words(tokenizer, sentences)
    # Windows over the numbers of the pieces show which piece each token is.
    notes: tuple[str, ...] = ()
    numbered = replace(tokenized, first_ids=np.arange(len(tokenized.first_ids)))
    if long_texts == "windows":
        numbered, owners = numbered.windows(sequence_length, max(1, sequence_length // 2))
    else:
        numbered, cut = numbered.trimmed(sequence_length)
        owners = np.arange(len(numbered))
        notes = (f"{cut:,} of {len(owners):,} texts were cut to {sequence_length} tokens",) if cut else ()
    pieces, splits = numbered.first_ids, numbered.first_splits
    chosen = widest_context(pieces, splits)
    rows = np.searchsorted(splits, chosen, side="right") - 1
    tokens = np.full(len(tokenized.first_ids) + 1, -1)  # the last one is for words without pieces
    tokens[pieces[chosen]] = chosen + 2 * rows + 1  # [CLS] and [SEP] of the rows before, and its own [CLS]
    word_splits = np.concatenate([[0], np.cumsum([len(words) for words in sentences], dtype=np.int64)])
    ids = replace(numbered, first_ids=tokenized.first_ids[pieces])
    return TaggedData(ids, None, None, owners, notes, places=tokens[first_pieces], word_splits=word_splits)


def read_entities(
    located: Sequence[tuple[str, list[tuple[str, int, int]]]],
    data: TaggedData,
    logits: np.ndarray,
    tags: Sequence[str],
    scores: np.ndarray,
    *,
    threshold: float = 0.0,
) -> list[list[Entity]]:
    """Decode the entities of every text from the logits of its words.

    Args:
        located: Each text and its words, as `locate_words` gives them.
        data: The same words, from `arrange_words`.
        logits: The logits of the words of all texts, `[words, C]`; for words without a place any value.
        tags: The tags, in the order of the logits.
        scores: From `transition_scores`.
        threshold: The minimum probability of an entity.
    """
    answers = []
    sentences = zip(located, data.by_sentence(data.places), data.by_sentence(logits), strict=True)
    for (text, words), places, rows in sentences:
        kept = [words[index] for index in np.flatnonzero(places >= 0)]
        found = find_entities(text, kept, rows[places >= 0], tags, scores)
        answers.append([entity for entity in found if entity.probability >= threshold])
    return answers


def find_splitting(sentences: Sequence[Sequence[str]]) -> str:
    """Find the splitting of raw texts that gives such words: `"characters"` if these are single, else `"words"`.

    Example:
        >>> find_splitting([["东", "京", "1", "9"]]), find_splitting([["a", "word"]])
        ('characters', 'words')
    """
    words = [word for words in sentences for word in words][:_WORDS_LOOKED_AT]
    single = sum(len(split_words(word, "characters")) <= 1 for word in words)
    return "characters" if single > 0.99 * len(words) else "words"
