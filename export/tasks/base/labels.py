"""What tasks share whose file gives probabilities of labels: tensors, logits and answers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from export.tasks.base.reader import check_width
from export.tasks.base.served_file import Columns
from keras_bert.decoding import Label, inverse_sigmoid, mean_by_owner, sigmoid, softmax, sort_labels

# MediaPipe and the Task Library show the scores of the file, so the activation is in the graph.
_ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "single_label": (softmax, np.log),
    "multi_label": (sigmoid, inverse_sigmoid),
}


# === Outputs of the file ===


def probability_tensors(task: Any, output: str, kind: str = "single_label") -> dict[str, Any]:
    """Build the Keras tensor `probabilities` from one of the model's outputs.

    Args:
        task: The task.
        output: The name of the logits.
        kind: `"single_label"` takes softmax, `"multi_label"` sigmoid.
    """
    import keras

    activation = keras.layers.Activation(_ACTIVATIONS[kind][0].__name__, dtype="float32", name="probabilities")
    return {"probabilities": activation(task.model.output[output])}


def probabilities_of(logits: np.ndarray, kind: str = "single_label") -> np.ndarray:
    """Turn logits into probabilities in NumPy.

    Example:
        >>> probabilities_of(np.array([[0.0, 0.0]])).tolist()
        [[0.5, 0.5]]
    """
    return _ACTIVATIONS[kind][0](logits)


def logits_of(probabilities: np.ndarray, kind: str = "single_label") -> np.ndarray:
    """Turn probabilities into logits, up to a constant for each row, which no answer depends on."""
    return _ACTIVATIONS[kind][1](np.maximum(probabilities, np.finfo("float32").tiny))


# === Answers ===


def ranked_labels(probabilities: np.ndarray, labels: Sequence[str], owners: np.ndarray) -> list[list[Label]]:
    """Rank all labels of each text, the likeliest first.

    A text with several windows gets the mean of their logits, as in Keras. The logits are known up to a constant for
    each window, which the final softmax cancels.

    Example:
        >>> str(ranked_labels(np.array([[0.9, 0.1], [0.5, 0.5]]), ["no", "yes"], np.array([0, 0]))[0][0])
        'no (75%)'
    """
    return [sort_labels(row, labels) for row in text_probabilities(probabilities, labels, owners)]


def text_probabilities(probabilities: np.ndarray, labels: Sequence[str], owners: np.ndarray) -> np.ndarray:
    """The probabilities of each text from those of its windows, `[texts, C]`.

    Example:
        >>> text_probabilities(np.array([[0.9, 0.1], [0.5, 0.5]]), ["no", "yes"], np.array([0, 0])).tolist()
        [[0.75, 0.25]]
    """
    probabilities = np.asarray(probabilities, np.float64)
    check_width("probabilities", probabilities, labels)
    return softmax(mean_by_owner(np.log(probabilities + np.finfo(np.float32).tiny), owners))


def label_columns(probabilities: np.ndarray, labels: Sequence[str]) -> Columns:
    """The answers of a server about labels, from `[texts, C]`.

    Example:
        >>> label_columns(np.array([[0.25, 0.75]]), ["no", "yes"])["label"]
        ['yes']
    """
    probabilities = np.asarray(probabilities, np.float32)
    return {
        "label": [labels[best] for best in probabilities.argmax(axis=-1)],
        "probability": list(probabilities.max(axis=-1)) if len(probabilities) else [],
        "probabilities": list(probabilities),
    }


def share_of_same_labels(answers: list[Any], others: list[Any], *, count: int | None = 1) -> float:
    """The share of texts with the same best label, or with all labels the same if `count=None`."""
    names = [[{label.name for label in answer[:count]} for answer in part] for part in (answers, others)]
    return float(np.mean([ours == theirs for ours, theirs in zip(*names, strict=True)]))
