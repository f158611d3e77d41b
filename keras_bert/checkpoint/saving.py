"""A model → a model directory in one of three formats, whole or not at all."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras
import numpy as np

from keras_bert.checkpoint import google, huggingface, keras_hub
from keras_bert.checkpoint.configs import Settings
from keras_bert.checkpoint.files import CheckpointError, name_list, written_whole
from keras_bert.checkpoint.names import FORMATS, HEAD_PARTS, to_stored, weights
from keras_bert.checkpoint.stored_weights import find_variable
from keras_bert.checkpoint.tokenizer_files import LABELS, TOKENIZER_FILES, write_labels, write_tokenizer
from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import HEADS

_WRITERS = {
    "huggingface": huggingface.write_weights,
    "google": google.write_weights,
    "keras_hub": keras_hub.write_weights,
}
_CLASSIFIERS = ("classifier", "token_classifier", "relation_classifier")
# Weights in another form, by which a reader could take the wrong ones.
_WEIGHT_FILES = {
    "huggingface": ("model.safetensors",),
    "google": ("bert_model.ckpt.index", "bert_config.json"),
    "keras_hub": ("model.weights.h5",),
    None: (
        *("model.safetensors.index.json", "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"),
        *("model.weights.json", "task.json"),
    ),
}


def save_pretrained(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    tokenizer=None,
    format: str = "huggingface",
    labels: Sequence[str] | None = None,
) -> None:
    """Write a model from `bert_encoder` or `bert_model`, with its heads, to a directory.

    A new directory appears whole or not at all. In one that exists, files of the same name are replaced and others
    stay, and a program that is killed meanwhile leaves either model to the next that opens it; where it holds weights
    of another format, that is an error. Weights are written as float32.

    What each format can hold:

    - `huggingface`: everything; this is the library's own format. transformers opens it, unless `embedding_dim`
      is narrower than `hidden_dim`, or the set of heads has no class there, as none that pools the mean of the
      tokens has (then it opens as `BertModel`).
    - `google`: everything but token classification and relations.
    - `keras_hub`: the encoder alone. keras-hub fixes tanh GELU and an epsilon of 1e-12 in its code; a model with
      another one is written with a warning, for keras-hub will compute something slightly different. One with
      ReLU or narrow embeddings is refused.

    Whatever a format's config cannot say is kept under a key `keras_bert`, so that `load_encoder` and
    `load_model` give back the same model, bit by bit.

    Args:
        model: A model whose layers come from `bert_encoder` and `bert_model`.
        directory: Where to write; parents are made.
        tokenizer: A `BertTokenizer` whose vocabulary and settings are written too.
        format: `"huggingface"`, `"google"` or `"keras_hub"`.
        labels: Names of the classes, written to `labels.txt` and, for Hugging Face, `config.json`. Of two classifiers,
            those of the one for whole texts.

    Example:
        ```python
        keras_bert.save_pretrained(model, "sentiment", tokenizer=tokenizer, labels=["negative", "positive"])
        ```
    """
    with saving_pretrained(model, directory, tokenizer=tokenizer, format=format, labels=labels):
        pass


@contextlib.contextmanager
def saving_pretrained(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    tokenizer=None,
    format: str = "huggingface",
    labels: Sequence[str] | None = None,
    stale: Sequence[str] = (),
) -> Iterator[Path]:
    """`save_pretrained` for those who add files of their own, which then come into place together with the model.

    Args:
        model, directory, tokenizer, format, labels: As for `save_pretrained`.
        stale: Files of the directory that go where they are not written anew.

    Returns:
        The directory to add files to, with the model's already in it.

    Example:
        ```python
        with saving_pretrained(model, "sentiment") as directory:
            (directory / "notes.txt").write_text("trained on reviews")
        ```
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is unknown; choose one of {', '.join(map(repr, FORMATS))}.")
    directory = Path(directory).expanduser().resolve()
    settings, rows = _describe(model, format, labels)
    _check_place(directory, format)
    arrays = {getattr(row, format): _array(model, row, format, settings.config) for row in rows}
    # Names of another model's classes, and files that would say of the vocabulary what no longer holds.
    stale = (*stale, LABELS, *(TOKENIZER_FILES if tokenizer is not None and format != "keras_hub" else ()))
    with written_whole(directory, stale) as partial:
        _WRITERS[format](partial, settings, arrays)
        if tokenizer is not None:
            write_tokenizer(partial, format, tokenizer, settings.config)
        if labels is not None:
            write_labels(partial, settings.labels)
        yield partial


