"""A deployed task → how to load it: on Android, with LiteRT, in TF Serving, in Keras. Text for the report and the card.

Takes a task and what is in its directory; gives pairs of a title and lines to copy. A room of its own because each
runtime has its own words, and they change on their own time.
"""

from collections.abc import Sequence

from export.serving.artifact import ServingArtifact, docker_command
from keras_bert.tasks.base.task import Task

# An input of each task as Python and as JSON say it; the file's own reader says what it takes.
_INPUTS = {
    "aspect": ('[("Great pizza, slow service.", "pizza")]', '{"text": "Great pizza, slow service.", "pair": "pizza"}'),
    "multiple_choice": ('"She opens the umbrella.", ["It rains.", "It sings."]', None),
    "question_answering": (
        '"Where is it?", "It is in Rome."',
        '{"question": "Where is it?", "context": "It is in Rome."}',
    ),
    "relation": ('"The <e1>child</e1> lay in the <e2>cradle</e2>."', None),
}
_PAIR = (
    '[("A man sleeps.", "Nobody is awake.")]',
    '{"text": "A man sleeps.", "pair": "Nobody is awake."}',
)
_TEXT = ('"Type anything here."', '"Type anything here."')


def loading_guides(task: Task, lengths: Sequence[int], served: ServingArtifact | None = None) -> list[tuple[str, str]]:
    """Titles and code, for what is in a deployment's directory.

    Args:
        task: The task.
        lengths: The lengths of `model.tflite`; empty where it takes any.
        served: The SavedModel.

    Example:
        ```python
        for title, code in loading_guides(classifier, (), served):
            print(f"## {title}\\n{code}")
        ```
    """
    python, json = _INPUTS.get(task.name, _PAIR if getattr(task, "pairs", None) else _TEXT)
    guides = [
        (
            "Python, without TensorFlow",
            f'import export\n\nanswer = export.load("model.tflite")\nprint(answer({python}))',
        ),
        ("Android", _android(task, lengths)),
    ]
    if served is not None:
        guides.append(("TF Serving", _serving(served, json)))
    guides.append(
        ("Keras", f'import keras_bert\n\ntask = keras_bert.load_task("keras")\nprint(task.predict({python}))')
    )
    return guides


def _android(task, lengths):
    lines = [
        "// app/build.gradle.kts; model.tflite goes to app/src/main/assets",
        'implementation("com.google.ai.edge.litert:litert:2.3.0")',
        "",
        "// The inputs are token_ids, segment_ids and padding_mask, int32 [1, T];",
        f"// T is {_lengths_in_words(lengths)}.",
        "// Vocabulary, labels and settings are in the file: it is a zip archive, too.",
        "// golden.json has token ids and outputs to test the app's own code with.",
    ]
    if task.name == "classification":
        lines += [
            "// examples/android of keras-bert-edge has a classifier in Kotlin with the original tokenizer:",
            'LiteRtClassifier(context).use { it.classify("Type anything here.").first() }',
        ]
    return "\n".join(lines)


def _lengths_in_words(lengths):
    if lengths:
        return f"one of {', '.join(map(str, lengths))}: each has a signature of its own, length_T"
    return "what the text has: resize the inputs of the signature `dynamic` before it runs"


def _serving(served, json):
    lines = [
        docker_command(served.name, '"$PWD/saved_model"')
        .replace(" -e ", " \\\n  -e ")
        .replace(" --enable", " \\\n  --enable")
    ]
    if json is not None:
        url = f"localhost:8501/v1/models/{served.name}:predict"
        lines += ["", f"curl -d '{{\"instances\": [{json}]}}' {url}"]
    return "\n".join(lines)
