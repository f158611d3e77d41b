"""Arrays to answers."""

import numpy as np
import pytest

from keras_bert.decoding import Label, choose_labels, inverse_sigmoid, mean_by_owner, rank_labels, sigmoid, softmax


def test_softmax_is_stable_and_sums_to_one():
    probabilities = softmax(np.array([[1000.0, 1000.0], [0.0, np.log(3)]]))
    np.testing.assert_allclose(probabilities, [[0.5, 0.5], [0.25, 0.75]])


def test_labels_come_likeliest_first():
    ranked = rank_labels(np.log([0.2, 0.5, 0.3]), ["a", "b", "c"])
    assert [label.name for label in ranked] == ["b", "c", "a"]
    np.testing.assert_allclose([label.probability for label in ranked], [0.5, 0.3, 0.2])
    assert str(Label("b", 0.5)) == "b (50%)"


def test_wrong_number_of_labels_is_named():
    with pytest.raises(ValueError, match=r"shape \(3,\), but there are 2 labels"):
        rank_labels(np.zeros(3), ["a", "b"])


def test_sigmoid_is_undone_as_far_as_float32_goes():
    logits = np.array([-15.0, -3.0, 0.0, 10.0])
    np.testing.assert_allclose(inverse_sigmoid(sigmoid(logits)), logits, rtol=1e-6)
    # What has become 1 is not taken for a certainty that outweighs every other window.
    assert 16 < inverse_sigmoid(np.float32([1.0]))[0] < 17


def test_of_several_labels_those_over_the_threshold():
    chosen = choose_labels(np.array([0.5, 0.49, 0.9]), ["a", "b", "c"])
    assert [label.name for label in chosen] == ["c", "a"]
    assert choose_labels(np.array([0.1]), ["a"]) == []


def test_windows_are_averaged_by_their_text():
    values = np.array([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]])
    np.testing.assert_allclose(mean_by_owner(values, np.array([0, 0, 1])), [[2.0, 1.0], [5.0, 5.0]])
    assert mean_by_owner(values, np.arange(3)) is values
