"""Reads and writes the config files of Google, Hugging Face and keras-hub as `Settings`.

What a format's keys cannot express is stored under one more key, `keras_bert`, which other programs ignore; so a config
survives a round trip in every format. A key that would change the computation is either supported or an error.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from keras_bert.checkpoint.families import BERT, DISTILBERT, ELECTRA, FAMILIES, XLM_ROBERTA, Family, find_family
from keras_bert.checkpoint.files import CheckpointError, name_list
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import HEADS

OWN_KEY = "keras_bert"

# Google has BERT alone, with an epsilon of 1e-12 in its code.
_GOOGLE = replace(BERT, spellings={ours: key for ours, key in BERT.spellings.items() if ours != "layer_norm_epsilon"})
_REQUIRED = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")
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
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type is {model_type!r}; this library reads {', '.join(map(repr, FAMILIES))}. Choose a "
            "checkpoint of one of these families."
        )
    family = FAMILIES[model_type]
    for key, harmless in _HARMLESS.items():
        if values.get(key) not in harmless:
            raise CheckpointError(
                f"{path}: {key} is {values[key]!r}, which makes it a different model than BERT's encoder; "
                f"expected {harmless[0]!r} or no such key. Choose a checkpoint without it."
            )
    config = _config(values, path, "huggingface", family)
    if find_family(config) is not family:
        raise CheckpointError(
            f"{path}: the settings of this {model_type} compute as {find_family(config).model_type}, which has other "
            "names of weights. Check model_type, type_vocab_size and pad_token_id."
        )
    architecture = values.get("architectures")
    architecture = str(architecture[0]) if isinstance(architecture, list) and architecture else None
    heads = family.architectures.get(architecture or "")
    if heads and not _has_activation(family, heads, config):
        raise CheckpointError(
            f"{path}: {family.activation} is {values.get(family.activation)!r}, but the masked LM head of "
            f"{family.model_type} has 'gelu' in its code. load_encoder reads the rest if architectures names the plain "
            "model."
        )
    own = _own(values, path)
    rate = values.get(family.classifier_dropout, family.defaults.get(family.classifier_dropout))
    if family.classifier_dropout != "classifier_dropout" and "classification" not in (heads or ()):
        rate = own.get("classifier_dropout")  # the family's key is for the classifier of whole texts alone
    return Settings(
        config,
        heads=_own_heads(own, path) or heads,
        classifier_dropout=_rate(rate, path),
        # The classes of a multiple choice are its positions, which have no names.
        labels=None if (architecture or "").endswith("ForMultipleChoice") else _labels(values.get("id2label"), path),
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
    config = _config(values, path, "google", _GOOGLE)
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


def _config(values: dict[str, Any], path: Path, format: str, family: Family) -> BertConfig:
    missing = [family.spellings[ours] for ours in _REQUIRED if family.spellings[ours] not in values]
    if missing:
        raise CheckpointError(
            f"{path}: no {name_list(missing)}; expected the sizes of a model of the type "
            f"{family.model_type!r}. Is it this model's config?"
        )
    known = _ACTIVATIONS[format]
    spelled = str(values.get(family.activation, "gelu"))
    if spelled not in known:
        raise CheckpointError(f"{path}: {family.activation} is {spelled!r}; expected one of {', '.join(known)}.")
    found = {**family.values, "activation": known[spelled]}
    said = {**family.defaults, **values}
    found.update({ours: said[theirs] for ours, theirs in family.spellings.items() if theirs in said})
    return _build({**found, **_twists(said, found, family, path), **_own_config(values, path)}, path)


def _twists(values: dict[str, Any], found: dict[str, Any], family: Family, path: Path) -> dict[str, Any]:
    """Return the values of a config that a family's keys say in a way of their own."""
    if family is DISTILBERT:
        return {"position": "sinusoidal" if values.get("sinusoidal_pos_embds") else "learned"}
    if family is ELECTRA:  # the key is always there
        return {"embedding_dim": None} if found["embedding_dim"] == found["hidden_dim"] else {}
    if family is XLM_ROBERTA:
        pad, positions = values.get("pad_token_id", 1), values.get("max_position_embeddings", 514)
        if type(pad) is not int or type(positions) is not int or not 0 <= pad < positions - 1:
            raise CheckpointError(
                f"{path}: pad_token_id is {pad!r} and max_position_embeddings {positions!r}; expected two "
                "integers, the first far below the second: texts take the positions after that of padding."
            )
        return {"position_offset": pad + 1, "max_sequence_length": positions - pad - 1}
    return {}


