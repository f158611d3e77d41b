"""Datasets of the library let go at once: `tf.data`'s tuner, which sleeps for longer and longer, is in none of them."""

import keras
import pytest
import tensorflow as tf
from tiny_tasks import pretrained_directory, reviews

import keras_bert
from keras_bert.batching.datasets import filled_batches, prompt


def test_what_is_made_from_a_prompt_dataset_is_prompt_and_has_its_elements():
    dataset = prompt(tf.data.Dataset.range(5))
    for later in (dataset.take(3), dataset.map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE), dataset.repeat()):
        assert later.options().autotune.enabled is False
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_task_trains_on_prompt_datasets_alone(monkeypatch):
    seen, plain = [], keras.Model.fit

    def spy(self, data=None, *args, **options):
        for value in (data, options.get("x"), options.get("validation_data")):
            if isinstance(value, tf.data.Dataset):
                seen.append(value.options().autotune.enabled)
        return plain(self, data, *args, **options)

    monkeypatch.setattr(keras.Model, "fit", spy)
    texts, labels = reviews(24, seed=0)
    task = keras_bert.TextClassifier.from_pretrained(pretrained_directory(), labels=sorted(set(labels)))
    task.fit(texts, labels, epochs=1, verbose=0)
    assert seen and all(enabled is False for enabled in seen), seen  # None, the default, is tuned


def test_a_last_batch_is_filled_with_what_counts_nothing():
    rows = {"ids": tf.reshape(tf.range(1, 11), [5, 2])}, tf.ones([5])
    batches = list(filled_batches(tf.data.Dataset.from_tensor_slices(rows).batch(3), 3))
    assert [weights.numpy().tolist() for _, weights in batches] == [[1, 1, 1], [1, 1, 0]]
    assert batches[1][0]["ids"].numpy().tolist() == [[7, 8], [9, 10], [0, 0]]
    dataset = filled_batches(tf.data.Dataset.range(4).batch(3), 3)
    assert dataset.element_spec.shape == [3]  # known before anything is read
