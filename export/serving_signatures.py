"""A task → the functions that a server calls: raw strings in, answers by name out, all of it one TensorFlow graph.

Takes a task, gives `Signature` values ready to be saved: tokenizer, packing, model and decoding. A room of its own
because it is the graph, and `saved_model.py` the files. A new task is a row in `SERVED`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from keras_bert.encoder import INPUT_NAMES
from keras_bert.packing import pack_ids
from keras_bert.tasks.task import Task

# What TF Serving's three request types ask of a signature; it refuses a Classify request on a signature for Predict.
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))

# The forms that a row of text can have, with the names of their inputs.
FORMS = {"texts": ("text",), "pairs": ("text", "pair")}


@dataclass(frozen=True)
class Signature:
    """A function with named inputs and outputs, and the kind of request that it answers."""

    function: Callable[[dict], dict]
    inputs: dict[str, tf.TensorSpec]
    method: str = PREDICT
    texts: tuple[str, ...] = ()  # which raw strings a row has: inputs, or features of a tf.Example


@dataclass(frozen=True)
class ServedTask:
    """How one task is served.

    Args:
        answers: Task and outputs of the model (float32) → answers by name, a row for each text.
        ranking: Task → the Classify or Regress signature: name, method, and answers in that request's own names.
        forms: What a row can be; the first is the form of `serving_default`.
    """

    answers: Callable[[Task, dict], dict]
    ranking: Callable[[Task], tuple[str, str, Callable]] | None = None
    forms: tuple[str, ...] = ("texts",)


# === Tasks ===


def _class_answers(task, outputs):
    logits = outputs["class_logits"]
    if task.kind == "regression":
        return {"value": logits[:, 0]}
    probabilities = tf.sigmoid(logits) if task.kind == "multi_label" else tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
        "label": tf.gather(tf.constant(task.labels), best),
        "probability": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,  # [B, C], in the order of the labels
    }


def _class_ranking(task):
    def rank(outputs):
        probabilities = _class_answers(task, outputs)["probabilities"]
        scores, order = tf.math.top_k(probabilities, k=len(task.labels))
        return {"classes": tf.gather(tf.constant(task.labels), order), "scores": scores}

    if task.kind == "regression":
        return "regress", REGRESS, lambda outputs: {"outputs": _class_answers(task, outputs)["value"]}
    return "classify", CLASSIFY, rank


SERVED = {"classification": ServedTask(_class_answers, _class_ranking, forms=("texts", "pairs"))}


def find_served(task: Any) -> ServedTask:
    """How a task is served; an error for what is no task, or none that can be served."""
    if not isinstance(task, Task):
        raise TypeError(
            f"Expected a task model such as TextClassifier; got {type(task).__name__}. A server needs tokenizer and "
            "labels too: make a task of the model, or open a saved one with keras_bert.load_task."
        )
    if task.name not in SERVED:
        raise ValueError(f"The task {task.name!r} cannot be served yet; these can: {', '.join(SERVED)}.")
    return SERVED[task.name]


# === Graph ===


def build_signatures(task: Task, forms: Sequence[str]) -> dict[str, Signature]:
    """The signatures of a task, `serving_default` first.

    Args:
        task: A task in `SERVED`.
        forms: Keys of `FORMS`. The first is what `serving_default` takes; another has signatures of its own, such as
            `serving_pairs` and `classify_pairs`.

    Example:
        >>> list(build_signatures(classifier, ["texts"]))
        ['serving_default', 'classify', 'from_ids']
    """
    served, graph = find_served(task), _SharedGraph(task)
    signatures = {}
    for form in forms:
        names, is_default = FORMS[form], form == forms[0]
        signatures["serving_default" if is_default else f"serving_{form}"] = _string_signature(graph, served, names)
        if served.ranking is not None:
            key, method, answers = served.ranking(task)
            signatures[key if is_default else f"{key}_{form}"] = _example_signature(graph, answers, names, method)

    def from_ids(inputs):
        outputs = graph.forward(inputs)
        return {**outputs, **served.answers(task, outputs)}

    ids = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUT_NAMES}
    return {**signatures, "from_ids": Signature(from_ids, ids)}


def _string_signature(graph, served, names):
    """Raw strings `[B]`, an input for each text of a row."""

    def serve(rows):
        packed, truncated = graph.pack(*(rows[name] for name in names))
        return {**served.answers(graph.task, graph.forward(packed)), "truncated": truncated}

    return Signature(serve, {name: tf.TensorSpec([None], tf.string, name=name) for name in names}, texts=names)


def _example_signature(graph, answers, names, method):
    """What Classify and Regress requests bring: serialized tf.Examples as `inputs`, a feature for each text."""

    def serve(requests):
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
        rows = tf.io.parse_example(requests["inputs"], features)
        packed, _ = graph.pack(*(rows[name] for name in names))
        return answers(graph.forward(packed))

    return Signature(serve, {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}, method, texts=names)


class _SharedGraph:
    """Tokenizer, packing and model as functions that all signatures call, so that they stand in the file once."""

    def __init__(self, task):
        self.task = task
        strings, ids = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)
        self.pack = tf.function(self._pack_texts, autograph=False)  # traced for one side and for two
        self._tokenize = tf.function(task.tokenizer.__call__, input_signature=[strings], autograph=False)
        self._forward = tf.function(self._run_model, input_signature=[ids] * len(INPUT_NAMES), autograph=False)

    def _pack_texts(self, *texts):
        """Texts of one or two sides → the model's inputs, as wide as the longest row, and which rows were cut."""
        tokenizer, limit = self.task.tokenizer, self.task.sequence_length
        # A server puts the texts of several users into one batch: broken bytes must not fail it for all of them.
        sides = [self._tokenize(tf.strings.unicode_transcode(side, "UTF-8", "UTF-8")) for side in texts]
        special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
        packed = pack_ids(*sides, sequence_length=limit, **special)
        lengths = tf.add_n([side.row_lengths() for side in sides]) + len(sides) + 1
        width = tf.maximum(tf.reduce_max(tf.minimum(lengths, limit)), 2)  # 2 where the batch is empty
        return {name: packed[name][:, :width] for name in INPUT_NAMES}, lengths > limit

    def forward(self, inputs):
        """The model's outputs by name, float32."""
        return self._forward(*(inputs[name] for name in INPUT_NAMES))

    def _run_model(self, *inputs):
        outputs = self.task.model(dict(zip(INPUT_NAMES, inputs, strict=True)), training=False)
        return {name: tf.cast(value, tf.float32) for name, value in outputs.items() if tf.is_tensor(value)}
