"""What a student is to take from its teacher, as values: logits, hidden states, attention, relations, embeddings.

Each knows which tensors of a model it looks at and how far two are apart. A teacher's tensors are computed once and
kept (`teacher_outputs.py`); a student's are outputs of the model that trains. Attention and relations travel as the
queries, keys and values that they are made of, a vector for each token: a map of all pairs would be as large as the row
is long. Padding counts in none of them, and in packed rows no token meets a token of another text. A room of its own
because losses are plain tensors, and know nothing of tasks, files and training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import keras
from keras import ops

from keras_bert.encoder import MASK_BIAS

# === Distances ===


@keras.saving.register_keras_serializable("keras_bert")
class SoftLabels(keras.losses.Loss):
    """Cross-entropy with a teacher's probabilities at a temperature, times its square (Hinton et al. 2015).

    Takes logits of both, `[…, C]`; gives one number for each row. What a perfect student has left is the teacher's own
    entropy, which is subtracted: 0 means equal.

    Example:
        >>> loss = SoftLabels(2.0)
        >>> float(loss(np.array([[1.0, 3.0]]), np.array([[1.0, 3.0]])))
        0.0
    """

    def __init__(self, temperature=2.0, weight=1.0, reduction="mean_with_sample_weight", name="soft_labels", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.temperature, self.weight = temperature, weight

    def call(self, y_true, y_pred):
        teacher = ops.log_softmax(ops.cast(y_true, y_pred.dtype) / self.temperature)
        student = ops.log_softmax(y_pred / self.temperature)
        distance = ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)
        return self.weight * self.temperature**2 * distance

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature, "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class SoftSpans(keras.losses.Loss):
    """The same over the places of a row: where an answer begins and where it ends.

    Takes `[B, T, 3]`, the teacher's two logits and 1 for what is no padding; and the student's logits `[B, T, 2]`.
    Gives a number for each token, whose mean over all tokens is the distance (longer rows count more).
    """

    def __init__(self, temperature=2.0, weight=1.0, reduction="mean_with_sample_weight", name="soft_spans", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.temperature, self.weight = temperature, weight

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        real = y_true[..., 2:]  # [B, T, 1]
        hidden = (1.0 - real) * MASK_BIAS
        teacher = ops.log_softmax(y_true[..., :2] / self.temperature + hidden, axis=1)
        student = ops.log_softmax(y_pred / self.temperature + hidden, axis=1)
        terms = ops.mean(ops.exp(teacher) * (teacher - student) * real, axis=-1)  # [B, T]
        return self.weight * self.temperature**2 * terms * ops.sum(real, axis=1)

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature, "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class VectorDistance(keras.losses.Loss):
    """The mean squared difference of vectors, `[…, D]`, in units of the teacher's own mean square.

    Without the unit, a layer whose states are ten times larger would count a hundred times more.
    """

    def __init__(self, weight=1.0, reduction="mean_with_sample_weight", name="vector_distance", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        unit = ops.mean(ops.square(y_true), axis=-1) + 1e-6
        return self.weight * ops.mean(ops.square(y_true - y_pred), axis=-1) / unit

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class RelationDistance(keras.losses.Loss):
    """How differently two models relate the tokens of a text to each other (MiniLMv2, Wang et al. 2021).

    Takes the teacher's vectors `[B, T, K * Ht]`, K of them for each token side by side, and the student's
    `[B, T, 1 + K * Hs]`, behind the number of the text that the token belongs to (0 = padding). Each is cut into
    `heads` parts, whatever heads the models have; the softmax over the products of each part of a token with those of
    all tokens of its text is compared by the Kullback-Leibler divergence. With `cross`, of two vectors the products of
    the first with the second: attention itself. Gives a number for each token.
    """

    def __init__(
        self,
        heads=12,
        vectors=3,
        cross=False,
        weight=1.0,
        reduction="mean_with_sample_weight",
        name="relation_distance",
        **kwargs,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.heads, self.vectors, self.cross, self.weight = heads, vectors, cross, weight

    def call(self, y_true, y_pred):
        text, student = y_pred[..., 0], y_pred[..., 1:]
        apart = ops.cast(ops.not_equal(text[:, :, None], text[:, None, :]), student.dtype)[:, None] * MASK_BIAS
        theirs, ours = self._relations(ops.cast(y_true, student.dtype), apart), self._relations(student, apart)
        terms = [
            ops.mean(ops.sum(ops.exp(one) * (one - other), axis=-1), axis=1)  # [B, T], the mean over the heads
            for one, other in zip(theirs, ours, strict=True)
        ]
        return self.weight * sum(terms) / len(terms)

    def _relations(self, vectors, apart):
        """The logarithms of the relations, `[B, heads, T, T]` each."""
        parts = [self._split(part) for part in ops.split(vectors, self.vectors, axis=-1)]
        pairs = [(parts[0], parts[1])] if self.cross else [(part, part) for part in parts]
        return [
            ops.log_softmax(ops.matmul(left, ops.transpose(right, (0, 1, 3, 2))) * left.shape[-1] ** -0.5 + apart)
            for left, right in pairs
        ]

    def _split(self, vectors):
        width = vectors.shape[-1] // self.heads
        shape = (*ops.shape(vectors)[:2], self.heads, width)
        return ops.transpose(ops.reshape(vectors, shape), (0, 2, 1, 3))  # [B, heads, T, D]

    def get_config(self):
        own = {"heads": self.heads, "vectors": self.vectors, "cross": self.cross, "weight": self.weight}
        return {**super().get_config(), **own}


# === What to take ===


@dataclass(frozen=True)
class Logits:
    """The teacher's answers with all their doubts: softened logits of every head of the task."""

    temperature: float = 2.0
    weight: float = 1.0


@dataclass(frozen=True)
class Layers:
    """Vectors of whole layers; a row for each pair of a student's and a teacher's layer.

    Args:
        pairs: `(student, teacher)` layers: 0 is the embeddings, 1 the first block's output; `None` takes the last of
            both. Where widths differ, the student's go through a projection that is learned with it and left out later.
        weight: How much it counts.
    """

    pairs: Sequence[tuple[int, int]] | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Hidden(Layers):
    """Hidden states, as TinyBERT takes them."""

    name: ClassVar[str] = "hidden"


@dataclass(frozen=True)
class Embeddings(Hidden):
    """What the embedding layers give: `Hidden` of layer 0."""

    pairs: Sequence[tuple[int, int]] | None = ((0, 0),)


@dataclass(frozen=True)
class Relations(Layers):
    """Relations between queries, keys and values of a block, as MiniLMv2 takes them; blocks are counted from 1.

    Args:
        heads: Into how many parts vectors are cut; any number that divides both widths.
    """

    heads: int = 12
    name: ClassVar[str] = "relations"


@dataclass(frozen=True)
class Attention(Layers):
    """Attention probabilities of a block, from queries and keys; both models must have as many heads."""

    name: ClassVar[str] = "attention"
