"""The families of Hugging Face checkpoints: BERT, XLM-R, DistilBERT and ELECTRA.

All of them are the encoder of `keras_bert.model` with a few values of `BertConfig`. A family says how Hugging Face
spells its settings and names its weights, where that differs from BERT; `names.py` has BERT's names. Which family a
config belongs to follows from its values, so a model is written as what it computes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_bert.model.config import BertConfig

_SPELLINGS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "embedding_dim": "embedding_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}
_HEADS = {
    "Model": (),
    "ForMaskedLM": ("masked_lm",),
    "ForSequenceClassification": ("classification",),
    "ForTokenClassification": ("token_classification",),
    "ForQuestionAnswering": ("question_answering",),
}


@dataclass(frozen=True)
class Family:
    """How Hugging Face writes one kind of encoder.

    Args:
        model_type: The family's name in `config.json`.
        prefix: What the names of the encoder's weights begin with in models with a head.
        architectures: The classes of transformers, and the heads of each.
        values: Values of `BertConfig` that make an encoder one of this family; no key of `config.json` says them.
        spellings: The keys of `config.json`, by our names.
        activation: The key of the activation.
        classifier_dropout: The key of the dropout rate before a classifier.
        defaults: What a key means where it is missing, if that is not what `BertConfig` has.
        names: Stems of weight names that differ from BERT's, by the stems of our names.
        tied: Names under which a weight is stored a second time, and the name it has in the table.
    """

    model_type: str
    prefix: str
    architectures: Mapping[str, tuple[str, ...]]
    values: Mapping[str, Any] = field(default_factory=dict)
    spellings: Mapping[str, str] = field(default_factory=lambda: _SPELLINGS)
    activation: str = "hidden_act"
    classifier_dropout: str = "classifier_dropout"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)

    def rename(self, ours: str, bert: str) -> str:
        """Return the name of a weight in this family, given our name and BERT's.

        Example:
            >>> DISTILBERT.rename("block_{i}.intermediate.kernel", "bert.encoder.layer.{i}.intermediate.dense.weight")
            'distilbert.transformer.layer.{i}.ffn.lin1.weight'
        """
        stem = self.names.get(ours.rpartition(".")[0])
        if stem is not None:
            return f"{stem}.{bert.rpartition('.')[2]}"
        return self.prefix + bert.removeprefix("bert.") if bert.startswith("bert.") else bert


def _architectures(name: str, **others: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {f"{name}{suffix}": heads for suffix, heads in {**_HEADS, **others}.items()}


BERT = Family(
    "bert",
    "bert.",
    _architectures(
        "Bert",
        ForPreTraining=("masked_lm", "next_sentence"),
        ForNextSentencePrediction=("next_sentence",),
        ForMultipleChoice=("classification",),  # with one class, the score of a choice
    ),
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
)

# Positions begin after that of padding, and its classifier has the pooler's dense layer as a layer of its own.
XLM_ROBERTA = Family(
    "xlm-roberta",
    "roberta.",
    _architectures("XLMRoberta"),
    names={
        "mlm_transform.dense": "lm_head.dense",
        "mlm_transform.norm": "lm_head.layer_norm",
        "mlm_bias": "lm_head",
        "classifier": "classifier.out_proj",
    },
    tied={
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
)

_D = "distilbert.transformer.layer.{i}."
DISTILBERT = Family(
    "distilbert",
    "distilbert.",
    _architectures("DistilBert", ForMultipleChoice=("classification",)),
    values={"num_segments": 0, "pooler_activation": "relu"},
    spellings={
        "vocabulary_size": "vocab_size",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "hidden_dim": "dim",
        "intermediate_dim": "hidden_dim",
        "max_sequence_length": "max_position_embeddings",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_range",
    },
    activation="activation",
    classifier_dropout="seq_classif_dropout",
    defaults={"seq_classif_dropout": 0.2},
    names={
        "block_{i}.attention.query": _D + "attention.q_lin",
        "block_{i}.attention.key": _D + "attention.k_lin",
        "block_{i}.attention.value": _D + "attention.v_lin",
        "block_{i}.attention.output_dense": _D + "attention.out_lin",
        "block_{i}.attention_norm": _D + "sa_layer_norm",
        "block_{i}.intermediate": _D + "ffn.lin1",
        "block_{i}.output_dense": _D + "ffn.lin2",
        "block_{i}.output_norm": _D + "output_layer_norm",
        "pooler.dense": "pre_classifier",
        "mlm_transform.dense": "vocab_transform",
        "mlm_transform.norm": "vocab_layer_norm",
        "mlm_bias": "vocab_projector",
    },
    tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
)

ELECTRA = Family(
    "electra",
    "electra.",
    _architectures("Electra", ForPreTraining=("replaced_tokens",)),
    values={"pooler_activation": "gelu"},
    defaults={"embedding_size": 128},
    names={
        "pooler.dense": "classifier.dense",
        "classifier": "classifier.out_proj",
        "mlm_transform.dense": "generator_predictions.dense",
        "mlm_transform.norm": "generator_predictions.LayerNorm",
        "mlm_bias": "generator_lm_head",
    },
    tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
)

FAMILIES = {family.model_type: family for family in (BERT, XLM_ROBERTA, DISTILBERT, ELECTRA)}


def find_family(config: BertConfig) -> Family:
    """Return the family whose computation a config describes.

    Example:
        >>> find_family(BertConfig.preset("tiny", position_offset=2)).model_type
        'xlm-roberta'
    """
    if config.position_offset:
        return XLM_ROBERTA
    if config.num_segments == 0:
        return DISTILBERT
    return ELECTRA if config.pooler_activation == "gelu" else BERT
