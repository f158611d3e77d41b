"""Splits, class weights and counts of labels, against scikit-learn where it has them."""

import json
import warnings

import numpy as np
import pytest

from keras_bert.data.labelled_texts import Example, class_weights, describe_labels, stratified_split


def examples_of(labels):
    return [Example(f"text {index}", None, label, index) for index, label in enumerate(labels)]


@pytest.mark.parametrize("seed", range(5))
def test_split_has_the_shares_of_scikit_learn(seed):
    from sklearn.model_selection import train_test_split

    labels = np.random.default_rng(seed).choice(list("abcd"), size=301, p=[0.5, 0.3, 0.15, 0.05]).tolist()
    examples = examples_of(labels)
    train, held_out = stratified_split(examples, 0.2, seed=seed)
    assert sorted(train + held_out, key=lambda example: example.row) == examples
    assert len(held_out) == 60
    _, theirs = train_test_split(labels, test_size=60, stratify=labels, random_state=seed)
    for name in "abcd":
        assert abs(sum(example.label == name for example in held_out) - theirs.count(name)) <= 1


def test_split_follows_the_seed():
    examples = examples_of(["a", "b"] * 50)
    first, again, other = (stratified_split(examples, 0.3, seed=seed)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_split_of_more_classes_than_held_out_examples():
    examples = examples_of([f"intent {index % 60}" for index in range(180)])
    train, held_out = stratified_split(examples, 0.1, seed=0)
    assert len(held_out) == 18 and len({example.label for example in train}) == 60


def test_class_of_one_stays_in_training_with_a_warning():
    examples = examples_of(["a"] * 10 + ["b"] * 10 + ["rare"])
    with pytest.warns(UserWarning, match="one example: rare; kept for training"):
        train, _ = stratified_split(examples, 0.5, seed=0)
    assert "rare" in [example.label for example in train]


def test_split_of_numbers_of_several_labels_and_by_a_function():
    numbers = examples_of([float(value) for value in range(100)])
    _, held_out = stratified_split(numbers, 0.2, seed=0)
    assert [int(example.label) // 10 for example in held_out] == [tenth for tenth in range(10) for _ in range(2)]
    several = examples_of([("common",)] * 90 + [("common", "rare")] * 10)
    for seed in range(5):
        _, held_out = stratified_split(several, 0.2, seed=seed)
        assert sum("rare" in example.label for example in held_out) == 2
    _, held_out = stratified_split(range(100), 0.1, seed=0, by=lambda value: value % 2)
    assert sum(value % 2 for value in held_out) == 5


@pytest.mark.parametrize("share", [0, 1, -0.1, 0.01])
def test_split_that_leaves_a_part_empty(share):
    with pytest.raises(ValueError, match="share="):
        stratified_split(examples_of(["a"] * 5), share, seed=0)


def test_class_weights_are_scikit_learns():
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.random.default_rng(0).choice(list("xyz"), size=97, p=[0.7, 0.2, 0.1]).tolist()
    theirs = compute_class_weight("balanced", classes=np.array(list("xyz")), y=labels)
    assert class_weights(labels) == pytest.approx(dict(zip("xyz", theirs, strict=True)), abs=1e-12)
    assert class_weights(examples_of(labels)) == class_weights(labels)
    for useless in ([], [1.0, 2.0], [("a", "b")], ["a", None]):
        with pytest.raises(ValueError, match="one class for every example"):
            class_weights(useless)


def test_describe_labels():
    summary = describe_labels(["a", "b", "a", None])
    assert summary.counts == (("a", 2), ("b", 1)) and summary.single == ("b",) and summary.unlabelled == 1
    assert str(summary).splitlines()[1].split() == ["a", "2", "66.7%"]
    assert describe_labels([("a", "b"), ("a",), ()]).counts == (("a", 2), ("b", 1))
    assert str(describe_labels([0.0, 5.0, 1.0])).endswith("from 0 to 5, mean 2.000")
    assert describe_labels([]).kind == "none"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "and 5 more" in str(describe_labels([str(index) for index in range(25)] * 2))
    json.dumps(summary.to_dict())
