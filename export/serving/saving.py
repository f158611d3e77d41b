"""Task model → a SavedModel directory that TF Serving loads as it is, with neither Keras nor this library.

Takes a task, gives `<directory>/<version>/` with the graph from raw strings to answers, warm-up requests and a page
that says how to serve it. It is written beside its place, read back and compared with the Keras model, synced and
renamed: a server that polls the directory never sees half a model. The graph is in `serving/signatures.py`, TF
Serving's own files are in `serving/files.py`.
"""

import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from export.serving.artifact import ServedSignature, ServingArtifact, signature_table
from export.serving.files import batching_file, readme, warmup_requests, write_records
from export.serving.rows import row_errors
from export.serving.signatures import Signature, build_signatures
from export.serving.tasks import expect, find_served
from export.tasks.base.definition import PREDICT
from export.tasks.base.float_model import check_backend
from keras_bert.system.atomic_files import sync, write_whole
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack

BATCH_SIZES = (1, 2, 4, 8, 16, 32)
_TOLERANCE = 1e-4  # between the file and the Keras model, in probabilities and other answers


def save_serving(
    task_model: Task,
    directory: str | os.PathLike,
    *,
    version: int = 1,
    name: str | None = None,
    inputs: str | None = None,
    long_texts: str | None = None,
    warmup_texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    decodings: Mapping[str, Mapping[str, Any]] | None = None,
) -> ServingArtifact:
    """Write a task model for TF Serving.

    The signature `serving_default` takes raw strings and gives answers, and `truncated` where a text was longer than
    the model reads. For a classifier these are `label`, `probability` and `probabilities` (`value` for regression);
    `classify` (`regress`) answers TF Serving's requests of that name, whose examples have the feature `text`. For a
    tagger, `token_logits`, `tags`, `starts` and `ends` of every token; for questions, which come as `question` and
    `context`, `answer`, `start`, `end`, `score` and `probability`. A task that takes pairs too has the same as
    `serving_pairs` and `classify_pairs`. `from_ids` takes the three int32 tensors and gives the model's raw outputs as
    well. A `Seq2Seq` gives `written` and `written_ids`, by `generate` too; `generate_beam` writes with beams.

    Args:
        task_model: A task, such as `TextClassifier`.
        directory: Where the versions of this model are. `batching.config` is written there too, unless there is one.
        version: A new number; servers take the highest.
        name: What requests call the model; `None` takes the directory's name.
        inputs: `"texts"` or `"pairs"` where the model was trained for one of them, which is then what `serving_default`
            takes; `None` serves what the task was trained on, where it knows that, else all that it can take.
        long_texts: `"cut"` serves a task that reads long texts in windows: the graph reads their beginning alone.
        warmup_texts: Texts, or pairs of texts, that a server answers before it is ready; `None` takes a short and a
            long one. Texts like those of your users make the first requests fastest.
        batch_sizes: What `batching.config` allows, increasing.
        decodings: For a `Seq2Seq`: other ways to write, as settings of `generate` by name, such as `{"short":
            {"max_length": 8, "sampler": "beam"}}`; each is a signature, here `generate_short`. `None` is
            `generate_beam`.

    Returns:
        A `ServingArtifact` to print.

    Example:
        ```python
        artifact = export.save_serving(classifier, "serving/sentiment", version=1)
        print(artifact)
        print(artifact.docker_command)
        ```
    """
    forms = _choose_forms(task_model, inputs)
    _check_long_texts(task_model, long_texts)
    target = _check_target(directory, version)
    name = _check_name(target.parent.resolve().name if name is None else name)
    batch_sizes = _check_batch_sizes(batch_sizes)
    rows = _warmup_rows(task_model, warmup_texts)
    signatures = build_signatures(task_model, forms, decodings)
    requests = warmup_requests(task_model, signatures, rows)
    partial = _make_partial(target)
    try:
        _write_graph(signatures, partial)
        described, max_error = _read_back(task_model, signatures, partial, rows)
        (partial / "assets.extra").mkdir()
        write_records(partial / "assets.extra" / "tf_serving_warmup_requests", requests)
        if task_model.labels is not None:
            _write_text(partial / "assets.extra" / "labels.txt", "\n".join(task_model.labels) + "\n")
        _write_text(partial / "README.md", readme(task_model, name, signatures, signature_table(described)))
        _write_batching(target.parent / "batching.config", batching_file(batch_sizes))
        _publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # gone already where all went well
    num_bytes = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return ServingArtifact(target, name, version, described, num_bytes, len(requests), max_error)


# === What was asked for ===


def _choose_forms(task, inputs):
    forms = find_served(task).forms
    check_backend("a SavedModel")
    if inputs is None:
        known = getattr(task, "pairs", None)  # what a classifier was trained on, and so takes alone
        return forms if known is None else ("pairs" if known else "texts",)
    if inputs not in forms:
        raise ValueError(f"inputs={inputs!r}: the task {task.name!r} takes {' or '.join(map(repr, forms))}.")
    return (inputs,)


