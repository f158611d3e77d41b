"""Tokenize a text exactly as a task or a model reads it.

Takes an input of a task's `predict`; gives a `TokenRow`, the tokens with the model's three inputs. Tasks differ: a
tagger tokenizes word by word, a relation has markers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.model.encoder import encoder_config
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.relation.files import marked_or_error
from keras_bert.tasks.relation.task import RelationClassifier
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts, tokenize_words
from keras_bert.text.words import locate_words


@dataclass(frozen=True, eq=False)
class TokenRow:
    """One row as the model reads it.

    Args:
        tokens: The pieces, including special ones.
        inputs: `token_ids`, `segment_ids`, `padding_mask`, int32 `[1, T]`.
        special: Which tokens are not from the text: `[CLS]`, `[SEP]`, `[PAD]`.
    """

    tokens: tuple[str, ...]
    inputs: dict[str, np.ndarray]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def padded(self, length: int, pad: tuple[int, str]) -> "TokenRow":
        """Return the row padded to a length; `pad` is the padding token as `(id, token)`."""
        more = length - len(self)
        if more < 0:
            raise ValueError(
                f"sequence_length={length}: the text has {len(self)} tokens; expected at least {len(self)}."
            )
        fills = {"token_ids": pad[0], "segment_ids": 0, "padding_mask": 0}
        inputs = {name: np.pad(self.inputs[name], ((0, 0), (0, more)), constant_values=fills[name]) for name in fills}
        return TokenRow((*self.tokens, *[pad[1]] * more), inputs, (*self.special, *[True] * more))


def open_model(source: Any, tokenizer: SubwordTokenizer | None = None) -> tuple[keras.Model, SubwordTokenizer]:
    """Return the model and the tokenizer of a task, or the given ones."""
    if isinstance(source, Task):
        return source.model, source.tokenizer if tokenizer is None else tokenizer
    if not isinstance(source, keras.Model):
        raise TypeError(f"source is a {type(source).__name__}; expected a task or a model.")
    if tokenizer is None:
        raise ValueError(
            "source is a model, which has no tokenizer; pass tokenizer=…, which load_encoder returns with the model."
        )
    return source, tokenizer


def read_row(source: Any, text: Any, tokenizer: SubwordTokenizer | None = None) -> TokenRow:
    """Tokenize a text into a row. A text that is too long for one row of the task is cut.

    Args:
        source: A task, or a model.
        text: A string; a pair of strings, such as a question and its context; for a tagger also a list of words; for a
            relation a text with tags.
        tokenizer: The tokenizer of a model.

    Example:
        ```python
        read_row(classifier, "A cat.").tokens  # ('[CLS]', 'a', 'cat', '.', '[SEP]')
        ```
    """
    model, tokenizer = open_model(source, tokenizer)
    limit = getattr(source, "sequence_length", encoder_config(model).max_sequence_length)
    if isinstance(source, RelationClassifier):
        tokenized, _ = source.pack([marked_or_error(text, 1)])
    elif hasattr(source, "splitting"):  # the task tags words
        splitting = "words" if source.splitting == "auto" else source.splitting
        words = [word for word, _, _ in locate_words(text, splitting)[1]]
        tokenized, _ = tokenize_words(tokenizer, [words])
    else:
        tokenized = tokenize_texts(tokenizer, *_sides(text))
    return as_row(tokenized.trimmed(limit)[0], tokenizer)


def as_row(tokenized: TokenizedTexts, tokenizer: SubwordTokenizer) -> TokenRow:
    """The first of some tokenized texts as a row."""
    ids, splits, second_begins = tokenized.packed()
    ids = ids[: splits[1]]
    places = np.arange(len(ids))
    inputs = {
        "token_ids": ids,
        "segment_ids": places >= second_begins[0],
        "padding_mask": np.ones_like(ids),
    }
    return TokenRow(
        tuple(tokenizer.id_to_token(int(index)) for index in ids),
        {name: np.asarray(values, np.int32)[None] for name, values in inputs.items()},
        # By position, not by id: a [SEP] that is written in the text is text.
        tuple(bool(special) for special in np.isin(places, [0, second_begins[0] - 1, len(ids) - 1])),
    )


def join_words(tokens: Sequence[str]) -> list[list[int]]:
    """Group the indices of tokens by word.

    Example:
        >>> join_words(["[CLS]", "un", "##able", "!"])
        [[0], [1, 2], [3]]
    """
    words: list[list[int]] = []
    for place, token in enumerate(tokens):
        if token.startswith("##") and words:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def _sides(text: Any) -> tuple[list[str], ...]:
    if isinstance(text, str):
        return ([text],)
    if isinstance(text, Sequence) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return [text[0]], [text[1]]
    raise TypeError(f"text={text!r}: expected a string, or a pair of strings.")
