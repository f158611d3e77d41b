"""Arrays to answers."""

import numpy as np
import pytest

from keras_bert.decoding import Label, rank_labels, softmax


def test_softmax_is_stable_and_sums_to_one():
    probabilities = softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3)]]))
    np.testing.assert_allclose(probabilities, [[0.5, 0.5], [0.25, 0.75]])


def test_labels_come_likeliest_first():
    ranked = rank_labels(np.log([0.2, 0.5, 0.3]), ["a", "b", "c"])
    assert [label.name for label in ranked] == ["b", "c", "a"]
    np.testing.assert_allclose([label.probability for label in ranked], [0.5, 0.3, 0.2])
    assert str(Label("b", 0.5)) == "b (50%)"


def test_wrong_number_of_labels_is_named():
    with pytest.raises(ValueError, match=r"shape \(3,\) but there are 2 labels"):
        rank_labels(np.zeros(3), ["a", "b"])
