"""Opens the artifacts of a corpus by public names alone, and gives their answers as plain JSON values.

Both the script that writes a corpus and the test that opens it ask in these ways, a function for each kind of artifact.
"""

import dataclasses
import json
import shutil
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import export
import keras_bert

INDEX = "corpus.json"
_PER_OUTPUT = 24  # numbers that are kept of each output of a model
_DIGITS = 7

# === Ways to ask ===


def ask_task(task, inputs: dict) -> dict:
    """The answers of a task to calls of `predict`, and the raw outputs of its model."""
    answers = [task.predict(*call["args"], **call.get("options", {})) for call in inputs["calls"]]
    task = getattr(task, "task", task)  # a zero-shot classifier wraps one
    found = {"answers": as_json(answers), "outputs": model_outputs(task.model, inputs["rows"])}
    if task.quantization is not None:
        found["quantization"] = as_json(dict(task.quantization.arrays))
    return found


def ask_file(path: Path, inputs: dict) -> dict:
    """The answers of a `.tflite` file."""
    run = export.load(path)
    return {"answers": as_json([run(*call["args"], **call.get("options", {})) for call in inputs["calls"]])}


def ask_served(path: Path, inputs: dict) -> dict:
    """The outputs of the signatures of a SavedModel."""
    import tensorflow_text  # noqa: F401  has the ops that read strings

    signatures = tf.saved_model.load(str(path)).signatures
    answers = {}
    for name, tensors in inputs["requests"].items():
        outputs = signatures[name](**{key: tf.constant(value) for key, value in tensors.items()})
        answers[name] = {key: as_json(value.numpy()) for key, value in sorted(outputs.items())}
    return answers


def ask_model(model: keras.Model, tokenizer, inputs: dict) -> dict:
    """The raw outputs of a model, and the ids of its tokenizer."""
    return {
        "tokens": [tokenizer(text).numpy().tolist() for text in inputs["texts"]],
        "outputs": model_outputs(model, inputs["rows"]),
    }


def ask_pretraining(path: Path, inputs: dict) -> dict:
    """What a run in `path/run` on the examples in `path/examples` gives in the end; one that stopped goes on."""
    lines = read_lines(path / "run" / "history.jsonl")
    history = keras_bert.pretrain(
        path / "examples",
        path / "run",
        keras_bert.BertConfig(**inputs["config"]),
        keras_bert.BertTokenizer(inputs["vocabulary"]),
        keras_bert.PretrainingPlan(**inputs["plan"]),
        verbose=0,
    )
    # Each line has its seconds, so a run that began anew would have written others.
    if read_lines(path / "run" / "history.jsonl")[: len(lines)] != lines:
        raise AssertionError(f"{path} began anew instead of going on after {len(lines)} lines of its history.")
    model, _ = keras_bert.load_model(path / "run" / "model")
    measured = {name: values for name, values in history.items() if "second" not in name}
    return {"history": as_json(measured), "outputs": model_outputs(model, inputs["rows"])}


def ask_finetuning(path: Path, inputs: dict, task) -> dict:
    """What a fine-tuning with its state in `path` gives in the end, and the epoch that it went on with."""
    data = (inputs["texts"], inputs["labels"])
    with mock.patch.object(keras.Model, "fit", autospec=True, side_effect=keras.Model.fit) as fit:
        report = task.fit(*data, validation_data=data, directory=path, verbose=0, **inputs["options"])
    return {
        "first_epoch": fit.call_args.kwargs["initial_epoch"],
        "history": as_json(report.measurements),
        "answers": as_json(task.predict(inputs["texts"][:3])),
    }


def ask(kind: str, corpus: Path, path: str, inputs: dict, scratch: Path) -> dict:
    """The answers of an artifact of whichever kind; `scratch` is a directory for those that are written to."""
    place = corpus / path
    if kind == "task":
        return ask_task(keras_bert.load_task(place), inputs)
    if kind == "pretraining":
        return ask_pretraining(Path(shutil.copytree(place, scratch / place.name)), inputs)
    if kind == "finetuning":
        task = keras_bert.load_task(corpus / inputs["task"])
        return ask_finetuning(Path(shutil.copytree(place, scratch / place.name)), inputs, task)
    if kind == "checkpoint":
        return ask_model(*getattr(keras_bert, inputs["function"])(place), inputs)
    return {"tflite": ask_file, "serving": ask_served}[kind](place, inputs)


def model_outputs(model: keras.Model, rows: dict) -> dict:
    """The first numbers of each output of a model."""
    outputs = model({name: np.array(values, "int32") for name, values in rows.items()}, training=False)
    arrays = {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items() if not isinstance(value, list)}
    return {name: as_json(array.ravel()[:_PER_OUTPUT]) for name, array in arrays.items()}


# === JSON ===


def as_json(value):
    """Dataclasses, arrays and bytes as JSON has them; floats rounded."""
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, bytes):
        return value.decode()
    return round(value, _DIGITS) if isinstance(value, float) else value


def differences(expected, found, tolerance: float, place: str = "") -> list[str]:
    """Where answers differ from the expected ones. Fields that a later version adds are no difference.

    The tolerance is absolute for numbers up to 1, and relative for larger ones.

    Example:
        >>> differences({"name": "good", "probability": 0.7}, {"name": "good", "probability": 0.8}, 1e-5)
        ['.probability: expected 0.7, found 0.8']
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [(name, f"{place}.{name}") for name in expected]
        missing = [f"{there}: missing" for name, there in keys if name not in found]
        pairs = [(expected[name], found[name], there) for name, there in keys if name in found]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        missing = []
        pairs = [
            (one, other, f"{place}[{index}]") for index, (one, other) in enumerate(zip(expected, found, strict=True))
        ]
    elif isinstance(expected, float) and isinstance(found, float | int):
        is_near = abs(expected - found) <= tolerance * max(1.0, abs(expected))
        return [] if is_near else [f"{place}: expected {expected}, found {found}"]
    else:
        return [] if expected == found else [f"{place}: expected {expected!r}, found {found!r}"]
    return missing + [text for one, other, there in pairs for text in differences(one, other, tolerance, there)]


def read_json(path: Path) -> dict:
    """The value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: dict) -> None:
    """Write a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_lines(path: Path) -> list[str]:
    """The lines of a file; none where there is no file."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
