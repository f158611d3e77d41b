"""Datasets of the library let go at once: `tf.data`'s tuner, which sleeps for longer and longer, is in none of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.prompt_datasets import prompt
from tests.tiny_tasks import pretrained_directory, reviews


def test_what_is_made_from_a_prompt_dataset_is_prompt_and_has_its_elements():
    dataset = prompt(tf.data.Dataset.range(5))
    for later in (dataset.take(3), dataset.map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE), dataset.repeat()):
        assert later.options().autotune.enabled is False
    assert list(dataset.as_numpy_iterator()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_tasks_hand_keras_prompt_datasets_alone(monkeypatch, method):
    seen = []
    for name in ("fit", "evaluate", "predict"):
        plain = getattr(keras.Model, name)

        def spy(self, data=None, *args, plain=plain, **options):
            for value in (data, options.get("x"), options.get("validation_data")):
                if isinstance(value, tf.data.Dataset):
                    seen.append(value.options().autotune.enabled)
            return plain(self, data, *args, **options)

        monkeypatch.setattr(keras.Model, name, spy)
    texts, labels = reviews(24, seed=0)
    task = keras_bert.TextClassifier.from_pretrained(pretrained_directory(), labels=sorted(set(labels)))
    given = {"predict": (texts,)}.get(method, (texts, labels))
    getattr(task, method)(*given, **({"epochs": 1, "verbose": 0} if method == "fit" else {}))
    assert np.all(np.array(seen) == False), seen  # noqa: E712  None is not False
    assert seen or method != "fit"
