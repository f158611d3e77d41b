"""Choose the logit to explain among the outputs of a model.

Takes outputs by name and what the user asks for (a label, a token); gives a `ChosenAnswer`. It covers the classes of a
text, the tags of a token, and the start and end of a span.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.decoding import sigmoid, softmax
from keras_bert.decoding.tags import OUTSIDE
from keras_bert.visualize.token_rows import TokenRow, join_words

# Without `output`, the first of these that a model has is explained.
_OUTPUTS = ("class_logits", "relation_logits", "token_logits", "span_logits", "nsp_logits")
_FIXED_NAMES = {"span_logits": ("start", "end"), "nsp_logits": ("next", "random")}


@dataclass(frozen=True)
class ChosenAnswer:
    """A logit among a model's outputs.

    Args:
        output: The output's name.
        column: Its index in the last dimension.
        place: The token, for outputs with a value for each token; otherwise `None`.
        label: The name of the class.
        probability: The probability of the class, if the model gives one.
        other_column, other_label: The class whose logit is subtracted, if two classes are compared.
    """

    output: str
    column: int
    place: int | None
    label: str
    probability: float | None
    other_column: int | None = None
    other_label: str | None = None

    def pick(self, outputs: dict[str, Any]) -> Any:
        """The logit in the outputs of a batch, `[B]`."""
        values = outputs[self.output] if self.place is None else outputs[self.output][:, self.place]
        number = values[:, self.column]
        return number if self.other_column is None else number - values[:, self.other_column]


def choose_answer(
    source: Any,
    outputs: dict[str, np.ndarray],
    row: TokenRow,
    *,
    label: str | int | None = None,
    against: str | int | None = None,
    token: str | int | None = None,
    output: str | None = None,
) -> ChosenAnswer:
    """Choose the logit to explain: the one asked for, or the model's own answer.

    Args:
        source: The task, or the model.
        outputs: Its outputs for one row.
        row: That row.
        label: A class by name or number; `None` is the most likely one.
        against: A class to compare it with, or `None`.
        token: For outputs with a value for each token: its index, or a word of the text; `None` is the token with the
            clearest answer.
        output: The output's name; `None` is the task's output.
    """
    name = _choose_output(outputs, output)
    scores, names = np.asarray(outputs[name][0], "float32"), _class_names(source, name, outputs[name].shape[-1])
    place = None
    if scores.ndim == 2:
        column = None if label is None else _find_label(label, names)
        place, column = _choose_place(scores, names, row, token, column)
        chances = softmax(scores[place]) if name == "token_logits" else None
    else:
        if token is not None:
            raise ValueError(f"token={token!r}: {name} belongs to the whole text; leave token out.")
        column = int(scores.argmax()) if label is None else _find_label(label, names)
        chances = _class_chances(source, scores)
    chance = None if chances is None else float(np.ravel(chances)[column])
    if against is None:
        return ChosenAnswer(name, column, place, names[column], chance)
    other = _find_label(against, names)
    return ChosenAnswer(name, column, place, names[column], chance, other, names[other])


def _choose_output(outputs: dict[str, np.ndarray], asked: str | None) -> str:
    known = [name for name in outputs if getattr(outputs[name], "ndim", 0) in (2, 3) and name.endswith("_logits")]
    if asked is not None:
        if asked not in known:
            raise ValueError(f"output={asked!r} is unknown; the model has {', '.join(known) or 'no logits'}.")
        return asked
    for name in _OUTPUTS:
        if name in known:
            return name
    raise ValueError(
        f"The model gives {', '.join(outputs)}: none of these are logits of an answer, so there is nothing to "
        "attribute; use a task such as TextClassifier, or look at attention()."
    )


def _class_names(source: Any, output: str, count: int) -> tuple[str, ...]:
    if output in _FIXED_NAMES:
        return _FIXED_NAMES[output]
    codec = getattr(source, "_codec", None)
    names = codec.tags if output == "token_logits" and codec is not None else getattr(source, "labels", None)
    if names is None or len(names) != count:
        return ("score",) if count == 1 else tuple(str(number) for number in range(count))
    return tuple(names)


def _class_chances(source: Any, scores: np.ndarray) -> np.ndarray | None:
    kind = getattr(source, "kind", "single_label")
    if scores.size == 1:
        return None
    return sigmoid(scores) if kind == "multi_label" else softmax(scores)


def _find_label(label: str | int, names: Sequence[str]) -> int:
    if isinstance(label, str) and label in names:
        return list(names).index(label)
    if isinstance(label, int) and not isinstance(label, bool) and -len(names) <= label < len(names):
        return label % len(names)
    raise ValueError(f"label={label!r} is unknown; expected one of {', '.join(names)}, or its number.")


def _choose_place(
    scores: np.ndarray, names: Sequence[str], row: TokenRow, token: str | int | None, column: int | None
) -> tuple[int, int]:
    """A token and a class; what is not given is chosen by the largest margin among the tokens of the text."""
    if token is not None:
        place = _find_token(token, row)
        return place, int(scores[place].argmax()) if column is None else column
    margin = scores - scores.mean(axis=-1, keepdims=True) if len(names) > 2 else scores.copy()
    margin[np.array(row.special)] = -np.inf
    if column is None:
        if OUTSIDE in names:
            margin[:, list(names).index(OUTSIDE)] = -np.inf
        place, column = np.unravel_index(int(margin.argmax()), margin.shape)
        return int(place), int(column)
    return int(margin[:, column].argmax()), column


def _find_token(token: str | int, row: TokenRow) -> int:
    if isinstance(token, int):
        if not 0 <= token < len(row):
            raise ValueError(f"token={token}: the row has {len(row)} tokens; expected 0 to {len(row) - 1}.")
        return token
    words = {
        "".join(row.tokens[place].removeprefix("##") for place in word): word[0] for word in join_words(row.tokens)
    }
    for spelling in (token, token.lower()):
        if spelling in words:
            return words[spelling]
    raise ValueError(f"token={token!r} is not a word of the text, which has: {' '.join(words)}.")
