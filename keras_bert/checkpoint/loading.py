"""Loads a model and its tokenizer from a directory or by its name on the hub.

The format is found by the files in the directory. Settings, names and shapes are checked before the model is built.
"""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.checkpoint import google, huggingface, keras_hub
from keras_bert.checkpoint.families import ELECTRA, find_family
from keras_bert.checkpoint.files import CheckpointError, read_json
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.names import ENCODER_PARTS, HEAD_PARTS, Weight, weights
from keras_bert.checkpoint.stored_weights import Checkpoint, assign_weights, check_weights
from keras_bert.checkpoint.tokenizer_files import read_labels, read_tokenizer
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import HEADS, bert_model

if TYPE_CHECKING:
    from keras_bert.text.subword_tokenizer import SubwordTokenizer

_OPENERS: dict[str, Callable[[Path], Checkpoint]] = {
    "huggingface": huggingface.open_huggingface,
    "google": google.open_google,
    "keras_hub": keras_hub.open_keras_hub,
}


def load_encoder(
    directory_or_name: str | os.PathLike[str],
    *,
    return_attentions: bool = False,
    sequence_length: int | None = None,
    seed: int | None = None,
    ignore_extra: bool = False,
    revision: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    endpoint: str | None = None,
) -> tuple[keras.Model, "SubwordTokenizer | None"]:
    """Load BERT's encoder and its tokenizer from a directory, or by its name on the hub.

    Reads Hugging Face directories of BERT, XLM-R, DistilBERT and ELECTRA (safetensors, in one file or in shards),
    Google's TF1 checkpoints and keras-hub presets. Heads in the checkpoint are left out; `load_model` loads them.
    Half-precision weights become float32.

    Args:
        directory_or_name: A directory, or a name such as `google-bert/bert-base-uncased`.
        return_attentions: Whether the encoder also returns its attention probabilities.
        sequence_length: A fixed length of the inputs; `None` allows any.
        seed: The seed of dropout, and of the pooler if the checkpoint has none (with a warning).
        ignore_extra: Whether to skip weights that do not belong to BERT, instead of raising an error.
        revision: A branch, tag or commit on the hub.
        cache_dir: Where downloaded files are kept; `None` is the default of the hub library.
        endpoint: The address of another hub.

    Returns:
        `(encoder, tokenizer)`; the tokenizer is `None` if the directory has no vocabulary.

    Example:
        ```python
        encoder, tokenizer = keras_bert.load_encoder("google-bert/bert-base-uncased")
        ```
    """
    directory = find_directory(directory_or_name, revision=revision, cache_dir=cache_dir, endpoint=endpoint)
    checkpoint = open_checkpoint(directory)
    parts = [part for part in ENCODER_PARTS if part != "pooler" or checkpoint.has("pooler")]
    rows = weights(checkpoint.settings.config, parts)
    check_weights(checkpoint, rows, {}, ignore_extra=ignore_extra)
    tokenizer = read_tokenizer(directory, checkpoint.format, checkpoint.settings.config)
    encoder = bert_encoder(
        checkpoint.settings.config,
        return_attentions=return_attentions,
        sequence_length=sequence_length,
        seed=seed,
    )
    assign_weights(encoder, checkpoint, rows)
    if checkpoint.has("mlm_bias") and find_family(checkpoint.settings.config) is ELECTRA:
        warnings.warn(
            f"{directory} is an ELECTRA generator, a smaller model that was trained to deceive the discriminator; "
            "classifiers start from the discriminator: load the checkpoint with that name.",
            stacklevel=2,
        )
    if "pooler" not in parts:
        warnings.warn(
            f"{directory} has no pooler, as is usual for masked LM, token classification and question "
            "answering: pooled_output comes from new random weights and has no meaning before training. "
            "sequence_output is complete.",
            stacklevel=2,
        )
    return encoder, tokenizer


def load_model(
    directory_or_name: str | os.PathLike[str],
    *,
    seed: int | None = None,
    ignore_extra: bool = False,
    revision: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    endpoint: str | None = None,
) -> tuple[keras.Model, "SubwordTokenizer | None"]:
    """Load BERT with all heads of the checkpoint, and its tokenizer.

    The arguments are those of `load_encoder`. The model has the heads whose weights are in the checkpoint; Hugging
    Face's `architectures` says which kind a classifier is. A checkpoint without heads gives the encoder.

    Returns:
        `(model, tokenizer)`; the model's outputs are named as in `keras_bert.model.heads`.

    Example:
        ```python
        model, tokenizer = keras_bert.load_model("textattack/bert-base-uncased-SST-2")
        model.predict(batch)["class_logits"]
        ```
    """
    directory = find_directory(directory_or_name, revision=revision, cache_dir=cache_dir, endpoint=endpoint)
    checkpoint = open_checkpoint(directory)
    heads = find_heads(checkpoint)
    if not heads:
        return load_encoder(directory, seed=seed, ignore_extra=ignore_extra)
    if "relation" in heads and checkpoint.settings.marker_ids is None:
        raise CheckpointError(
            f"{directory} has a relation head, but its config.json does not say which tokens mark the entities; "
            "expected marker_ids under the key keras_bert, as save_pretrained writes them. load_encoder reads the rest."
        )
    parts = {part for part in ENCODER_PARTS if part != "pooler"}
    parts.update(part for head in heads for part in HEAD_PARTS[head])
    rows = weights(checkpoint.settings.config, parts)
    classes = _count_classes(checkpoint, rows)
    _check_labels(checkpoint, classes)
    check_weights(checkpoint, rows, classes, ignore_extra=ignore_extra)
    tokenizer = read_tokenizer(directory, checkpoint.format, checkpoint.settings.config)
    model = _build(checkpoint, heads, classes, seed)
    assign_weights(model, checkpoint, rows)
    return model, tokenizer


