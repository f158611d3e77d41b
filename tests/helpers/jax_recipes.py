"""Recipes, resuming, attributions and writing, on whichever backend; prints JSON.

KERAS_BACKEND=jax python tests/helpers/jax_recipes.py DIRECTORY
"""

import contextlib
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from every_task import CORPUS, LABELS

import keras_bert
from keras_bert import visualize

TEXTS = ["the film was very good", "a dull plot", "the cast is fine", "very bad train", "a good plot"] * 3
GIVEN = [LABELS[index % 3] for index in range(15)]
FAST = {"batch_size": 4, "epochs": 1, "verbose": 0, "learning_rate": 2e-3}


def opened():
    """The classifier of the corpus."""
    return keras_bert.load_task(CORPUS / "classification")


class Kill(keras.callbacks.Callback):
    """Ends a run before its second epoch, as a lost machine would."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise RuntimeError("killed")


def resumed(directory):
    """The largest difference between a run that was killed and one that was not."""
    options = {**FAST, "epochs": 3, "validation_data": (TEXTS, GIVEN)}
    whole, other = opened(), opened()
    whole.fit(TEXTS, GIVEN, **options)
    with contextlib.suppress(RuntimeError):
        other.fit(TEXTS, GIVEN, directory=directory, callbacks=[Kill()], **options)
    other = opened()
    other.fit(TEXTS, GIVEN, directory=directory, **options)
    return float(np.abs(whole.logits(TEXTS) - other.logits(TEXTS)).max())


def moved(**changes):
    """How far a recipe moves the logits; the task that comes out is a plain one."""
    task, before = opened(), opened().logits(TEXTS)
    task.fit(TEXTS, GIVEN, validation_data=(TEXTS, GIVEN), **{**FAST, **changes})
    assert all("lora" not in weight.path for weight in task.model.weights)
    return float(np.abs(task.logits(TEXTS) - before).max())


def writings():
    """Texts of the writer, token by token, by beams and greedily."""
    writer, text = keras_bert.load_task(CORPUS / "seq2seq"), "the film was very good"
    greedy = writer.predict([text, "a dull plot", "the train"])
    return {
        "stream is greedy": "".join(writer.stream(text)).strip() == greedy[0],
        "beams": writer.predict([text], sampler="beam", num_beams=2, min_length=2),
        "sampled twice": len({writer.predict([text], sampler="random", seed=3)[0] for _ in range(2)}),
    }


def main(directory):
    explained = visualize.attributions(opened(), "the film was very good")
    result = {
        "resumed": resumed(Path(directory) / "state"),
        "lora": moved(recipe="lora", learning_rate=2e-2),
        "layers": moved(layer_decay=0.5),
        "mixout": moved(mixout=0.5),
        "few_sample": moved(recipe="few_sample", epochs=1, head_epochs=1),
        "attributions": abs(explained.gap),
        "writing": writings(),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
