"""Saves a model to a directory in one of three formats, atomically."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.checkpoint import google, huggingface, keras_hub
from keras_bert.checkpoint.configs import Settings
from keras_bert.checkpoint.files import CheckpointError, name_list, written_whole
from keras_bert.checkpoint.names import FORMATS, HEAD_PARTS, Weight, to_stored, weights
from keras_bert.checkpoint.stored_weights import find_variable
from keras_bert.checkpoint.tokenizer_files import LABELS, TOKENIZER_FILES, write_labels, write_tokenizer
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import HEADS

if TYPE_CHECKING:
    from keras_bert.text.subword_tokenizer import SubwordTokenizer

_WRITERS = {
    "google": google.write_weights,
    "keras_hub": keras_hub.write_weights,
}
_CLASSIFIERS = ("classifier", "token_classifier", "relation_classifier")
# Files with weights of another format, which a reader could take for the model's.
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
    directory: str | os.PathLike[str],
    *,
    tokenizer: "SubwordTokenizer | None" = None,
    format: str = "huggingface",
    labels: Sequence[str] | None = None,
    dtype: str = "float32",
) -> None:
    """Save a model from `bert_encoder` or `bert_model`, with its heads, to a directory.

    A new directory appears with all files or not at all. In an existing one, files of the same name are replaced and
    others stay; if the program is killed meanwhile, the directory opens as the old or the new model. If it holds
    weights of another format, an error is raised.

    What each format can hold:

    - `huggingface`: everything; this is the library's own format. transformers opens it, as BERT, XLM-R, DistilBERT or
      ELECTRA, whichever computes as the config says, unless a BERT's `embedding_dim` is smaller than `hidden_dim`. It
      opens the encoder alone if it has no class with these heads, or if a head pools the mean of the tokens.
    - `google`: everything except token classification and relations.
    - `keras_hub`: only the encoder. keras-hub has tanh GELU and an epsilon of 1e-12 in its code; a model with other
      values is written with a warning, because its outputs differ slightly in keras-hub. A model with ReLU or narrow
      embeddings is an error.

    What a format's config cannot express is stored under a key `keras_bert`, so that `load_encoder` and
    `load_model` give back exactly the same model.

    Args:
        model: A model whose layers come from `bert_encoder` and `bert_model`.
        directory: Where to write; missing parent directories are created.
        tokenizer: A `BertTokenizer` or `UnigramTokenizer`; its vocabulary and settings are written, too.
        format: `"huggingface"`, `"google"` or `"keras_hub"`.
        labels: The names of the classes, written to `labels.txt` and, for Hugging Face, to `config.json`. If the model
            has two classifiers, they are those of the one for whole texts.
        dtype: `"float32"`, or `"float16"` for files of half the size (`huggingface` only). A model that is loaded
            computes in float32 either way, unless Keras's dtype policy says otherwise.

    Example:
        ```python
        keras_bert.save_pretrained(model, "sentiment", tokenizer=tokenizer, labels=["negative", "positive"])
        ```
    """
    with saving_pretrained(model, directory, tokenizer=tokenizer, format=format, labels=labels, dtype=dtype):
        pass


@contextlib.contextmanager
def saving_pretrained(
    model: keras.Model,
    directory: str | os.PathLike[str],
    *,
    tokenizer: "SubwordTokenizer | None" = None,
    format: str = "huggingface",
    labels: Sequence[str] | None = None,
    dtype: str = "float32",
    stale: Sequence[str] = (),
) -> Iterator[Path]:
    """Save a model as `save_pretrained` does, together with more files.

    Args:
        model, directory, tokenizer, format, labels, dtype: As for `save_pretrained`.
        stale: Files of the old model, which are deleted unless they are written again.

    Returns:
        A directory with the model's files, to which more files can be written.

    Example:
        ```python
        with saving_pretrained(model, "sentiment") as directory:
            (directory / "notes.txt").write_text("trained on reviews")
        ```
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r} is unknown; choose one of {', '.join(map(repr, FORMATS))}.")
    if dtype not in ("float32", "float16") or (dtype != "float32" and format != "huggingface"):
        raise ValueError(
            f"dtype={dtype!r} and format={format!r}: expected 'float32', or 'float16' with format='huggingface'."
        )
    directory = Path(directory).expanduser().resolve()
    settings, rows = _describe(model, format, labels)
    _check_place(directory, format)
    arrays = {getattr(row, format): _array(model, row, format, settings.config) for row in rows}
    # The old model's class names, and files about its vocabulary.
    stale = (*stale, LABELS, *(TOKENIZER_FILES if tokenizer is not None and format != "keras_hub" else ()))
    with written_whole(directory, stale) as partial:
        if format == "huggingface":
            huggingface.write_weights(partial, settings, arrays, dtype=dtype)
        else:
            _WRITERS[format](partial, settings, arrays)
        if tokenizer is not None:
            write_tokenizer(partial, format, tokenizer, settings.config)
        if settings.labels is not None:
            write_labels(partial, settings.labels)
        yield partial


