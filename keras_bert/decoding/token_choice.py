"""Chooses the tokens of a generated text, without Keras: greedy, with beams, or at random.

Takes the settings (`TokenChoice`), the special tokens of a vocabulary (`TextTokens`) and a function that gives scores;
gives token ids. `tasks/generation/sampling.py` and keras-hub's samplers do the same in a graph; tests compare both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from keras_bert.decoding.labels import softmax

SAMPLERS = ("greedy", "beam", "top_k", "top_p", "random")
# Far below every score, and finite, because minus infinity times zero is not a number.
NEVER = -1e9


@dataclass(frozen=True, kw_only=True)
class TokenChoice:
    """The settings for choosing tokens; the tasks' `Decoding` explains each of them.

    Example:
        >>> TokenChoice(sampler="beam", num_beams=2).num_beams
        2
    """

    max_length: int | None = None
    min_length: int = 0
    sampler: Any = "greedy"
    num_beams: int = 4
    k: int = 50
    p: float = 0.9
    temperature: float = 1.0
    length_penalty: float = 1.0
    no_repeat_ngram: int = 0
    seed: int | None = None

    @property
    def most_tokens(self) -> int:
        """`max_length`, which must be a number."""
        if self.max_length is None:
            raise ValueError("max_length=None: expected the largest number of tokens to write; pass a number.")
        return self.max_length

    def __post_init__(self) -> None:
        for name, least in (("min_length", 0), ("no_repeat_ngram", 0), ("num_beams", 1), ("k", 1), ("max_length", 1)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}.")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(
                f"min_length={self.min_length} exceeds max_length={self.max_length}; use a smaller min_length."
            )
        if not 0 < self.p <= 1:
            raise ValueError(f"p={self.p!r}: expected a probability over 0 and up to 1.")
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature!r}: expected a number over 0.")
        if isinstance(self.sampler, str) and self.sampler not in SAMPLERS:
            raise ValueError(
                f"sampler={self.sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or a sampler from "
                "keras_hub.samplers."
            )


@dataclass(frozen=True)
class TextTokens:
    """The tokens of a vocabulary that generation needs to know.

    Args:
        start_id: The token before the text: the `[SEP]` after the source.
        end_id: The token that ends a text, also `[SEP]`.
        pad_id: The token after the end.
        never: The ids that are never written: padding, `[CLS]`, `[MASK]`, the unknown token, `[unused…]` and empty
            tokens, and ids of the token table without a token.
        size: The number of rows of the token table.
    """

    start_id: int
    end_id: int
    pad_id: int
    never: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tokenizer: Any, size: int) -> "TextTokens":
        """Return the tokens of a tokenizer, for a model with `size` tokens."""
        no_text = [
            index
            for index, token in enumerate(tokenizer.vocabulary)
            if token in ("[PAD]", "[CLS]", "[MASK]", "") or token.startswith("[unused")
        ]
        never = {*no_text, tokenizer.unk_id, *range(tokenizer.vocabulary_size, size)} - {tokenizer.sep_id}
        return cls(tokenizer.sep_id, tokenizer.sep_id, tokenizer.pad_id, tuple(sorted(never)), size)


# === Rules ===


def restrict_scores(
    scores: np.ndarray, written: np.ndarray, index: int, tokens: TextTokens, choice: TokenChoice
) -> np.ndarray:
    """Return the scores of the next token with forbidden tokens ruled out: `sampling.restrict` without Keras.

    Args:
        scores: `[B, V]`.
        written: Token ids `[B, 1 + L]`: the start token, then the text so far, then padding.
        index: The index of the next token in `written`, from 1.
        tokens: The special tokens.
        choice: The settings.

    Example:
        >>> tokens = TextTokens(start_id=1, end_id=1, pad_id=0, never=(0,), size=3)
        >>> restrict_scores(np.zeros((1, 3)), np.array([[1, 0]]), 1, tokens, TokenChoice()).tolist()
        [[-1000000000.0, 0.0, 0.0]]
    """
    scores = np.array(scores, np.float32)
    scores[:, list(tokens.never)] += np.float32(NEVER)
    if index - 1 < choice.min_length:
        scores[:, tokens.end_id] += np.float32(NEVER)
    for row, ids in enumerate(written):
        if tokens.end_id in ids[1:index]:
            # After its end a text gets padding with probability 1, so that its own probability does not change.
            scores[row] = NEVER
            scores[row, tokens.pad_id] = 0.0
        elif choice.no_repeat_ngram:
            scores[row, _repeated(ids[1:index].tolist(), choice.no_repeat_ngram)] = NEVER
    return scores


def _repeated(ids: list[int], n: int) -> list[int]:
    """Return the tokens that would repeat an n-gram of the text."""
    last = ids[len(ids) - (n - 1) :] if n > 1 else []
    return [ids[end] for end in range(n - 1, len(ids)) if ids[end - (n - 1) : end] == last] if len(ids) >= n else []


# === One text, token by token ===


def write_stepwise(
    scores_of: Callable[[np.ndarray], np.ndarray], tokens: TextTokens, choice: TokenChoice
) -> Iterator[int]:
    """Yield the ids of one text as they are chosen, without the end token.

    Args:
        scores_of: A function that takes the last token `[1]` and returns the scores of the next one `[1, V]`; it
            remembers the earlier tokens.
        tokens: The special tokens.
        choice: The settings, without beams; `max_length` must be a number.

    Example:
        >>> tokens = TextTokens(start_id=1, end_id=1, pad_id=0, never=(0,), size=4)
        >>> after = {1: [0.0, 0.0, 5.0, 0.0], 2: [0.0, 5.0, 0.0, 1.0]}
        >>> list(write_stepwise(lambda last: np.array([after[int(last[0])]]), tokens, TokenChoice(max_length=5)))
        [2]
    """
    chance = np.random.default_rng(choice.seed)
    written = np.full((1, 1 + choice.most_tokens), tokens.pad_id, np.int32)
    written[0, 0] = tokens.start_id
    for index in range(1, choice.most_tokens + 1):
        scores = restrict_scores(scores_of(written[:, index - 1]), written, index, tokens, choice)[0]
        token = int(np.argmax(scores)) if choice.sampler == "greedy" else _sample(scores, choice, chance)
        if token == tokens.end_id:
            return
        written[0, index] = token
        yield token


def _sample(scores: np.ndarray, choice: TokenChoice, chance: np.random.Generator) -> int:
    """Return a random token: of the `k` likeliest, of the likeliest with a total probability of `p`, or of all."""
    probabilities = softmax(scores.astype(np.float64) / choice.temperature)
    order = np.argsort(-probabilities, kind="stable")
    if choice.sampler == "top_k":
        order = order[: choice.k]
    elif choice.sampler == "top_p":
        # The token that crosses `p` is included, as in keras-hub.
        order = order[: 1 + int(np.sum(np.cumsum(probabilities[order]) <= choice.p))]
    kept = probabilities[order]
    return int(order[chance.choice(len(order), p=kept / kept.sum())])


# === Beams ===


class BeamScores(Protocol):
    """What beam search needs of a model: scores of the next token of several texts."""

    def __call__(self, last: np.ndarray, live: np.ndarray) -> np.ndarray:
        """Return the scores `[beams, V]` after the last tokens `[beams]`.

        The scores of beams that are not `live [beams]` are not used. At the start, all beams are the same.
        """

    def keep(self, parents: np.ndarray) -> None:
        """Continue with these beams, in this order; a beam may occur several times."""


def write_beams(scores_of: BeamScores, tokens: TextTokens, choice: TokenChoice) -> list[int]:
    """Return the ids of the best text by beam search, as `keras_hub.samplers.BeamSampler` with a length penalty.

    Args:
        scores_of: Gives scores, and remembers the earlier tokens.
        tokens: The special tokens.
        choice: The settings; `max_length` must be a number.
    """
    beams, size = choice.num_beams, tokens.size
    written = np.full((beams, 1 + choice.most_tokens), tokens.pad_id, np.int32)
    written[:, 0] = tokens.start_id
    log_probabilities = np.full(beams, NEVER, np.float32)
    log_probabilities[0] = 0.0  # all beams are the same at the start, so only one counts
    live = np.ones(beams, bool)
    for index in range(1, choice.most_tokens + 1):
        scores = restrict_scores(scores_of(written[:, index - 1], live), written, index, tokens, choice)
        with np.errstate(divide="ignore"):
            totals = np.log(softmax(scores / np.float32(choice.temperature))) + log_probabilities[:, None]
        best = _largest(totals.reshape(-1), beams)
        parents, written = best // size, written[best // size]
        written[:, index], log_probabilities = best % size, totals.reshape(-1)[best]
        live = ~np.any(written[:, 1 : index + 1] == tokens.end_id, axis=1)
        if not live.any():
            break
        scores_of.keep(parents)
    order = np.argsort(-log_probabilities, kind="stable")
    (winner,) = best_beams(written[order][None], log_probabilities[order][None], tokens.pad_id, choice.length_penalty)
    return text_ids(written[order][winner], tokens.end_id)


def best_beams(beams: np.ndarray, log_probabilities: np.ndarray, pad_id: int, length_penalty: float) -> np.ndarray:
    """Return, for each text, the beam with the best log-probability divided by its length.

    Args:
        beams: Ids `[B, beams, 1 + L]`.
        log_probabilities: `[B, beams]`.
        pad_id: The token after the end.
        length_penalty: The power of the length by which log-probabilities are divided.

    Example:
        >>> best_beams(np.array([[[1, 7, 0], [1, 7, 8]]]), np.array([[-1.0, -1.5]]), 0, 1.0).tolist()
        [1]
    """
    lengths = np.sum(beams[:, :, 1:] != pad_id, axis=-1)  # with the end token
    return np.argmax(log_probabilities / np.maximum(lengths, 1) ** length_penalty, axis=1)


def text_ids(row: np.ndarray, end_id: int) -> list[int]:
    """Return the ids of a row without the start token, the end token and the padding.

    Example:
        >>> text_ids(np.array([1, 7, 8, 1, 0]), 1)
        [7, 8]
    """
    ids = row[1:].tolist()
    return ids[: ids.index(end_id)] if end_id in ids else ids


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the largest values, the largest first."""
    few = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))
    few = np.sort(few)  # of equal ones the first, as in TensorFlow's top_k
    return few[np.argsort(-values[few], kind="stable")]
