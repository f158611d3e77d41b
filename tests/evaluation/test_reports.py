"""Reports against scikit-learn and SciPy on random cases, and what they say where a number is not defined."""

import json
import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from keras_bert.evaluation.reports import classification_report, multilabel_report, plot_confusion, regression_report

ROUNDING = 1e-12


def random_classes(seed, classes, size=200):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, size)
    guesses = generator.integers(0, classes, size)
    return (
        labels,
        np.where(generator.random(size) < 0.6, labels, guesses),
        [f"class {index}" for index in range(classes)],
    )


# === Classification ===


@pytest.mark.parametrize(("seed", "classes"), [(0, 2), (1, 3), (2, 7), (3, 40)])
def test_classification_is_scikit_learns(seed, classes):
    labels, found, names = random_classes(seed, classes)
    report = classification_report(labels, found, names=names)
    theirs = sklearn_metrics.classification_report(
        labels, found, labels=range(classes), target_names=names, output_dict=True, zero_division=0.0
    )
    assert report.accuracy == pytest.approx(sklearn_metrics.accuracy_score(labels, found), abs=ROUNDING)
    assert report.matthews == pytest.approx(sklearn_metrics.matthews_corrcoef(labels, found), abs=ROUNDING)
    assert np.array_equal(report.confusion, sklearn_metrics.confusion_matrix(labels, found, labels=range(classes)))
    assert report.names == tuple(names)
    named = [*((scores.name, scores) for scores in report.classes)]
    for name, scores in [*named, ("macro avg", report.macro), ("weighted avg", report.weighted)]:
        expected = theirs[name]["precision"], theirs[name]["recall"], theirs[name]["f1-score"]
        assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected, abs=ROUNDING)
    assert [scores.support for scores in report.classes] == np.bincount(labels, minlength=classes).tolist()
    assert report.micro.f1 == pytest.approx(report.accuracy, abs=ROUNDING)


def test_names_numbers_and_scores_are_the_same_report():
    labels, found, names = random_classes(5, 3, size=40)
    expected = classification_report(labels, found, names=names)
    words = [names[index] for index in labels], [names[index] for index in found]
    assert classification_report(*words, names=names) == expected
    assert classification_report(*words) == expected
    assert classification_report(np.array(words[0]), np.array(words[1], dtype=object), names=names) == expected
    assert classification_report(labels, np.eye(3)[found] * 4.0 - 2.0, names=names) == expected
    assert classification_report(labels.tolist(), found.astype(float), names=names) == expected


def test_macro_leaves_out_a_class_that_does_not_occur():
    report = classification_report(["a", "b"], ["a", "b"], names=["a", "b", "c"])
    assert report.macro.f1 == 1.0
    assert report.notes == ("no example of: c",)


def test_one_class_only_is_said():
    report = classification_report(["a"] * 4, ["a"] * 4, names=["a", "b"])
    assert (report.accuracy, report.matthews) == (1.0, 0.0)
    assert report.notes[0] == "all labels are 'a': Matthews is undefined and given as 0"
    assert classification_report(["a"], ["a"], names=["a"]).accuracy == 1.0
    report = classification_report(["a", "b"], ["b", "b"], names=["a", "b"])
    assert report.matthews == 0.0 and "all predictions are 'b'" in str(report)


@pytest.mark.parametrize(
    ("labels", "found", "names", "message"),
    [
        ([], [], ["a"], "0 labels and 0 predictions"),
        (["a"], ["a", "a"], ["a"], "1 labels and 2 predictions"),
        (["a"], ["x"], ["a", "b"], r"predictions\[0\] is 'x', which is not among the names \['a', 'b'\]"),
        (["a", None], ["a", "a"], ["a"], "expected class names, class numbers or scores"),
        ([0, 2], [0, 1], ["a", "b"], r"labels\[1\] is class 2, but there are 2 names"),
        ([0, 1], [0, -1], ["a", "b"], r"predictions\[1\] is class -1"),
        ([0, 1], [0.0, math.nan], ["a", "b"], "predictions have NaN or infinity in 1 rows, the first at 1"),
        ([0, 1], [[0.1, 0.2], [math.nan, math.nan]], ["a", "b"], "the first at 1: the model has diverged"),
        ([0, 1], [0.3, 0.7], ["a", "b"], "expected one class for each example or scores"),
        ([0, 1], [[1, 2, 3], [1, 2, 3]], ["a", "b"], r"shape \(2, 3\)"),
        ([0, 1], [0, 1], None, "Class numbers need names"),
        ([0, 1], [0, 1], ["a", "a"], "expected every class once"),
    ],
)
def test_clear_errors(labels, found, names, message):
    with pytest.raises(ValueError, match=message):
        classification_report(labels, found, names=names)


def test_table():
    report = classification_report(["no", "no", "yes", "no"], ["no", "yes", "yes", "no"], names=["no", "yes"])
    lines = str(report).splitlines()
    assert lines[0] == "accuracy 0.7500 · Matthews 0.5774 · 4 examples"
    assert lines[3].split() == ["no", "1.0000", "0.6667", "0.8000", "3"]
    assert lines[-3:] == ["true \\ predicted  no  yes", "no                 2    1", "yes                0    1"]
    labels, found, names = random_classes(0, 30)
    assert "true \\ predicted" not in str(classification_report(labels, found, names=names))