def _describe(model, format, labels):
    """The settings of a model and the rows of its weights; an error for what the format has no place for."""
    config = encoder_config(model)
    layers = {layer.name: layer for layer in model.layers}
    heads = tuple(head for head in HEADS if HEAD_PARTS[head][0] in layers)
    rows = weights(config, {"block", *layers})
    _check_covered(model, rows, layers)
    homeless = sorted({row.ours.split(".")[0] for row in rows if getattr(row, format) is None})
    if homeless:
        raise CheckpointError(
            f"The {format} format has no place for the layers {name_list(homeless)}. Use format='huggingface'"
            + (", or save the encoder that the model was built on." if format == "keras_hub" else ".")
        )
    dropouts = [layers.get(f"{HEAD_PARTS[head][0]}_dropout") for head in heads]
    rates = [layer.rate for layer in dropouts if layer is not None and layer.rate != config.dropout]
    counts = [layers[name].units for name in _CLASSIFIERS if name in layers]
    settings = Settings(
        config,
        heads,
        classifier_dropout=rates[0] if rates else None,
        labels=_check_labels(labels, counts),
        num_classes=counts[0] if len(counts) == 1 else None,
        marker_ids=layers["relation_states"].marker_ids if "relation_states" in layers else None,
    )
    return settings, rows


def _check_covered(model, rows, layers):
    absent = sorted({row.ours.split(".")[0] for row in rows} - set(layers))
    if absent:
        raise CheckpointError(
            f"Model {model.name!r} has no layers {name_list(absent)}, and its config says that it should. A "
            "model that was cut needs an encoder of its own: bert_encoder(config.replace(num_layers=...))."
        )
    known = {id(find_variable(model, row)) for row in rows}
    foreign = [variable for variable in model.weights if id(variable) not in known]
    if foreign:
        raise CheckpointError(
            f"No format has a name for these weights of the model: {name_list(v.path for v in foreign)}. "
            "save_pretrained writes what bert_encoder and bert_model build; save other models with "
            "model.save()."
        )


def _check_labels(labels, counts):
    if labels is None:
        return None
    labels = tuple(labels)
    faults = [label for label in labels if not isinstance(label, str) or "\n" in label or not label]
    if faults or len(set(labels)) != len(labels):
        raise ValueError(f"labels={list(labels)!r}: expected different names, one line each.")
    if counts[:1] != [len(labels)]:
        raise ValueError(
            f"{len(labels)} labels for a model with "
            + (f"{' and '.join(map(str, counts))} classes" if counts else "no classifier")
            + "; expected one name for each class of the (first) classifier."
        )
    return labels


def _check_place(directory, format):
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"{directory} is a file; expected a directory to write the model to.")
    others = [name for key, names in _WEIGHT_FILES.items() if key != format for name in names]
    found = [name for name in others if (directory / name).exists()]
    if found:
        raise FileExistsError(
            f"{directory} holds a model in another form ({name_list(found)}), which would be mixed up with "
            "this one. Choose another directory, or delete those files first."
        )


def _array(model, row, format, config):
    """The shape of a weight in the file and a function that gives it, so that one at a time is in memory."""
    variable = find_variable(model, row)

    def read():
        # By way of float32, for NumPy has no bfloat16.
        array = keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.convert_to_tensor(variable), "float32"))
        return to_stored(np.asarray(array), row, format, config)

    shape = to_stored(np.broadcast_to(np.float32(0), variable.shape), row, format, config).shape
    return tuple(shape), read
