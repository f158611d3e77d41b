"""Show the vectors that enter BERT: token, segment and position, their sum, and the sum after the layer norm.

`embedding_inputs` takes a task or an encoder and a text, and gives `EmbeddingInputs`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.visualize.colours import GREY, INK, PARTS, as_data_uri, signed_shades
from keras_bert.visualize.matrices import shorten
from keras_bert.visualize.token_rows import open_model, read_row
from keras_bert.visualize.view import View, escape, font_families, new_figure, set_spacing

_ROWS = 12  # rows of the tile that a vector is folded into
_SEGMENTS = "ABCDEFGH"


@dataclass(frozen=True, eq=False)
class EmbeddingInputs(View):
    """The inputs of the first block; from `embedding_inputs`.

    Args:
        tokens: The tokens of the text, including special ones.
        segments: The segment of each token, `[T]`.
        token_vectors, segment_vectors, position_vectors: `[T, E]` each.
        normed: Their sum after layer norm, `[T, E]`; the encoder's first hidden state if it has no projection.
    """

    tokens: tuple[str, ...]
    segments: np.ndarray
    token_vectors: np.ndarray
    segment_vectors: np.ndarray
    position_vectors: np.ndarray
    normed: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """The sum of the three, `[T, E]`."""
        return self.token_vectors + self.segment_vectors + self.position_vectors

    @property
    def title(self) -> str:
        return "What enters BERT"

    @property
    def subtitle(self) -> str:
        width = self.token_vectors.shape[-1]
        return f"Each tile is a vector of {width} numbers, folded; blue is positive, orange negative."

    def _lines(self) -> tuple[tuple[str, list[str], np.ndarray], ...]:
        """The name of each line, the labels under its tiles, and the vectors."""
        places = [str(place) for place in range(len(self.tokens))]
        segments = [_SEGMENTS[number] for number in self.segments]
        lengths = [f"{length:.1f}" for length in np.linalg.norm(self.total, axis=-1)]
        return (
            ("token", [shorten(token) for token in self.tokens], self.token_vectors),
            ("+ segment", segments, self.segment_vectors),
            ("+ position", places, self.position_vectors),
            ("= sum", [f"‖{length}‖" for length in lengths], self.total),
            ("layer norm", [""] * len(places), self.normed),
        )

    # === HTML ===

    def _body(self) -> str:
        rows = []
        for name, labels, vectors in self._lines():
            tiles = _tiles(vectors)
            cells = "".join(self._cell(place, label, tiles[place], name) for place, label in enumerate(labels))
            rows.append(f'<tr><th style="{_NAME}">{escape(name)}</th>{cells}</tr>')
        return f'<table style="border-collapse: separate; border-spacing: 6px 10px">{"".join(rows)}</table>'

    def _cell(self, place: int, label: str, tile: np.ndarray, name: str) -> str:
        colour = PARTS[int(self.segments[place]) % len(PARTS)] if name == "+ segment" else GREY
        image = f'<img alt="" style="{_TILE}" src="{as_data_uri(tile)}">'
        weight = f"color: {INK}; font-weight: 600" if name == "token" else f"color: {colour}"
        return f'<td style="{_CELL}">{image}<span style="{_LABEL}; {weight}">{escape(label)}</span></td>'

    # === PNG ===

    def _draw(self) -> Any:
        lines, count = self._lines(), len(self.tokens)
        figure = new_figure(0.75 * count + 1.1, 0.85 * len(lines) + 0.6, self.title)
        set_spacing(figure, w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
        grid = figure.subplots(len(lines), count, squeeze=False)
        for row, (name, labels, vectors) in enumerate(lines):
            for column, tile in enumerate(_tiles(vectors)):
                axes = grid[row, column]
                axes.imshow(tile, interpolation="nearest", aspect="auto")
                axes.set_xticks([])
                axes.set_yticks([])
                axes.spines[:].set_color("#d1d5db")
                axes.set_xlabel(labels[column], fontsize=7.5, color=INK if row == 0 else GREY,
                                labelpad=2, fontfamily=font_families())  # fmt: skip
            grid[row, 0].set_ylabel(name, fontsize=8.5, color=INK, rotation=0, ha="right", va="center", labelpad=6)
        return figure


_NAME = (
    f"font-weight: 600; font-size: 13px; color: {INK}; text-align: right; padding: 0 10px 20px 0; white-space: nowrap"
)
_NAME += "; border: 0; background: none"
_CELL = "padding: 0; text-align: center; vertical-align: top; border: 0; background: none"
_TILE = "width: 64px; height: 40px; image-rendering: pixelated; display: block; margin: 0 auto; max-width: none"
_TILE += "; border-radius: 4px; outline: 1px solid #d1d5db"
_LABEL = "font: 12px ui-monospace, 'SF Mono', Menlo, 'DejaVu Sans Mono', monospace; display: block; padding-top: 4px"


def embedding_inputs(source: Any, text: Any, *, tokenizer: SubwordTokenizer | None = None) -> EmbeddingInputs:
    """Show the three vectors of each token that BERT adds up.

    Args:
        source: A task, or a model built on `bert_encoder`.
        text: A string, a pair of strings, or another input of the task's `predict`.
        tokenizer: The tokenizer of a model; a task has its own.

    Example:
        ```python
        visualize.embedding_inputs(encoder, ("A cat sat.", "It purred."), tokenizer=tokenizer).save("inputs.html")
        ```
    """
    model, tokenizer = open_model(source, tokenizer)
    row = read_row(source, text, tokenizer)
    layer = model.get_layer("embeddings")
    tokens = model.get_layer("token_embedding")(row.inputs["token_ids"])
    segments = ops.broadcast_to(layer.segment_vectors(row.inputs["segment_ids"]), ops.shape(tokens))
    positions = ops.convert_to_tensor(layer.position_rows())[: len(row)][None]
    normed = layer.norm(tokens + segments + positions)
    parts = (ops.convert_to_numpy(ops.cast(part[0], "float32")) for part in (tokens, segments, positions, normed))
    return EmbeddingInputs(row.tokens, row.inputs["segment_ids"][0], *parts)


def _tiles(vectors: np.ndarray) -> np.ndarray:
    """Each vector as a small picture, uint8 `[T, rows, columns, 3]`; all have the same scale."""
    count, width = vectors.shape
    columns = -(-width // _ROWS)
    filled = np.zeros((count, _ROWS * columns), "float32")
    filled[:, :width] = vectors
    scale = np.quantile(np.abs(vectors), 0.98) or 1.0
    return signed_shades(filled.reshape(count, _ROWS, columns) / scale)
