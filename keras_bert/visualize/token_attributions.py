"""Show which tokens caused an answer, by integrated gradients.

`attributions` takes a task, a text and the answer to explain. It gives a number for each token; their sum is the
difference between the logits of the text and of a baseline without its words.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.visualize.answers import ChosenAnswer, choose_answer
from keras_bert.visualize.colours import AGAINST, GREY, INK, LINE, STRONG, as_hex, ink_on, signed_shades
from keras_bert.visualize.integrated_gradients import integrate_gradients
from keras_bert.visualize.token_rows import TokenRow, join_words, open_model, read_row
from keras_bert.visualize.view import View, escape, font_families, new_figure

BASELINES = ("pad", "mask", "zero")
_BARS = 10  # maximum number of words in the bar chart


@dataclass(frozen=True, eq=False)
class Attributions(View):
    """What each token adds to the logit of an answer; from `attributions`.

    Args:
        tokens: The tokens of the text, including special ones.
        values: What each token adds to the logit, `[T]`.
        answer: The logit that is explained.
        score: The logit for the text.
        baseline_score: The logit for the baseline, the text without its words.
        steps: The number of gradients.
    """

    tokens: tuple[str, ...]
    values: np.ndarray
    answer: ChosenAnswer
    score: float
    baseline_score: float
    steps: int

    @property
    def gap(self) -> float:
        """The error of the sum: the sum of the values minus the difference of the two scores."""
        return float(self.values.sum() - (self.score - self.baseline_score))

    @property
    def words(self) -> list[tuple[str, float]]:
        """The words, each with the sum of its pieces' values.

        Example:
            ```python
            max(view.words, key=lambda word: word[1])  # ('lovely', 1.93)
            ```
        """
        joined = join_words(self.tokens)
        spelled = ["".join(self.tokens[place].removeprefix("##") for place in word) for word in joined]
        return [(name, float(self.values[word].sum())) for name, word in zip(spelled, joined, strict=True)]

    @property
    def title(self) -> str:
        chance = "" if self.answer.probability is None else f" ({self.answer.probability:.0%})"
        place = "" if self.answer.place is None else f" at “{self.tokens[self.answer.place]}”"
        other = "" if self.answer.other_label is None else f" rather than “{self.answer.other_label}”"
        return f"Why “{self.answer.label}”{place}{chance}{other}"

    @property
    def subtitle(self) -> str:
        what = "logit" if self.answer.other_label is None else "difference of both logits"
        return (
            f"The words take the {what} from {_signed(self.baseline_score)} to {_signed(self.score)}; "
            "blue words are for the answer, orange ones against it."
        )

    def _shares(self) -> np.ndarray:
        return self.values / max(float(np.abs(self.values).max()), 1e-9)

    def _largest_words(self) -> list[tuple[str, float]]:
        """The words that matter most, in the order of the text."""
        words = [word for word in self.words if word[1] != 0] or self.words
        ranked = sorted(range(len(words)), key=lambda place: -abs(words[place][1]))[:_BARS]
        return [words[place] for place in sorted(ranked)]

    # === HTML ===

    def _body(self) -> str:
        pieces, colours = [], signed_shades(0.9 * self._shares())
        for word in join_words(self.tokens):
            parts = "".join(self._piece(place, colours[place]) for place in word)
            pieces.append(f'<span style="white-space: nowrap">{parts}</span>')
        text = f'<p style="{_TEXT}">{" ".join(pieces)}</p>'
        return f"{text}{self._bars()}"

    def _piece(self, place: int, colour: np.ndarray) -> str:
        token, value = self.tokens[place], float(self.values[place])
        edge = f"; box-shadow: 0 0 0 2px {INK}" if place == self.answer.place else ""
        faint = f"; color: {GREY}" if token.startswith("[") and value == 0 else f"; color: {ink_on(colour)}"
        style = f"{_PIECE}; background: {as_hex(colour)}{faint}{edge}"
        return f'<span style="{style}" title="{_signed(value, 3)}">{escape(token.removeprefix("##"))}</span>'

    def _bars(self) -> str:
        words = self._largest_words()
        most = max((abs(value) for _, value in words), default=1.0) or 1.0
        rows = []
        for word, value in words:
            width = 160 * abs(value) / most
            left = f"margin-left: {160 - width if value < 0 else 160:.0f}px"
            colour = STRONG if value >= 0 else AGAINST
            bar = f'<div style="{left}; width: {width:.0f}px; height: 12px; background: {colour}; border-radius: 2px">'
            rows.append(
                f'<tr><td style="{_CELL}; text-align: right">{escape(word)}</td><td style="{_CELL}; width: 320px">{bar}'
                f'</div></td><td style="{_NUMBER}">{_signed(value)}</td></tr>'
            )
        return f'<table style="border-collapse: collapse; margin-top: 18px">{"".join(rows)}</table>'

    # === PNG ===

    def _draw(self) -> Any:
        words = self._largest_words()
        figure = new_figure(6.2, 1.3 + 0.27 * len(words), self.title)
        axes = figure.add_subplot()
        values = [value for _, value in words]
        colours = [STRONG if value >= 0 else AGAINST for value in values]
        axes.barh(range(len(words)), values, color=colours, height=0.62)
        names = [word for word, _ in words]
        axes.set_yticks(range(len(words)), names, fontsize=9, color=INK, fontfamily=font_families())
        axes.invert_yaxis()
        axes.axvline(0, color=GREY, linewidth=0.8)
        reach = 1.25 * max([abs(value) for value in values] + [1e-6])
        axes.set_xlim(-reach, reach)
        for place, value in enumerate(values):
            side = "left" if value >= 0 else "right"
            axes.annotate(_signed(value), (value, place), (4 if value >= 0 else -4, 0), textcoords="offset points",
                          ha=side, va="center", fontsize=8, color=GREY)  # fmt: skip
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(LINE)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", colors=GREY, labelsize=8)
        axes.set_xlabel(
            f"added to the logit: {_signed(self.baseline_score)} → {_signed(self.score)}", color=GREY, fontsize=8
        )
        return figure


_TEXT = "font-size: 17px; line-height: 2.1; max-width: 44em; margin: 0"
_PIECE = "padding: 3px 4px; border-radius: 4px"
_CELL = "padding: 1px 8px 1px 0; border: 0; background: none; text-align: left; font-size: 13px"
_NUMBER = f"{_CELL}; font-variant-numeric: tabular-nums; color: {GREY}"


def attributions(
    source: Any,
    text: Any,
    *,
    label: str | int | None = None,
    against: str | int | None = None,
    token: str | int | None = None,
    output: str | None = None,
    baseline: str = "pad",
    steps: int | None = None,
    tolerance: float = 0.01,
    tokenizer: SubwordTokenizer | None = None,
) -> Attributions:
    """Show which tokens of a text caused an answer, by integrated gradients.

    The path goes from the token vectors of the baseline to those of the text; positions and segments stay. The sum of
    the values is the logit of the text minus that of the baseline, within `tolerance * (1 + |difference|)`.

    Args:
        source: A task, or a model with logits.
        text: A string, a pair of strings, or another input of the task's `predict`.
        label: The class to explain, by name or number; for a span `"start"` or `"end"`; `None` is the model's answer.
        against: A class to compare it with: the difference of both logits is explained.
        token: For a tagger or a span: the word, or the index of the token, whose logit is explained.
        output: The output to explain if a model has several, such as `"token_logits"` of intents with slots.
        baseline: The baseline without words: `"pad"` or `"mask"` puts that token in the place of every word and keeps
            [CLS] and [SEP]; `"zero"` uses vectors of zeros for all tokens.
        steps: The number of gradients; `None` uses as many as the tolerance needs, up to 1,024, and warns if that is
            not enough.
        tolerance: See above.
        tokenizer: The tokenizer of a model; a task has its own.

    Example:
        ```python
        view = visualize.attributions(classifier, "What a lovely film!", label="positive")
        view.words  # [('[CLS]', 0.0), ('what', 0.21), ('a', 0.05), ('lovely', 1.93), …]
        view.save("why.html")
        ```
    """
    model, tokenizer = open_model(source, tokenizer)
    row = read_row(source, text, tokenizer)
    outputs = {name: ops.convert_to_numpy(value) for name, value in model(row.inputs, training=False).items()}
    answer = choose_answer(source, outputs, row, label=label, against=against, token=token, output=output)
    function, vectors = from_token_vectors(model, row.inputs, answer)
    start = _baseline_vectors(model, row, vectors, baseline, tokenizer)
    values, score, least, count = integrate_gradients(function, vectors, start, steps=steps, tolerance=tolerance)
    view = Attributions(row.tokens, values, answer, score, least, count)
    if steps is None and abs(view.gap) > tolerance * (1 + abs(score - least)):
        warnings.warn(
            f"The sum of the attributions is off by {view.gap:+.3f} from the logits' difference of "
            f"{score - least:.3f} after {count} steps; pass more steps, or another baseline.",
            stacklevel=2,
        )
    return view


def from_token_vectors(
    model: keras.Model, inputs: dict[str, np.ndarray], answer: ChosenAnswer
) -> tuple[Callable[[Any], Any], np.ndarray]:
    """The part of the model after its token vectors, from `[S, T, E]` to `[S]`, and the vectors of a row, `[T, E]`."""
    symbol = model.get_layer("embeddings").input[0]
    vectors = keras.Model(model.input, symbol)(inputs, training=False)[0]
    upper = keras.Model({**model.input, symbol.name: symbol}, model.output)

    def function(points: Any) -> Any:
        points = ops.convert_to_tensor(points)
        count = points.shape[0]
        rows = {name: ops.repeat(ops.convert_to_tensor(value), count, axis=0) for name, value in inputs.items()}
        return ops.cast(answer.pick(upper({**rows, symbol.name: points}, training=False)), "float32")

    return function, ops.convert_to_numpy(ops.cast(vectors, "float32"))


def _baseline_vectors(
    model: keras.Model, row: TokenRow, vectors: np.ndarray, baseline: str, tokenizer: SubwordTokenizer
) -> np.ndarray:
    if baseline not in BASELINES:
        raise ValueError(f"baseline={baseline!r}: expected one of {', '.join(map(repr, BASELINES))}.")
    if baseline == "zero":
        return np.zeros_like(vectors)
    token = tokenizer.pad_id if baseline == "pad" else tokenizer.mask_id
    table = model.get_layer("token_embedding")
    filler = ops.convert_to_numpy(ops.cast(table(np.array([[token]], "int32")), "float32"))[0]
    return np.where(np.array(row.special)[:, None], vectors, filler)


def _signed(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")
