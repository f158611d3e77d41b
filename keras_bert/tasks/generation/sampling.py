"""How to choose the next token, as a value, and the rules that every choice keeps.

`Decoding` takes what a user asks for and gives a keras-hub sampler; `restrict` takes scores and what is written so far,
and gives scores in which everything that must not come next is out of reach. A room of its own because greedy, beam and
random choices differ in the sampler alone: a minimum length, n-grams that must not repeat and tokens that are no text
are rules about scores, the same for all.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_bert.decoding.token_choice import NEVER, SAMPLERS, TextTokens, TokenChoice

__all__ = ["NEVER", "SAMPLERS", "Decoding", "TextTokens", "restrict"]


class Decoding(TokenChoice):
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
