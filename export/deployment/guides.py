"""Write guides to load a deployed task: in Python, on Android, in TF Serving, in Keras.

The report and the model card show them.
"""

from collections.abc import Sequence

from export.serving.artifact import ServingArtifact, docker_command
from export.tasks.base.registry import find_export, registering_module
from keras_bert.tasks.base.task import Task


def loading_guides(task: Task, lengths: Sequence[int], served: ServingArtifact | None = None) -> list[tuple[str, str]]:
    """Titles and code for the files of a deployment.

    Args:
        task: The task.
        lengths: The lengths of `model.tflite`; empty if it takes any.
        served: The SavedModel.

    Example:
        ```python
        for title, code in loading_guides(classifier, (), served):
            print(f"## {title}\\n{code}")
        ```
    """
    shown, module = find_export(task.name).guide(task), registering_module(task.name)
    own = "" if module is None else f"import {module}  # which registers the task {task.name!r}\n"
    guides = [
        (
            "Python, without TensorFlow",
            f'import export\n{own}\nanswer = export.load("model.tflite")\nprint(answer({shown.python}))',
        ),
        ("Android", _android(task, lengths)),
    ]
    if served is not None:
        guides.append(("TF Serving", _serving(served, shown.json)))
    guides.append(("Keras", f"{_opening(task, module is None)}\nprint(task.predict({shown.python}))"))
    return guides


def _opening(task: Task, is_built_in: bool) -> str:
    if is_built_in:
        return 'import keras_bert\n\ntask = keras_bert.load_task("keras")'
    kind = type(task)
    return f'from {kind.__module__} import {kind.__qualname__}\n\ntask = {kind.__qualname__}.load("keras")'


def _android(task: Task, lengths: Sequence[int]) -> str:
    lines = [
        "// app/build.gradle.kts; model.tflite goes to app/src/main/assets",
        'implementation("com.google.ai.edge.litert:litert:2.3.0")',
        "",
        "// The inputs are token_ids, segment_ids and padding_mask, int32 [1, T];",
        f"// T is {_lengths_in_words(lengths)}.",
        "// Vocabulary, labels and settings are in the file, which is also a zip archive.",
        "// golden.json has token ids and outputs to test the app's code with.",
    ]
    return "\n".join([*lines, *find_export(task.name).android])


def _lengths_in_words(lengths: Sequence[int]) -> str:
    if lengths:
        return f"one of {', '.join(map(str, lengths))}: each has its own signature, length_T"
    return "the length of the text: resize the inputs of the signature `dynamic` before it runs"


def _serving(served: ServingArtifact, json: str | None) -> str:
    lines = [
        docker_command(served.name, '"$PWD/saved_model"')
        .replace(" -e ", " \\\n  -e ")
        .replace(" --enable", " \\\n  --enable")
    ]
    if json is not None:
        url = f"localhost:8501/v1/models/{served.name}:predict"
        lines += ["", f"curl -d '{{\"instances\": [{json}]}}' {url}"]
    return "\n".join(lines)
