"""Arrays → answers: NumPy alone, shared by the Keras models and the device runtime.

A file for each kind of answer. A room of its own because a phone has no Keras: whatever turns numbers into answers must
stand here once, or the two would drift apart.
"""

from keras_bert.decoding.labels import (
    Label,
    choose_labels,
    inverse_sigmoid,
    mean_by_owner,
    rank_labels,
    sigmoid,
    softmax,
    sort_labels,
)

__all__ = [
    "Label",
    "choose_labels",
    "inverse_sigmoid",
    "mean_by_owner",
    "rank_labels",
    "sigmoid",
    "softmax",
    "sort_labels",
]
