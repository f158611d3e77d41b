"""Build the TensorFlow functions that all signatures of a served task share: tokenizer, inputs and model.

A `SharedGraph` takes strings to the model's inputs, and those to its outputs. Each function stands in the file once.
"""

from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf

from export.serving.unpadded import UnpaddedModel
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack_ids


class SharedGraph:
    """The shared functions of a served task.

    Args:
        task: The task.
        precision: The type of the matrix products, `"float32"` or `"bfloat16"`.
    """

    def __init__(self, task: Task, precision: str = "float32"):
        self.task: Any = task  # with the attributes of its class
        self._model = self._choose_model(precision)
        self._parts: dict[Hashable, Any] = {}
        strings, ids = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
        tokenizer = task.tokenizer
        self.pack = tf.function(self._pack_texts, autograph=False)  # traced for one text and for two
        self._tokenize = tf.function(tokenizer.__call__, input_signature=[strings], autograph=False)
        self._locate = tf.function(tokenizer.tokenize_with_offsets, input_signature=[strings], autograph=False)
        self._forward = tf.function(self._run_model, input_signature=[ids] * len(INPUT_NAMES), autograph=False)

    def part(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Give a part that signatures share, and make it on first use."""
        if key not in self._parts:
            self._parts[key] = make()
        return self._parts[key]

    # === Texts ===

    def _pack_texts(self, *texts: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Turn rows of one or two texts into the model's inputs, as wide as the longest, and say which were cut."""
        sides = [self._tokenize(clean(side)) for side in texts]
        special = 2 + (self.task.tokenizer.pair_separators if len(sides) == 2 else 0)
        return self._pack_ids(*sides, lengths=tf.add_n([side.row_lengths() for side in sides]) + special)

    def pack_cutting_first(self, text: tf.Tensor, pair: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """As `pack`, but a row that is too long loses tokens of the first text, and of the second only if it must."""
        first, second = self._tokenize(clean(text)), self._tokenize(clean(pair))
        special = 2 + self.task.tokenizer.pair_separators
        lengths = first.row_lengths() + second.row_lengths() + special
        second = second[:, : self.task.sequence_length - special]
        room = self.task.sequence_length - special - second.row_lengths()
        first = tf.ragged.boolean_mask(first, tf.ragged.range(first.row_lengths()) < room[:, None])
        return self._pack_ids(first, second, lengths=lengths)

    def pack_source(self, text: tf.Tensor, room: int, keeps: str) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Turn sources into inputs of at most `room` tokens, and say which were cut; `keeps` is the end to keep."""
        ids = self._tokenize(text)
        kept = ids[:, : room - 2] if keeps == "start" else ids[:, 2 - room :]
        inputs, _ = self._pack_ids(kept, lengths=kept.row_lengths() + 2)
        return inputs, ids.row_lengths() + 2 > room

    def _pack_ids(self, *sides: tf.RaggedTensor, lengths: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Turn ids into the model's inputs, and say which rows were cut."""
        tokenizer, limit = self.task.tokenizer, self.task.sequence_length
        special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
        inputs = pack_ids(*sides, sequence_length=limit, separators=tokenizer.pair_separators, **special)
        width = self._width(lengths)
        return {name: inputs[name][:, :width] for name in INPUT_NAMES}, lengths > limit

    def _width(self, lengths: tf.Tensor) -> tf.Tensor:
        """The tokens of the longest row; 2 if the batch is empty."""
        return tf.maximum(tf.reduce_max(tf.minimum(lengths, self.task.sequence_length)), 2)

    def pack_with_places(
        self, text: tf.Tensor, question: tf.Tensor | None = None, *, longest_question: int = 0
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor]:
        """Turn texts, or questions and texts, into the model's inputs, with the place of every token.

        Args:
            text: Strings `[B]`, in UTF-8. Longer texts are cut.
            question: The text before each text; `None` is nothing.
            longest_question: The most tokens of a question.

        Returns:
            The model's inputs; where each token begins and ends in its text, in characters, int32 `[B, T]`, −1 for
            tokens that are not of the text; and which rows were cut.
        """
        tokenizer, limit = self.task.tokenizer, self.task.sequence_length
        ids, starts, ends = self._locate(text)
        cls, sep = (tf.fill([ids.nrows(), 1], token) for token in (tokenizer.cls_id, tokenizer.sep_id))
        if question is None:
            head, segment, was_cut = tf.RaggedTensor.from_tensor(cls), 0, False
        else:
            asked, _, _ = self._locate(question)
            separators = [sep] * tokenizer.pair_separators
            head, segment = tf.concat([cls, asked[:, :longest_question], *separators], axis=1), 1
            was_cut = asked.row_lengths() > longest_question
        lengths = head.row_lengths() + ids.row_lengths() + 1
        width = self._width(lengths)

        def rows(before: Any, values: Any, behind: Any, padding: int) -> tf.Tensor:
            """Arrange the values before the text, of the text, and after it as `[B, T]`."""
            whole = tf.concat([tf.concat([before, values], axis=1)[:, : limit - 1], behind], axis=1)
            return whole.to_tensor(padding, shape=[None, limit])[:, :width]

        def places(values: Any) -> tf.Tensor:
            return rows(-tf.ones_like(head), values, -tf.ones_like(sep), -1)

        visible = rows(tf.ones_like(head), tf.ones_like(ids), tf.ones_like(sep), 0)
        segments = rows(tf.zeros_like(head), tf.ones_like(ids), tf.ones_like(sep), 0) * segment
        inputs = {"token_ids": rows(head, ids, sep, tokenizer.pad_id), "segment_ids": segments, "padding_mask": visible}
        return inputs, places(starts), places(ends), (lengths > limit) | was_cut

    # === Model ===

    def forward(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Run the model; give its outputs by name, float32."""
        return self._forward(*(inputs[name] for name in INPUT_NAMES))

    def _choose_model(self, precision: str) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
        """The model without padding between the texts, or as it is where its outputs are for each token."""
        if UnpaddedModel.fits(self.task.model):
            return UnpaddedModel(self.task.model, precision)
        if precision != "float32":
            raise ValueError(
                f"Got precision={precision!r}; {type(self.task).__name__} is served in 'float32' only, because its "
                "outputs are for each token or its model is not a plain encoder."
            )
        return lambda inputs: self.task.model(inputs, training=False)

    def _run_model(self, *inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = self._model(dict(zip(INPUT_NAMES, inputs, strict=True)))
        return {name: tf.cast(value, tf.float32) for name, value in outputs.items() if tf.is_tensor(value)}


def clean(texts: tf.Tensor) -> tf.Tensor:
    """Replace invalid UTF-8 by U+FFFD.

    A server puts the texts of several users into one batch, so the invalid bytes of one must not fail the others.
    """
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