def _has_activation(family: Family, heads: Sequence[str], config: BertConfig) -> bool:
    """Return whether a class with these heads has the config's activation: XLM-R's masked LM head has GELU in it."""
    return family is not XLM_ROBERTA or "masked_lm" not in heads or config.activation == "gelu"


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
    family = find_family(config)
    # Of several names the first; and none whose class in transformers would compute other outputs.
    known = {
        frozenset(parts): name
        for name, parts in reversed(list(family.architectures.items()))
        if _has_activation(family, parts, config) and _has_pooler(family, parts, config)
    }
    plain = next(name for name, parts in family.architectures.items() if not parts)
    values = {
        # If transformers has no class with these heads, it opens the encoder; we find the heads by our own key.
        "architectures": [known.get(frozenset(heads), plain)],
        "model_type": family.model_type,
        **_spell(config, "huggingface", family),
        family.classifier_dropout: settings.classifier_dropout,
        "pad_token_id": max(0, config.position_offset - 1),
        "dtype": "float32",
    }
    own: dict[str, Any] = {} if frozenset(heads) in known else {"heads": list(heads)}
    if family.classifier_dropout != "classifier_dropout":
        # Its class for whole texts needs a number there, and those for tokens read the general one.
        rate = settings.classifier_dropout
        values[family.classifier_dropout] = config.dropout if rate is None else rate
        if rate is not None:
            own["classifier_dropout"] = rate
    if settings.labels:
        values["id2label"] = {str(index): label for index, label in enumerate(settings.labels)}
        values["label2id"] = {label: index for index, label in enumerate(settings.labels)}
    elif settings.num_classes:
        values["num_labels"] = settings.num_classes
    if settings.marker_ids is not None:
        own["marker_ids"] = list(settings.marker_ids)
    return _with_own(values, config, read_huggingface, own)


def write_google(settings: Settings) -> dict[str, Any]:
    """Return the `bert_config.json` of a Google checkpoint."""
    config, rate = settings.config, settings.classifier_dropout
    _refuse_families(config, "Google's BERT")
    _refuse_fewer_heads(config, "Google's BERT")
    _refuse_mean(config, "Google's BERT")
    _warn_epsilon(config, "Google's")
    own = {} if rate is None else {"classifier_dropout": rate}
    return _with_own(_spell(config, "google", _GOOGLE), config, read_google, own)


def write_keras_hub(settings: Settings) -> dict[str, Any]:
    """Return the `config.json` of a keras-hub preset."""
    config = settings.config
    _refuse_families(config, "keras-hub's BertBackbone")
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


def _spell(config: BertConfig, format: str, family: Family) -> dict[str, Any]:
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS[format].items())}
    spelled = {theirs: getattr(config, ours) for ours, theirs in family.spellings.items()}
    if config.embedding_dim is None:
        spelled.pop("embedding_size", None)
    spelled[family.activation] = names.get(config.activation, "gelu")
    if family is DISTILBERT:
        return {**spelled, "sinusoidal_pos_embds": config.position == "sinusoidal"}
    if format == "huggingface":
        spelled["position_embedding_type"] = "absolute"
    if family is ELECTRA:
        return {**spelled, "embedding_size": config.table_dim}
    if family is XLM_ROBERTA:
        return {**spelled, "max_position_embeddings": config.num_positions, "bos_token_id": 0, "eos_token_id": 2}
    return spelled


def _has_pooler(family: Family, heads: Sequence[str], config: BertConfig) -> bool:
    """Return whether a class with these heads pools as the config says; a class without such a head does not pool."""
    activation = family.values.get("pooler_activation", "tanh")
    pools = {"classification", "next_sentence"}.intersection(heads)
    return not pools or (config.pooling == "cls" and config.pooler_activation == activation)


def _with_own(
    values: dict[str, Any], config: BertConfig, read: Callable[[dict[str, Any], Path], Settings], own: dict[str, Any]
) -> dict[str, Any]:
    """Add what the format's keys did not express, found by reading them back."""
    # No format can express heads that do not fill the width; without this key the number of heads would be an error.
    fewer = {} if config.attention_dim is None else {"attention_dim": config.attention_dim}
    said = read({**values, OWN_KEY: {"config": fewer}}, Path("config.json")).config
    ours = {one.name: getattr(config, one.name) for one in fields(config)}
    unsaid = fewer | {key: value for key, value in ours.items() if getattr(said, key) != value}
    own = {**own, "config": unsaid} if unsaid else own
    return {**values, OWN_KEY: own} if own else values


def _refuse_families(config: BertConfig, whose: str) -> None:
    twists = {"position_offset": 0, "pooler_activation": "tanh"}
    found = [f"{name}={getattr(config, name)!r}" for name, plain in twists.items() if getattr(config, name) != plain]
    found += [] if config.num_segments else ["num_segments=0"]
    if found:
        raise CheckpointError(
            f"{whose} cannot express {', '.join(found)}: this model computes as {find_family(config).model_type}. Use "
            "format='huggingface'."
        )


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
