"""Choose the next token: the settings of a sampler, and rules that hold for all samplers.

`Decoding` has the settings and makes a keras-hub sampler. `restrict` excludes tokens that must not come next: tokens
that are not text, an early end, and repeated n-grams.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_bert.decoding.token_choice import NEVER, SAMPLERS, TextTokens, TokenChoice

__all__ = ["NEVER", "SAMPLERS", "Decoding", "TextTokens", "restrict"]


class Decoding(TokenChoice):
    """How to generate text.

    Args:
        max_length: Maximum number of tokens; `None` is the task's `target_length`.
        min_length: Minimum number of tokens.
        sampler: `"greedy"` (always the most likely token), `"beam"` (the most likely text that `num_beams` beams
            find), `"top_k"`, `"top_p"` or `"random"` (sampled), or a sampler from `keras_hub.samplers`.
        num_beams: Number of beams, for `"beam"`.
        k: For `"top_k"`: the number of tokens to sample from.
        p: For `"top_p"`: the total probability of the tokens to sample from.
        temperature: Scores are divided by it: below 1, likely tokens become likelier.
        length_penalty: For `"beam"`: the log-probability is divided by the length to this power. 0 prefers short
            texts, 1 is the mean over tokens.
        no_repeat_ngram: No n-gram of this size is written twice; 0 allows all.
        seed: Random seed; `None` gives different texts each time.

    Example:
        >>> Decoding(sampler="beam", num_beams=2).make_sampler().num_beams
        2
    """

    def make_sampler(self) -> Any:
        """Make the keras-hub sampler. A beam sampler returns all beams, so that the length penalty can choose."""
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


def _check_sampler(sampler: Any, samplers: Any) -> Any:
    refused = (samplers.ContrastiveSampler, getattr(samplers, "SpeculativeSampler", samplers.ContrastiveSampler))
    if not isinstance(sampler, samplers.Sampler) or isinstance(sampler, refused):
        raise TypeError(
            f"sampler={sampler!r}: expected one of {', '.join(map(repr, SAMPLERS))}, or a sampler from "
            "keras_hub.samplers that needs only scores (greedy, beam, top-k, top-p, random, or your own)."
        )
    if isinstance(sampler, samplers.BeamSampler) and not sampler.return_all_beams:
        return samplers.BeamSampler(**{**sampler.get_config(), "return_all_beams": True})
    return sampler


# === Rules ===


def restrict(scores: Any, written: Any, index: Any, tokens: TextTokens, decoding: Decoding) -> Any:
    """Exclude tokens that must not come next from the scores.

    Args:
        scores: The scores of the next token, `[B, V]`.
        written: Token ids `[B, 1 + L]`: the start token, the generated tokens, then padding.
        index: The position of the next token in `written`, from 1.
        tokens: The meanings of tokens.
        decoding: The rules.

    Returns:
        `[B, V]`. A row that has ended gets padding with probability 1, so that its own probability does not change.
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


def _one(token: int, size: int, value: float) -> np.ndarray:
    vector = np.zeros((1, size), "float32")
    vector[0, token] = value
    return vector


def _repeats(written: Any, index: Any, n: int, size: int) -> Any:
    """Which tokens would repeat an n-gram, booleans `[B, V]`."""
    length = written.shape[1] - 1  # slots for text
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
