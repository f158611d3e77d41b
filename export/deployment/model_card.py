"""Write `model_card.md`: what the model is, what it was measured on, and what it is not for."""

from collections.abc import Iterable

from export.deployment.manifest import versions
from export.deployment.proof import Proof
from export.deployment.result import Deployment
from export.search.data import DeploymentData
from keras_bert.tasks.base.task import Task


def model_card(result: Deployment, task: Task, data: DeploymentData, proof: Proof) -> str:
    """Write the model card as Markdown.

    Args:
        result: The result of the search.
        task: The chosen model.
        data: The user's data.
        proof: The measurements of the chosen file.
    """
    chosen, reference, config = result.chosen, result.reference, task.config
    labels = "" if task.labels is None else f"- Labels ({len(task.labels)}): {', '.join(task.labels)}\n"
    trained = "none" if data.train is None else f"{len(data.train.labelled):,} examples"
    difference = "" if result.interval is None else f"- Difference to the teacher: {result.interval}\n"
    rows = [
        ("", "model.tflite", "teacher, float32"),
        (result.metric, f"{chosen.score:.4f}", f"{result.teacher_score:.4f}"),
        ("size, MB", f"{chosen.num_bytes / 1e6:.2f}", f"{reference.num_bytes / 1e6:.2f}"),
        ("a validation text, ms", f"{chosen.milliseconds:.2f}", f"{chosen.teacher_milliseconds:.2f}"),
        ("parameters", f"{chosen.parameters:,}", f"{reference.parameters:,}"),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ("---",) * 3, *rows[1:]])
    return f"""# {result.directory.resolve().name}

A BERT for {task.name.replace("_", " ")}, made small for devices: {chosen.name}.

## What it is

- {config.num_layers} blocks, width {config.hidden_dim}, {config.vocabulary_size:,} tokens in the vocabulary
- Stored by the recipe `{chosen.recipe}`, for {chosen.lengths}; at most {proof.parity.length} tokens of a text
{labels}- Files: `model.tflite` (LiteRT), `saved_model/` (TF Serving), `keras/` (Keras), `golden.json` (tests)

## What was measured

{table}

One thread, batch 1, the validation texts with their own lengths. {result.verdict}

- Training data: {trained}; validation data: {len(data.validation.labelled):,} examples
{difference}{_lines(result.notes)}- The file was chosen by the validation data: measure it on other data too.
- Compared with its Keras model on the validation inputs, {proof.parity.agreement_words}.

## What it is for, and what not

For texts like those of the training and validation data, in their language and domain; others were not measured. It
inherits the errors of its teacher and of the training texts. Longer texts are {_long(task)}.

## Made with

{", ".join(f"{name} {number}" for name, number in versions().items())}.
`report.html` shows all candidates, `manifest.json` has the hashes.
"""


def _lines(notes: Iterable[str]) -> str:
    return "".join(f"- {note}\n" for note in notes)


def _long(task: Task) -> str:
    return "read in windows" if task.long_texts == "windows" else "cut"
