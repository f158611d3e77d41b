"""Exports a task of the corpus, on whichever backend: python tests/helpers/jax_exports.py OUT"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import export
import keras_bert

CORPUS = Path(__file__).parents[1] / "compat" / "0.1.0" / "tasks"
TEXTS = ["the film was very good", "a dull plot", "the cast is fine"] * 4
LABELS = ["good", "bad", "fine"] * 4


def write_files(out: Path) -> None:
    """Files of a task, and tasks that are trained on the way."""
    task = keras_bert.load_task(CORPUS / "classification")
    for recipe in ("float32", "float16", "dynamic_int8", "all_int4"):
        export.convert(task, out / f"{recipe}.tflite", recipe=recipe, check=False)  # random weights
    export.save_serving(task, out / "serving", inputs="texts", warmup_texts=TEXTS[:1], batch_sizes=(1,))
    report = export.verify(task, out / "float32.tflite", TEXTS, LABELS)
    assert report.rows_compared if hasattr(report, "rows_compared") else str(report)
    options = {"epochs": 1, "batch_size": 4, "verbose": 0}
    before = task.logits(TEXTS)
    export.train_quantized(task, TEXTS, LABELS, **options)
    assert task.quantization is not None and np.abs(task.logits(TEXTS) - before).max() > 1e-4
    export.convert(task, out / "quantized.tflite", recipe="static_int8", check=False)  # random weights
    task = keras_bert.load_task(CORPUS / "classification")
    export.deploy(task, out / "deployed", (TEXTS, LABELS), (TEXTS, LABELS), recipes=["dynamic_int8"], verbose=0)


def train_here() -> None:
    """What needs no TensorFlow, and what gives a new task."""
    teacher = keras_bert.load_task(CORPUS / "classification")
    student = export.make_student(teacher, verbose=False)
    options = {"epochs": 1, "batch_size": 4, "verbose": 0}
    export.distill(teacher, student, TEXTS, LABELS, **options)
    assert np.isfinite(student.logits(TEXTS)).all()


def refuse() -> str:
    """The error that a child process sends back."""
    task = keras_bert.load_task(CORPUS / "classification")
    try:
        export.convert(task, "nowhere.tflite", recipe="static_int8")
    except ValueError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    write_files(place)
    train_here()
    print(refuse())
