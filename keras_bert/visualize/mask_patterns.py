"""Show attention masks: of padding, of several texts in one row, and of a prefix language model.

Each function takes a tokenizer and texts, and gives a `MaskPattern`. The encoder's own layers compute the masks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_bert.model.attention_bias import PackedBias, PaddingBias, PrefixBias
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import tokenize_texts
from keras_bert.visualize.colours import FAINT, GREY, PARTS
from keras_bert.visualize.matrices import draw_matrix, matrix_svg, picture_inches
from keras_bert.visualize.token_rows import TokenRow, as_row
from keras_bert.visualize.view import View, escape, new_figure


@dataclass(frozen=True, eq=False)
class MaskPattern(View):
    """An attention mask for a row of tokens.

    Args:
        name: The name of the pattern, for the title.
        tokens: The tokens of the row.
        visible: `[T, T]`: whether a token (row) sees a token (column).
        parts: The part that each token belongs to, from 0; −1 for padding.
        part_names: The names of the parts.
    """

    name: str
    tokens: tuple[str, ...]
    visible: np.ndarray
    parts: np.ndarray
    part_names: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.name

    @property
    def subtitle(self) -> str:
        return "Each row is a token; the coloured squares are the tokens that it sees."

    def _pixels(self) -> np.ndarray:
        """The colour of the part that is seen; pale for what padding sees."""
        pixels = np.full((*self.visible.shape, 3), _rgb(FAINT), np.uint8)
        for part, _ in enumerate(self.part_names):
            seen = self.visible & (self.parts == part)[None, :]
            pixels[seen] = _rgb(PARTS[part % len(PARTS)])
        # Nothing reads the states of padding.
        idle = self.visible & (self.parts < 0)[:, None]
        pixels[idle] = 0.25 * pixels[idle] + 0.75 * 255
        return pixels

    def _body(self) -> str:
        legend = "".join(
            f'<span style="margin-right: 18px"><span style="display: inline-block; width: 11px; height: 11px; '
            f'border-radius: 2px; background: {PARTS[number % len(PARTS)]}; margin-right: 6px"></span>{escape(name)}'
            "</span>"
            for number, name in enumerate(self.part_names)
        )
        return f'{matrix_svg(self.tokens, self._pixels())}<p class="note" style="margin: 8px 0 0">{legend}</p>'

    def _draw(self) -> Any:
        side = picture_inches(self.tokens)
        figure = new_figure(side, side + 0.2, self.title)
        axes = figure.add_subplot()
        draw_matrix(axes, self.tokens, self._pixels())
        for number, name in enumerate(self.part_names):
            axes.scatter([], [], marker="s", color=PARTS[number % len(PARTS)], label=name)
        place = {"loc": "upper left", "bbox_to_anchor": (0, -0.01), "borderaxespad": 0.2}
        axes.legend(ncols=3, frameon=False, fontsize=8, labelcolor=GREY, **place)
        return figure


def padding_mask(source: Any, text: Any, *, sequence_length: int) -> MaskPattern:
    """Show the mask of a padded text: every token sees the text, none sees the padding.

    Args:
        source: A tokenizer, or a task.
        text: A string, or a pair of strings.
        sequence_length: The number of tokens of the row.

    Example:
        ```python
        visualize.padding_mask(tokenizer, "A cat sat.", sequence_length=10).save("padding.png")
        ```
    """
    tokenizer = _tokenizer(source)
    pair = () if isinstance(text, str) else ([text[1]],)
    first = text if isinstance(text, str) else text[0]
    row = as_row(tokenize_texts(tokenizer, [first], *pair), tokenizer)
    row = row.padded(sequence_length, (tokenizer.pad_id, "[PAD]"))
    mask = row.inputs["padding_mask"]
    visible = np.broadcast_to(_numpy(PaddingBias()(mask))[0, 0] == 0, (len(row), len(row)))
    return MaskPattern("Padding mask", row.tokens, visible, mask[0] - 1, ("the text",))


def packed_mask(source: Any, texts: Sequence[str], *, sequence_length: int | None = None) -> MaskPattern:
    """Show the mask of several texts in one row: every token sees only its own text.

    Args:
        source: A tokenizer, or a task.
        texts: The texts of the row.
        sequence_length: The number of tokens of the row; `None` is without padding.

    Example:
        ```python
        visualize.packed_mask(tokenizer, ["A cat sat.", "It purred."], sequence_length=14)
        ```
    """
    tokenizer = _tokenizer(source)
    rows = [as_row(tokenize_texts(tokenizer, [text]), tokenizer) for text in texts]
    if not rows:
        raise ValueError("There are no texts; expected one or more that share a row.")
    row = _chain(rows)
    if sequence_length is not None:
        row = row.padded(sequence_length, (tokenizer.pad_id, "[PAD]"))
    owners = row.inputs["padding_mask"]
    bias, _ = PackedBias()(owners)
    names = tuple(f"text {number}" for number in range(1, len(rows) + 1))
    return MaskPattern("Packed row: block-diagonal mask", row.tokens, _numpy(bias)[0, 0] == 0, owners[0] - 1, names)


def prefix_mask(source: Any, prefix: str, continuation: str) -> MaskPattern:
    """Show the mask of a prefix language model: the target sees the prefix and its own past.

    Args:
        source: A tokenizer, or a task.
        prefix: The source text.
        continuation: The target text.

    Example:
        ```python
        visualize.prefix_mask(tokenizer, "A cat sat.", "It purred.")
        ```
    """
    tokenizer = _tokenizer(source)
    row = as_row(tokenize_texts(tokenizer, [prefix], [continuation]), tokenizer)
    segments = row.inputs["segment_ids"]
    bias = PrefixBias()(PaddingBias()(row.inputs["padding_mask"]), segments)
    parts = ("prefix", "continuation")
    return MaskPattern("Prefix mask", row.tokens, _numpy(bias)[0, 0] == 0, segments[0], parts)


def _chain(rows: Sequence[TokenRow]) -> TokenRow:
    """Join rows into one, with their numbers, from 1, in `padding_mask`."""
    inputs = {name: np.concatenate([row.inputs[name] for row in rows], axis=1) for name in rows[0].inputs}
    inputs["padding_mask"] = np.concatenate(
        [number * row.inputs["padding_mask"] for number, row in enumerate(rows, 1)], axis=1
    )
    tokens = tuple(token for row in rows for token in row.tokens)
    return TokenRow(tokens, inputs, tuple(special for row in rows for special in row.special))


def _tokenizer(source: Any) -> SubwordTokenizer:
    tokenizer = getattr(source, "tokenizer", source)
    if not isinstance(tokenizer, SubwordTokenizer):
        raise TypeError(f"source is a {type(source).__name__}; expected a tokenizer or a task.")
    return tokenizer


def _numpy(tensor: Any) -> np.ndarray:
    return ops.convert_to_numpy(tensor)


def _rgb(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
