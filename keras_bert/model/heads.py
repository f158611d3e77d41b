"""The heads that a BERT checkpoint can have; `bert_model(config, heads)` puts them on an encoder.

| head | output | shape | Hugging Face class |
|---|---|---|---|
| `masked_lm` | `mlm_logits` | `[B, T, V]` | BertForMaskedLM |
| `next_sentence` | `nsp_logits` | `[B, 2]` | BertForNextSentencePrediction |
| `classification` | `class_logits` | `[B, C]` | BertForSequenceClassification |
| `token_classification` | `token_logits` | `[B, T, C]` | BertForTokenClassification |
| `question_answering` | `span_logits` | `[B, T, 2]` | BertForQuestionAnswering |
| `relation` | `relation_logits` | `[B, C]` | none: opens as BertModel |
| `replaced_tokens` | `replaced_logits` | `[B, T]` | ElectraForPreTraining |
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.model.config import BertConfig
from keras_bert.model.dropout import HashDropout
from keras_bert.model.embeddings import Shape, as_config, dense, initializer, layer_norm, spread_seed
from keras_bert.model.encoder import activation_function, bert_encoder, encoder_config

_TRUNCATED_DEVIATION = 0.8796  # the standard deviation of a standard normal distribution truncated at 2

HEADS = (
    *("masked_lm", "next_sentence", "classification", "token_classification", "question_answering", "relation"),
    "replaced_tokens",
)

# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class MaskedLMTransform(keras.layers.Layer):
    """The layers between the encoder and the token table in the MLM head: dense, activation, norm.

    Takes `[B, T, H]`, gives `[B, T, E]`, where E is the width of the token table.
    """

    def __init__(self, config: BertConfig | dict[str, Any], *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        activation = activation_function(self.config)
        self.dense = dense(self, self.config.table_dim, "dense", activation=activation, seed=seed)
        self.norm = layer_norm(self, "norm")

    def build(self, x_shape: Shape) -> None:
        self.dense.build(x_shape)
        self.norm.build((*x_shape[:-1], self.config.table_dim))

    def call(self, x: Any) -> Any:
        return self.norm(self.dense(x))

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape[:-1], self.config.table_dim)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


@keras.saving.register_keras_serializable("keras_bert")
class OutputBias(keras.layers.Layer):
    """Adds one trained number per output: the bias of the MLM decoder, whose kernel is the token table.

    With `ids`, `x` has only the scores of those outputs.
    """

    def build(self, x_shape: Shape) -> None:
        self.bias = self.add_weight(name="bias", shape=(x_shape[-1],), initializer="zeros")

    def call(self, x: Any, ids: Any = None) -> Any:
        return x + (self.bias if ids is None else ops.take(self.bias, ids))

    def compute_output_shape(self, x_shape: Shape, ids_shape: Shape | None = None) -> Shape:
        return tuple(x_shape)


@keras.saving.register_keras_serializable("keras_bert")
class MarkedStates(keras.layers.Layer):
    """Concatenates the states of two marker tokens: `states [B, T, H]` and `token_ids [B, T]` give `[B, 2H]`.

    It multiplies by zeros and ones instead of gathering, so no input has to say where the markers are, and TFLite needs
    only built-in ops. Each marker occurs once in a text; the states of a missing marker are zeros.

    In shared rows, `example [B, T]` has the number of each token's text, from 1, and `starts [X]` an entry for each
    text; the states are then `[X, 2H]`.

    Example:
        >>> states = np.array([[[1.0], [2.0], [3.0], [4.0]]])
        >>> MarkedStates((8, 6))(states, np.array([[5, 6, 7, 8]])).numpy().tolist()
        [[4.0, 2.0]]
    """

    def __init__(self, marker_ids: Sequence[int], **kwargs: Any):
        super().__init__(**kwargs)
        self.marker_ids = tuple(int(index) for index in marker_ids)
        if len(set(self.marker_ids)) != 2 or len(self.marker_ids) != 2 or min(self.marker_ids) < 0:
            raise ValueError(f"marker_ids={marker_ids!r}: expected the ids of two different tokens.")

    def call(self, states: Any, token_ids: Any, example: Any = None, starts: Any = None) -> Any:
        width = states.shape[-1]
        markers = ops.convert_to_tensor(self.marker_ids, dtype="int32")[None, :, None]
        if example is None:
            marks = ops.equal(token_ids[:, None, :], markers)  # [B, 2, T]
            picked = ops.matmul(ops.cast(marks, states.dtype), states)  # [B, 2, H]
        else:
            numbers = ops.arange(1, ops.shape(starts)[0] + 1, dtype="int32")[:, None, None]
            tokens, owners = (ops.reshape(values, (1, 1, -1)) for values in (token_ids, example))  # all rows in one
            marks = ops.logical_and(ops.equal(owners, numbers), ops.equal(tokens, markers))  # [X, 2, B·T]
            marks = ops.reshape(marks, (-1, ops.shape(tokens)[-1]))
            picked = ops.matmul(ops.cast(marks, states.dtype), ops.reshape(states, (-1, width)))  # [2X, H]
        return ops.reshape(picked, (-1, 2 * width))

    def compute_output_shape(
        self,
        states_shape: tuple[Any, ...],
        token_ids_shape: Shape,
        example_shape: Shape | None = None,
        starts_shape: Shape | None = None,
    ) -> Shape:
        return (*(starts_shape or states_shape[:1]), 2 * states_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "marker_ids": list(self.marker_ids)}


# === Functional Model ===


def bert_model(
    config: BertConfig | None,
    heads: str | Sequence[str] = ("masked_lm", "next_sentence"),
    *,
    num_classes: int | Mapping[str, int] | None = None,
    marker_ids: Sequence[int] | None = None,
    classifier_dropout: float | None = None,
    encoder: keras.Model | None = None,
    seed: int | None = None,
    name: str = "bert",
) -> keras.Model:
    """Create an encoder with heads: takes `token_ids`, `segment_ids`, `padding_mask`, gives logits by name.

    Args:
        config: The sizes of the encoder; `None` if `encoder` is given.
        heads: One or several of `HEADS`.
        num_classes: The number of classes of the `classification`, `token_classification` or `relation` head; a
            dictionary by head for several of them.
        marker_ids: For the `relation` head: the ids of the tokens before the first and the second entity.
        classifier_dropout: The dropout rate before a classifier; `None` takes the config's `dropout`.
        encoder: A model from `bert_encoder`, whose layers and weights are shared; `None` creates a new one.
        seed: The seed of the initial weights and of dropout.

    Example:
        >>> model = bert_model(BertConfig.preset("tiny"), "classification", num_classes=3)
        >>> sorted(model.output)
        ['class_logits']
    """
    heads = (heads,) if isinstance(heads, str) else tuple(heads)
    unknown = [head for head in heads if head not in HEADS]
    if unknown or not heads:
        raise ValueError(f"heads={heads!r}: expected one or more of {', '.join(HEADS)}.")
    encoder_seed, *seeds = spread_seed(seed, 1 + len(HEADS))
    if encoder is None:
        if config is None:
            raise ValueError("config=None: expected the sizes of an encoder; pass a config, or encoder=….")
        encoder = bert_encoder(config, seed=encoder_seed)
    config = encoder_config(encoder)
    rate = config.dropout if classifier_dropout is None else classifier_dropout
    classes = num_classes if isinstance(num_classes, Mapping) else dict.fromkeys(HEADS, num_classes)
    builders: dict[str, Callable[[int | None], dict[str, Any]]] = {
        "masked_lm": lambda seed: {"mlm_logits": masked_lm_logits(encoder, seed=seed)},
        "next_sentence": lambda seed: {"nsp_logits": next_sentence_logits(encoder, seed=seed)},
        "classification": lambda seed: {
            "class_logits": _classify(
                encoder.output["pooled_output"], classes.get("classification"), "classifier", config, rate, seed
            )
        },
        "token_classification": lambda seed: {
            "token_logits": _classify(
                encoder.output["sequence_output"],
                classes.get("token_classification"),
                "token_classifier",
                config,
                rate,
                seed,
            )
        },
        "question_answering": lambda seed: {
            "span_logits": _linear(encoder.output["sequence_output"], 2, "span_classifier", config, seed)
        },
        "relation": lambda seed: {"relation_logits": _relate(encoder, classes.get("relation"), marker_ids, rate, seed)},
        "replaced_tokens": lambda seed: {"replaced_logits": _find_replaced(encoder, seed)},
    }
    outputs = {}
    for head in heads:
        outputs.update(builders[head](seeds[HEADS.index(head)]))
    return keras.Model(encoder.input, outputs, name=name)


def masked_lm_logits(encoder: keras.Model, vectors: Any = None, *, seed: int | None = None) -> Any:
    """Return scores over the vocabulary for `vectors` (by default of all tokens), with the encoder's token table."""
    config = encoder_config(encoder)
    vectors = encoder.output["sequence_output"] if vectors is None else vectors
    transformed = MaskedLMTransform(config, seed=seed, name="mlm_transform")(vectors)
    scores = encoder.get_layer("token_embedding")(transformed, reverse=True)
    return OutputBias(name="mlm_bias")(scores)


