"""Turns a model's outputs into answers, with NumPy only: the Keras models and the device runtime share it."""

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
