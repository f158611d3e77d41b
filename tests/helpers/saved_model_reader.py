"""Reads a SavedModel in a process of its own, with neither Keras nor keras_bert: `saved_model_reader.py JOB.json`.

The job has the directory and, for each signature, the inputs. It is done twice: by tf.saved_model.load, and by the
session loader of TF 1, which restores variables as a server does. Prints the outputs as JSON on the last line.
"""

import importlib.util
import json
import sys
from pathlib import Path

for absent in ("keras", "tf_keras", "keras_bert", "export"):
    sys.modules[absent] = None  # importing one is an error; TensorFlow would import Keras if it could

import tensorflow as tf  # noqa: E402


def main(job):
    # Not `import tensorflow_text`, which imports Keras for its layers.
    text_ops = Path(importlib.util.find_spec("tensorflow_text").origin).parent / "python" / "ops"
    for name in ("_fast_bert_normalizer.so", "_fast_wordpiece_tokenizer.so"):
        tf.load_op_library(str(text_ops / name))
    loaders = {"load": run_loaded, "session": run_session}
    print(json.dumps({name: run(job["directory"], job["requests"]) for name, run in loaders.items()}))


def run_loaded(directory, requests):
    signatures = tf.saved_model.load(directory).signatures
    answers = {}
    for name, inputs in requests.items():
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        answers[name] = {key: readable(value.numpy()) for key, value in signatures[name](**tensors).items()}
    return answers


def run_session(directory, requests):
    answers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        definitions = tf.compat.v1.saved_model.load(session, ["serve"], directory).signature_def
        for name, inputs in requests.items():
            feed = {definitions[name].inputs[key].name: value for key, value in inputs.items()}
            fetch = {key: info.name for key, info in definitions[name].outputs.items()}
            answers[name] = {key: readable(value) for key, value in session.run(fetch, feed).items()}
    return answers


def readable(array):
    """Lists, with bytes as text."""
    if array.dtype == object:
        return [value.decode() if isinstance(value, bytes) else readable(value) for value in array]
    return array.tolist()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
