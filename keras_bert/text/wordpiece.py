"""Runs BERT's normalization and WordPiece as TensorFlow ops: string tensors to ids and their offsets.

Two ops of tensorflow-text do the work: `FastBertNormalize`, with an exact character table, and
`FastWordpieceTokenize`, which splits words and matches pieces in one pass. The second op has Unicode tables of its own.
To bypass them, every character beyond ASCII that the vocabulary has is replaced by a private-use character between the
two ops, and every other one by one unknown character.

Normalizing character by character is exact for nearly every text. A regular expression finds the rows for which it is
not (words of more than 100 characters, marks that canonical ordering moves, bytes that are not UTF-8), and only those
rows take a slower path. Constants are NumPy arrays that become graph constants, so there is nothing to initialize,
track or restore.
"""

import dataclasses
import functools
import re

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.character_trie import CODE_POINTS, CharacterTable
from keras_bert.text.unicode_tables import TextRules, in_ranges, load_tables, spell, spell_all

LONGEST_WORD = 100  # characters; the reference replaces a longer word by the unknown token
_UNKNOWN, _MALFORMED = "\x02", "\x03"  # normalization removes both, so between the ops they are free to use
_STAND_INS = [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]
_SEPARATORS = r" !-/:-@\[-`{-~"  # what ends a word after normalization, for a regular expression
_LONGEST_TOKEN = 256  # bytes, of the op
_VALID_UTF8 = r"[\x{0}-\x{d7ff}\x{e000}-\x{10ffff}]*"
_TOO_LONG = "x" * (4 * LONGEST_WORD + 1)  # over the op's byte limit, so unknown with every vocabulary


