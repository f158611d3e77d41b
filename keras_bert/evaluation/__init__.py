"""Measures predictions: reports, tables and pictures."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "calibration_report": "confidence",
    "fit_temperature": "confidence",
    "plot_reliability": "confidence",
    "scaled_probabilities": "confidence",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
