"""Reads and writes the config files of Google, Hugging Face and keras-hub as `Settings`.

What a format's keys cannot express is stored under one more key, `keras_bert`, which other programs ignore; so a config
survives a round trip in every format. A key that would change the computation is either supported or an error.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.checkpoint.files import CheckpointError, name_list
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import HEADS

OWN_KEY = "keras_bert"

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
}
_REQUIRED = ("vocab_size", "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size")
_KERAS_HUB_KEYS = (
    *("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim"),
    *("dropout", "max_sequence_length", "num_segments"),
)
_ACTIVATIONS = {
    "huggingface": {
        "gelu": "gelu",
        "gelu_python": "gelu",
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "relu": "relu",
    },
    # Google's `gelu` was exact when BERT was published and is the tanh form in today's code. Hugging Face and others
    # run its checkpoints with the exact form, and so does this library.
    "google": {"gelu": "gelu", "relu": "relu"},
}
ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "BertModel": (),
    "BertForPreTraining": ("masked_lm", "next_sentence"),
    "BertForMaskedLM": ("masked_lm",),
    "BertForNextSentencePrediction": ("next_sentence",),
    "BertForSequenceClassification": ("classification",),
    "BertForTokenClassification": ("token_classification",),
    "BertForQuestionAnswering": ("question_answering",),
    "BertForMultipleChoice": ("classification",),  # with one class, the score of a choice
}
# The kinds of text classifiers, by our name and Hugging Face's.
PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
# Hugging Face keys that make the model something else than BERT, and the values that do not.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),
}


@dataclass(frozen=True)
class Settings:
    """What a checkpoint's config says about the model; `heads` is `None` if it does not name them."""

    config: BertConfig
    heads: tuple[str, ...] | None = None
    classifier_dropout: float | None = None
    labels: tuple[str, ...] | None = None
    num_classes: int | None = None
    architecture: str | None = None
    marker_ids: tuple[int, int] | None = None  # of a relation head
    kind: str | None = None  # of a text classifier, one of PROBLEM_TYPES


# === Reading ===


def read_huggingface(values: dict[str, Any], path: Path) -> Settings:
    """Return the settings in a Hugging Face `config.json`."""
    model_type = values.get("model_type", "bert")  # the oldest configs do not name it
    if model_type != "bert":
        raise CheckpointError(
            f"{path}: model_type is {model_type!r}; this library reads only model_type 'bert'. Choose a "
            "BERT checkpoint."
        )
    for key, harmless in _HARMLESS.items():
        if values.get(key) not in harmless:
            raise CheckpointError(
                f"{path}: {key} is {values[key]!r}, which makes it a different model than BERT's encoder; "
                f"expected {harmless[0]!r} or no such key. Choose a checkpoint without it."
            )
    fields = {"layer_norm_epsilon": values.get("layer_norm_eps", 1e-12)}
    config = _config(values, path, "huggingface", fields)
    architecture = values.get("architectures")
    architecture = str(architecture[0]) if isinstance(architecture, list) and architecture else None
    own = _own(values, path)
    return Settings(
        config,
        heads=_own_heads(own, path) or ARCHITECTURES.get(architecture or ""),
        classifier_dropout=_rate(values.get("classifier_dropout"), path),
        # The classes of a multiple choice are its positions, which have no names.
        labels=None if architecture == "BertForMultipleChoice" else _labels(values.get("id2label"), path),
        architecture=architecture,
        marker_ids=_own_markers(own, config, path),
        # It says how to interpret the logits, not how they are computed, so an unknown value is ignored.
        kind=next((ours for ours, theirs in PROBLEM_TYPES.items() if theirs == values.get("problem_type")), None),
    )


def read_google(values: dict[str, Any], path: Path) -> Settings:
    """Return the settings in a Google `bert_config.json`."""
    if values.get("directionality", "bidi") != "bidi":
        raise CheckpointError(
            f"{path}: directionality is {values['directionality']!r}; expected 'bidi'. Choose a BERT checkpoint."
        )
    config = _config(values, path, "google", {})
    return Settings(config, classifier_dropout=_rate(_own(values, path).get("classifier_dropout"), path))