def _describe(model: keras.Model, format: str, labels: Sequence[str] | None) -> tuple[Settings, list[Weight]]:
    """Return a model's settings and the rows of its weights; raise an error for layers that the format lacks."""
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


def _check_covered(model: keras.Model, rows: Sequence[Weight], layers: Mapping[str, Any]) -> None:
    absent = sorted({row.ours.split(".")[0] for row in rows} - set(layers))
    if absent:
        raise CheckpointError(
            f"Model {model.name!r} has no layers {name_list(absent)}, but its config says that it should. A "
            "model with fewer layers needs a new encoder: bert_encoder(config.replace(num_layers=...))."
        )
    known = {id(find_variable(model, row)) for row in rows}
    foreign = [variable for variable in model.weights if id(variable) not in known]
    if foreign:
        raise CheckpointError(
            f"No format has a name for these weights of the model: {name_list(v.path for v in foreign)}. "
            "save_pretrained writes what bert_encoder and bert_model build; save other models with "
            "model.save()."
        )


def _check_labels(labels: Sequence[str] | None, counts: list[int]) -> tuple[str, ...] | None:
    if labels is None:
        return None
    labels = tuple(labels)
    faults = [label for label in labels if not isinstance(label, str) or "\n" in label or not label]
    if faults or len(set(labels)) != len(labels):
        raise ValueError(f"labels={list(labels)!r}: expected different names, one line each.")
    if counts[:1] != [len(labels)]:
        raise ValueError(
            f"Got {len(labels)} labels for a model with "
            + (f"{' and '.join(map(str, counts))} classes" if counts else "no classifier")
            + "; expected one name for each class of the (first) classifier."
        )
    return labels


def _check_place(directory: Path, format: str) -> None:
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(f"{directory} is a file; expected a directory to write the model to.")
    others = [name for key, names in _WEIGHT_FILES.items() if key != format for name in names]
    found = [name for name in others if (directory / name).exists()]
    if found:
        raise FileExistsError(
            f"{directory} holds a model of another format ({name_list(found)}), which would be mixed up with "
            "this one. Choose another directory, or delete those files first."
        )


def _array(
    model: keras.Model, row: Weight, format: str, config: BertConfig
) -> tuple[tuple[int, ...], Callable[[], np.ndarray]]:
    """Return the shape of a weight in the file and a function that reads it, so that memory holds one at a time."""
    variable = find_variable(model, row)

    def read() -> np.ndarray:
        # Cast to float32 first, because NumPy has no bfloat16.
        array = keras.ops.convert_to_numpy(keras.ops.cast(keras.ops.convert_to_tensor(variable), "float32"))
        return to_stored(np.asarray(array), row, format, config)

    shape = to_stored(np.broadcast_to(np.float32(0), variable.shape), row, format, config).shape
    return tuple(shape), read
