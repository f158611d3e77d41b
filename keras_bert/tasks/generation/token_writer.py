"""Sources as ids → written ids, token by token over the caches of `tasks/generation/cached_decoder.py`.

`TokenWriter` takes a model, what its tokens mean and a `Decoding`; it gives whole texts for a batch, through the
samplers of keras-hub, or one text token by token. A room of its own because it is the loop: what it runs is model code
in `keras.ops` (both backends), what it holds are the compiled functions, and neither has to do with texts.
"""

from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from keras_bert.decoding.token_choice import best_beams, text_ids
from keras_bert.model.encoder import encoder_config
from keras_bert.tasks.generation.cached_decoder import cache_names, cache_shape, next_token_model, source_reader
from keras_bert.tasks.generation.sampling import Decoding, TextTokens, restrict


class TokenWriter:
    """Writes behind sources.

    Args:
        model: A prefix language model with the `masked_lm` head.
        tokens: What its tokens mean.
        decoding: How to write; `max_length` must be a number.

    Example:
        ```python
        writer = TokenWriter(model, TextTokens.of(tokenizer, model_size), Decoding(max_length=20))
        writer.write(np.array([[101, 7592, 102]]), np.array([[1, 1, 1]]))  # [[7592, …]]
        ```
    """

    def __init__(self, model: keras.Model, tokens: TextTokens, decoding: Decoding):
        self.config, self.tokens, self.decoding = encoder_config(model), tokens, decoding
        self.reader, self.step = source_reader(model), next_token_model(model)
        self.sampler = decoding.make_sampler()
        self.beams = getattr(self.sampler, "num_beams", 1)
        self._write, self._begin, self._go_on = (
            _compiled(function) for function in (self.written, self.begin, self._next_token)
        )

    # === Model code ===

    def begin(self, token_ids, padding_mask):
        """What writing begins with: what is known of the source, the written ids, and empty caches for them.

        Args:
            token_ids: `[B, S]`, packed: `[CLS] source [SEP]` and padding.
            padding_mask: `[B, S]`.
        """
        token_ids, padding_mask = (ops.convert_to_tensor(ids, "int32") for ids in (token_ids, padding_mask))
        source = dict(
            self.reader(
                {"token_ids": token_ids, "segment_ids": ops.zeros_like(token_ids), "padding_mask": padding_mask}
            )
        )
        lengths = ops.sum(padding_mask, axis=1, keepdims=True)  # [B, 1]
        place = ops.arange(ops.shape(token_ids)[1], dtype="int32")[None]
        source["source_mask"] = padding_mask * ops.cast(place < lengths - 1, "int32")  # without the last [SEP]
        source["begin"] = lengths - 1
        rows, slots = ops.shape(token_ids)[0], self.decoding.max_length
        written = ops.full((rows, 1 + slots), self.tokens.pad_id, dtype="int32")
        written = ops.slice_update(written, (0, 0), ops.full((rows, 1), self.tokens.start_id, dtype="int32"))
        dtype = self.step.output["new_keys_0"].dtype
        cache = {
            name: ops.zeros((rows, *cache_shape(self.config, name, slots)), dtype=dtype)
            for name in cache_names(self.config.num_layers, "target")
        }
        return source, written, cache

    def next_scores(self, source, written, cache, index):
        """Scores of the token at `index`, and the caches with the token before it.

        Args:
            source: From `begin`; where rows of `written` are beams, each of them as often as there are beams.
            written: `[B, 1 + L]`.
            cache: Keys and values of what is written.
            index: From 1 on.
        """
        slot = index - 1
        token = ops.take(written, slot, axis=1)[:, None]  # [B, 1]
        is_kept = ops.cast(ops.arange(self.decoding.max_length, dtype="int32")[None] < slot, "int32")
        outputs = self.step(
            {
                "token_ids": token,
                "segment_ids": ops.zeros_like(token) + ops.cast(slot > 0, "int32"),
                "position_ids": source["begin"] + slot,
                "target_mask": ops.zeros_like(written[:, 1:]) + is_kept,
                **{name: value for name, value in source.items() if name != "begin"},
                **cache,
            }
        )
        kept = {
            name: ops.slice_update(
                value, (0, 0, 0, slot) if "_keys_" in name else (0, 0, slot, 0), outputs[name.replace("target", "new")]
            )
            for name, value in cache.items()
        }
        return restrict(outputs["logits"], written, index, self.tokens, self.decoding), kept

    def written(self, token_ids, padding_mask):
        """Ids `[B, 1 + L]`; with beams `[B, beams, 1 + L]` and their log-probabilities `[B, beams]`."""
        source, written, cache = self.begin(token_ids, padding_mask)
        # A source is the same for all its beams: it is repeated here, once, and the sampler moves the rest about.
        source = {name: ops.repeat(value, self.beams, axis=0) for name, value in source.items()}

        def go_on(written, cache, index):
            scores, cache = self.next_scores(source, written, cache, index)
            return scores, None, cache

        is_start = ops.cast(ops.zeros_like(written) + ops.arange(self.decoding.max_length + 1) < 1, "bool")
        return self.sampler(
            go_on, written, cache=cache, index=1, mask=is_start, stop_token_ids=[self.tokens.end_id], model=self.step
        )

    def _next_token(self, source, written, cache, index):
        scores, cache = self.next_scores(source, written, cache, index)
        token = self.sampler.get_next_token(self.sampler.compute_probabilities(scores))
        written = ops.slice_update(written, (0, index), ops.cast(token, "int32")[:, None])
        return written, cache

    # === Arrays in, ids out ===

    def write(self, token_ids: np.ndarray, padding_mask: np.ndarray) -> list[list[int]]:
        """The written ids of a batch, without what ends them."""
        written = self._write(*(ops.convert_to_tensor(array, "int32") for array in (token_ids, padding_mask)))
        if self.beams == 1 and not isinstance(written, tuple):
            return [self._text(row) for row in ops.convert_to_numpy(written)]
        beams, scores = (ops.convert_to_numpy(part) for part in written)
        best = best_beams(beams, scores, self.tokens.pad_id, self.decoding.length_penalty)
        return [self._text(row[index]) for row, index in zip(beams, best, strict=True)]

    def stream(self, token_ids: np.ndarray, padding_mask: np.ndarray) -> Iterator[int]:
        """The written ids of one source, one after the other."""
        if self.beams > 1:
            raise ValueError(
                "Beams cannot be streamed: which one is the best is known at the end. Use generate(), or another "
                "sampler: 'greedy', 'top_k', 'top_p' or 'random'."
            )
        state = self._begin(*(ops.convert_to_tensor(array, "int32") for array in (token_ids, padding_mask)))
        source, written, cache = state
        for index in range(1, self.decoding.most_tokens + 1):
            written, cache = self._go_on(source, written, cache, ops.convert_to_tensor(index, "int32"))
            token = int(ops.convert_to_numpy(written)[0, index])
            if token == self.tokens.end_id:
                return
            yield token

    def reseed(self, seed: int | None) -> None:
        """Begin chance anew, as a sampler with this seed would."""
        for generator in getattr(self.sampler, "_seed_generators", ()):
            generator.state.assign(keras.random.SeedGenerator(seed).state)

    def _text(self, row):
        return text_ids(row, self.tokens.end_id)


def _compiled(function):
    """A function as one graph for all shapes; on JAX as it is."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.function(function, reduce_retracing=True)
