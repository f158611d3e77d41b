"""How to choose the next token, as a value, and the rules that every choice keeps.

`Decoding` takes what a user asks for and gives a keras-hub sampler; `restrict` takes scores and what is written so far,
and gives scores in which everything that must not come next is out of reach. A room of its own because greedy, beam and
random choices differ in the sampler alone: a minimum length, n-grams that must not repeat and tokens that are no text
are rules about scores, the same for all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

SAMPLERS = ("greedy", "beam", "top_k", "top_p", "random")
# Far below every score, and finite: minus infinity times zero is no number.
NEVER = -1e9


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How to write.

    Args:
        max_length: The most tokens to write; `None` is the task's `target_length`.
        min_length: The fewest.
        sampler: `"greedy"` (always the likeliest token), `"beam"` (the likeliest text of those that `num_beams` beams
            find), `"top_k"`, `"top_p"` or `"random"` (drawn by chance), or a sampler from `keras_hub.samplers`.
        num_beams: For `"beam"`.
        k: For `"top_k"`: how many tokens chance may choose from.
        p: For `"top_p"`: how much probability these have together.
        temperature: Scores are divided by it: below 1 the likely becomes likelier.
        length_penalty: For beams: a text's log-probability is divided by its length to this power. 0 prefers short
            texts, 1 is the mean of a token.
        no_repeat_ngram: No n-gram of this size is written twice; 0 allows all.
        seed: Of chance; `None` gives other texts each time.

    Example:
        >>> Decoding(sampler="beam", num_beams=2).make_sampler().num_beams
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

    def __post_init__(self):
        for name, least in (("min_length", 0), ("no_repeat_ngram", 0), ("num_beams", 1), ("k", 1), ("max_length", 1)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}.")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length={self.min_length} exceeds max_length={self.max_length}.")
        if not 0 < self.p <= 1:
            raise ValueError(f"p={self.p!r}: expected a probability over 0 and up to 1.")
        if not self.temperature > 0:
            raise ValueError(f"temperature={self.temperature!r}: expected a number over 0.")
        if isinstance(self.sampler, str) and self.sampler not in SAMPLERS:
            raise ValueError(
                f"sampler={self.sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or a sampler from "
                "keras_hub.samplers."
            )

    def make_sampler(self) -> Any:
        """The keras-hub sampler; one of beams gives all of them, for the length penalty to choose."""
        from keras_hub import samplers

        if not isinstance(self.sampler, str):
            return _check_sampler(self.sampler, samplers)
        kind = {
            "greedy": lambda **options: samplers.GreedySampler(**options),
            "beam": lambda **options: samplers.BeamSampler(self.num_beams, return_all_beams=True, **options),
            "top_k": lambda **options: samplers.TopKSampler(self.k, seed=self.seed, **options),
            "top_p": lambda **options: samplers.TopPSampler(self.p, seed=self.seed, **options),
            "random": lambda **options: samplers.RandomSampler(seed=self.seed, **options),
        }
        return kind[self.sampler](temperature=self.temperature)


def _check_sampler(sampler, samplers):
    refused = (samplers.ContrastiveSampler, getattr(samplers, "SpeculativeSampler", samplers.ContrastiveSampler))
    if not isinstance(sampler, samplers.Sampler) or isinstance(sampler, refused):
        raise TypeError(
            f"sampler={sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or a sampler from "
            "keras_hub.samplers that needs scores alone (greedy, beam, top-k, top-p, random, or one of your own)."
        )
    if isinstance(sampler, samplers.BeamSampler) and not sampler.return_all_beams:
        return samplers.BeamSampler(**{**sampler.get_config(), "return_all_beams": True})
    return sampler


# === Rules ===


@dataclass(frozen=True)
class TextTokens:
    """What a writer must know of a vocabulary.

    Args:
        start_id: Where writing begins: the `[SEP]` behind the source.
        end_id: What ends a text: `[SEP]` too.
        pad_id: What stands behind the end.
        never: The ids that are no text: padding, `[CLS]`, `[MASK]`, the unknown token, and rows of the token table
            that the vocabulary has no token for.
        size: The rows of the token table.
    """

    start_id: int
    end_id: int
    pad_id: int
    never: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tokenizer, size: int) -> "TextTokens":
        """Those of a tokenizer, for a model with `size` tokens."""
        known = set(tokenizer.vocabulary)
        no_text = [tokenizer.token_to_id(token) for token in ("[PAD]", "[CLS]", "[MASK]") if token in known]
        never = {*no_text, tokenizer.unk_id, *range(tokenizer.vocabulary_size, size)} - {tokenizer.sep_id}
        return cls(tokenizer.sep_id, tokenizer.sep_id, tokenizer.pad_id, tuple(sorted(never)), size)


def restrict(scores, written, index, tokens: TextTokens, decoding: Decoding):
    """Scores of the next token with what must not come out of reach.

    Args:
        scores: `[B, V]`.
        written: Token ids `[B, 1 + L]`: the start token, then what is written, then padding.
        index: The place in `written` that the next token is for, from 1 on.
        tokens: What a token means.
        decoding: The rules.

    Returns:
        `[B, V]`. A row that has ended gets padding with certainty, so that its probability stays as it is.
    """
    scores = ops.cast(scores, "float32")
    out_of_reach = np.zeros(tokens.size, "float32")
    out_of_reach[list(tokens.never)] = NEVER
    scores = scores + out_of_reach
    if decoding.min_length:
        early = ops.cast(index - 1 < decoding.min_length, "float32")
        scores = scores + early * _one(tokens.end_id, tokens.size, NEVER)
    if decoding.no_repeat_ngram:
        scores = ops.where(_repeats(written, index, decoding.no_repeat_ngram, tokens.size), NEVER, scores)
    has_ended = ops.any(ops.equal(written[:, 1:], tokens.end_id), axis=1, keepdims=True)
    return ops.where(has_ended, NEVER - _one(tokens.pad_id, tokens.size, NEVER), scores)


def _one(token, size, value):
    vector = np.zeros((1, size), "float32")
    vector[0, token] = value
    return vector


def _repeats(written, index, n, size):
    """Which tokens would complete an n-gram that is written already: booleans `[B, V]`."""
    length = written.shape[1] - 1  # of the slots for text
    rows = ops.shape(written)[0]
    if length < n:
        return ops.zeros((rows, size), "bool")
    starts = ops.arange(1, length - n + 2)  # where an n-gram may begin
    complete = starts + n - 1 < index
    same = ops.broadcast_to(ops.logical_and(complete, index > n - 1)[None], (rows, length - n + 1))
    for offset in range(n - 1):
        now = ops.take(written, ops.maximum(index - (n - 1) + offset, 0), axis=1)[:, None]
        same = ops.logical_and(same, ops.equal(written[:, 1 + offset : length - n + 2 + offset], now))
    last = written[:, n : length + 1]  # the last token of each n-gram
    owners = ops.broadcast_to(ops.arange(rows)[:, None], ops.shape(last))
    places = ops.stack([ops.reshape(owners, (-1,)), ops.reshape(last, (-1,))], axis=1)
    return ops.scatter(places, ops.reshape(ops.cast(same, "float32"), (-1,)), (rows, size)) > 0
