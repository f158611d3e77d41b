"""What a task tells `export` of itself: `ExportedTask`, with `ServedTask` and `GuideInput` as parts of it.

This is the protocol for tasks of your own. Everything is a value or a function of the task, so nothing here loads
TensorFlow or Keras: a device reads the same objects. Functions that need TensorFlow import it when they are called.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from export.tasks.base.examples import Examples, read_texts
from export.tasks.base.reader import Reader
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

# === For servers ===

# What TF Serving's three request types ask of a signature; it refuses a Classify request on a signature for Predict.
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))

# The forms that a row of text can have, with the names of their inputs.
FORMS = {"texts": ("text",), "pairs": ("text", "pair"), "questions": ("question", "context")}


def _same_answers(task: Any, outputs: dict) -> dict:
    return dict(outputs)


def _one_row(given: Any) -> list[tuple[str, ...]]:
    return [(given,) if isinstance(given, str) else tuple(given)]


@dataclass(frozen=True)
class ServedTask:
    """How a task is served, all of it TensorFlow. A graph is a `SharedGraph`: tokenizer, packing and model.

    Args:
        answers: Task and outputs of the model (float32) → answers by name, a row for each text. By default the outputs.
        ranking: Task → the Classify or Regress signature: name, method (`CLASSIFY`, `REGRESS`), and a function from the
            model's outputs to answers in that request's own names.
        forms: What a row can be, keys of `FORMS`; the first is the form of `serving_default`, which takes ids where
            there is none.
        serve: Graph and strings `[B]`, a tensor for each text of a row → answers by name; `None` packs them as
            `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]` and takes `answers`.
        expected: Task and strings, a list for each text of a row → some of what `serve` gives, computed by Keras;
            `None` packs them and takes `answers`.
        rows: An input of the task's `predict` → the rows of strings that ask the same.
        serve_ids: Graph and the model's inputs → what `from_ids` gives; `None` is the model's outputs and `answers`.
        variants: Of a task that writes: ways to write → more signatures for the same strings, each with what serves it
            and what is expected.
        longest: Task → the most tokens of a text.
        labelled: The answer whose last axis has a value for each label.
        notes: What to tell whoever asks the server, in sentences.
    """

    answers: Callable[[Any, dict], dict] = _same_answers
    ranking: Callable[[Any], tuple[str, str, Callable]] | None = None
    forms: tuple[str, ...] = ("texts",)
    serve: Callable[..., dict] | None = None
    expected: Callable[..., dict] | None = None
    rows: Callable[[Any], list[tuple[str, ...]]] = _one_row
    serve_ids: Callable[[Any, dict], dict] | None = None
    variants: Callable[[Any], dict[str, tuple[Callable, Callable]]] | None = None
    longest: Callable[[Any], int] = lambda task: task.sequence_length
    labelled: str = "probabilities"
    notes: tuple[str, ...] = ()


# === For guides ===


@dataclass(frozen=True)
class GuideInput:
    """An input, as the guides of a deployment write it.

    Args:
        python: The arguments of a call of the loaded file, and of the task's `predict`, as Python.
        json: The same as an instance of a request to TF Serving; `None` where it takes ids.
    """

    python: str = '"Type anything here."'
    json: str | None = '"Type anything here."'


# === The task ===


def _same_tensors(task: Any) -> dict:
    return dict(task.model.output)


def _same_outputs(task: Any, outputs: dict, tokenized: TokenizedTexts) -> dict:
    return outputs


def _default_metric(task: Any, data: Any) -> str:
    return task.default_metric


def _own_score(task: Any, outputs: dict, data: Any, metric: str) -> float:
    return task.score(outputs, data, metric).value


@dataclass(frozen=True)
class ExportedTask:
    """All that `export` knows of a task. `register_export` makes it known; name and reader are enough to begin with.

    Args:
        name: The task's name, as `Task.name`.
        reader: How texts become rows of tokens, and outputs of the file answers, without TensorFlow. Its class says
            which outputs the file has. The same reader runs on the device and in every check.
        in_graph: Task → the Keras tensors that its file gives, by name, made from its model's outputs. By default the
            model's outputs. An output `probabilities` or `token_logits` has a value for each of the task's labels.
        from_task: The same in NumPy: task, outputs of its model and their rows → outputs of the file; those with a
            value for each token (`Reader.token_outputs`) as `[tokens, …]`. By default the same.
        to_task: The way back: task, outputs of the file and their rows → what the task scores. By default the same.
        length: The tokens of a file with one length, unless `convert` is asked otherwise.
        counted: Rows → which of their tokens are compared with Keras, `[tokens]`; `None` is all.
        metric: Task and prepared data → the name of what is measured. By default the task's `default_metric`.
        score: Task, outputs of its model, prepared data and the name of the metric → the number. By default the task's
            `score`.
        class_output: The output of its model that has a logit for each label, where an input has one of them; `deploy`
            counts by it which classes are confused.
        writes: Whether the task writes texts token by token, as `Seq2Seq` does: its file has two graphs, its runtime is
            `Writer`, and it is compared token by token.
        output_notes: What an output of the file means, in a sentence, by its name; it stands in the file's metadata.
        read_examples: Task, `x`, `y` and columns → `Examples`, from any data that the task's `evaluate` takes, inputs
            without labels, or nothing. By default texts and pairs of texts, as `TextClassifier` takes them.
        label_texts: Task and inputs → `x` and `y` for `fit`, where `y` are the task's own answers: a teacher labels
            texts for its student. `None` where it cannot.
        served: How it is served by TF Serving; `None` where it cannot. `ServedTask()` serves texts → model outputs.
        guide: Task → the input that a deployment's guides show.
        android: Lines of Kotlin for the guide on Android.
        plain_rows: Whether an example is a text, or a pair of texts, and a label: `Rows`. `deploy` may then exchange
            words of training texts to get more of them, and the command line calibrate with a table without labels.
        matches_states: Whether a student as wide as its teacher learns from the teacher's last states as well as from
            its outputs.

    Example:
        ```python
        export.register_export(export.ExportedTask(name="tone", reader=ToneReader, served=export.ServedTask()))
        ```
    """

    name: str
    reader: type[Reader]

    # === What its file gives ===
    in_graph: Callable[["Task"], dict] = _same_tensors
    from_task: Callable[["Task", dict, TokenizedTexts], dict] = _same_outputs
    to_task: Callable[["Task", dict, TokenizedTexts], dict] = _same_outputs
    length: int = 128
    counted: Callable[[TokenizedTexts], np.ndarray] | None = None
    metric: Callable[["Task", Any], str] = _default_metric
    score: Callable[["Task", dict, Any, str], float] = _own_score
    class_output: str | None = None
    writes: bool = False
    output_notes: Mapping[str, str] = field(default_factory=dict)

    # === Its data ===
    read_examples: Callable[..., Examples] = read_texts
    label_texts: Callable[[Any, list], tuple[Any, Any]] | None = None

    # === Where it goes ===
    served: ServedTask | None = None
    guide: Callable[[Any], GuideInput] = lambda task: GuideInput()
    android: tuple[str, ...] = ()

    # === How it is made smaller ===
    plain_rows: bool = False
    matches_states: bool = True

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name={self.name!r}: expected the task's name, as its class has it: Task.name.")
        if not (isinstance(self.reader, type) and issubclass(self.reader, Reader)):
            raise TypeError(f"reader={self.reader!r} of {self.name!r}: expected a subclass of export's Reader.")
