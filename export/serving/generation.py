"""Serve a `Seq2Seq`: a graph from strings to strings, with the loop over the tokens inside.

`SERVED_TEXTS` is the `ServedTask` of every task that writes. The loop runs the two models of
`tasks/generation/cached_decoder.py`, as `tasks/generation/token_writer.py` does. keras-hub's samplers use an op of XLA
that stock servers lack, so the loop is written here with ops that they have. Random sampling is not served: a server
gives the same answer to a text each time.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from export.serving.graph import SharedGraph
from export.serving.text import join_tokens
from export.tasks.base.definition import ServedTask, ServeFunction
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.tasks.generation.cached_decoder import cache_names, cache_shape, next_token_model, source_reader
from keras_bert.tasks.generation.rows import Room, tokenize_sources
from keras_bert.tasks.generation.sampling import NEVER, Decoding, TextTokens, restrict
from keras_bert.tasks.generation.task import Seq2Seq

NOTES = (
    "`written` is the text, `written_ids` its tokens with padding at the end. `generate` and `serving_default` take "
    "the likeliest token each time; `generate_beam` uses beams; other `generate_…` use the settings of the export.",
    "A source of several texts, such as the turns of a dialogue, is sent as ids: `[CLS] one [SEP] another [SEP]` to "
    "`from_ids`, with `segment_ids` 0.",
)


# === Functions of the signatures ===


def serve_greedily(graph: SharedGraph, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Serve `generate`: write a text for each string."""
    return _serve(graph, text, Decoding())


