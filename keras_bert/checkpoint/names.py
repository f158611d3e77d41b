"""The table of weight names: ours, Google's, Hugging Face's and keras-hub's.

Hugging Face's column has BERT's names; those of its other families are made from them by `families.py`. Takes a config
and the parts of a model; gives, for each weight, its name and shape in every format, and how to convert it. The
loader, the saver and the tests all use these rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from keras_bert.checkpoint.families import find_family
from keras_bert.model.config import BertConfig

FORMATS = ("huggingface", "google", "keras_hub")

# Letters of a shape: V vocabulary, P positions, S segments, E width of the tables, H hidden, A all heads together,
# I intermediate, C classes, R three concatenated states. A layout says how formats store what is [in, out] here:
#
#   plain    the same everywhere
#   kernel   Hugging Face stores [out, in]
#   logits   Hugging Face and Google store [out, in]
#   split    as kernel, and keras-hub stores [in, heads, head_dim]
#   shift    a bias that keras-hub stores as [heads, head_dim]
#   merge    as kernel, and keras-hub stores [heads, head_dim, out]


@dataclass(frozen=True)
class Weight:
    """A row of the table: the name of a weight in our model (`layer.attribute…`) and in each format.

    A name of `None` means that the format does not have the weight.
    """

    ours: str
    google: str | None
    huggingface: str | None
    keras_hub: str | None
    shape: str
    layout: str = "plain"

    @property
    def part(self) -> str:
        """The layer of our model that has the weight; `block` for all encoder blocks."""
        return self.ours.split(".")[0].split("_{")[0]

    def at(self, layer: int) -> "Weight":
        """Return the row of one encoder block."""
        # Keras numbers the groups of an .h5 file by class; the first one has no number.
        suffix = f"_{layer}" if layer else ""
        google, huggingface, keras_hub = (
            name and name.format(i=layer, n=suffix) for name in (self.google, self.huggingface, self.keras_hub)
        )
        ours = self.ours.format(i=layer, n=suffix)
        return Weight(ours, google, huggingface, keras_hub, self.shape, self.layout)


_G, _H, _K = "bert/encoder/layer_{i}/", "bert.encoder.layer.{i}.", "layers/transformer_encoder{n}/"
_ATTENTION = _K + "_self_attention_layer/"


def _dense(
    ours: str,
    google: str | None,
    huggingface: str | None,
    keras_hub: str | None,
    shape: str,
    layouts: tuple[str, str] = ("kernel", "plain"),
) -> tuple[Weight, ...]:
    """Return the rows of a dense layer: kernel and bias."""
    endings = (("kernel", ".weight", "/vars/0"), ("bias", ".bias", "/vars/1"))
    return tuple(
        Weight(
            f"{ours}.{ending}",
            _join(google, f"/{ending}"),
            _join(huggingface, suffix),
            _join(keras_hub, place),
            shape if ending == "kernel" else shape[1],
            layout,
        )
        for (ending, suffix, place), layout in zip(endings, layouts, strict=True)
    )


def _norm(ours: str, google: str, huggingface: str, keras_hub: str | None, shape: str) -> tuple[Weight, ...]:
    """Return the rows of a layer normalization: scale and shift."""
    return (
        Weight(f"{ours}.gamma", f"{google}/gamma", f"{huggingface}.weight", _join(keras_hub, "/vars/0"), shape),
        Weight(f"{ours}.beta", f"{google}/beta", f"{huggingface}.bias", _join(keras_hub, "/vars/1"), shape),
    )


def _logits(ours: str, google: str | None, huggingface: str, shape: str) -> tuple[Weight, ...]:
    """Return the rows of a classifier: kernel and bias, which Google calls `output_weights` and `output_bias`."""
    kernel, bias = _join(google, "output_weights"), _join(google, "output_bias")
    return (
        Weight(f"{ours}.kernel", kernel, f"{huggingface}.weight", None, shape, "logits"),
        Weight(f"{ours}.bias", bias, f"{huggingface}.bias", None, shape[1]),
    )


def _join(name: str | None, suffix: str) -> str | None:
    return None if name is None else name + suffix


# fmt: off
TABLE: tuple[Weight, ...] = (
    Weight("token_embedding.embeddings", "bert/embeddings/word_embeddings",
           "bert.embeddings.word_embeddings.weight", "layers/reversible_embedding/vars/0", "VE"),
    Weight("embeddings.position", "bert/embeddings/position_embeddings",
           "bert.embeddings.position_embeddings.weight", "layers/position_embedding/vars/0", "PE"),
    Weight("embeddings.segment.embeddings", "bert/embeddings/token_type_embeddings",
           "bert.embeddings.token_type_embeddings.weight", "layers/embedding/vars/0", "SE"),
    *_norm("embeddings.norm", "bert/embeddings/LayerNorm",
           "bert.embeddings.LayerNorm", "layers/layer_normalization", "E"),
    # Narrow tables: Google's name is ALBERT's, and Hugging Face's is ELECTRA's, because its BERT has no such layer.
    *_dense("embeddings.projection", "bert/encoder/embedding_hidden_mapping_in",
            "bert.embeddings_project", None, "EH"),
    *_dense("block_{i}.attention.query", _G + "attention/self/query", _H + "attention.self.query",
            _ATTENTION + "query_dense", "HA", ("split", "shift")),
    *_dense("block_{i}.attention.key", _G + "attention/self/key", _H + "attention.self.key",
            _ATTENTION + "key_dense", "HA", ("split", "shift")),
    *_dense("block_{i}.attention.value", _G + "attention/self/value", _H + "attention.self.value",
            _ATTENTION + "value_dense", "HA", ("split", "shift")),
    *_dense("block_{i}.attention.output_dense", _G + "attention/output/dense", _H + "attention.output.dense",
            _ATTENTION + "output_dense", "AH", ("merge", "plain")),
    *_norm("block_{i}.attention_norm", _G + "attention/output/LayerNorm", _H + "attention.output.LayerNorm",
           _K + "_self_attention_layer_norm", "H"),
    *_dense("block_{i}.intermediate", _G + "intermediate/dense", _H + "intermediate.dense",
            _K + "_feedforward_intermediate_dense", "HI"),
    *_dense("block_{i}.output_dense", _G + "output/dense", _H + "output.dense",
            _K + "_feedforward_output_dense", "IH"),
    *_norm("block_{i}.output_norm", _G + "output/LayerNorm", _H + "output.LayerNorm",
           _K + "_feedforward_layer_norm", "H"),
    *_dense("pooler.dense", "bert/pooler/dense", "bert.pooler.dense", "layers/dense", "HH"),
    *_dense("mlm_transform.dense", "cls/predictions/transform/dense",
            "cls.predictions.transform.dense", None, "HE"),
    *_norm("mlm_transform.norm", "cls/predictions/transform/LayerNorm",
           "cls.predictions.transform.LayerNorm", None, "E"),
    Weight("mlm_bias.bias", "cls/predictions/output_bias", "cls.predictions.bias", None, "V"),
    *_logits("next_sentence", "cls/seq_relationship/", "cls.seq_relationship", "H2"),
    *_logits("classifier", "", "classifier", "HC"),
    *_logits("token_classifier", None, "classifier", "HC"),
    *_logits("span_classifier", "cls/squad/", "qa_outputs", "H2"),
    # A head that other libraries do not have; the names in Hugging Face's column are our own.
    *_dense("relation_dense", None, "relation.dense", None, "RH"),
    *_logits("relation_classifier", None, "relation.classifier", "HC"),
    *_dense("replaced_dense", None, "discriminator_predictions.dense", None, "HH"),
    *_logits("replaced_classifier", None, "discriminator_predictions.dense_prediction", "H1"),
)
# fmt: on

# The layers of each head of `keras_bert.model.heads`, in the order of `HEADS`.
HEAD_PARTS: dict[str, tuple[str, ...]] = {
    "masked_lm": ("mlm_transform", "mlm_bias"),
    "next_sentence": ("next_sentence", "pooler"),
    "classification": ("classifier", "pooler"),
    "token_classification": ("token_classifier",),
    "question_answering": ("span_classifier",),
    "relation": ("relation_classifier", "relation_dense", "pooler"),
    "replaced_tokens": ("replaced_classifier", "replaced_dense"),
}
ENCODER_PARTS = ("token_embedding", "embeddings", "block", "pooler")
# Two classifiers in one model: Hugging Face has the same name for both, so the second one gets a different name.
BESIDE_CLASSIFIER = ("classifier.", "token_classifier.")


def weights(config: BertConfig, parts: Iterable[str]) -> list[Weight]:
    """Return the rows of a model with these parts, block by block.

    Example:
        >>> [weight.google for weight in weights(BertConfig.preset("tiny"), ["pooler"])]
        ['bert/pooler/dense/kernel', 'bert/pooler/dense/bias']
    """
    parts = set(parts)
    rows = [row for row in TABLE if row.part in parts]
    if config.table_dim == config.hidden_dim:
        rows = [row for row in rows if not row.ours.startswith("embeddings.projection")]
    if not config.num_segments:
        rows = [row for row in rows if not row.ours.startswith("embeddings.segment")]
    family = find_family(config)
    rows = [replace(row, huggingface=row.huggingface and family.rename(row.ours, row.huggingface)) for row in rows]
    block = [row for row in rows if row.part == "block"]
    blocks = [row.at(layer) for layer in range(config.num_layers if block else 0) for row in block]
    others = [_named_beside(row, parts) for row in rows if row.part != "block"]
    return others + blocks


def _named_beside(row: Weight, parts: set[str]) -> Weight:
    if row.part == "token_classifier" and row.huggingface is not None and "classifier" in parts:
        return replace(row, huggingface=row.huggingface.replace(*BESIDE_CLASSIFIER))
    return row


# === Shapes and layouts ===


def our_shape(weight: Weight, config: BertConfig, classes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape in our model; `classes` has the number of classes by part."""
    sizes = {
        "V": config.vocabulary_size,
        "P": config.num_positions,
        "S": config.num_segments,
        "E": config.table_dim,
        "H": config.hidden_dim,
        "A": config.heads_dim,
        "I": config.intermediate_dim,
        "C": classes.get(weight.part, 0),
        "R": 3 * config.hidden_dim,
        "2": 2,
        "1": 1,
    }
    return tuple(sizes[letter] for letter in weight.shape)


