"""Add vocabulary, labels and settings to a `.tflite` file, so that one file is all that an app needs.

`add_metadata` adds what MediaPipe's `TextClassifier` and `TextEmbedder`, the Task Library's `BertNLClassifier` and
`BertQuestionAnswerer`, and our own runtime (`file/metadata_reader.py`) read. What each of them needs in the graph:

| library | graph |
|---|---|
| MediaPipe, both | one subgraph, so one signature: a fixed length or a dynamic one (which it never cuts) |
| `TextClassifier` | one output, `probabilities` `[1, C]`: scores are shown unchanged, so softmax is in the graph |
| `TextEmbedder` | one output, `embedding` `[1, H]`, pooled |
| `BertNLClassifier` | one fixed length; one output, `probabilities`; float32 or float16: no op newer than its runtime |
| `BertQuestionAnswerer` | length 384; outputs `start_logits` and `end_logits`, `[1, 384]` each; float32 or float16 |

They all lowercase ASCII and use a simpler tokenizer than BERT's; `benchmarks/mediapipe_tokenizer.py` measures the
difference.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from export.file import metadata_schema as schema
from export.file.archive import append_files
from export.file.contents import Signature, read_signatures
from export.file.metadata_reader import (
    FORMAT,
    LABELS,
    MAX_BYTES,
    SENTENCEPIECE,
    TASK,
    VOCABULARY,
    check_special_tokens,
    parse_files,
)

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

# The names of our inputs and outputs in these libraries; other names do not change.
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
# The outputs whose last axis has a value for each label; only the first that a file has.
_LABELLED = ("probabilities", "token_logits")


def describe_task(task: "Task") -> dict[str, Any]:
    """The arguments of `add_metadata` that are known from a task.

    Example:
        >>> content = add_metadata(content, **describe_task(classifier))  # doctest: +SKIP
    """
    tokenizer: Any = task.tokenizer
    if (unigram := getattr(tokenizer, "model", None)) is not None:
        about: dict[str, Any] = {"vocabulary": unigram.tokens, "tokenizer": {}, "unigram": unigram.to_bytes()}
        return {**_describe(task), **about}
    if tokenizer.unknown_token != "[UNK]":
        raise ValueError(
            f"The unknown token is {tokenizer.unknown_token!r}; expected '[UNK]', as readers of metadata do."
        )
    return {
        **_describe(task),
        "vocabulary": _named_tokens(tokenizer.vocabulary),
        "tokenizer": {
            "do_lower_case": tokenizer.lowercase,
            "strip_accents": tokenizer.strip_accents,
            "tokenize_chinese_chars": tokenizer.split_cjk,
        },
    }


def _describe(task: "Task") -> dict[str, Any]:
    kind = getattr(task, "kind", None)
    return {"task": task.name, "kind": kind, "labels": task.labels, "settings": task_settings(task)}


def _named_tokens(vocabulary: Sequence[str]) -> list[str]:
    """A vocabulary without empty tokens: some real ones have an empty line, which readers would skip.

    No text is split into an empty token, nor into one that looks like its replacement.
    """
    return [token or f"[unused-{index}]" for index, token in enumerate(vocabulary)]


def task_settings(task: "Task") -> dict[str, Any]:
    """The settings of a task, as in its directory and in its file.

    Example:
        >>> task_settings(classifier)  # doctest: +SKIP
        {'sequence_length': 128, 'long_texts': 'cut'}
    """
    own = {name: value for name, value in task.settings().items() if name != "kind"}  # which has its own entry
    return {"sequence_length": task.sequence_length, "long_texts": task.long_texts, **own}


def add_metadata(
    content: bytes,
    *,
    task: str,
    vocabulary: Sequence[str],
    tokenizer: Mapping[str, bool | None],
    labels: Sequence[str] | None = None,
    kind: str | None = None,
    settings: Mapping[str, Any] | None = None,
    unigram: bytes | None = None,
    output_notes: Mapping[str, str] | None = None,
    name: str = "BERT",
    description: str = "",
) -> bytes:
    """Add metadata, and the files that belong to it, to a TFLite file.

    Lengths and names are read from the file's signatures. The weights are not changed.

    Args:
        content: The bytes of a file with a signature for each subgraph and all buffers inline.
        task: The task's name, for our own runtime.
        vocabulary: The tokens in the order of their ids.
        tokenizer: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`.
        labels: The names of the classes in the order of the outputs.
        kind: The task's kind. `"single_label"` and `"multi_label"` need an output named `probabilities`.
        settings: Other settings for our own runtime, as plain values.
        unigram: The model of a Unigram tokenizer, as SentencePiece stores it, written instead of the vocabulary.
            MediaPipe and the Task Library have no such tokenizer; our own runtime has.
        output_notes: The meaning of outputs in a sentence, by their names in the graph; for people.
        name: The name of the model, for people.
        description: What it does, for people.

    Example:
        >>> content = add_metadata(content, name="sentiment", **describe_task(classifier))  # doctest: +SKIP
        >>> print(read_metadata(content))  # doctest: +SKIP
        sentiment  classification  lengths 128  2 labels  30,522 tokens
    """
    signatures = read_signatures(content)
    labels = None if labels is None else tuple(labels)
    if unigram is None:
        _check_lines("The vocabulary", vocabulary)
        check_special_tokens(tuple(vocabulary))
    if labels is not None:
        _check_lines("labels", labels)
    for signature in signatures:
        _check_outputs(signature, labels, kind)
    about = {
        "format": FORMAT,
        "name": name,
        "description": description,
        "task": task,
        "kind": kind,
        "tokenizer": dict(tokenizer),
        "signatures": {one.name: _length(one) for one in signatures if _takes_rows(one)},
        "outputs": list(dict.fromkeys(name for signature in signatures for name in signature.outputs)),
        "settings": dict(settings or {}),
    }
    words = {VOCABULARY: _join(vocabulary)} if unigram is None else {SENTENCEPIECE: unigram}
    files = {**words, TASK: json.dumps(about, indent=1, ensure_ascii=False).encode()}
    if labels is not None:
        files[LABELS] = _join(labels)
    _check_sizes(files)
    parse_files(files)  # raises an error now for what cannot be read again
    subgraphs = [
        _describe_subgraph(signature, labels, output_notes or {}, has_words=unigram is None) for signature in signatures
    ]
    return append_files(schema.insert_metadata(content, schema.model_metadata(name, description, subgraphs)), files)


def _check_lines(what: str, lines: Sequence[str]) -> None:
    """Check that each entry fits on a line and is not empty, because readers skip empty lines."""
    for index, line in enumerate(lines):
        if not isinstance(line, str) or not line or "\n" in line or line.endswith("\r"):
            raise ValueError(f"{what} has {line!r} at {index}; expected text that fits on a line and is not empty.")


def _check_sizes(files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if len(data) > MAX_BYTES[name]:
            raise ValueError(
                f"{name} would have {len(data):,} bytes; readers take at most {MAX_BYTES[name]:,}. Shorten the "
                "settings or the vocabulary."
            )


def _check_outputs(signature: Signature, labels: Sequence[str] | None, kind: str | None) -> None:
    shapes = {name: output.shape for name, output in signature.outputs.items()}
    if "probabilities" not in shapes and kind in ("single_label", "multi_label"):
        raise ValueError(
            f"Signature {signature.name!r} gives {', '.join(shapes)}; a classifier for apps gives 'probabilities', "
            "with softmax or sigmoid in the graph. The Task Library crashes on anything else."
        )
    name = _find_labelled(signature)
    if name is not None and (labels is None or len(labels) != shapes[name][-1]):
        raise ValueError(
            f"Signature {signature.name!r} has {shapes[name][-1]} {name} and there are {len(labels or ())} labels; "
            "expected a label for each."
        )


def _find_labelled(signature: Signature) -> str | None:
    """The output with a value for each label, if there is one."""
    return next((name for name in _LABELLED if name in signature.outputs), None)


def _takes_rows(signature: Signature) -> bool:
    """Whether a signature takes texts. A writer's graph for the next token continues what another has read."""
    return "target_mask" not in signature.inputs


def _length(signature: Signature) -> int | None:
    """The number of tokens that a signature takes; `None` if it is dynamic."""
    shapes = {tensor.shape for name, tensor in signature.inputs.items() if name in _INPUTS}
    if not shapes:
        return None  # raw strings
    if len(shapes) > 1 or len(shape := shapes.pop()) != 2:
        raise ValueError(f"Signature {signature.name!r} takes {signature.inputs}; expected all as [1, length].")
    return None if shape[1] == -1 else shape[1]


def _describe_subgraph(
    signature: Signature, labels: Sequence[str] | None, notes: Mapping[str, str], *, has_words: bool
) -> dict[int, Any]:
    inputs = [schema.tensor(*_INPUTS.get(name, (name, ""))) for name in signature.inputs]
    labelled = _find_labelled(signature)
    files = [] if labels is None else [schema.associated_file(LABELS, "The classes.", schema.AXIS_LABELS)]
    outputs = []
    for name in signature.outputs:
        known, note = _OUTPUTS.get(name, (name, ""))
        outputs.append(schema.tensor(known, notes.get(name, note), files if name == labelled else ()))
    takes_ids = has_words and set(signature.inputs) == set(_INPUTS)
    vocabulary = schema.associated_file(VOCABULARY, "The tokens by their ids.", schema.VOCABULARY)
    return schema.subgraph(signature.name, inputs, outputs, vocabulary=vocabulary if takes_ids else None)


def _join(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