def next_sentence_logits(encoder: keras.Model, pooled: Any = None, *, seed: int | None = None) -> Any:
    """Return two scores for a pair of segments: the second follows the first (class 0), or is random (class 1)."""
    pooled = encoder.output["pooled_output"] if pooled is None else pooled
    return _linear(pooled, 2, "next_sentence", encoder_config(encoder), seed)


def _classify(
    vectors: Any, num_classes: int | None, name: str, config: BertConfig, rate: float, seed: int | None
) -> Any:
    if not isinstance(num_classes, int) or num_classes < 1:
        raise ValueError(f"num_classes={num_classes!r}: the {name} head needs the number of classes, at least 1.")
    vectors = HashDropout(rate, seed=seed, name=f"{name}_dropout")(vectors)
    return _linear(vectors, num_classes, name, config, seed)


def _relate(
    encoder: keras.Model, num_classes: int | None, marker_ids: Sequence[int] | None, rate: float, seed: int | None
) -> Any:
    """Classify [CLS] and the start markers of both entities (R-BERT and "Matching the Blanks", 2019)."""
    if marker_ids is None:
        raise ValueError("marker_ids=None: the relation head needs the ids of the tokens before both entities.")
    config, inputs, outputs = encoder_config(encoder), encoder.input, encoder.output
    examples = [inputs["padding_mask"], inputs["example_starts"]] if "example_starts" in inputs else []
    marked = MarkedStates(marker_ids, name="relation_states")
    states = marked(outputs["sequence_output"], inputs["token_ids"], *examples)
    vectors = keras.layers.Concatenate(name="relation_vectors")([outputs["pooled_output"], states])
    seeds = spread_seed(seed, 2)
    vectors = HashDropout(rate, seed=seeds[0], name="relation_dense_dropout")(vectors)
    init = _head_initializer(config, seeds[0])
    hidden = keras.layers.Dense(config.hidden_dim, activation="tanh", kernel_initializer=init, name="relation_dense")
    return _classify(hidden(vectors), num_classes, "relation_classifier", config, rate, seeds[1])