def stored_shape(weight: Weight, format: str, config: BertConfig, classes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape in a file of `format`."""
    shape = our_shape(weight, config, classes)
    if _is_transposed(weight, format):
        return shape[::-1]
    heads = (config.num_heads, config.head_dim)
    if format == "keras_hub" and weight.layout in ("split", "shift"):
        return (*shape[:-1], *heads)
    if format == "keras_hub" and weight.layout == "merge":
        return (*heads, *shape[1:])
    return shape


def to_stored(array: np.ndarray, weight: Weight, format: str, config: BertConfig) -> np.ndarray:
    """Return our array as a file of `format` stores it."""
    if _is_transposed(weight, format):
        return array.T
    heads = {weight.part: array.shape[-1]}
    return array.reshape(stored_shape(weight, format, config, heads))


def from_stored(array: np.ndarray, weight: Weight, format: str) -> np.ndarray:
    """Return an array from a file of `format` as ours; the inverse of `to_stored`."""
    if _is_transposed(weight, format):
        return array.T
    if weight.layout == "merge":
        return array.reshape(-1, array.shape[-1])
    return array.reshape(array.shape[0], -1) if len(weight.shape) == 2 else array.reshape(-1)


def _is_transposed(weight: Weight, format: str) -> bool:
    if format == "huggingface":
        return weight.layout in ("kernel", "logits", "split", "merge")
    return format == "google" and weight.layout == "logits"