def test_reports_become_json():
    labels, found, names = random_classes(0, 3)
    report = classification_report(labels, found, names=names)
    stored = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert stored["accuracy"] == report.accuracy and stored["classes"][1]["name"] == "class 1"
    assert stored["confusion"] == [list(row) for row in report.confusion]
    stored = json.loads(json.dumps(regression_report([1, 2], [3, 3]).to_dict(), allow_nan=False))
    assert stored["pearson"] is None and stored["mse"] == 2.5


def test_reports_are_frozen():
    report = classification_report(["a"], ["a"])
    with pytest.raises(AttributeError):
        report.accuracy = 0.0
    assert hash(report) == hash(classification_report(["a"], ["a"]))


@pytest.mark.parametrize("classes", [2, 9, 60])
def test_picture_grows_with_the_classes(tmp_path, classes):
    from matplotlib.image import imread

    labels, found, names = random_classes(0, classes, size=50_000 if classes == 2 else 400)
    path = plot_confusion(classification_report(labels, found, names=names), tmp_path / "new" / "confusion.png")
    picture = imread(path)
    assert min(picture.shape[:2]) >= 45 * classes  # pixels: a cell that can hold two digits
    assert max(picture.shape[:2]) <= 4000
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (border[:, :3] == 1).all(), "something is cut off at the edge"


# === Several labels ===


@pytest.mark.parametrize("seed", range(4))
def test_multilabel_is_scikit_learns(seed):
    generator = np.random.default_rng(seed)
    labels = (generator.random((120, 5)) < 0.3).astype(int)
    found = np.where(generator.random((120, 5)) < 0.8, labels, 1 - labels)
    names = list("vwxyz")
    report = multilabel_report(labels, found.astype(bool), names=names)
    assert report.subset_accuracy == pytest.approx(sklearn_metrics.accuracy_score(labels, found), abs=ROUNDING)
    for average in ("micro", "macro", "weighted"):
        expected = sklearn_metrics.precision_recall_fscore_support(labels, found, average=average, zero_division=0.0)
        scores = getattr(report, average)
        assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected[:3], abs=ROUNDING)
    as_names = [tuple(names[index] for index in np.flatnonzero(row)) for row in labels]
    assert multilabel_report(as_names, found.tolist(), names=names) == report


def test_multilabel_without_any_label():
    report = multilabel_report([(), ()], [(), ()], names=["a", "b"])
    assert report.subset_accuracy == 1.0 and report.micro.f1 == 0.0
    assert "no label was predicted for any text" in report.notes
    assert "left out of macro: a, b" in str(report)


@pytest.mark.parametrize(
    ("labels", "found", "message"),
    [
        ([], [], "at least one"),
        ([("a",)], [(), ()], "1 labels and 2 predictions"),
        ([("a",)], [("c",)], r"predictions\[0\] holds 'c'"),
        (["a"], [("a",)], r"labels\[0\] is 'a', expected a collection of names such as \('a',\)"),
        ([("a",)], [[0.4, 0.9]], r"pass `probabilities >= 0.5`"),
        ([("a",)], np.zeros((1, 3)), r"shape \(1, 3\); expected \[examples, 2\]"),
    ],
)
def test_multilabel_clear_errors(labels, found, message):
    with pytest.raises(ValueError, match=message):
        multilabel_report(labels, found, names=["a", "b"])


# === Numbers ===


@pytest.mark.parametrize("seed", range(4))
def test_regression_is_scipys(seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 6, 90).astype(float)
    found = labels + generator.normal(size=90)
    report = regression_report(labels, found[:, None])
    assert report.pearson == pytest.approx(stats.pearsonr(labels, found).statistic, abs=ROUNDING)
    assert report.spearman == pytest.approx(stats.spearmanr(labels, found).statistic, abs=ROUNDING)
    assert report.mse == pytest.approx(sklearn_metrics.mean_squared_error(labels, found), abs=ROUNDING)


def test_regression_that_is_not_defined():
    report = regression_report([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
    assert math.isnan(report.pearson) and math.isnan(report.spearman) and report.mse == pytest.approx(2 / 3)
    assert report.notes == ("all predictions are the same: correlations are undefined",)
    assert math.isnan(regression_report([1.0], [2.0]).pearson)
    nearly = regression_report([1.0, 2.0, 3.0], [1.0, 1.0 + 1e-15, 1.0])
    assert "nearly constant" in str(nearly)
    for labels, found, message in (
        ([], [], "at least one"),
        ([1.0], [math.nan], "predictions have 1 values that are NaN"),
        ([1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], "expected one number for each example"),
        ([1.0, 2.0], [1.0], "2 labels and 1 predictions"),
    ):
        with pytest.raises(ValueError, match=message):
            regression_report(labels, found)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.metrics", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bert-edge\[evaluate\]"'):
        classification_report(["a"], ["a"])