def read_keras_hub(values: dict[str, Any], path: Path) -> Settings:
    """Return the settings in a keras-hub preset's `config.json`, without deserializing objects."""
    name = values.get("class_name")
    if name != "BertBackbone":
        raise CheckpointError(f"{path}: the preset holds a {name!r}; expected a BertBackbone. Choose a BERT preset.")
    inner = values.get("config")
    inner = inner if isinstance(inner, dict) else {}
    missing = [key for key in _KERAS_HUB_KEYS[:5] if key not in inner]
    if missing:
        raise CheckpointError(f"{path}: config has no {name_list(missing)}; expected a BertBackbone's settings.")
    fields = {key: inner[key] for key in _KERAS_HUB_KEYS if key in inner}
    # Values that are fixed in the code of keras-hub's BertBackbone.
    fixed = {"activation": "gelu_tanh", "attention_dropout": inner.get("dropout", 0.1)}
    return Settings(_build({**fields, **fixed, **_own_config(values, path)}, path))


def _config(values: dict[str, Any], path: Path, format: str, fields: dict[str, Any]) -> BertConfig:
    missing = [key for key in _REQUIRED if key not in values]
    if missing:
        raise CheckpointError(
            f"{path}: no {name_list(missing)}; expected the sizes of a BERT. Is it this model's config?"
        )
    known = _ACTIVATIONS[format]
    spelled = str(values.get("hidden_act", "gelu"))
    if spelled not in known:
        raise CheckpointError(f"{path}: hidden_act is {spelled!r}; expected one of {', '.join(known)}.")
    fields = {**fields, "activation": known[spelled]}
    fields.update({ours: values[theirs] for ours, theirs in _SPELLINGS.items() if theirs in values})
    return _build({**fields, **_own_config(values, path)}, path)


def _build(fields: dict[str, Any], path: Path) -> BertConfig:
    try:
        return BertConfig.from_dict(fields)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _own(values: dict[str, Any], path: Path) -> dict[str, Any]:
    own = values.get(OWN_KEY, {})
    if not isinstance(own, dict) or not isinstance(own.get("config", {}), dict):
        raise CheckpointError(f"{path}: {OWN_KEY!r} is {own!r}; expected an object, as save_pretrained writes it.")
    return own


def _own_config(values: dict[str, Any], path: Path) -> dict[str, Any]:
    return _own(values, path).get("config", {})


def _own_heads(own: dict[str, Any], path: Path) -> tuple[str, ...]:
    heads = own.get("heads", [])
    if not isinstance(heads, list) or any(head not in HEADS for head in heads):
        raise CheckpointError(f"{path}: heads is {heads!r}; expected a list of some of {', '.join(HEADS)}.")
    return tuple(heads)


def _own_markers(own: dict[str, Any], config: BertConfig, path: Path) -> tuple[int, int] | None:
    markers = own.get("marker_ids")
    if markers is None:
        return None
    are_ids = isinstance(markers, list) and len(markers) == 2 and all(type(index) is int for index in markers)
    if not are_ids or not 0 <= min(markers) < max(markers) < config.vocabulary_size:
        raise CheckpointError(
            f"{path}: marker_ids is {markers!r}; expected two different ids below {config.vocabulary_size}."
        )
    return (markers[0], markers[1])


def _rate(value: Any, path: Path) -> float | None:
    if value is not None and (not isinstance(value, int | float) or not 0 <= value < 1):
        raise CheckpointError(f"{path}: classifier_dropout is {value!r}; expected a rate from 0 up to 1.")
    return value


def _labels(id2label: Any, path: Path) -> tuple[str, ...] | None:
    if not id2label:
        return None
    if not isinstance(id2label, dict) or sorted(id2label) != sorted(map(str, range(len(id2label)))):
        raise CheckpointError(
            f"{path}: id2label is {id2label!r}; expected an object of class numbers (from 0) to names."
        )
    return tuple(str(id2label[str(index)]) for index in range(len(id2label)))


# === Writing ===


