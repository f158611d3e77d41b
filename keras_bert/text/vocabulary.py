"""Reads and writes WordPiece vocabularies; learns these and Unigram models.

Learning uses the WordPiece trainer of the Rust `tokenizers`, and SentencePiece's for Unigram. In addition, memory is
bounded, and the same corpus always gives the same tokens in the same order.
"""

import glob
import gzip
import io
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from tqdm import tqdm

from keras_bert.system.atomic_files import write_whole
from keras_bert.system.progress import hides_bar
from keras_bert.text.unicode_tables import TextRules, spell
from keras_bert.text.unigram_model import UnigramModel, with_special_tokens

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_BLOCK_CHARACTERS = 1 << 16
_LONGEST_LINE = 1000  # characters; SentencePiece leaves out lines of more than 4,192 bytes

# === Files ===


def read_vocabulary(path: str | os.PathLike[str]) -> list[str]:
    """Read a `vocab.txt`: one token per line, in the order of the ids.

    ```python
    tokens = read_vocabulary("bert-base-uncased/vocab.txt")
    ```
    """
    path = Path(path)
    if not path.is_file():
        hint = f"{path / 'vocab.txt'}" if path.is_dir() else "an existing file, or a list of tokens"
        raise FileNotFoundError(f"No vocabulary file at {str(path)!r}; pass {hint}.")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error}); expected a vocabulary with one token per line."
        ) from None
    # Not splitlines(): some vocabularies have tokens such as U+2028, which it takes for line ends.
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if text else []


def write_vocabulary(tokens: Iterable[str], path: str | os.PathLike[str]) -> None:
    """Write a `vocab.txt` atomically.

    ```python
    write_vocabulary(learn_vocabulary("corpus/*.txt", 8000), "vocab.txt")
    ```
    """
    tokens, path = list(tokens), Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a directory; pass the file to write, such as {path / 'vocab.txt'}.")
    for index, token in enumerate(tokens):
        if "\n" in token or token.endswith("\r"):
            raise ValueError(
                f"Token {index} is {token!r}, but a vocab.txt has one token per line; remove the line end from it."
            )
    write_whole(path, "".join(f"{token}\n" for token in tokens))


def single_characters(vocabulary: Sequence[str], counts: Iterable[int]) -> set[str]:
    """The tokens of one character, alone or as a continuation, from those blocks of Unicode that occur in some texts.

    A smaller vocabulary that keeps them spells a word that it does not know. CJK ideographs, which are words of their
    own, are left out.

    Args:
        vocabulary: The tokens.
        counts: How often each occurs in the texts.

    Example:
        >>> sorted(single_characters(["the", "e", "##e", "я"], [3, 0, 0, 0]))
        ['##e', 'e']
    """
    blocks = {
        ord(character) >> 8 for token, count in zip(vocabulary, counts, strict=True) if count for character in token
    }
    single = {token for token in vocabulary if len(token.removeprefix("##")) == 1}
    return {token for token in single if ord(token[-1]) >> 8 in blocks and not "\u2e80" <= token[-1] <= "\U0003ffff"}


# === Learning ===