def _find_replaced(encoder: keras.Model, seed: int | None) -> Any:
    """Score each token for having been replaced, as ELECTRA's discriminator does (Clark et al. 2020)."""
    config, seeds = encoder_config(encoder), spread_seed(seed, 2)
    hidden = keras.layers.Dense(
        config.hidden_dim,
        activation=activation_function(config),
        kernel_initializer=_head_initializer(config, seeds[0]),
        name="replaced_dense",
    )(encoder.output["sequence_output"])
    return _linear(hidden, 1, "replaced_classifier", config, seeds[1])[..., 0]


def _linear(vectors: Any, units: int, name: str, config: BertConfig, seed: int | None) -> Any:
    init = _head_initializer(config, seed)
    # Logits stay float32 under mixed precision: softmax over half-precision logits loses the small classes.
    return keras.layers.Dense(units, kernel_initializer=init, dtype=_float32_logits(), name=name)(vectors)


def _head_initializer(config: BertConfig, seed: int | None) -> keras.initializers.Initializer:
    """Return the initializer of a head, with the standard deviation that transformers uses.

    Truncation makes the deviation smaller, which this corrects: it matters in short fine-tuning runs.
    """
    return initializer(config.initializer_range / _TRUNCATED_DEVIATION, seed)


def _float32_logits() -> str | keras.DTypePolicy:
    policy = keras.config.dtype_policy()
    return "float32" if policy.compute_dtype in ("float16", "bfloat16") else policy
