"""Vocabulary, labels and settings inside the `.tflite` file, so that one file is all that an app needs.

`add_metadata` takes a converted file and gives the same file with what MediaPipe's `TextClassifier` and
`TextEmbedder`, the Task Library's `BertNLClassifier` and `BertQuestionAnswerer`, and our own runtime read;
`read_metadata` gives it back, without TensorFlow, from files that nobody vouches for. A room of its own because it is
the one place that knows how these libraries find things in a file. What each of them asks of the graph:

| library | graph |
|---|---|
| MediaPipe, both | one subgraph, so one signature: a fixed length or a dynamic one (which it never cuts) |
| `TextClassifier` | one output, `probabilities` `[1, C]`: scores are shown as they come, so softmax is in the graph |
| `TextEmbedder` | one output, `embedding` `[1, H]`: pooled |
| `BertNLClassifier` | one fixed length; one output, `probabilities`; float32 or float16: no op newer than its runtime |
| `BertQuestionAnswerer` | length 384; outputs `start_logits` and `end_logits`, `[1, 384]` each; float32 or float16 |

They all lowercase ASCII and split by a simpler tokenizer than BERT's; `benchmarks/mediapipe_tokenizer.py` says how far
it differs and what to do.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from export import metadata_schema as schema
from export.metadata_archive import append_files, read_files

_VOCABULARY, _LABELS, _TASK = "vocab.txt", "labels.txt", "keras_bert_task.json"
_FORMAT = 1  # of keras_bert_task.json
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

# What the libraries call our inputs and outputs; other names stay as they are.
_INPUTS = {
    "token_ids": ("ids", "Token ids: [CLS], the text, [SEP], padding."),
    "segment_ids": ("segment_ids", "0 for the first text, 1 for the second."),
    "padding_mask": ("mask", "1 for tokens, 0 for padding."),
}
_OUTPUTS = {
    "probabilities": ("probability", "The probability of each class."),
    "start_logits": ("start_logits", "For each token, how likely the answer begins there."),
    "end_logits": ("end_logits", "For each token, how likely the answer ends there."),
    "token_logits": ("token_logits", "For each token, how well each tag fits."),
    "embedding": ("embedding", "The vector of the text."),
}
# The outputs whose last axis has a value for each label; of several, the first alone.
_LABELLED = ("probabilities", "token_logits")

# A file is read only within these bounds; a real vocabulary has 0.2 to 1 MB, the settings of a large CRF as much.
_MAX_BYTES = {_TASK: 4 << 20, _LABELS: 1 << 20, _VOCABULARY: 16 << 20}
_MAX_LINES = 1_000_000
_MAX_LENGTH = 1 << 16


@dataclass(frozen=True)
class FileMetadata:
    """What a `.tflite` file says of itself.

    Attributes:
        name: The name of the model.
        description: What it does, in a sentence.
        task: The name of the task, e.g. `"classification"`.
        kind: Its kind, e.g. `"single_label"`, or `None`.
        labels: The names of the classes in the order of the outputs, or `None`.
        vocabulary: The tokens in the order of their ids.
        tokenizer: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`.
        signatures: The length of each signature, by its key, shortest first; `None` is a dynamic length.
        outputs: The names of the outputs in the signatures.
        settings: What else the task needs: `sequence_length`, `long_texts`, and what its `_settings` say.
    """

    name: str
    description: str
    task: str
    kind: str | None
    labels: tuple[str, ...] | None
    vocabulary: tuple[str, ...] = field(repr=False)
    tokenizer: dict[str, bool | None]
    signatures: dict[str, int | None]
    outputs: tuple[str, ...]
    settings: dict[str, Any]

    def __str__(self) -> str:
        lengths = "/".join("dynamic" if length is None else str(length) for length in self.signatures.values())
        labels = "" if self.labels is None else f"  {len(self.labels)} labels"
        return f"{self.name}  {self.task}  lengths {lengths}{labels}  {len(self.vocabulary):,} tokens"


# === Writing ===


def describe_task(task) -> dict[str, Any]:
    """The arguments of `add_metadata` that a task model knows.

    Example:
        >>> content = add_metadata(content, **describe_task(classifier))  # doctest: +SKIP
    """
    tokenizer = task.tokenizer
    if tokenizer.unknown_token != "[UNK]":
        raise ValueError(f"The unknown token is {tokenizer.unknown_token!r}; readers of metadata expect '[UNK]'.")
    return {
        "task": task.name,
        "kind": getattr(task, "kind", None),
        "labels": task.labels,
        "vocabulary": tokenizer.vocabulary,
        "tokenizer": {
            "do_lower_case": tokenizer.lowercase,
            "strip_accents": tokenizer.strip_accents,
            "tokenize_chinese_chars": tokenizer.split_cjk,
        },
        "settings": task_settings(task),
    }


def task_settings(task) -> dict[str, Any]:
    """What a task was told, as its own directory has it and as its file will.

    Example:
        >>> task_settings(classifier)  # doctest: +SKIP
        {'sequence_length': 128, 'long_texts': 'cut'}
    """
    own = {name: value for name, value in task._settings().items() if name != "kind"}  # that has its own place
    return {"sequence_length": task.sequence_length, "long_texts": task.long_texts, **own}


def add_metadata(
    model: bytes,
    *,
    task: str,
    vocabulary: Sequence[str],
    tokenizer: Mapping[str, bool | None],
    labels: Sequence[str] | None = None,
    kind: str | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str = "BERT",
    description: str = "",
) -> bytes:
    """The same TFLite file with metadata and the files that go with it.

    Lengths and names are read from the file's signatures. The weights are not touched.

    Args:
        model: The bytes of a file with a signature for each subgraph and all buffers inline.
        task: The task's name, for our own runtime.
        vocabulary: The tokens in the order of their ids.
        tokenizer: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`.
        labels: The names of the classes in the order of the outputs.
        kind: The task's kind. `"single_label"` and `"multi_label"` need an output named `probabilities`.
        settings: What else our own runtime needs; anything that JSON can say.
        name: The name of the model, for people.
        description: What it does, for people.

    Example:
        >>> content = add_metadata(content, name="sentiment", **describe_task(classifier))  # doctest: +SKIP
        >>> print(read_metadata(content))  # doctest: +SKIP
        sentiment  classification  lengths 128  2 labels  30,522 tokens
    """
    signatures = schema.read_signatures(model)
    labels = None if labels is None else tuple(labels)
    _check_lines("The vocabulary", vocabulary)
    _check_special_tokens(vocabulary)
    if labels is not None:
        _check_lines("labels", labels)
    for signature in signatures:
        _check_outputs(signature, labels, kind)
    about = {
        "format": _FORMAT,
        "name": name,
        "description": description,
        "task": task,
        "kind": kind,
        "tokenizer": dict(tokenizer),
        "signatures": {signature.key: _length(signature) for signature in signatures},
        "outputs": [output.name for output in signatures[0].outputs],
        "settings": dict(settings or {}),
    }
    files = {_VOCABULARY: _join(vocabulary), _TASK: json.dumps(about, indent=1, ensure_ascii=False).encode()}
    if labels is not None:
        files[_LABELS] = _join(labels)
    _check_sizes(files)
    _parse(files)  # what cannot be read again is an error now
    subgraphs = [_describe_subgraph(signature, labels) for signature in signatures]
    return append_files(schema.insert_metadata(model, schema.model_metadata(name, description, subgraphs)), files)


def _check_lines(what, lines):
    """The files have one entry a line, and readers skip lines that are empty."""
    for index, line in enumerate(lines):
        if not isinstance(line, str) or not line or "\n" in line or line.endswith("\r"):
            raise ValueError(f"{what} has {line!r} at {index}; expected text that fits on a line and is not empty.")


def _check_sizes(files):
    for name, content in files.items():
        if len(content) > _MAX_BYTES[name]:
            raise ValueError(
                f"{name} would have {len(content):,} bytes; readers take {_MAX_BYTES[name]:,}. Leave out what is long "
                "in settings or vocabulary."
            )


def _check_special_tokens(vocabulary):
    missing = [token for token in _SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise ValueError(f"The vocabulary has no {', '.join(missing)}; expected all of {', '.join(_SPECIAL_TOKENS)}.")


def _check_outputs(signature, labels, kind):
    shapes = {output.name: output.shape for output in signature.outputs}
    if "probabilities" not in shapes and kind in ("single_label", "multi_label"):
        raise ValueError(
            f"Signature {signature.key!r} gives {', '.join(shapes)}; a classifier for apps gives 'probabilities', "
            "with softmax or sigmoid in the graph. The Task Library crashes on anything else."
        )
    name = _find_labelled(signature)
    if name is not None and (labels is None or len(labels) != shapes[name][-1]):
        raise ValueError(
            f"Signature {signature.key!r} has {shapes[name][-1]} {name} and there are {len(labels or ())} labels; "
            "expected a label for each."
        )


def _find_labelled(signature):
    """The output whose classes have names, if there is one."""
    return next((name for name in _LABELLED if name in {output.name for output in signature.outputs}), None)


def _length(signature):
    """The number of tokens that a signature takes; None where it is open."""
    shapes = {tensor.shape for tensor in signature.inputs if tensor.name in _INPUTS}
    if not shapes:
        return None  # raw strings
    if len(shapes) > 1 or len(shape := shapes.pop()) != 2:
        raise ValueError(f"Signature {signature.key!r} takes {signature.inputs}; expected all as [1, length].")
    return None if shape[1] == -1 else shape[1]


def _describe_subgraph(signature, labels):
    inputs = [schema.tensor(*_INPUTS.get(tensor.name, (tensor.name, ""))) for tensor in signature.inputs]
    labelled = _find_labelled(signature)
    files = [] if labels is None else [schema.associated_file(_LABELS, "The classes.", schema.AXIS_LABELS)]
    outputs = [
        schema.tensor(*_OUTPUTS.get(tensor.name, (tensor.name, "")), files if tensor.name == labelled else ())
        for tensor in signature.outputs
    ]
    takes_ids = {tensor.name for tensor in signature.inputs} == set(_INPUTS)
    vocabulary = schema.associated_file(_VOCABULARY, "The tokens by their ids.", schema.VOCABULARY)
    return schema.subgraph(signature.key, inputs, outputs, vocabulary=vocabulary if takes_ids else None)


def _join(lines):
    return "".join(f"{line}\n" for line in lines).encode()


# === Reading ===


def read_metadata(path_or_bytes: str | os.PathLike | bytes) -> FileMetadata:
    """What a `.tflite` file says of itself. The file may come from anywhere: whatever is wrong in it is a ValueError.

    Example:
        >>> metadata = read_metadata("sentiment.tflite")  # doctest: +SKIP
        >>> metadata.labels  # doctest: +SKIP
        ('negative', 'positive')
    """
    try:
        return _parse(read_files(path_or_bytes, _MAX_BYTES))
    except (ValueError, RecursionError) as error:  # the latter from json, on endless nesting
        name = "These bytes" if isinstance(path_or_bytes, bytes) else path_or_bytes
        raise ValueError(f"{name} cannot be used as an exported model: {error}") from None


def _parse(files):
    missing = [name for name in (_TASK, _VOCABULARY) if name not in files]
    if missing:
        raise ValueError(f"it has no {' and no '.join(missing)}; expected a file that export.convert wrote.")
    about = json.loads(files[_TASK].decode("utf-8"))
    _check_about(about)
    vocabulary = _split(files[_VOCABULARY], _VOCABULARY)
    _check_special_tokens(vocabulary)
    return FileMetadata(
        **{key: about[key] for key in ("name", "description", "task", "kind", "tokenizer", "settings")},
        labels=_split(files[_LABELS], _LABELS) if _LABELS in files else None,
        vocabulary=vocabulary,
        signatures=dict(sorted(about["signatures"].items(), key=lambda item: item[1] or _MAX_LENGTH)),
        outputs=tuple(about["outputs"]),
    )


def _split(content, name):
    if content.count(b"\n") > _MAX_LINES:
        raise ValueError(f"{name} has more than {_MAX_LINES:,} lines.")
    # Not splitlines(): real vocabularies have tokens such as U+2028 that it takes for line ends.
    lines = tuple(content.decode("utf-8").removesuffix("\n").split("\n"))
    if "" in lines or len(set(lines)) != len(lines):
        raise ValueError(f"{name} has an empty line or one that is there twice.")
    return lines


def _check_about(about):
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        found = about.get("format") if isinstance(about, dict) else type(about).__name__
        raise ValueError(f"{_TASK} has format {found!r}; this version reads {_FORMAT}.")
    texts = [about.get("name"), about.get("description"), about.get("task"), about.get("kind", 0)]
    signatures, outputs, tokenizer = (about.get(key) for key in ("signatures", "outputs", "tokenizer"))
    is_right = (
        (all(isinstance(text, str) for text in texts[:3]) and isinstance(texts[3], str | None))
        and (isinstance(signatures, dict) and signatures and all(map(_is_length, signatures.values())))
        and (isinstance(outputs, list) and outputs and all(isinstance(name, str) for name in outputs))
        and (isinstance(tokenizer, dict) and all(isinstance(value, bool | None) for value in tokenizer.values()))
        and isinstance(about.get("settings"), dict)
    )
    if not is_right:
        raise ValueError(f"{_TASK} is not what export.convert writes: {str(about)[:200]}.")


def _is_length(value):
    return value is None or (type(value) is int and 0 < value <= _MAX_LENGTH)
