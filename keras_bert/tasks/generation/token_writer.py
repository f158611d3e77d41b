"""Generate token ids with the cached models of `tasks/generation/cached_decoder.py`.

`TokenWriter` takes a model, the meanings of its tokens and a `Decoding`. It gives whole texts for a batch, through the
samplers of keras-hub, or one text token by token. The loop is written in `keras.ops` and compiled.
"""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.decoding.token_choice import best_beams, text_ids
from keras_bert.model.compilation import compiled
from keras_bert.model.encoder import encoder_config
from keras_bert.tasks.generation.cached_decoder import cache_names, cache_shape, next_token_model, source_reader
from keras_bert.tasks.generation.sampling import Decoding, TextTokens, restrict


class TokenWriter:
    """Generates token ids for sources.

    Args:
        model: A prefix language model with the `masked_lm` head.
        tokens: The meanings of its tokens.
        decoding: The settings; `max_length` must be a number.

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
        variables = [*model.variables, *(generator.state for generator in self._generators)]
        self._write, self._begin, self._go_on = (
            compiled(function, variables) for function in (self.written, self.begin, self._next_token)
        )

    # === Model code ===

    def begin(self, token_ids: Any, padding_mask: Any) -> tuple[dict[str, Any], Any, dict[str, Any]]:
        """Read the sources; give their caches, the ids to fill, and empty caches for the targets.

        Args:
            token_ids: `[B, S]`: `[CLS] source [SEP]` and padding.
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
        rows, slots = ops.shape(token_ids)[0], self.decoding.most_tokens
        written = ops.full((rows, 1 + slots), self.tokens.pad_id, dtype="int32")
        written = ops.slice_update(written, (0, 0), ops.full((rows, 1), self.tokens.start_id, dtype="int32"))
        dtype = self.step.output["new_keys_0"].dtype
        cache = {
            name: ops.zeros((rows, *cache_shape(self.config, name, slots)), dtype=dtype)
            for name in cache_names(self.config.num_layers, "target")
        }
        return source, written, cache

    def next_scores(
        self, source: dict[str, Any], written: Any, cache: dict[str, Any], index: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Compute the scores of the token at `index`, and add the token before it to the caches.

        Args:
            source: From `begin`; with beams, each source is repeated for its beams.
            written: `[B, 1 + L]`.
            cache: Keys and values of the generated tokens.
            index: From 1.
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

    def written(self, token_ids: Any, padding_mask: Any) -> Any:
        """Generate ids `[B, 1 + L]`; with beams `[B, beams, 1 + L]` and their log-probabilities `[B, beams]`."""
        source, written, cache = self.begin(token_ids, padding_mask)
        # The source is the same for all its beams: it is repeated once, and the sampler reorders only the rest.
        source = {name: ops.repeat(value, self.beams, axis=0) for name, value in source.items()}

        def go_on(written: Any, cache: dict[str, Any], index: Any) -> tuple[Any, None, dict[str, Any]]:
            scores, cache = self.next_scores(source, written, cache, index)
            return scores, None, cache

        is_start = ops.cast(ops.zeros_like(written) + ops.arange(self.decoding.most_tokens + 1) < 1, "bool")
        return self.sampler(
            go_on, written, cache=cache, index=1, mask=is_start, stop_token_ids=[self.tokens.end_id], model=self.step
        )

    def _next_token(
        self, source: dict[str, Any], written: Any, cache: dict[str, Any], index: Any
    ) -> tuple[Any, dict[str, Any]]:
        scores, cache = self.next_scores(source, written, cache, index)
        token = self.sampler.get_next_token(self.sampler.compute_probabilities(scores))
        written = ops.slice_update(written, (0, index), ops.cast(token, "int32")[:, None])
        return written, cache

    # === Arrays in, ids out ===

    def write(self, token_ids: np.ndarray, padding_mask: np.ndarray) -> list[list[int]]:
        """Generate the ids of a batch, without the end token."""
        rows = len(token_ids)
        written = self._write(*self._few_shapes(token_ids, padding_mask))
        if self.beams == 1 and not isinstance(written, tuple):
            return [self._text(row) for row in ops.convert_to_numpy(written)[:rows]]
        beams, scores = (ops.convert_to_numpy(part)[:rows] for part in written)
        best = best_beams(beams, scores, self.tokens.pad_id, self.decoding.length_penalty)
        return [self._text(row[index]) for row, index in zip(beams, best, strict=True)]

    def stream(self, token_ids: np.ndarray, padding_mask: np.ndarray) -> Iterator[int]:
        """Generate the ids of one source, one after the other."""
        if self.beams > 1:
            raise ValueError(
                "Beams cannot be streamed: the best one is known only at the end. Use generate(), or another "
                "sampler: 'greedy', 'top_k', 'top_p' or 'random'."
            )
        state = self._begin(*self._few_shapes(token_ids, padding_mask))
        source, written, cache = state
        for index in range(1, self.decoding.most_tokens + 1):
            written, cache = self._go_on(source, written, cache, ops.convert_to_tensor(index, "int32"))
            token = int(ops.convert_to_numpy(written)[0, index])
            if token == self.tokens.end_id:
                return
            yield token

    def _few_shapes(self, token_ids: np.ndarray, padding_mask: np.ndarray) -> tuple[Any, Any]:
        """Return ids and mask, on JAX filled up to powers of two of rows and tokens: it compiles for each shape."""
        pair = (token_ids, padding_mask)
        if keras.backend.backend() == "jax":
            (rows, width), most = token_ids.shape, self.config.max_sequence_length - self.decoding.most_tokens
            more = (1 << (rows - 1).bit_length()) - rows
            wider = max(width, min(max(16, 1 << (width - 1).bit_length()), most)) - width
            pair = tuple(np.pad(np.pad(part, [(0, more), (0, 0)], mode="edge"), [(0, 0), (0, wider)]) for part in pair)
        return tuple(ops.convert_to_tensor(part, "int32") for part in pair)

    def reseed(self, seed: int | None) -> None:
        """Reset the random state of the sampler to a seed."""
        for generator in self._generators:
            generator.state.assign(keras.random.SeedGenerator(seed).state)

    @property
    def _generators(self) -> list[Any]:
        """The random states of the sampler."""
        return list(getattr(self.sampler, "_seed_generators", ()))

    def _text(self, row: np.ndarray) -> list[int]:
        return text_ids(row, self.tokens.end_id)