def learn_vocabulary(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    size: int,
    *,
    kind: str = "wordpiece",
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
    min_frequency: int = 2,
    special_tokens: Iterable[str] = SPECIAL_TOKENS,
    limit_alphabet: int = 1000,
    limit_bytes: int = 128_000_000,
    byte_fallback: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Any:
    """Learn a vocabulary from text files, plain or `.gz`: WordPiece for `BertTokenizer`, or Unigram.

    The text is read twice: once to count its characters, once to count words. Memory is bounded by `limit_bytes`: of a
    larger corpus a random sample of blocks from all files is used. The result depends only on the files and the
    arguments.

    Args:
        files: A path or glob pattern, or several.
        size: The largest number of tokens. A small corpus may give fewer.
        kind: `"wordpiece"`, or `"unigram"` for a `UnigramTokenizer` with XLM-R's special tokens, which suits several
            languages and needs the package `sentencepiece`. Of the arguments below, Unigram takes the last four.
        lowercase, strip_accents, split_cjk: As for the `BertTokenizer` that will use the vocabulary.
        min_frequency: How often a piece has to occur.
        special_tokens: The first tokens; their ids are 0, 1, …
        limit_alphabet: How many different characters to keep, by frequency; words with other characters become unknown.
        limit_bytes: How much text to learn from. Learning takes several times as much memory, and far more if hardly
            any word occurs twice.
        byte_fallback: For Unigram: whether unknown characters are spelled in bytes, so that no text is unknown.
        seed: The seed of the sample.
        progress: Whether to show progress bars.

    Returns:
        The tokens, in the order of their ids; of Unigram a `UnigramModel`.

    Example:
        ```python
        tokens = learn_vocabulary("corpus/*.txt.gz", 8000)
        tokenizer = BertTokenizer(tokens)
        ```
    """
    paths, special_tokens = _find_files(files), list(special_tokens)
    if kind not in ("wordpiece", "unigram"):
        raise ValueError(f"kind={kind!r}; choose 'wordpiece' or 'unigram'.")
    if kind == "unigram":
        counts = _count_characters(paths, progress)
        fraction = min(1.0, limit_bytes / max(1, _count_bytes(counts)))
        return _train_unigram(_sample(paths, fraction, seed, progress), size, byte_fallback)
    rules = TextRules(lowercase, lowercase if strip_accents is None else strip_accents, split_cjk)
    if "[UNK]" not in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError(f"special_tokens={special_tokens}: expected different tokens, with '[UNK]' among them.")
    counts = _count_characters(paths, progress)
    alphabet, suffixes = _choose_alphabet(counts, rules, limit_alphabet)
    if not alphabet:
        raise ValueError(f"Found no text in {len(paths)} file(s), the first of them {paths[0]}; pass files with text.")
    needed = len(special_tokens) + len(alphabet) + len(suffixes)
    if size < needed:
        raise ValueError(
            f"size={size} is too small: {len(special_tokens)} special tokens and {len(alphabet)} characters, "
            f"at the start of words and within words, need {needed}. Use a larger size or a smaller limit_alphabet."
        )
    fraction = min(1.0, limit_bytes / max(1, _count_bytes(counts)))
    sample, first_tokens = _sample(paths, fraction, seed, progress), [*special_tokens, *suffixes]
    return _train(sample, size, rules, min_frequency, first_tokens, alphabet)


def _sample(paths: list[str], fraction: float, seed: int, progress: bool) -> Iterator[str]:
    chooser = random.Random(seed)
    for block in _read_blocks(paths, "counting words", progress):
        if fraction == 1 or chooser.random() < fraction:
            yield block


def _train_unigram(blocks: Iterable[str], size: int, byte_fallback: bool) -> UnigramModel:
    """Run SentencePiece's trainer on texts, line by line."""
    try:
        import sentencepiece
    except ImportError:
        raise ImportError(
            "Learning a Unigram vocabulary needs the package sentencepiece: pip install 'keras-bert-edge[unigram]'."
        ) from None
    lines = (part for block in blocks for line in block.split("\n") for part in _cut_line(line.replace("\x00", "")))
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            model_type="unigram",
            vocab_size=size - 2,  # <pad> and <mask> are added
            hard_vocab_limit=False,
            byte_fallback=byte_fallback,
            num_threads=2,  # the result depends on it
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(f"No vocabulary of {size} pieces can be learned from these texts: {error}") from None
    return with_special_tokens(UnigramModel.from_bytes(model.getvalue()))


def _cut_line(line: str) -> Iterator[str]:
    """Yield a line in parts that the trainer takes, which leaves out longer ones."""
    while len(line) > _LONGEST_LINE:
        cut = line.rfind(" ", 0, _LONGEST_LINE) + 1 or _LONGEST_LINE
        yield line[:cut]
        line = line[cut:]
    if line.strip():
        yield line


def _train(
    texts: Iterable[str],
    size: int,
    rules: TextRules,
    min_frequency: int,
    first_tokens: list[str],
    alphabet: list[str],
) -> list[str]:
    """Run the trainer on texts.

    By default the trainer numbers the characters within words (`##a`) in the order of a randomly seeded hash table,
    and breaks ties by those numbers. Passed as special tokens they have fixed numbers, so the result is always the
    same.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.split_cjk,
        strip_accents=rules.strip_accents,
        lowercase=rules.lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=first_tokens,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=lambda token: ids[token])


def _find_files(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    patterns = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: dict[str, None] = {}  # a set that keeps the order
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        paths = [pattern] if os.path.isfile(pattern) else sorted(filter(os.path.isfile, glob.glob(pattern)))
        if not paths:
            raise FileNotFoundError(f"No file matches {pattern!r}; pass the path of a text file, or a pattern.")
        found.update(dict.fromkeys(paths))
    if not found:
        raise ValueError("Got no files; pass at least one text file to learn from.")
    return list(found)


def _read_blocks(paths: list[str], title: str, progress: bool) -> Iterator[str]:
    """Yield the text of all files in blocks that end between words."""
    total = sum(os.path.getsize(path) for path in paths)
    with tqdm(total=total, desc=title, unit="B", unit_scale=True, disable=hides_bar(progress)) as bar:
        for path in paths:
            before = 0
            with open(path, "rb") as raw, _decode(raw, path) as file:
                for block in _cut_blocks(file, path):
                    yield block
                    now = raw.tell()
                    bar.update(now - before)
                    before = now


def _decode(raw: BinaryIO, path: str) -> TextIO:
    return io.TextIOWrapper(gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw, encoding="utf-8")


def _cut_blocks(file: TextIO, path: str) -> Iterator[str]:
    rest = ""
    try:
        while chunk := file.read(_BLOCK_CHARACTERS):
            text = rest + chunk
            cut = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
            yield text[:cut]
            rest = text[cut:]
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not complete UTF-8 text ({error}); convert it, or leave it out.") from error
    if rest:
        yield rest


def _count_characters(paths: list[str], progress: bool) -> np.ndarray:
    counts = np.zeros(0x110000, np.int64)
    for block in _read_blocks(paths, "counting characters", progress):
        found = np.bincount(np.frombuffer(block.encode("utf-32-le"), np.uint32))
        counts[: len(found)] += found
    return counts


def _count_bytes(counts: np.ndarray) -> int:
    return sum(int(counts[least:].sum()) for least in (0, 0x80, 0x800, 0x10000))


def _choose_alphabet(counts: np.ndarray, rules: TextRules, limit: int) -> tuple[list[str], list[str]]:
    """Return the most frequent normalized characters, and `##` before those of them that occur within words."""
    frequency: dict[str, int] = {}
    within: set[str] = set()
    for code in np.flatnonzero(counts):
        spelled = spell(chr(code), rules)
        for char in spelled.replace(" ", ""):
            frequency[char] = frequency.get(char, 0) + int(counts[code])
        within.update("" if spelled.startswith(" ") else spelled)
    chosen = sorted(sorted(frequency), key=lambda char: frequency[char], reverse=True)[:limit]
    return sorted(chosen), [f"##{char}" for char in sorted(within.intersection(chosen))]
