"""Write a task as a SavedModel directory for TF Serving, which needs neither Keras nor this library to run it.

`save_serving` writes `<directory>/<version>/` with the graph from raw strings to answers, warm-up requests and a
README. It writes to a temporary directory, reads the graph back, compares it with the Keras model, syncs and renames,
so that a server never sees half a model. The graph is built in `serving/signatures.py`, TF Serving's own files in
`serving/files.py`.
"""

import contextlib
import os
import re
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
from export.tasks.base.tensorflow_process import on_tensorflow
from keras_bert.system.atomic_files import sync, temporary_directory, write_whole
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack

BATCH_SIZES = (1, 2, 4, 8, 16, 32)
# Between the file and the Keras model, in probabilities and other answers.
_TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2}


@on_tensorflow()
def save_serving(
    task_model: Task,
    directory: str | os.PathLike[str],
    *,
    version: int = 1,
    name: str | None = None,
    inputs: str | None = None,
    long_texts: str | None = None,
    warmup_texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    precision: str = "float32",
    decodings: Mapping[str, Mapping[str, Any]] | None = None,
) -> ServingArtifact:
    """Write a task model for TF Serving.

    The signature `serving_default` takes raw strings and gives answers, with `truncated` for texts that were cut. A
    classifier gives `label`, `probability` and `probabilities` (`value` for regression); `classify` (`regress`) answers
    TF Serving's requests of that name, whose examples have the feature `text`. A tagger gives `token_logits`, `tags`,
    `starts` and `ends` of every token. Question answering takes `question` and `context`, and gives `answer`, `start`,
    `end`, `score` and `probability`. A task that also takes pairs has `serving_pairs` and `classify_pairs` for them.
    A batch costs as many tokens as it has, without the padding between its texts; where outputs are for each token, as
    many as its rows have.

    `from_ids` takes the three int32 tensors and adds the model's raw outputs. A `Seq2Seq` gives `written` and
    `written_ids`, as `generate` does; `generate_beam` uses beams.

    Args:
        task_model: A task, such as `TextClassifier`.
        directory: The directory of all versions of this model. `batching.config` is written there too, unless it
            exists.
        version: A new number; servers take the highest.
        name: The model's name in requests; `None` takes the directory's name.
        inputs: `"texts"` or `"pairs"`, what `serving_default` takes; `None` serves what the task was trained on, if it
            knows that, else all that it can take.
        long_texts: `"cut"` serves a task that reads long texts in windows; the graph then reads only their beginning.
        warmup_texts: Texts, or pairs of texts, that a server answers before it is ready; `None` takes a short and a
            long one. Texts like those of your users make the first requests fastest.
        batch_sizes: The sizes that `batching.config` allows, in increasing order.
        precision: `"bfloat16"` multiplies matrices in that type, for processors that have it (AVX-512 BF16, AMX, ARM's
            BF16); it is slow on others. For tasks whose outputs are for each text.
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
    if precision not in _TOLERANCES:
        raise ValueError(f"Got precision={precision!r}; expected one of {', '.join(map(repr, _TOLERANCES))}.")
    rows = _warmup_rows(task_model, warmup_texts)
    signatures = build_signatures(task_model, forms, decodings, precision)
    requests = warmup_requests(task_model, signatures, rows)
    with contextlib.ExitStack() as stack:
        partial = _make_partial(target, stack)
        _write_graph(signatures, partial)
        described, max_error = _read_back(task_model, signatures, partial, rows, _TOLERANCES[precision])
        (partial / "assets.extra").mkdir()
        write_records(partial / "assets.extra" / "tf_serving_warmup_requests", requests)
        if task_model.labels is not None:
            _write_text(partial / "assets.extra" / "labels.txt", "\n".join(task_model.labels) + "\n")
        _write_text(partial / "README.md", readme(task_model, name, signatures, signature_table(described)))
        _write_batching(target.parent / "batching.config", batching_file(batch_sizes))
        _publish(partial, target)
    num_bytes = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return ServingArtifact(target, name, version, described, num_bytes, len(requests), max_error)


# === Arguments ===


def _choose_forms(task: Any, inputs: str | None) -> tuple[str, ...]:
    forms = find_served(task).forms
    if inputs is None:
        known = getattr(task, "pairs", None)  # a classifier takes only what it was trained on
        return forms if known is None else ("pairs" if known else "texts",)
    if inputs not in forms:
        raise ValueError(f"Got inputs={inputs!r}; the task {task.name!r} takes {' or '.join(map(repr, forms))}.")
    return (inputs,)


def _check_long_texts(task: Task, long_texts: str | None) -> None:
    if long_texts not in (None, "cut"):
        raise ValueError(f"Got long_texts={long_texts!r}; expected 'cut' or None.")
    if task.long_texts != "cut" and long_texts is None:
        raise ValueError(
            f"The task reads long texts in {task.long_texts}, and a served graph reads their first "
            f"{task.sequence_length} tokens. Pass long_texts='cut' to serve that, or divide texts before they are "
            "sent and join the answers in the client."
        )


def _check_target(directory: str | os.PathLike[str], version: Any) -> Path:
    if not isinstance(version, int) or isinstance(version, bool) or not 0 < version < 2**63:
        raise ValueError(f"Got version={version!r}; expected a positive integer, such as 1.")
    target = Path(directory).expanduser() / str(version)
    if os.path.lexists(target):
        raise FileExistsError(
            f"{target} exists, and a server may be using it; pass a higher version, e.g. version={version + 1}."
        )
    return target


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(f"The model's name would be {name!r}; pass name= with only letters, digits, '_', '-' and '.'.")
    return name


def _check_batch_sizes(batch_sizes: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(batch_sizes)
    if not sizes or sizes != tuple(sorted(set(sizes))) or not all(type(size) is int and size > 0 for size in sizes):
        raise ValueError(
            f"Got batch_sizes={batch_sizes!r}; expected increasing positive integers, such as {BATCH_SIZES}."
        )
    return sizes


def _warmup_rows(task: Task, texts: Any) -> list[tuple[str, str]]:
    """Turn texts into pairs; a text without a second one is paired with itself."""
    if texts is None:
        texts = ["", "a short text", "many words " * task.sequence_length]
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"Got warmup_texts={texts!r}; expected a list of at least one text or pair of texts.")
    rows = [(text, text) if isinstance(text, str) else tuple(text) for text in texts]
    for row in rows:
        if len(row) != 2 or not all(isinstance(text, str) for text in row):
            raise ValueError(f"Got {row!r} in warmup_texts; expected strings, or pairs of strings.")
    return rows


# === Writing ===


def _make_partial(target: Path, stack: contextlib.ExitStack) -> Path:
    """Make a directory beside the target, with a name that servers do not take for a version."""
    try:
        return stack.enter_context(temporary_directory(target.parent, f".{target.name}.", ".partial"))
    except OSError as error:
        raise OSError(
            f"{target.parent} cannot be written ({error.strerror}); choose a directory that you can write to."
        ) from error


def _write_graph(signatures: dict[str, Signature], directory: Path) -> None:
    # ExportArchive tracks the TensorFlow variables of the Keras ones. A plain tf.Module with a Keras model saves a file
    # that session loaders such as TF Serving's cannot restore.
    archive = keras.export.ExportArchive()
    for key, signature in signatures.items():
        archive.add_endpoint(key, signature.function, input_signature=[signature.inputs])
    try:
        archive.write_out(str(directory), verbose=False)
    except tf.errors.OpError as error:  # TensorFlow's word for a full disk
        raise OSError(
            f"The graph could not be written to {directory.parent} ({error.message}). Free some space, or choose "
            "another directory."
        ) from error
    _edit_graph(signatures, directory)


def _edit_graph(signatures: dict[str, Signature], directory: Path) -> None:
    """Set the request type of each signature, because tf.saved_model.save only knows Predict."""
    path = directory / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for meta_graph in saved.meta_graphs:
        for key, signature in signatures.items():
            meta_graph.signature_def[key].method_name = signature.method
        for node in meta_graph.graph_def.node:
            node.attr.pop("debug_name", None)  # an attribute of variables that older servers do not know
    path.write_bytes(saved.SerializeToString(deterministic=True))
    (directory / "fingerprint.pb").unlink(missing_ok=True)  # it belongs to the unchanged file, and is optional


def _write_batching(path: Path, text: str) -> None:
    """Write the file unless it exists, because it may have been tuned."""
    if not path.exists():
        write_whole(path, text)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _publish(partial: Path, target: Path) -> None:
    for path in [*partial.rglob("*"), partial]:
        sync(path)
    os.rename(partial, target)
    sync(target.parent)


# === Reading back ===


def _read_back(
    task: Task, signatures: dict[str, Signature], directory: Path, rows: list[tuple[str, str]], tolerance: float
) -> tuple[tuple[ServedSignature, ...], float]:
    """Describe the signatures in the file, and compare their answers with the Keras model's."""
    loaded = tf.saved_model.load(str(directory)).signatures
    described = tuple(
        ServedSignature(key, signature.method.split("/")[-1], tuple(signature.inputs), _output_names(loaded[key]))
        for key, signature in signatures.items()
    )
    served = find_served(task)
    inputs = pack(task.tokenizer, [text for text, _ in rows], sequence_length=task.sequence_length)
    raw, answers = task.model(inputs, training=False), loaded["from_ids"](**inputs)
    errors = [row_errors(value, answers[output]).max() for output, value in raw.items() if output in answers]
    for key, signature in signatures.items():
        if signature.method != PREDICT or not signature.texts:
            continue
        columns = [list(column) for column in zip(*rows, strict=True)][: len(signature.texts)]
        expected = signature.expected(task, *columns) if signature.expected else expect(served, task, *columns)
        answers = loaded[key](**dict(zip(signature.texts, map(tf.constant, columns), strict=True)))
        errors += [row_errors(expected[output], answers[output]).max() for output in expected]
    worst = float(np.max(errors))  # NaN if one is NaN
    if not worst <= tolerance:
        raise RuntimeError(
            f"The written graph differs from the Keras model by {worst:.1e} on the warm-up texts; expected at most "
            f"{tolerance:.0e}. Nothing was published; please report this with the model's config."
        )
    return described, worst


def _output_names(function: Any) -> tuple[str, ...]:
    return tuple(sorted(function.structured_outputs))
