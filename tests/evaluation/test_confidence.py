"""Calibration: ECE by hand and by a plain loop, temperatures that are known, and what is refused."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq

from keras_bert.evaluation.confidence import (
    calibration_report,
    expected_calibration_error,
    fit_temperature,
    plot_reliability,
    scaled_probabilities,
)


def drawn_from(logits, temperature, seed):
    """Labels drawn from the probabilities that the logits have at a temperature."""
    probabilities = scaled_probabilities(logits, temperature)
    draws = np.random.default_rng(seed).random((len(logits), 1))
    return np.minimum((draws > probabilities.cumsum(axis=1)).sum(axis=1), logits.shape[1] - 1)


def test_ece_by_hand():
    probabilities = np.array([[0.95, 0.05], [0.05, 0.95], [0.95, 0.05], [0.62, 0.38], [0.36, 0.64]])
    labels = [0, 1, 1, 0, 0]
    # Bin (14/15, 1]: three, two right, 0.95 sure. Bin (9/15, 10/15]: two, one right, 0.63 sure.
    expected = 3 / 5 * abs(2 / 3 - 0.95) + 2 / 5 * abs(1 / 2 - 0.63)
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected, abs=1e-12)
    # One bin: accuracy 3/5, mean confidence 4.11/5.
    assert expected_calibration_error(probabilities, labels, bins=1) == pytest.approx(4.11 / 5 - 3 / 5, abs=1e-12)


def test_bins_are_closed_on_the_right():
    report = calibration_report(np.log([[0.8, 0.2], [0.75, 0.25], [0.5, 0.5]]), [0, 1, 0], temperature=1.0, bins=4)
    assert [part.count for part in report.before.bins] == [0, 1, 1, 1]
    sure = expected_calibration_error(np.array([[1.0, 0.0], [1.0, 0.0]]), [0, 1])
    assert sure == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_ece_is_that_of_a_plain_loop(seed):
    generator = np.random.default_rng(seed)
    probabilities = scaled_probabilities(generator.normal(size=(300, 4)) * 2, 1.0)
    labels = generator.integers(0, 4, 300)
    expected = 0.0
    for low in range(15):
        rows = [row for row in range(300) if low / 15 < max(probabilities[row]) <= (low + 1) / 15]
        if rows:
            accuracy = sum(int(np.argmax(probabilities[row])) == labels[row] for row in rows) / len(rows)
            expected += len(rows) / 300 * abs(accuracy - sum(max(probabilities[row]) for row in rows) / len(rows))
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected, abs=1e-12)


def test_temperature_in_closed_form():
    # Right in three of four with a margin of 4: the best probability is 3/4, so 4 / T = log 3.
    assert fit_temperature(np.array([[4.0, 0.0]] * 4), [0, 0, 0, 1]) == pytest.approx(4 / np.log(3), rel=1e-5)


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 3.0])
def test_temperature_is_found_again(true_temperature):
    logits = np.random.default_rng(1).normal(size=(20_000, 5)) * 3
    labels = drawn_from(logits, true_temperature, seed=2)
    temperature = fit_temperature(logits, labels)
    assert temperature == pytest.approx(true_temperature, rel=0.03)  # the noise of 20,000 draws
    chosen = logits[np.arange(len(labels)), labels]

    def slope(inverse):  # of the likelihood: mean logit under the model minus mean logit of the labels
        return np.mean(np.sum(scaled_probabilities(logits, 1 / inverse) * logits, axis=1) - chosen)

    assert temperature == pytest.approx(1 / brentq(slope, 0.05, 20), rel=1e-5)


def test_report_before_and_after():
    logits = np.random.default_rng(3).normal(size=(4000, 3)) * 5
    labels = drawn_from(logits, 2.5, seed=4)
    temperature = fit_temperature(logits[:2000], labels[:2000])
    report = calibration_report(logits[2000:], labels[2000:], temperature=temperature)
    assert report.before.accuracy == report.after.accuracy == np.mean(logits[2000:].argmax(1) == labels[2000:])
    assert report.after.ece < 0.03 < 0.1 < report.before.ece
    assert report.after.nll < report.before.nll and report.after.brier < report.before.brier
    assert report.notes == ()
    probabilities = scaled_probabilities(logits[2000:], temperature)
    assert report.after.ece == expected_calibration_error(probabilities, labels[2000:])
    assert sum(part.count for part in report.after.bins) == report.count == 2000
    assert "fitted on these examples" in str(calibration_report(logits, labels))
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["temperature"] == temperature


def test_nothing_to_fit_stands_at_a_bound():
    logits = np.array([[3.0, 0.0], [0.0, 2.0]])
    assert fit_temperature(logits, [0, 1]) == pytest.approx(0.01)
    assert fit_temperature(logits, [1, 0]) == pytest.approx(100.0)
    assert "is at its bound" in str(calibration_report(logits, [1, 0]))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0, int), "at least one example and two classes"),
        (np.zeros((2, 1)), [0, 0], "at least one example and two classes"),
        (np.zeros((2, 2)), [0], r"shape \(2, 2\) and the labels \(1,\)"),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), [0, 1], "NaN or infinity in 1 rows, the first at 1"),
        (np.zeros((2, 2)), [0, 2], "class numbers from 0 to 1"),
        (np.zeros((2, 2)), [0.0, 1.0], "class numbers from 0 to 1"),
    ],
)
def test_clear_errors(logits, labels, message):
    for function in (fit_temperature, calibration_report, expected_calibration_error):
        with pytest.raises(ValueError, match=message):
            function(logits, labels)


def test_logits_are_no_probabilities():
    with pytest.raises(ValueError, match=r"For logits pass softmax\(logits\)"):
        expected_calibration_error(np.array([[3.0, -2.0]]), [0])
    with pytest.raises(ValueError, match="temperature=0: expected a number above 0"):
        scaled_probabilities(np.zeros((1, 2)), 0)
    with pytest.raises(ValueError, match="bins=0"):
        expected_calibration_error(np.array([[0.5, 0.5]]), [0], bins=0)


def test_picture(tmp_path):
    from matplotlib.image import imread

    logits = np.random.default_rng(0).normal(size=(200, 3)) * 4
    path = plot_reliability(
        calibration_report(logits, drawn_from(logits, 2.0, seed=1)), tmp_path / "a" / "reliability.png"
    )
    picture = imread(path)
    assert picture.shape[0] > 600 and picture.shape[1] > 1000 and picture[..., :3].std() > 0.1
