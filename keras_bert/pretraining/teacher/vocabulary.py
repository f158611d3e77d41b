"""A teacher's tokenizer and text files → the tokenizer with the pieces that such text needs, and lists of its words.

Greedy WordPiece takes the longest piece that fits, so a text whose pieces are all kept is cut as before. The token
table is most of a small BERT: leaving out what does not occur is the cheapest way to a smaller one. Words that a
student keeps and its text hardly has are learned from lists of words.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from keras_bert.pretraining.corpus.documents import CorpusError, find_files
from keras_bert.pretraining.corpus.units import decode_documents, group_files, read_units
from keras_bert.system.atomic_files import write_whole
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, single_characters

_UNIT_BYTES = 1 << 23
_TEXTS_AT_ONCE = 256
_WORDS_OF_A_LINE, _LINES_OF_A_DOCUMENT = 30, 8


def trim_tokenizer(
    tokenizer: BertTokenizer,
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    size: int | None = None,
    *,
    text_field: str = "text",
) -> BertTokenizer:
    """A tokenizer with fewer pieces, chosen by text files.

    Args:
        tokenizer: The whole one; pieces keep their order.
        files, text_field: As for `write_examples`.
        size: How many pieces to keep, the most frequent ones; `None` keeps all that occur. Special tokens and single
            characters always stay.

    Example:
        ```python
        smaller = trim_tokenizer(tokenizer, "corpus/*.txt.gz", 12_000)
        ```
    """
    counts = _count_pieces(tokenizer, find_files(files), text_field)
    if not counts.sum():
        raise CorpusError("The files have no text to choose pieces by; expected UTF-8 text, or .jsonl with documents.")
    vocabulary = tokenizer.vocabulary
    wanted = {*SPECIAL_TOKENS, tokenizer.unknown_token} | single_characters(vocabulary, counts)
    kept = {index for index, token in enumerate(vocabulary) if token in wanted}
    if size is not None and size < len(kept):
        raise ValueError(
            f"size={size} is too small: special tokens and single characters alone are {len(kept)}; ask for more."
        )
    for index in np.argsort(-counts, kind="stable"):
        if not counts[index] or (size is not None and len(kept) >= size):
            break
        kept.add(int(index))
    tokens = [vocabulary[index] for index in sorted(kept)]
    return BertTokenizer.from_config({**tokenizer.get_config(), "vocabulary": tokens})


def write_word_lists(tokenizer: BertTokenizer, path: str | os.PathLike[str], times: int, *, seed: int = 0) -> Path:
    """Write all whole words of a vocabulary in random order, several times; gives the path.

    A teacher says what a word means without a text around it, and so a student learns the words that its text hardly
    has.

    Args:
        tokenizer: The student's. Its words are the tokens that begin a word and have two letters or digits and more.
        path: A text file that `write_examples` reads: a line for some words, documents of some lines.
        times: How often each word is written.
        seed: Decides the order.

    Example:
        ```python
        files = ["corpus.txt.gz", write_word_lists(tokenizer, "words.txt", 40)]
        ```
    """
    words = [token for token in tokenizer.vocabulary if len(token) > 1 and token.isalnum() and not token.isdigit()]
    if times < 1 or not words:
        raise ValueError(
            f"times={times} and {len(words)} whole words in the vocabulary; expected at least one of each."
        )
    rng, lines = np.random.default_rng(seed), []
    for _ in range(times):
        order = [words[index] for index in rng.permutation(len(words))]
        texts = [" ".join(order[at : at + _WORDS_OF_A_LINE]) for at in range(0, len(order), _WORDS_OF_A_LINE)]
        documents = [texts[at : at + _LINES_OF_A_DOCUMENT] for at in range(0, len(texts), _LINES_OF_A_DOCUMENT)]
        lines += ["\n".join(document) + "\n" for document in documents]
    return write_whole(path, "\n".join(lines))


def _count_pieces(tokenizer: BertTokenizer, paths: list[str], text_field: str) -> np.ndarray:
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    groups = group_files(paths, _UNIT_BYTES)
    for group in range(len(groups)):
        for unit in read_units(groups, group, _UNIT_BYTES):
            texts, _ = decode_documents(unit.blocks, text_field)
            for first in range(0, len(texts), _TEXTS_AT_ONCE):
                ids, _ = tokenizer.tokenize_flat(texts[first : first + _TEXTS_AT_ONCE])
                counts += np.bincount(ids, minlength=len(counts))
    return counts
