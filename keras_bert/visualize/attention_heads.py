"""Show where the attention heads of a model look.

`attention` takes a task or an encoder and a text; it gives the probabilities of every layer and head, and a view of one
head, of the heads of a layer, or of all heads.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.model.encoder import encoder_config
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.visualize.colours import FAINT, GREY, INK, STRONG, as_data_uri, shades
from keras_bert.visualize.matrices import draw_matrix, matrix_svg, picture_inches, shorten, text_width
from keras_bert.visualize.token_rows import open_model, read_row
from keras_bert.visualize.view import View, escape, new_figure, set_spacing

_LINES_UP_TO = 64  # tokens; with more, the lines would be a grey block


@dataclass(frozen=True, eq=False)
class Attention(View):
    """The attention of a model for a text; from `attention`.

    Args:
        tokens: The tokens of the text, including special ones.
        weights: The probabilities, `[layers, heads, T, T]`: how much a token (row) attends to each token (column).
        layer: The layer that is shown; `None` shows all.
        head: The head that is shown, or `"mean"` for the mean of a layer's heads; `None` shows all.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray
    layer: int | None = None
    head: int | str | None = None

    @property
    def shown(self) -> np.ndarray:
        """The probabilities that are shown, `[layers, heads, T, T]`."""
        chosen = self.weights if self.layer is None else self.weights[self.layer][None]
        if self.head is None:
            return chosen
        return chosen[:, [self.head]] if isinstance(self.head, int) else chosen.mean(axis=1, keepdims=True)

    @property
    def title(self) -> str:
        layers, heads = self.weights.shape[:2]
        layer = f"all {layers} layers" if self.layer is None else f"layer {self.layer}"
        if self.head is None:
            return f"Attention: {layer}, all {heads} heads"
        return f"Attention: {layer}, " + (f"the mean of {heads} heads" if self.head == "mean" else f"head {self.head}")

    @property
    def subtitle(self) -> str:
        return "Each row is a token and shows which tokens it attends to; the darker, the more."

    # === HTML ===

    def _body(self) -> str:
        shown = self.shown
        if shown.shape[:2] == (1, 1):
            return self._one_head(shown[0, 0])
        layers, heads = shown.shape[:2]
        columns = "".join(f'<th style="{_HEAD}">{name}</th>' for name in self._column_names(heads))
        rows = []
        for index in range(layers):
            name = f"layer {index if self.layer is None else self.layer}"
            cells = "".join(f"<td>{self._thumbnail(shown[index, head])}</td>" for head in range(heads))
            rows.append(f'<tr><th style="{_HEAD}; text-align: right; padding-right: 8px">{name}</th>{cells}</tr>')
        style = f"<style>{_GRID}</style>"
        tokens = escape(" ".join(self.tokens))
        table = f'<table class="kb-heads"><tr><th></th>{columns}</tr>{"".join(rows)}</table>'
        return f'{style}{table}<p class="note">{tokens}</p>'

    def _column_names(self, heads: int) -> list[str]:
        if self.head is not None:
            return ["mean" if self.head == "mean" else f"head {self.head}"]
        return [f"head {number}" for number in range(heads)]

    def _thumbnail(self, weights: np.ndarray) -> str:
        return f'<img alt="" src="{as_data_uri(_pixels(weights))}">'

    def _one_head(self, weights: np.ndarray) -> str:
        tokens = self.tokens
        titles = np.array([[f"{row} → {column}: {weights[i, j]:.1%}" for j, column in enumerate(tokens)]
                           for i, row in enumerate(tokens)])  # fmt: skip
        matrix = matrix_svg(tokens, _pixels(weights), titles)
        lines = self._lines(weights) if len(tokens) <= _LINES_UP_TO else ""
        return f'<div style="display: flex; gap: 36px; align-items: flex-start">{lines}{matrix}</div>'

    def _lines(self, weights: np.ndarray) -> str:
        """Two columns of tokens with a line for each weight; a token under the pointer shows only its own lines."""
        names = [shorten(token) for token in self.tokens]
        width, step, across = max(map(text_width, names)) + 10, 22, 170
        height = step * len(names) + 8
        groups = []
        for row, name in enumerate(names):
            y = row * step + 16
            strokes = "".join(
                f'<line x1="{width:.0f}" y1="{y}" x2="{width + across:.0f}" y2="{column * step + 16}" '
                f'stroke-width="{0.6 + 2.6 * weight:.2f}" stroke-opacity="{min(1.0, 0.08 + weight):.3f}"/>'
                for column, weight in enumerate(weights[row])
                if weight >= 0.02
            )
            label = f'<text x="{width - 7:.0f}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            area = f'<rect x="0" y="{y - 11}" width="{width:.0f}" height="{step}" fill="transparent"/>'
            groups.append(f'<g class="from">{area}{strokes}{label}</g>')
        keys = "".join(
            f'<text x="{width + across + 7:.0f}" y="{row * step + 20}">{escape(name)}</text>'
            for row, name in enumerate(names)
        )
        svg = f'<svg class="kb-lines" width="{2 * width + across:.0f}" height="{height}">{keys}{"".join(groups)}</svg>'
        return f"<style>{_LINES}</style>{svg}"

    # === PNG ===

    def _draw(self) -> Any:
        shown = self.shown
        if shown.shape[:2] == (1, 1):
            side = picture_inches(self.tokens)
            figure = new_figure(side, side, self.title)
            draw_matrix(figure.add_subplot(), self.tokens, _pixels(shown[0, 0]))
            return figure
        layers, heads = shown.shape[:2]
        figure = new_figure(0.95 * heads + 0.8, 0.95 * layers + 0.7, self.title)
        set_spacing(figure, w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
        grid = figure.subplots(layers, heads, squeeze=False)
        for (row, column), axes in np.ndenumerate(grid):
            axes.imshow(_pixels(shown[row, column]), interpolation="nearest")
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color("#d1d5db")
            if row == 0:
                axes.set_title(self._column_names(heads)[column], fontsize=7, color=GREY, pad=3)
            if column == 0:
                name = f"layer {row if self.layer is None else self.layer}"
                axes.set_ylabel(name, fontsize=7, color=GREY, rotation=0, ha="right", va="center", labelpad=4)
        return figure


_HEAD = f"font-weight: 500; font-size: 11.5px; color: {GREY}; white-space: nowrap"
_GRID = f"""
.kb-view .kb-heads {{ border-collapse: separate; border-spacing: 5px; }}
.kb-view .kb-heads td {{ padding: 0; border: 0; background: none; }}
.kb-view .kb-heads th {{ border: 0; background: none; }}
.kb-view .kb-heads img {{ width: 84px; height: 84px; image-rendering: pixelated; display: block; margin: 0;
  max-width: none; border-radius: 4px; outline: 1px solid #d1d5db; transition: transform .12s; background: {FAINT}; }}
.kb-view .kb-heads img:hover {{ transform: scale(2.4); position: relative; z-index: 2; border-radius: 2px;
  box-shadow: 0 6px 24px rgb(0 0 0 / .3); }}
"""
_LINES = f"""
.kb-lines {{ flex: none; }} .kb-lines line {{ stroke: {STRONG}; }} .kb-lines .from {{ cursor: default; }}
.kb-lines:hover .from:not(:hover) line {{ stroke-opacity: 0; }}
.kb-view .kb-lines .from:hover text {{ font-weight: 700; fill: {INK}; }}
"""


def attention(
    source: Any,
    text: Any,
    *,
    layer: int | None = None,
    head: int | str | None = None,
    tokenizer: SubwordTokenizer | None = None,
) -> Attention:
    """Show where the attention heads of a model look in a text.

    Args:
        source: A task, or a model built on `bert_encoder`.
        text: A string, a pair of strings, or another input of the task's `predict`.
        layer: The layer to show, from 0, or from −1 backwards; `None` shows all.
        head: The head to show, `"mean"` for the mean of a layer's heads, or `None` for all.
        tokenizer: The tokenizer of a model; a task has its own.

    Example:
        ```python
        view = visualize.attention(classifier, "What a lovely film!", layer=-1, head=3)
        view.save("attention.html")
        view.weights.shape  # (6, 12, 7, 7)
        ```
    """
    model, tokenizer = open_model(source, tokenizer)
    row = read_row(source, text, tokenizer)
    config = encoder_config(model)
    layer = _choose(layer, config.num_layers, "layer")
    head = head if head == "mean" else _choose(head, config.num_heads, "head")
    return Attention(row.tokens, attention_weights(model, row.inputs), layer, head)


def attention_weights(model: keras.Model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The attention probabilities of one row, `[layers, heads, T, T]`."""
    blocks = [model.get_layer(f"block_{number}") for number in range(encoder_config(model).num_layers)]
    probe = keras.Model(model.input, [block.output[1] for block in blocks])
    outputs = probe({name: keras.ops.convert_to_tensor(value) for name, value in inputs.items()}, training=False)
    return np.stack([keras.ops.convert_to_numpy(keras.ops.cast(value[0], "float32")) for value in outputs])


def _choose(number: Any, count: int, name: str) -> int | None:
    if number is None:
        return None
    if not isinstance(number, int) or not -count <= number < count:
        raise ValueError(f"{name}={number!r}: the model has {count}; expected 0 to {count - 1}, or −1 for the last.")
    return number % count


def _pixels(weights: np.ndarray) -> np.ndarray:
    # The square root, because attention is often spread over many tokens, and small weights should be visible.
    return shades(np.sqrt(weights))
