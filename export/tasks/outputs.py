"""What a task's file gives to apps, beside what its Keras model gives: one row a task.

A room of its own because the converter (which puts the outputs into the graph), the checks (which compare them with
Keras) and metadata must agree on them. What a new task adds to be exported is a row here, one in `tasks/examples.py`,
and a reader in `reading/`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.runtime.readers.reader import in_rows, is_token
from keras_bert.decoding import inverse_sigmoid, sigmoid, softmax
from keras_bert.text.tokenized_texts import TokenizedTexts


@dataclass(frozen=True)
class AppOutputs:
    """The outputs of a task's file.

    Args:
        in_graph: Takes the task, gives Keras tensors by name, made from its model's outputs.
        from_task: The same in NumPy: takes the task, its model's outputs and the rows that they are of, gives the
            file's; those with a value for each token as `[tokens, …]`.
        to_task: The way back: what the task scores, from the file's outputs.
        length: The tokens of a file unless it is asked otherwise; what apps' libraries expect.
        counted: Takes rows, gives which of their tokens are looked at; `None` is all.
        metric: Takes the task and labelled data, gives the name of what is measured.
        score: Takes the task, its model's outputs, labelled data and the name of the metric, gives the number.
        writes: Whether the task writes texts: its file has two graphs, and is compared token by token.
    """

    in_graph: Callable[[Any], dict]
    from_task: Callable[[Any, dict, TokenizedTexts], dict]
    to_task: Callable[[Any, dict, TokenizedTexts], dict]
    length: int = 128
    counted: Callable[[TokenizedTexts], np.ndarray] | None = None
    metric: Callable[[Any, Any], str] = lambda task, data: task.default_metric
    score: Callable[[Any, dict, Any, str], float] = lambda task, outputs, data, metric: (
        task.score(outputs, data, metric).value
    )
    writes: bool = False


def app_outputs(task) -> AppOutputs:
    """The row of a task; an error where it cannot be exported yet."""
    if getattr(task, "name", None) not in _TASKS:
        raise ValueError(
            f"{type(task).__name__} cannot be exported as a task; expected one of {', '.join(_TASKS)}, or a functional "
            "model."
        )
    return _TASKS[task.name]


def app_model(task):
    """The functional model that goes into a file: the task's inputs and weights, outputs that apps can show.

    Example:
        >>> sorted(app_model(classifier).output)  # doctest: +SKIP
        ['probabilities']
    """
    import keras

    return keras.Model(task.model.input, app_outputs(task).in_graph(task), name=task.model.name)


# === Classification ===

# MediaPipe and the Task Library show scores as they come, so the activation is in the graph.
_ACTIVATIONS = {"single_label": (softmax, np.log), "multi_label": (sigmoid, inverse_sigmoid)}


def _probability_tensors(task, output="class_logits", kind="single_label"):
    import keras

    activation = keras.layers.Activation(_ACTIVATIONS[kind][0].__name__, dtype="float32", name="probabilities")
    return {"probabilities": activation(task.model.output[output])}


def _logits_of(probabilities, kind="single_label"):
    """Up to a constant for each row, which no answer depends on."""
    return _ACTIVATIONS[kind][1](np.maximum(probabilities, np.finfo("float32").tiny))


def _class_tensors(task):
    if task.kind == "regression":
        return {"class_logits": task.model.output["class_logits"]}
    return _probability_tensors(task, kind=task.kind)


def _class_probabilities(task, outputs, tokenized):
    if task.kind == "regression":
        return outputs
    return {"probabilities": _ACTIVATIONS[task.kind][0](outputs["class_logits"])}


def _class_logits(task, outputs, tokenized):
    if task.kind == "regression":
        return outputs
    return {"class_logits": _logits_of(outputs["probabilities"], task.kind)}


# === Relations ===


def _relation_tensors(task):
    return _probability_tensors(task, "relation_logits")


def _relation_probabilities(task, outputs, tokenized):
    return {"probabilities": softmax(outputs["relation_logits"])}


def _relation_logits(task, outputs, tokenized):
    return {"relation_logits": _logits_of(outputs["probabilities"])}


# === Choices ===


def _choice_tensors(task):
    # A number for each choice: how many there are is the app's, and so is the softmax over them.
    return {"class_logits": task.model.output["class_logits"]}


def _as_it_is(task, outputs, tokenized):
    return outputs


# === Vectors ===


def _vector_tensors(task):
    return {"embedding": task.model.output["sentence_embedding"]}  # as MediaPipe's TextEmbedder calls it


def _embedding(task, outputs, tokenized):
    return {"embedding": outputs["sentence_embedding"]}


def _sentence_embedding(task, outputs, tokenized):
    return {"sentence_embedding": outputs["embedding"]}


def _vector_metric(task, data):
    return "spearman" if data.labels.ndim == 1 else "accuracy@1"


# === Entities ===


def _tag_tensors(task):
    # Logits, for the best sequence of tags is found from them: legal tags alone, or a CRF's.
    return {"token_logits": task.model.output["token_logits"]}


# === Commands ===


def _command_tensors(task):
    return {**_probability_tensors(task), **_tag_tensors(task)}


def _intent_probabilities(task, outputs, tokenized):
    return {"probabilities": softmax(outputs["class_logits"]), "token_logits": outputs["token_logits"]}


def _intent_logits(task, outputs, tokenized):
    return {"class_logits": _logits_of(outputs["probabilities"]), "token_logits": outputs["token_logits"]}


# === Questions ===


def _span_tensors(task):
    """Start and end by themselves, as the Task Library wants them, and no answer in the question.

    The loss leaves the question out, so nothing keeps its logits down; the Task Library looks at the five best tokens
    of all. What no answer can be gets a bias, but for [CLS], whose logits speak for no answer.
    """
    import keras
    from keras import ops

    from keras_bert.model.encoder import MASK_BIAS

    inputs = {tensor.name: tensor for tensor in task.model.inputs}
    is_first = ops.cast(ops.equal(inputs["token_ids"], task.tokenizer.cls_id), "float32")
    can_be = ops.maximum(ops.cast(inputs["segment_ids"], "float32"), is_first)  # [B, T]
    penalty = (
        can_be - 1.0
    ) * MASK_BIAS  # taken off: adding it would become a BiasAdd over T, which cannot be converted
    sides = {"start_logits": 0, "end_logits": 1}
    logits = {name: task.model.output["span_logits"][..., side] - penalty for name, side in sides.items()}
    return {name: keras.layers.Identity(dtype="float32", name=name)(value) for name, value in logits.items()}


def _start_and_end(task, outputs, tokenized):
    logits = outputs["span_logits"]
    logits = logits[is_token(tokenized.lengths, logits.shape[1])]  # [tokens, 2]
    return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}


def _span_logits(task, outputs, tokenized):
    from keras_bert.model.encoder import MASK_BIAS

    both = np.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)
    return {"span_logits": in_rows(both, tokenized.lengths, fill=MASK_BIAS)}


def _outside_of_questions(tokenized):
    """[CLS] and the context, token by token."""
    _, splits, second_begins = tokenized.packed()
    places = np.arange(splits[-1]) - np.repeat(splits[:-1], tokenized.lengths)
    return (places == 0) | (places >= np.repeat(second_begins, tokenized.lengths))


def _span_score(task, outputs, data, metric):
    """With the threshold that the file has, and not with the one that would be best on this data."""
    return float(getattr(task.report(outputs, data), metric))


# === Texts ===


def _no_single_graph(task, *others):
    raise ValueError(
        f"{type(task).__name__} is two graphs in a file, one that reads and one that writes a token, so it has no "
        "outputs of its own: export.convert, load, verify and save_serving take it; what changes its model does not."
    )


_CLASSES = AppOutputs(_class_tensors, _class_probabilities, _class_logits)
_TASKS = {
    "aspect": _CLASSES,
    "classification": _CLASSES,
    "intent_slots": AppOutputs(_command_tensors, _intent_probabilities, _intent_logits),
    "multiple_choice": AppOutputs(_choice_tensors, _as_it_is, _as_it_is),
    "question_answering": AppOutputs(
        _span_tensors, _start_and_end, _span_logits, length=384, counted=_outside_of_questions, score=_span_score
    ),
    "relation": AppOutputs(_relation_tensors, _relation_probabilities, _relation_logits),
    "seq2seq": AppOutputs(_no_single_graph, _no_single_graph, _no_single_graph, writes=True),
    "similarity": AppOutputs(_vector_tensors, _embedding, _sentence_embedding, metric=_vector_metric),
    "tagging": AppOutputs(_tag_tensors, _as_it_is, _as_it_is),
}