def serve_ids(graph: SharedGraph, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Serve `from_ids`: write texts after sources that are tokenized already, cut if they are too long."""
    writer = _writer(graph, Decoding())
    room = source_room(graph.task)
    return writer(*(inputs[name][:, :room] for name in ("token_ids", "padding_mask")))


def expect_greedily(task: Seq2Seq, texts: list[str]) -> dict[str, tf.Tensor]:
    """Write the same texts with Keras."""
    return _expect(task, texts, Decoding())


def served_variants(
    decodings: Mapping[str, Mapping[str, Any]] | None,
) -> dict[str, tuple[ServeFunction, ServeFunction]]:
    """The signatures that write, by name: the function that serves each, and the one that gives what Keras writes.

    Args:
        decodings: Settings of `Decoding` by name, in addition to `generate`; `None` adds beams.

    Example:
        >>> list(served_variants({"short": {"max_length": 8}}))
        ['generate', 'generate_short']
    """
    variants: dict[str, tuple[ServeFunction, ServeFunction]] = {"generate": (serve_greedily, expect_greedily)}
    for name, settings in ({"beam": {"sampler": "beam"}} if decodings is None else decodings).items():
        decoding = Decoding(**settings)
        if decoding.sampler not in ("greedy", "beam"):
            raise ValueError(
                f"Got sampler={decoding.sampler!r} in decodings[{name!r}]; expected 'greedy' or 'beam': a server gives "
                "the same answer to a text each time."
            )
        variants[f"generate_{name}"] = (
            lambda graph, text, decoding=decoding: _serve(graph, text, decoding),
            lambda task, texts, decoding=decoding: _expect(task, texts, decoding),
        )
    return variants


def as_row(source: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Turn a source into a row of strings; raise an error if it has several texts."""
    texts = (source,) if isinstance(source, str) else tuple(source)
    if len(texts) != 1:
        raise ValueError(f"The source {str(texts)[:60]} has {len(texts)} texts; pass one string, or ids to `from_ids`.")
    return [texts]


def source_room(task: Any) -> int:
    """The most tokens of a source, `[CLS]` and `[SEP]` included.

    Example:
        >>> source_room(translator)  # doctest: +SKIP
        96
    """
    return task.sequence_length - task.target_length


def _serve(graph: SharedGraph, text: tf.Tensor, decoding: Decoding) -> dict[str, tf.Tensor]:
    inputs, truncated = graph.pack_source(text, source_room(graph.task), graph.task.keeps)
    return {**_writer(graph, decoding)(inputs["token_ids"], inputs["padding_mask"]), "truncated": truncated}


def _writer(graph: SharedGraph, decoding: Decoding) -> ServeFunction:
    """The loop for these settings, which all signatures share."""
    decoding = _with_length(graph.task, decoding)
    return graph.part(("writer", decoding), lambda: ServedWriter(graph.task, decoding).write)


def _with_length(task: Any, decoding: Decoding) -> Decoding:
    longest = task.target_length if decoding.max_length is None else decoding.max_length
    if longest > task.target_length:
        raise ValueError(f"Got max_length={longest}; expected at most target_length={task.target_length} of the task.")
    return replace(decoding, max_length=longest)


def _expect(task: Any, texts: list[str], decoding: Decoding) -> dict[str, tf.Tensor]:
    """The ids that `TokenWriter` writes. Empty texts, which `predict` refuses, are served too."""
    decoding, tokenizer = _with_length(task, decoding), task.tokenizer
    tokens, splits, _ = tokenize_sources(tokenizer, texts, Room(source_room(task), task.target_length, task.keeps))
    rows = [[tokenizer.cls_id, *tokens[begin:end], tokenizer.sep_id] for begin, end in itertools.pairwise(splits)]
    writer, _ = task.writer(decoding)
    ids = np.full((len(texts), decoding.max_length or task.target_length), task.tokenizer.pad_id, np.int32)
    for row, text in zip(ids, writer.write(*task.padded(rows)), strict=True):
        row[: len(text)] = text
    return {"written_ids": tf.constant(ids)}


# Every task that writes is served in this way.
SERVED_TEXTS = ServedTask(
    answers=lambda task, outputs: {},
    serve=serve_greedily,
    expected=expect_greedily,
    rows=as_row,
    serve_ids=serve_ids,
    variants=served_variants,
    longest=source_room,
    notes=NOTES,
)


# === The loop ===


class ServedWriter:
    """Writes texts after sources, inside a graph.

    Args:
        task: The task.
        decoding: How to write: greedily or with beams; `max_length` must be a number.
    """

    def __init__(self, task: Seq2Seq, decoding: Decoding):
        if decoding.max_length is None:
            raise ValueError("Got max_length=None; expected a number of tokens, at most the task's target_length.")
        self._longest = decoding.max_length
        self._config, self._decoding, self._vocabulary = task.config, decoding, task.tokenizer.vocabulary
        self._tokens = TextTokens.of(task.tokenizer, task.config.vocabulary_size)
        self._reader, self._step = source_reader(task.model), next_token_model(task.model)
        self._beams = decoding.num_beams if decoding.sampler == "beam" else 1
        rows = tf.TensorSpec([None, None], tf.int32)
        self.write = tf.function(self._write, input_signature=[rows, rows], autograph=False)

    def _write(self, token_ids: tf.Tensor, padding_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Write after sources `[B, S]`, `[CLS]` first and `[SEP]` last; give texts `[B]` and their ids `[B, L]`."""
        source, rows = self._read(token_ids, padding_mask), tf.shape(token_ids)[0]
        places, longest = tf.range(self._longest + 1), self._longest
        start = tf.where(places == 0, self._tokens.start_id, self._tokens.pad_id)
        written = tf.repeat(start[None], rows * self._beams, axis=0)  # [B * beams, 1 + L]
        totals = tf.repeat(tf.constant([[0.0] + [NEVER] * (self._beams - 1)]), rows, axis=0)  # [B, beams]
        dtype = self._step.output["new_keys_0"].dtype
        cache = {
            name: tf.zeros([rows * self._beams, *cache_shape(self._config, name, longest)], dtype)
            for name in cache_names(self._config.num_layers, "target")
        }

        def goes_on(index: tf.Tensor, written: tf.Tensor, totals: tf.Tensor, cache: dict[str, tf.Tensor]) -> tf.Tensor:
            return (index <= longest) & ~tf.reduce_all(self._has_ended(written))

        def go_on(
            index: tf.Tensor, written: tf.Tensor, totals: tf.Tensor, cache: dict[str, tf.Tensor]
        ) -> tuple[Any, ...]:
            scores, cache = self._next_scores(source, written, cache, index)
            token, parents, totals = self._choose(scores, totals)
            if parents is not None:
                written, cache = tf.nest.map_structure(lambda kept: tf.gather(kept, parents), (written, cache))
            return index + 1, tf.where(places == index, token[:, None], written), totals, cache

        _, written, totals, _ = tf.while_loop(goes_on, go_on, (tf.constant(1), written, totals, cache))
        ids = self._best(written, totals)[:, 1:]
        lengths = tf.reduce_sum(tf.cast(_is_before_end(ids, self._tokens.end_id), tf.int32), axis=1)
        ids = tf.where(places[None, :-1] < lengths[:, None], ids, self._tokens.pad_id)
        return {"written": join_tokens(ids, lengths, self._vocabulary), "written_ids": ids}

    def _read(self, token_ids: tf.Tensor, padding_mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """The caches and masks of the sources, repeated for each beam."""
        inputs = dict(zip(INPUT_NAMES, (token_ids, tf.zeros_like(token_ids), padding_mask), strict=True))
        lengths = tf.reduce_sum(padding_mask, axis=1, keepdims=True)
        is_before = tf.cast(tf.range(tf.shape(token_ids)[1])[None] < lengths - 1, tf.int32)
        source = {**self._reader(inputs), "source_mask": padding_mask * is_before, "begin": lengths - 1}
        return {name: tf.repeat(value, self._beams, axis=0) for name, value in source.items()}

    def _next_scores(
        self, source: dict[str, tf.Tensor], written: tf.Tensor, cache: dict[str, tf.Tensor], index: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The scores of the next tokens and the new caches, as in `TokenWriter.next_scores`."""
        slot, slots = index - 1, tf.range(self._longest)
        token = tf.gather(written, slot, axis=1)[:, None]
        outputs = self._step(
            {
                "token_ids": token,
                "segment_ids": tf.ones_like(token) * tf.cast(slot > 0, tf.int32),
                "position_ids": source["begin"] + slot,
                "target_mask": tf.ones_like(token) * tf.cast(slots < slot, tf.int32)[None],
                **{name: value for name, value in source.items() if name != "begin"},
                **cache,
            }
        )
        kept = {}
        for name, value in cache.items():
            is_slot = (slots == slot)[None, :] if "_keys_" in name else (slots == slot)[:, None]
            kept[name] = tf.where(is_slot, outputs[name.replace("target", "new")], value)
        return restrict(outputs["logits"], written, index, self._tokens, self._decoding), kept

    def _choose(self, scores: tf.Tensor, totals: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor]:
        """The next tokens `[B * beams]`, the rows that they continue (`None` if unchanged), and log-probabilities."""
        if self._decoding.sampler == "greedy":
            return tf.argmax(scores, axis=-1, output_type=tf.int32), None, totals
        rows = tf.range(tf.shape(scores)[0])
        scores = tf.math.log(tf.nn.softmax(scores / self._decoding.temperature)) + tf.reshape(totals, [-1, 1])
        totals, best = tf.math.top_k(tf.reshape(scores, [-1, self._beams * self._tokens.size]), self._beams)
        first = tf.reshape(rows, [-1, self._beams])[:, :1]
        return tf.reshape(best % self._tokens.size, [-1]), tf.reshape(first + best // self._tokens.size, [-1]), totals

    def _best(self, written: tf.Tensor, totals: tf.Tensor) -> tf.Tensor:
        """The beam with the best log-probability by length, as in `best_beams`; `top_k` has sorted them."""
        if self._beams == 1:
            return written
        written = tf.reshape(written, [-1, self._beams, self._longest + 1])
        lengths = tf.reduce_sum(tf.cast(written[:, :, 1:] != self._tokens.pad_id, tf.float32), axis=-1)
        scores = totals / tf.maximum(lengths, 1.0) ** self._decoding.length_penalty
        return tf.gather(written, tf.argmax(scores, axis=-1, output_type=tf.int32), batch_dims=1)

    def _has_ended(self, written: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(written[:, 1:] == self._tokens.end_id, axis=1)


def _is_before_end(ids: tf.Tensor, end_id: int) -> tf.Tensor:
    return tf.cumsum(tf.cast(ids == end_id, tf.int32), axis=1) == 0
