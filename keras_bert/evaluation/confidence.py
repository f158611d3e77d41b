"""Measures whether a model's confidence is right, and fits the temperature that corrects it (Guo et al. 2017).

Takes logits and labels, and gives a report and a picture. It needs SciPy and Matplotlib (extra `evaluate`).

The expected calibration error (ECE): the confidence of a prediction is its highest probability. The range from 0 to 1
is divided into 15 bins of equal width, `(b/15, (b+1)/15]`. In each bin the share of right predictions is compared with
the mean confidence. The ECE is the mean of the absolute differences, weighted by the number of predictions in a bin.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.decoding import softmax
from keras_bert.evaluation.extras import evaluation_module, new_figure, save_figure

__all__ = [
    "Bin",
    "Calibration",
    "CalibrationReport",
    "calibration_report",
    "expected_calibration_error",
    "fit_temperature",
    "plot_reliability",
    "scaled_probabilities",
]

BINS = 15
# At these bounds there is nothing to fit: all answers are right, or they are no better than chance.
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0


# === Values ===


@dataclass(frozen=True)
class Bin:
    """The predictions with a confidence in `(low, high]`."""

    low: float
    high: float
    count: int
    accuracy: float  # 0 if count is 0
    confidence: float


@dataclass(frozen=True)
class Calibration:
    """How well the probabilities of a model agree with the labels."""

    ece: float
    nll: float
    brier: float  # the mean of the squared differences, summed over classes: 0 to 2
    accuracy: float
    confidence: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class CalibrationReport:
    """The confidence of a model, before and after scaling by a temperature; prints as a table."""

    count: int
    temperature: float
    before: Calibration
    after: Calibration
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"temperature {self.temperature:.4f} · {self.count:,} examples", "", f"{'':<12}  before   after"]
        for field in ("ece", "nll", "brier", "confidence", "accuracy"):
            lines.append(f"{field:<12}  {getattr(self.before, field):6.4f}  {getattr(self.after, field):6.4f}")
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, "", *notes] if notes else lines)


# === Measuring ===


def expected_calibration_error(
    probabilities: np.ndarray, labels: Sequence[int] | np.ndarray, *, bins: int = BINS
) -> float:
    """Return the expected calibration error, as this module's docstring defines it.

    Args:
        probabilities: `[examples, classes]`; each row has the sum 1.
        labels: The true class numbers.
        bins: The number of bins of equal width.

    Example:
        >>> round(expected_calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), [0, 1]), 3)
        0.4
    """
    probabilities, labels = _checked(probabilities, labels, "probabilities")
    if (probabilities < 0).any() or not np.allclose(probabilities.sum(axis=1), 1, atol=1e-3):
        raise ValueError(
            "The probabilities are negative or their sum is not 1; expected rows with the sum 1. For logits pass "
            "softmax(logits)."
        )
    return _ece(_bins(probabilities, labels, bins))


def scaled_probabilities(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Return the probabilities of logits divided by a temperature; one above 1 makes a model less confident.

    Args:
        logits: `[..., classes]`.
        temperature: The result of `fit_temperature`.

    Example:
        >>> scaled_probabilities(np.array([0.0, np.log(16.0)]), 2.0).round(3).tolist()
        [0.2, 0.8]
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature}: expected a number above 0.")
    return softmax(np.asarray(logits, dtype=np.float64) / temperature)


def fit_temperature(logits: np.ndarray, labels: Sequence[int] | np.ndarray) -> float:
    """Return the temperature with the lowest negative log-likelihood. It changes no answer, only the confidence.

    The loss is convex in `1 / temperature`, so there is one minimum. If it lies beyond 0.01 or 100 (all answers are
    right, or they are no better than chance), that bound is returned.

    Args:
        logits: `[examples, classes]`, of examples that the model was not trained on.
        labels: The true class numbers.

    Example:
        >>> logits = np.array([[4.0, 0.0]] * 4)
        >>> round(fit_temperature(logits, [0, 0, 0, 1]), 3)  # 4 / log(3): right in three of four
        3.641
    """
    logits, labels = _checked(logits, labels, "logits")
    optimize = evaluation_module("scipy.optimize")
    bounds = (np.log(LOWEST_TEMPERATURE), np.log(HIGHEST_TEMPERATURE))
    found = optimize.minimize_scalar(
        lambda log_temperature: _nll(logits / np.exp(log_temperature), labels),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-8},
    )
    # The bounded search never quite reaches its bounds.
    ends = {bound: _nll(logits / np.exp(bound), labels) for bound in bounds}
    best = min(ends, key=lambda bound: ends[bound])
    return float(np.exp(best if ends[best] <= found.fun else found.x))


def calibration_report(
    logits: np.ndarray, labels: Sequence[int] | np.ndarray, *, temperature: float | None = None, bins: int = BINS
) -> CalibrationReport:
    """Measure the confidence of a model before and after scaling by a temperature.

    Args:
        logits: `[examples, classes]`.
        labels: The true class numbers.
        temperature: The result of `fit_temperature` on other examples. `None` fits it on these, which gives too good a
            result.
        bins: The number of bins of equal width.

    Example:
        >>> report = calibration_report(np.array([[4.0, 0.0]] * 4), [0, 0, 0, 1])
        >>> round(report.before.ece, 3), round(report.after.ece, 3)
        (0.232, 0.0)
    """
    logits, labels = _checked(logits, labels, "logits")
    notes = []
    if temperature is None:
        temperature = fit_temperature(logits, labels)
        notes.append("the temperature was fitted on these examples: measure it on others")
    if temperature <= LOWEST_TEMPERATURE or temperature >= HIGHEST_TEMPERATURE:
        notes.append("the temperature is at its bound: all answers are right, or they are no better than chance")
    before, after = (_calibration(logits / scale, labels, bins) for scale in (1.0, temperature))
    return CalibrationReport(len(labels), float(temperature), before, after, tuple(notes))


def _checked(values: np.ndarray, labels: Sequence[int] | np.ndarray, role: str) -> tuple[np.ndarray, np.ndarray]:
    values, labels = np.asarray(values, dtype=np.float64), np.asarray(labels)
    if values.ndim != 2 or values.shape[1] < 2 or len(values) == 0 or labels.shape != values.shape[:1]:
        raise ValueError(
            f"The {role} have shape {values.shape} and the labels {labels.shape}; expected [examples, classes] and "
            "[examples], with at least one example and two classes."
        )
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise ValueError(
            f"The {role} have NaN or infinity in {len(bad)} rows, the first at {bad[0]}; expected finite numbers."
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= values.shape[1]:
        raise ValueError(
            f"The labels are {labels[:5].tolist()} …; expected class numbers from 0 to {values.shape[1] - 1}."
        )
    return values, labels


def _nll(logits: np.ndarray, labels: np.ndarray) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    return float(np.mean(log_sums - shifted[np.arange(len(labels)), labels]))


def _calibration(logits: np.ndarray, labels: np.ndarray, bins: int) -> Calibration:
    probabilities = softmax(logits)
    filled = _bins(probabilities, labels, bins)
    return Calibration(
        ece=_ece(filled),
        nll=_nll(logits, labels),
        brier=float(np.mean(np.sum((probabilities - np.eye(logits.shape[1])[labels]) ** 2, axis=1))),
        accuracy=float(np.mean(logits.argmax(axis=1) == labels)),
        confidence=float(np.mean(probabilities.max(axis=1))),
        bins=filled,
    )


def _bins(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> tuple[Bin, ...]:
    if bins < 1:
        raise ValueError(f"bins={bins}: expected at least 1.")
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    edges = np.linspace(0, 1, bins + 1)
    places = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    filled = []
    for index in range(bins):
        inside = places == index
        means = (float(right[inside].mean()), float(confidence[inside].mean())) if inside.any() else (0.0, 0.0)
        filled.append(Bin(float(edges[index]), float(edges[index + 1]), int(inside.sum()), *means))
    return tuple(filled)


def _ece(bins: Sequence[Bin]) -> float:
    total = sum(part.count for part in bins)
    return float(sum(part.count * abs(part.accuracy - part.confidence) for part in bins) / total)


# === Picture ===


def plot_reliability(report: CalibrationReport, path: str | os.PathLike[str]) -> Path:
    """Draw accuracy over confidence, before and after scaling, as PNG.

    A model whose confidence is right lies on the diagonal. Below each diagram is the number of predictions in each bin.

    Args:
        report: The result of `calibration_report`.
        path: The file to write.

    Example:
        >>> plot_reliability(report, "reliability.png")  # doctest: +SKIP
        PosixPath('reliability.png')
    """
    figure = new_figure(8.5, 5.2)
    grid = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
    states = (("before", report.before), (f"after, temperature {report.temperature:.2f}", report.after))
    for column, (name, state) in enumerate(states):
        filled = [part for part in state.bins if part.count]
        centres = [(part.low + part.high) / 2 for part in filled]
        width = state.bins[0].high - state.bins[0].low
        upper, lower = grid[0, column], grid[1, column]
        upper.bar(
            centres, [part.accuracy for part in filled], width, color="#4878a8", edgecolor="white", label="accuracy"
        )
        upper.plot([part.confidence for part in filled], [part.accuracy for part in filled], "o", color="#c44e52", ms=4)
        upper.plot([0, 1], [0, 1], "--", color="0.4", linewidth=1)
        upper.set(xlim=(0, 1), ylim=(0, 1), title=f"{name}\nECE {state.ece:.3f}, NLL {state.nll:.3f}")
        lower.bar(centres, [part.count for part in filled], width, color="0.6", edgecolor="white")
        lower.set_xlabel("confidence")
    grid[0, 0].set_ylabel("accuracy")
    grid[1, 0].set_ylabel("examples")
    return save_figure(figure, path)