def _check_long_texts(task, long_texts):
    if long_texts not in (None, "cut"):
        raise ValueError(f"long_texts={long_texts!r}: expected 'cut', or nothing.")
    if task.long_texts != "cut" and long_texts is None:
        raise ValueError(
            f"The task reads long texts in {task.long_texts}, and a served graph reads their first "
            f"{task.sequence_length} tokens. Pass long_texts='cut' to serve that, or divide texts before they are "
            "sent and join the answers in the client."
        )


def _check_target(directory, version):
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version < 2**63:
        raise ValueError(f"version={version!r}: expected a positive integer, such as 1.")
    target = Path(directory).expanduser() / str(version)
    if os.path.lexists(target):
        raise FileExistsError(
            f"{target} exists, and a server may be using it; pass a higher version, e.g. version={version + 1}."
        )
    return target


def _check_name(name):
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"The model's name would be {name!r}; pass name= with letters, digits, '_', '-' and '.' alone."
        )
    return name


def _check_batch_sizes(batch_sizes):
    sizes = tuple(batch_sizes)
    if not sizes or sizes != tuple(sorted(set(sizes))) or not all(type(size) is int and size > 0 for size in sizes):
        raise ValueError(f"batch_sizes={batch_sizes!r}: expected increasing positive integers, such as {BATCH_SIZES}.")
    return sizes


def _warmup_rows(task, texts):
    """Pairs of texts; a text without a second one is its own."""
    if texts is None:
        texts = ["", "a short text", "many words " * task.sequence_length]
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"warmup_texts={texts!r}: expected a list of at least one text or pair of texts.")
    rows = [(text, text) if isinstance(text, str) else tuple(text) for text in texts]
    for row in rows:
        if len(row) != 2 or not all(isinstance(text, str) for text in row):
            raise ValueError(f"warmup_texts has {row!r}; expected strings, or pairs of strings.")
    return rows


# === Writing ===


def _make_partial(target):
    """A new directory beside the target, under a name that no server takes for a version."""
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise OSError(
            f"{target.parent} cannot be written ({error.strerror}); choose a directory that you may write to."
        ) from error
    return partial


def _write_graph(signatures: dict[str, Signature], directory):
    # ExportArchive tracks the variables behind the Keras ones: a plain tf.Module that holds a Keras model saves a
    # file that session loaders, TF Serving's among them, cannot restore.
    archive = keras.export.ExportArchive()
    for key, signature in signatures.items():
        archive.add_endpoint(key, signature.function, input_signature=[signature.inputs])
    archive.write_out(str(directory), verbose=False)
    _edit_graph(signatures, directory)


def _edit_graph(signatures, directory):
    """Say which requests a signature answers: tf.saved_model.save knows Predict alone."""
    path = directory / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for meta_graph in saved.meta_graphs:
        for key, signature in signatures.items():
            meta_graph.signature_def[key].method_name = signature.method
        for node in meta_graph.graph_def.node:
            node.attr.pop("debug_name", None)  # of variables; older servers do not know it, and complain
    path.write_bytes(saved.SerializeToString(deterministic=True))
    (directory / "fingerprint.pb").unlink(missing_ok=True)  # of the file before this change; it is optional


def _write_batching(path, text):
    """Write the file unless there is one, which may have been tuned."""
    if not path.exists():
        write_whole(path, text)


def _write_text(path, text):
    path.write_text(text, encoding="utf-8")


def _publish(partial, target):
    for path in [*partial.rglob("*"), partial]:
        sync(path)
    os.rename(partial, target)
    sync(target.parent)


# === Reading back ===


def _read_back(task, signatures, directory, rows):
    """Describe the signatures in the file, and compare their answers with the Keras model's."""
    loaded = tf.saved_model.load(str(directory)).signatures
    described = tuple(
        ServedSignature(key, signature.method.split("/")[-1], tuple(signature.inputs), _output_names(loaded[key]))
        for key, signature in signatures.items()
    )
    served = find_served(task)
    packed = pack(task.tokenizer, [text for text, _ in rows], sequence_length=task.sequence_length)
    raw, answers = task.model(packed, training=False), loaded["from_ids"](**packed)
    errors = [row_errors(value, answers[output]).max() for output, value in raw.items() if output in answers]
    for key, signature in signatures.items():
        if signature.method != PREDICT or not signature.texts:
            continue
        columns = [list(column) for column in zip(*rows, strict=True)][: len(signature.texts)]
        expected = signature.expected(task, *columns) if signature.expected else expect(served, task, *columns)
        answers = loaded[key](**dict(zip(signature.texts, map(tf.constant, columns), strict=True)))
        errors += [row_errors(expected[output], answers[output]).max() for output in expected]
    worst = float(np.max(errors))  # NaN where one is NaN
    if not worst <= _TOLERANCE:
        raise RuntimeError(
            f"The written graph differs from the Keras model by {worst:.1e} on the warm-up texts; expected at most "
            f"{_TOLERANCE:.0e}. Nothing was published; please report this with the model's config."
        )
    return described, worst


def _output_names(function):
    return tuple(sorted(function.structured_outputs))