def write_huggingface(settings: Settings) -> dict[str, Any]:
    """Return the `config.json` of a Hugging Face directory."""
    config, heads = settings.config, tuple(settings.heads or ())
    known = {frozenset(parts): name for name, parts in reversed(ARCHITECTURES.items())}  # of several names the first
    if config.pooling != "cls":  # transformers' classes pool the first token, and would compute other outputs
        known = {parts: name for parts, name in known.items() if not parts & {"classification", "next_sentence"}}
    values = {
        # If transformers has no class with these heads, it opens the encoder; we find the heads by our own key.
        "architectures": [known.get(frozenset(heads), "BertModel")],
        "model_type": "bert",
        **_spell(config, "huggingface"),
        "layer_norm_eps": config.layer_norm_epsilon,
        "position_embedding_type": "absolute",
        "classifier_dropout": settings.classifier_dropout,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    if settings.labels:
        values["id2label"] = {str(index): label for index, label in enumerate(settings.labels)}
        values["label2id"] = {label: index for index, label in enumerate(settings.labels)}
    elif settings.num_classes:
        values["num_labels"] = settings.num_classes
    own: dict[str, list[Any]] = {} if frozenset(heads) in known else {"heads": list(heads)}
    if settings.marker_ids is not None:
        own["marker_ids"] = list(settings.marker_ids)
    return _with_own(values, config, read_huggingface, own)


def write_google(settings: Settings) -> dict[str, Any]:
    """Return the `bert_config.json` of a Google checkpoint."""
    config, rate = settings.config, settings.classifier_dropout
    _refuse_fewer_heads(config, "Google's BERT")
    _refuse_mean(config, "Google's BERT")
    _warn_epsilon(config, "Google's")
    own = {} if rate is None else {"classifier_dropout": rate}
    return _with_own(_spell(config, "google"), config, read_google, own)


def write_keras_hub(settings: Settings) -> dict[str, Any]:
    """Return the `config.json` of a keras-hub preset."""
    config = settings.config
    _refuse_fewer_heads(config, "keras-hub's BertBackbone")
    _refuse_mean(config, "keras-hub's BertBackbone")
    if config.table_dim != config.hidden_dim or config.activation == "relu":
        raise CheckpointError(
            f"The BertBackbone of keras-hub has no embedding_dim={config.embedding_dim} with "
            f"activation={config.activation!r}: its tables are as wide as the encoder and its activation is "
            "GELU. Use format='huggingface' or 'google'."
        )
    if config.activation == "gelu":
        warnings.warn(
            "keras-hub's BertBackbone computes GELU in its tanh form, this model in the exact one: outputs in "
            "keras-hub will differ slightly (loaded here they are the same). "
            "A model trained with BertConfig(activation='gelu_tanh') has the same outputs in keras-hub.",
            stacklevel=4,
        )
    _warn_epsilon(config, "keras-hub's")
    values = {
        "module": "keras_hub.src.models.bert.bert_backbone",
        "class_name": "BertBackbone",
        "config": {
            "name": "bert_backbone",
            "trainable": True,
            **{key: getattr(config, key) for key in _KERAS_HUB_KEYS},
        },
        "registered_name": "keras_hub>BertBackbone",
    }
    return _with_own(values, config, read_keras_hub, {})


def _spell(config: BertConfig, format: str) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS[format].items())}
    fields = config.to_dict()
    if config.embedding_dim is None:
        del fields["embedding_dim"]
    spelled = {theirs: fields[ours] for ours, theirs in _SPELLINGS.items() if ours in fields}
    return {**spelled, "hidden_act": names.get(config.activation, "gelu")}


def _with_own(
    values: dict[str, Any], config: BertConfig, read: Callable[[dict[str, Any], Path], Settings], own: dict[str, Any]
) -> dict[str, Any]:
    """Add what the format's keys did not express, found by reading them back."""
    # No format can express heads that do not fill the width; without this key the number of heads would be an error.
    fewer = {} if config.attention_dim is None else {"attention_dim": config.attention_dim}
    said = read({**values, OWN_KEY: {"config": fewer}}, Path("config.json")).config.to_dict()
    unsaid = fewer | {key: value for key, value in config.to_dict().items() if said[key] != value}
    own = {**own, "config": unsaid} if unsaid else own
    return {**values, OWN_KEY: own} if own else values


def _refuse_fewer_heads(config: BertConfig, whose: str) -> None:
    if config.heads_dim != config.hidden_dim:
        raise CheckpointError(
            f"{whose} has heads that fill the whole width; it cannot express {config.num_heads} heads of "
            f"{config.head_dim} in hidden_dim={config.hidden_dim}, as remove_heads leaves them. Use "
            "format='huggingface', which this library opens (transformers refuses the shapes)."
        )


def _refuse_mean(config: BertConfig, whose: str) -> None:
    if config.pooling != "cls":
        raise CheckpointError(
            f"{whose} pools the state of the first token; it cannot express pooling={config.pooling!r}. Use "
            "format='huggingface' (transformers opens it as BertModel), or train with pooling='cls'."
        )


def _warn_epsilon(config: BertConfig, whose: str) -> None:
    if config.layer_norm_epsilon != 1e-12:
        warnings.warn(
            f"{whose} BERT has a layer_norm_epsilon of 1e-12 in its code, this model has "
            f"{config.layer_norm_epsilon}: outputs there will differ slightly (loaded here they are the same).",
            stacklevel=5,
        )