def load_tokenizer(
    directory_or_name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    endpoint: str | None = None,
) -> "SubwordTokenizer | None":
    """Load the tokenizer of a model, without its weights; `None` if the directory has no vocabulary.

    Example:
        ```python
        tokenizer = load_tokenizer("google-bert/bert-base-uncased")
        ```
    """
    directory = find_directory(directory_or_name, revision=revision, cache_dir=cache_dir, endpoint=endpoint)
    checkpoint = open_checkpoint(directory)
    return read_tokenizer(directory, checkpoint.format, checkpoint.settings.config)


def load_labels(
    directory_or_name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    endpoint: str | None = None,
) -> list[str] | None:
    """Load the names of a model's classes, in the order of its logits; `None` if the directory has none.

    Example:
        ```python
        load_labels("textattack/bert-base-uncased-SST-2")  # ["LABEL_0", "LABEL_1"]
        ```
    """
    directory = find_directory(directory_or_name, revision=revision, cache_dir=cache_dir, endpoint=endpoint)
    return read_labels(directory, open_checkpoint(directory).settings.labels)


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint of any format; no weight is read yet."""
    return _OPENERS[find_format(directory)](directory)


def find_format(directory: Path) -> str:
    """Return which of the three formats a directory has."""
    if (directory / huggingface.CONFIG).is_file():
        # Hugging Face and keras-hub both have a config.json; only a serialized Keras object has a registered name.
        return "keras_hub" if "registered_name" in read_json(directory / huggingface.CONFIG) else "huggingface"
    if (directory / google.CONFIG).is_file():
        return "google"
    found = ", ".join(sorted(path.name for path in directory.iterdir())[:8]) or "nothing"
    raise CheckpointError(
        f"{directory} is not a model directory: it has neither config.json (Hugging Face, keras-hub) nor "
        f"bert_config.json (Google); it holds {found}. Pass the directory that has one of them."
    )


def find_heads(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the heads of a checkpoint: those that its config names, and those whose weights it has."""
    if checkpoint.format == "keras_hub" and (checkpoint.directory / "task.json").is_file():
        raise CheckpointError(
            f"{checkpoint.directory} is a keras-hub task, whose head this library does not read. Use load_encoder for "
            "its encoder."
        )
    promised = checkpoint.settings.heads or ()
    found = {head for head, parts in HEAD_PARTS.items() if checkpoint.has(parts[0])}
    if checkpoint.format == "huggingface" and {"classification", "token_classification"} & found:
        # Two kinds of classifiers have the same name: the config has to say which it is.
        if not found & {"classification", "token_classification"} & set(promised):
            named = checkpoint.settings.architecture
            raise CheckpointError(
                f"{checkpoint.directory} has a classifier, but architectures in config.json says {named!r}; "
                f"expected {' or '.join(_classifiers(checkpoint))}. Set it there, or use load_encoder."
            )
        found -= {"classification", "token_classification"} - set(promised)
    return tuple(head for head in HEADS if head in found or head in promised)


def _classifiers(checkpoint: Checkpoint) -> list[str]:
    architectures = find_family(checkpoint.settings.config).architectures
    return [name for name in architectures if name.endswith(("SequenceClassification", "TokenClassification"))]


def _count_classes(checkpoint: Checkpoint, rows: Sequence[Weight]) -> dict[str, int]:
    """Return the number of classes by part, from the length of the classifiers' biases."""
    biases = [row for row in rows if row.shape == "C"]
    found = {row.part: checkpoint.stored.get(checkpoint.name(row)) for row in biases}
    return {part: stored.shape[0] for part, stored in found.items() if stored is not None and stored.shape}


def _check_labels(checkpoint: Checkpoint, classes: Mapping[str, int]) -> None:
    labels, counts = checkpoint.settings.labels, list(classes.values())
    if labels and counts and len(labels) not in counts:
        raise CheckpointError(
            f"The id2label in {checkpoint.directory} names {len(labels)} classes, but the classifier has {counts[0]}. "
            "Check that config and weights belong together."
        )


def _build(checkpoint: Checkpoint, heads: Sequence[str], classes: Mapping[str, int], seed: int | None) -> keras.Model:
    settings = checkpoint.settings
    encoder = bert_encoder(settings.config, seed=seed)
    outputs: dict[str, Any] = {}
    for head in heads:  # one by one, because two classifiers may have different numbers of classes
        model = bert_model(
            settings.config,
            head,
            num_classes=classes.get(HEAD_PARTS[head][0]),
            marker_ids=settings.marker_ids,
            classifier_dropout=settings.classifier_dropout,
            encoder=encoder,
            seed=seed,
        )
        outputs.update(model.output)
    return keras.Model(encoder.input, outputs, name="bert")
