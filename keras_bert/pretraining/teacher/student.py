"""A student's training model: an encoder with the vectors that are compared with the teacher's, and their losses.

Takes masked or whole batches with the teacher's vectors as labels, gives a functional Keras model. Projections to the
teacher's width are learned with the student and left out of the saved model; a student with the teacher's blocks needs
none, and its vectors become the teacher's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.model.pooling import mean_of_tokens
from keras_bert.pretraining.model import losses_and_metrics, pretraining_model
from keras_bert.pretraining.teacher.plan import Targets, Teacher
from keras_bert.training.layer_vectors import attention_vectors
from keras_bert.training.vector_distances import CosineDistance, RelationDistance, VectorDistance

SENTENCE = "sentence"


@keras.saving.register_keras_serializable("keras_bert")
class WordMeans(keras.layers.Layer):
    """The mean over each word's tokens: `[B, T, H]` and the number of the word of each token, `[B, T]` → `[B, T, H]`.

    Place w of the result is word w; behind the last word there are zeros. Tokens of no word have the number -1.

    Example:
        >>> WordMeans()(np.array([[[1.0], [3.0], [5.0]]]), np.array([[0, 0, 1]])).numpy().ravel().tolist()
        [2.0, 5.0, 0.0]
    """

    def call(self, vectors: Any, word_ids: Any) -> Any:
        numbers = ops.arange(ops.shape(word_ids)[1], dtype="int32")[None, :, None]
        member = ops.cast(ops.equal(ops.cast(word_ids, "int32")[:, None, :], numbers), vectors.dtype)  # [B, W, T]
        return ops.matmul(member, vectors) / ops.maximum(ops.sum(member, axis=-1, keepdims=True), 1.0)

    def compute_output_shape(
        self, vectors_shape: Sequence[int | None], word_ids_shape: Sequence[int | None]
    ) -> tuple[int | None, ...]:
        return tuple(vectors_shape)


def student_model(
    encoder: keras.Model,
    plan: Teacher,
    targets: Targets,
    *,
    words: bool = False,
    next_sentence: bool = False,
    packed: bool = False,
    max_predictions: int = 20,
    negatives: int | None = None,
    token_counts: Sequence[int] | np.ndarray | None = None,
    statistics: Mapping[str, np.ndarray] | None = None,
    seed: int | None = None,
    model_class: type[keras.Model] = keras.Model,
) -> keras.Model:
    """The model that learns from a teacher.

    Args:
        encoder: The student, itself `packed` where this is.
        plan: What to learn.
        targets: Its layers.
        words: Whether the means over words are compared; the model then takes `word_ids` and `word_texts` too.
        next_sentence, packed, max_predictions, negatives, token_counts, seed: As for `pretraining_model`, where the
            plan has a masked LM.
        statistics: Mean and deviation of each column of the teacher's hidden states, by their names, if the student's
            own states shall become the teacher's: they are compared as they are. `None` learns a projection.
        model_class: The class of the model.

    Example:
        ```python
        model = student_model(encoder, plan, targets)
        model.compile("adamw", **student_losses(model, plan, targets))
        ```
    """
    inputs, outputs = dict(encoder.input), {}
    if plan.mlm:
        heads = pretraining_model(
            None,
            max_predictions=max_predictions,
            next_sentence=next_sentence,
            packed=packed,
            negatives=negatives,
            token_counts=token_counts,
            encoder=encoder,
            seed=seed,
        )
        inputs, outputs = dict(heads.input), dict(heads.output)
    texts = inputs["padding_mask"]
    in_units: Callable[[Any], Any] = lambda vectors: vectors  # noqa: E731
    if words:
        word_ids, texts = (keras.Input((None,), dtype="int32", name=name) for name in ("word_ids", "word_texts"))
        inputs |= {"word_ids": word_ids, "word_texts": texts}
        means = WordMeans(name="word_means")
        in_units = lambda vectors: means(vectors, word_ids)  # noqa: E731
    states = encoder.output["hidden_states"]
    for ours, theirs in targets.hidden:
        name = f"hidden_{ours}_{theirs}"
        if statistics is None:
            projection = keras.layers.Dense(targets.widths[f"hidden_{theirs}"], name=name, dtype=_head_policy())
            if seed is not None:
                projection.kernel_initializer = keras.initializers.GlorotUniform(seed=seed + ours)
        else:
            mean, deviation = np.asarray(statistics[f"hidden_{theirs}"], "float64")
            projection = keras.layers.Rescaling(
                (1 / deviation).tolist(), (-mean / deviation).tolist(), name=name, dtype=_head_policy()
            )
        projected = projection(in_units(states[ours]))
        if plan.hidden:
            outputs[name] = projected
        if targets.sentence and (ours, theirs) == targets.hidden[-1]:
            mean = mean_of_tokens(projected, ops.minimum(texts, 1))
            outputs[SENTENCE] = keras.layers.Identity(name=SENTENCE)(mean[:, None, :])
    for ours, theirs in targets.relations:
        vectors = in_units(attention_vectors(encoder, ours))
        beside = ops.concatenate([ops.cast(texts, vectors.dtype)[..., None], vectors], axis=-1)
        outputs[f"relations_{ours}_{theirs}"] = keras.layers.Identity(name=f"relations_{ours}_{theirs}")(beside)
    return model_class(inputs, outputs, name="student")


def student_losses(model: keras.Model, plan: Teacher, targets: Targets) -> dict[str, Any]:
    """What `compile` needs: losses, their weights and the metrics of the heads."""
    options: dict[str, Any] = {"loss": {}, "loss_weights": {}}
    if plan.mlm:
        options |= losses_and_metrics(model)
        options["loss_weights"] = dict.fromkeys(options["loss"], plan.mlm)
    for name in model.output:
        if name.startswith("hidden_"):
            options["loss"][name], options["loss_weights"][name] = VectorDistance(), plan.hidden / len(targets.hidden)
        elif name.startswith("relations_"):
            distance = RelationDistance(targets.heads, 3)
            options["loss"][name], options["loss_weights"][name] = distance, plan.relations
        elif name == SENTENCE:
            weight = 1.0 if plan.sentence is None else plan.sentence
            options["loss"][name], options["loss_weights"][name] = CosineDistance(), weight
    return options


def _head_policy() -> str:
    """Distances are measured in float32, also where the encoder computes in half precision."""
    return "float32"