@dataclasses.dataclass(frozen=True)
class WordpieceGraph:
    """The constants of the tokenizer's graph, and the functions that build it.

    ```python
    graph = WordpieceGraph.build(["[UNK]", "un", "##able"], "[UNK]", TextRules())
    graph.tokenize(tf.constant(["Unable"]))  # <tf.RaggedTensor [[1, 2]]>
    ```
    """

    orders_marks: bool
    normalizer: np.ndarray  # uint8: what each character becomes
    preparer: np.ndarray  # uint8: what each character of a hard row becomes before that
    wordpiece: np.ndarray  # uint8: the vocabulary
    simple: str  # a regular expression for normalized rows that need nothing more

    @classmethod
    def build(cls, vocabulary: list[str], unknown_token: str, rules: TextRules) -> "WordpieceGraph":
        """Compile a vocabulary, which must contain `unknown_token`."""
        movable = [chr(code) for code in load_tables().reorderable()] if rules.strip_accents else []
        stand_ins = _assign_stand_ins(vocabulary, movable)
        tokens = _write_tokens(vocabulary, stand_ins)
        unknown = tokens[vocabulary.index(unknown_token)]
        tokens.append(_MALFORMED)  # never matches; the op needs at least one token without punctuation
        wordpiece = tf_text.build_fast_wordpiece_model(tokens, 4 * LONGEST_WORD, "##", unknown, False, False)
        hard = "".join(rf"\x{{{ord(stand_ins[ord(char)]):x}}}" for char in movable) + re.escape(_MALFORMED)
        word = f"[^{_SEPARATORS}{hard}]{{0,{LONGEST_WORD}}}"
        return cls(
            orders_marks=rules.strip_accents,
            normalizer=_normalizer(rules, tuple(stand_ins.items())),
            preparer=_preparer(rules.strip_accents),
            wordpiece=np.frombuffer(wordpiece, np.uint8),
            simple=f"(?:{word}[{_SEPARATORS}])*{word}",
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of a vector of texts."""
        (ids,), row_splits = self._tokenize(texts, with_bytes=False)
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)

    def tokenize_with_bytes(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Return the ids and, flat, a byte of the first and of the last character that each id comes from."""
        (ids, first, last), row_splits = self._tokenize(texts, with_bytes=True)
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False), first, last

    def _tokenize(self, texts: tf.Tensor, with_bytes: bool) -> tuple[list[tf.Tensor], tf.Tensor]:
        normalizer, wordpiece = tf.constant(self.normalizer), tf.constant(self.wordpiece)
        if with_bytes:
            normalized, origins = _replace_characters(texts, normalizer)
        else:
            normalized = tf_text.FastBertNormalizer(model_buffer=normalizer).normalize(texts)
        ids, starts, ends = _match_pieces(normalized, wordpiece)
        flat = [ids.flat_values]
        if with_bytes:
            rows = ids.value_rowids()
            flat += [_look_up(origins, rows, starts), _look_up(origins, rows, ends - 1)]
        is_simple = tf.strings.regex_full_match(normalized, self.simple)

        def replace_hard_rows() -> tuple[list[tf.Tensor], tf.Tensor]:
            hard = self._tokenize_hard_rows(tf.boolean_mask(texts, ~is_simple), normalizer, wordpiece)
            return _merge_rows(flat, ids.row_splits, is_simple, *hard)

        return tf.cond(tf.reduce_all(is_simple), lambda: (flat, ids.row_splits), replace_hard_rows)

    def _tokenize_hard_rows(
        self, texts: tf.Tensor, normalizer: tf.Tensor, wordpiece: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Tokenize the difficult rows: put marks in order, then match word by word, so that lengths are known."""
        texts, sources = _replace_characters(_require_utf8(texts), tf.constant(self.preparer))
        if self.orders_marks:
            texts, sources = _order_marks(texts, sources)
        normalized, origins = _replace_characters(texts, normalizer)
        words = tf.strings.split(normalized, " ")
        sizes = tf.cast(tf.strings.length(words.flat_values), tf.int64)
        begins = tf.cumsum(sizes + 1, exclusive=True)  # + 1 for the space behind each word
        begins -= tf.gather(tf.gather(begins, words.row_starts()), words.value_rowids())
        is_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > LONGEST_WORD

        ids, starts, ends = _match_pieces(tf.where(is_long, _TOO_LONG, words.flat_values), wordpiece)
        word = ids.value_rowids()
        row = tf.gather(words.value_rowids(), word)
        ends = tf.where(tf.gather(is_long, word), tf.gather(sizes, word), ends)
        first = _look_up(sources, row, _look_up(origins, row, tf.gather(begins, word) + starts))
        last = _look_up(sources, row, _look_up(origins, row, tf.gather(begins, word) + ends - 1))
        return [ids.flat_values, first, last], tf.gather(ids.row_splits, words.row_splits)


# === Ops ===


def _replace_characters(texts: tf.Tensor, model: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Return the new texts and, for each of their bytes and for their ends, the byte it came from."""
    return tf_text.FastBertNormalizer(model_buffer=model).normalize_with_offsets(texts)


def _require_utf8(texts: tf.Tensor) -> tf.Tensor:
    is_valid = tf.strings.regex_full_match(texts, _VALID_UTF8)
    complaint = "A text is not valid UTF-8. Decode it with its own encoding first, or replace invalid bytes by "
    complaint += "tf.strings.unicode_transcode(texts, 'UTF-8', 'UTF-8'). The first such texts:"
    readable = tf.strings.unicode_transcode(tf.boolean_mask(texts, ~is_valid)[:3], "UTF-8", "UTF-8")
    with tf.control_dependencies([tf.Assert(tf.reduce_all(is_valid), [complaint, readable])]):
        return tf.identity(texts)


def _order_marks(texts: tf.Tensor, origins: tf.RaggedTensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Sort each run of combining marks by class, as canonical ordering does, and move the origins with them."""
    chars, begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    codes, rows = chars.flat_values, chars.value_rowids()
    sources = _look_up(origins, rows, begins.flat_values)
    rank = _combining_rank(codes)
    run = tf.cumsum(tf.cast(rank == 0, tf.int64)) + rows  # + rows: a run never crosses into the next text
    order = tf.argsort(run * 256 + rank, stable=True)
    codes = tf.gather(codes, order)
    # The reference moves the characters but not their alignment: the n-th character that begins a decomposition is
    # aligned with the n-th character of the text.
    opens = tf.concat([[True], (sources[1:] != sources[:-1]) | (rows[1:] != rows[:-1])], 0)[: tf.size(codes)]
    nth = tf.cumsum(tf.cast(tf.gather(opens, order), tf.int64)) - 1
    sources = tf.gather(tf.boolean_mask(sources, opens), nth)
    size = 1 + sum(tf.cast(codes >= least, tf.int32) for least in (0x80, 0x800, 0x10000))  # bytes of UTF-8
    ordered = tf.strings.unicode_encode(chars.with_flat_values(codes), "UTF-8")
    lengths = tf.cast(tf.strings.length(ordered), tf.int64)
    return ordered, tf.RaggedTensor.from_row_lengths(tf.repeat(sources, size), lengths, validate=False)


def _combining_rank(codes: tf.Tensor) -> tf.Tensor:
    classes = sorted(load_tables().combining_class.items())
    marks = tf.constant([code for code, _ in classes], tf.int32)
    ranks = tf.constant([rank for _, rank in classes], tf.int64)
    nearest = tf.minimum(tf.searchsorted(marks, codes), tf.size(marks) - 1)
    return tf.where(tf.gather(marks, nearest) == codes, tf.gather(ranks, nearest), 0)


def _match_pieces(texts: tf.Tensor, model: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
    """Run WordPiece: ids (ragged int32), and the first and the end byte of each, flat int64."""
    op = tf_text.FastWordpieceTokenizer(model_buffer=model, token_out_type=tf.int32)
    ids, starts, ends = op.tokenize_with_offsets(texts)
    return ids, starts.flat_values, ends.flat_values


def _look_up(ragged: tf.RaggedTensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Read `ragged[row, column]` for many pairs at once."""
    return tf.cast(tf.gather(ragged.flat_values, tf.gather(ragged.row_starts(), rows) + columns), tf.int64)


def _merge_rows(
    flat: list[tf.Tensor],
    row_splits: tf.Tensor,
    is_simple: tf.Tensor,
    hard_flat: list[tf.Tensor],
    hard_row_splits: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Take the simple rows from the first result and the other rows, in order, from the second."""
    rows = tf.range(tf.size(is_simple))
    nth_hard = tf.cumsum(tf.cast(~is_simple, tf.int32)) - 1
    choice = tf.where(is_simple, rows, tf.size(is_simple) + nth_hard)

    def merge(values: tf.Tensor, hard_values: tf.Tensor) -> tf.RaggedTensor:
        both = [tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)]
        both += [tf.RaggedTensor.from_row_splits(hard_values, hard_row_splits, validate=False)]
        return tf.gather(tf.concat(both, 0), choice)

    merged = [merge(*pair) for pair in zip(flat, hard_flat, strict=False)]
    return [ragged.flat_values for ragged in merged], merged[0].row_splits


def locate(
    texts: tf.Tensor, rows: tf.Tensor, first: tf.Tensor, last: tf.Tensor, unit: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Turn bytes within the first and the last character of tokens into offsets `(starts, ends)`, int32.

    Args:
        texts: Strings `[N]`.
        rows: The index of each token's text.
        first, last: Bytes of that text, as `WordpieceGraph.tokenize_with_bytes` gives them.
        unit: `"char"` or `"byte"`.
    """
    bytes_before = tf.cumsum(tf.cast(tf.strings.length(texts), tf.int64), exclusive=True)
    text = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
    opens_char = (text & 0xC0) != 0x80
    chars_before = tf.concat([[0], tf.cumsum(tf.cast(opens_char, tf.int32))], 0)  # of each byte, and of the end
    offset = tf.gather(bytes_before, rows)
    starts, ends = tf.gather(chars_before, first + offset), tf.gather(chars_before, last + offset + 1)
    if unit == "char":
        offset = tf.gather(chars_before, offset)
    else:
        char_begins = tf.concat([tf.where(opens_char)[:, 0], [tf.size(text, tf.int64)]], 0)
        starts, ends = tf.gather(char_begins, starts), tf.gather(char_begins, ends)
    return tf.cast(starts - offset, tf.int32), tf.cast(ends - offset, tf.int32)


# === Tables ===


def _assign_stand_ins(vocabulary: list[str], movable: list[str]) -> dict[int, str]:
    """Choose a private-use character for every character beyond ASCII that the vocabulary has or that can move."""
    cleaned_away = load_tables().drop + load_tables().space
    beyond_ascii = {char for token in set(vocabulary) for char in token if not char.isascii()} - set(movable)
    known = [char for char in sorted(beyond_ascii) if not in_ranges(ord(char), cleaned_away)]
    if len(movable) + len(known) > len(_STAND_INS):
        raise ValueError(
            f"The vocabulary has {len(known)} different characters beyond ASCII; use one with at most "
            f"{len(_STAND_INS) - len(movable)}."
        )
    return {ord(char): chr(code) for char, code in zip([*movable, *known], _STAND_INS, strict=False)}


def _write_tokens(vocabulary: list[str], stand_ins: dict[int, str]) -> list[str]:
    """Write tokens as words look after normalization; a token that no text can give must never match."""
    cleaned_away = load_tables().drop + load_tables().space
    lost = {char for char in set("".join(vocabulary)) if in_ranges(ord(char), cleaned_away)}
    written = []
    for index, token in enumerate(vocabulary):
        body = token.removeprefix("##")
        if 0 < len(body) <= LONGEST_WORD and lost.isdisjoint(body):
            if len(body.translate(stand_ins).encode()) > _LONGEST_TOKEN:
                raise ValueError(f"Token {index}, {token[:20]!r}…, has over {_LONGEST_TOKEN} bytes; leave it out.")
            written.append(token.translate(stand_ins))
        else:
            written.append(f"[{_UNKNOWN}{index}]")  # a token with punctuation inside never matches
    return written


# Vocabularies of a language have the same stand-ins: a second tokenizer needs no tables of its own.
@functools.lru_cache(maxsize=8)
def _normalizer(rules: TextRules, stand_ins: tuple[tuple[int, str], ...]) -> np.ndarray:
    return _normalizer_table(rules, dict(stand_ins)).build()


@functools.cache
def _preparer(decompose: bool) -> np.ndarray:
    return _preparer_table(decompose=decompose).build()


def _normalizer_table(rules: TextRules, stand_ins: dict[int, str]) -> CharacterTable:
    tables = load_tables()
    spellings = spell_all(rules) | {code: spell(chr(code), rules) for code in stand_ins}
    # The second op splits off ASCII punctuation itself, and faster without spaces.
    spellings.update({code: chr(code) for code in tables.punctuation if code < 0x80})
    table = CharacterTable(malformed=_MALFORMED)
    table.replace(range(0x80, CODE_POINTS), _UNKNOWN)
    if rules.split_cjk:
        for span in tables.cjk:
            table.replace(span, f" {_UNKNOWN} ")
    for code, spelled in spellings.items():
        text = "".join(char if char.isascii() else stand_ins.get(ord(char), _UNKNOWN) for char in spelled)
        if text != chr(code):
            table.replace(range(code, code + 1), text)
    for span in tables.drop:
        table.replace(span, "")
    for span in tables.space:
        table.replace(span, " ")
    return table


def _preparer_table(decompose: bool) -> CharacterTable:
    """Make the table that drops characters, puts spaces around ASCII punctuation and decomposes marked characters."""
    tables = load_tables()
    table = CharacterTable(malformed=_MALFORMED)
    for span in tables.drop:
        table.replace(span, "")
    for code in tables.punctuation.intersection(range(0x80)):
        table.replace(range(code, code + 1), f" {chr(code)} ")
    for code, parts in tables.decomposition.items() if decompose else ():
        if not tables.combining_class.keys().isdisjoint(map(ord, parts)):
            table.replace(range(code, code + 1), parts)
    return table
