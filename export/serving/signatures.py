"""Build the functions that a server calls: one TensorFlow graph from raw strings to answers by name.

Takes a task and gives `Signature` values to save. The task's `ServedTask` says what it takes and gives;
`serving/saving.py` writes the files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from export.serving.graph import SharedGraph
from export.serving.tasks import find_served, serve_strings
from export.tasks.base.definition import PREDICT, ServedTask, ServeFunction
from export.tasks.base.served_file import FORMS
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class Signature:
    """A function with named inputs and outputs, and the type of request that it answers."""

    function: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]
    inputs: dict[str, tf.TensorSpec]
    method: str = PREDICT
    texts: tuple[str, ...] = ()  # the strings of a row: inputs, or features of a tf.Example
    expected: ServeFunction | None = None  # the answers of Keras; `None` uses `expect`


def build_signatures(
    task: Task,
    forms: Sequence[str],
    decodings: Mapping[str, Mapping[str, Any]] | None = None,
    precision: str = "float32",
) -> dict[str, Signature]:
    """Build the signatures of a task, `serving_default` first.

    Args:
        task: A task that can be served.
        forms: Keys of `FORMS`. `serving_default` takes the first; others have their own signatures, such as
            `serving_pairs` and `classify_pairs`.
        decodings: For a task that writes: other ways to write, each a signature.
        precision: The type of the matrix products, `"float32"` or `"bfloat16"`.

    Example:
        >>> list(build_signatures(classifier, ["texts"]))
        ['serving_default', 'classify', 'from_ids']
    """
    served, graph = find_served(task), SharedGraph(task, precision)
    signatures = {}
    for form in forms:
        names, is_default = FORMS[form], form == forms[0]
        signatures["serving_default" if is_default else f"serving_{form}"] = _string_signature(graph, served, names)
        if served.ranking is not None:
            key, method, answers = served.ranking(task)
            signatures[key if is_default else f"{key}_{form}"] = _example_signature(graph, answers, names, method)

    if decodings is not None and served.variants is None:
        raise ValueError(f"Got decodings=, which is for tasks that write; {task.name!r} does not. Leave it out.")
    variants = {} if served.variants is None else served.variants(decodings)
    for key, (serve, expected) in variants.items():
        signatures[key] = _string_signature(graph, replace(served, serve=serve), FORMS[forms[0]], expected)

    def from_ids(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        if served.serve_ids is not None:
            return served.serve_ids(graph, inputs)
        outputs = graph.forward(inputs)
        return {**outputs, **served.answers(task, outputs)}

    ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUT_NAMES}
    signatures["from_ids"] = Signature(from_ids, ids)
    return {"serving_default": signatures["from_ids"], **signatures}


def _string_signature(
    graph: SharedGraph, served: ServedTask, names: tuple[str, ...], expected: ServeFunction | None = None
) -> Signature:
    """A signature for raw strings `[B]`, with an input for each text of a row."""

    def serve(rows: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return serve_strings(served, graph, *(rows[name] for name in names))

    inputs = {name: tf.TensorSpec([None], tf.string, name=name) for name in names}
    return Signature(serve, inputs, texts=names, expected=expected)


def _example_signature(
    graph: SharedGraph,
    answers: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]],
    names: tuple[str, ...],
    method: str,
) -> Signature:
    """A signature for Classify and Regress requests: serialized tf.Examples with a feature for each text."""

    def serve(requests: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        rows = tf.io.parse_example(requests["inputs"], features)
        tensors, _ = graph.pack(*(rows[name] for name in names))
        return answers(graph.forward(tensors))

    return Signature(serve, {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}, method, texts=names)
