"""Define what a task tells `export`: `ExportedTask`, with `ServedTask` and `GuideInput` as its parts.

This is the protocol for your own tasks. Everything is a value or a function of the task, so that this module does not
load TensorFlow or Keras: a device uses the same objects. Functions that need TensorFlow import it when they are called.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from export.tasks.base.examples import Examples, read_texts
from export.tasks.base.reader import Reader
from export.tasks.base.served_file import ServedFile
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

# === For servers ===

# The method names of TF Serving's three request types. It refuses a Classify request to a signature for Predict.
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))

ServeFunction = Callable[..., dict[str, Any]]  # gives tensors by name


def _same_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    return dict(outputs)


def _one_row(given: Any) -> list[tuple[str, ...]]:
    return [(given,) if isinstance(given, str) else tuple(given)]


@dataclass(frozen=True)
class ServedTask:
    """How a task is served, as functions in TensorFlow. A graph is a `SharedGraph`: tokenizer, inputs and model.

    Args:
        answers: Function of the task and its model's outputs (float32); gives answers by name, with a row for each
            text. The default gives the outputs.
        ranking: Function of the task; gives the Classify or Regress signature as name, method (`CLASSIFY` or
            `REGRESS`) and a function from the model's outputs to answers with the names of that request.
        forms: The forms of a row, keys of `FORMS`. The first is the form of `serving_default`; with no form,
            `serving_default` takes ids.
        serve: Function of the graph and string tensors `[B]`, one for each text of a row; gives answers by name.
            `None` arranges them as `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]` and uses `answers`.
        expected: Function of the task and lists of strings, one for each text of a row; gives some of the answers of
            `serve`, computed by Keras. `None` arranges the texts as above and uses `answers`.
        rows: Function of an input of the task's `predict`; gives the rows of strings with the same meaning.
        serve_ids: Function of the graph and the model's inputs; gives the outputs of `from_ids`. `None` gives the
            model's outputs and `answers`.
        variants: For a task that writes: function of the ways to write; gives more signatures for the same strings,
            each with the function that serves it and the one that gives what is expected.
        longest: Function of the task; gives the most tokens of a text.
        labelled: The answer whose last axis has a value for each label.
        notes: Sentences for the users of the server.
    """

    answers: Callable[[Any, dict[str, Any]], dict[str, Any]] = _same_answers
    ranking: Callable[[Any], tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]]]] | None = None
    forms: tuple[str, ...] = ("texts",)
    serve: ServeFunction | None = None
    expected: ServeFunction | None = None
    rows: Callable[[Any], list[tuple[str, ...]]] = _one_row
    serve_ids: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None
    variants: Callable[[Any], dict[str, tuple[ServeFunction, ServeFunction]]] | None = None
    longest: Callable[[Any], int] = lambda task: task.sequence_length
    labelled: str = "probabilities"
    notes: tuple[str, ...] = ()


# === For guides ===


@dataclass(frozen=True)
class GuideInput:
    """An example input, as the guides of a deployment show it.

    Args:
        python: The arguments of a call of the loaded file, and of the task's `predict`, as Python code.
        json: The same input as an instance of a request to TF Serving; `None` where the server takes ids.
    """

    python: str = '"Type anything here."'
    json: str | None = '"Type anything here."'


# === The task ===


def _same_tensors(task: Any) -> dict[str, Any]:
    return dict(task.model.output)


def _same_outputs(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return outputs


def _default_metric(task: Any, data: Any) -> str:
    return task.default_metric


def _own_score(task: Any, outputs: dict[str, np.ndarray], data: Any, metric: str) -> float:
    return task.score(outputs, data, metric).value


@dataclass(frozen=True)
class ExportedTask:
    """All that `export` knows of a task. Only a name and a reader are required; see `register_export`.

    Args:
        name: The task's name, as `Task.name`.
        reader: The class that turns texts into rows of tokens, and the file's outputs into answers, without
            TensorFlow. It names the file's outputs. The same reader runs on the device and in every check.
        in_graph: Function of the task; gives the Keras tensors of its file by name, built from the outputs of its
            model. The default gives the model's outputs. An output named `probabilities` or `token_logits` has a
            value for each label of the task.
        from_task: The same in NumPy: function of the task, its model's outputs and their rows; gives the file's
            outputs. Those with a value for each token (`Reader.token_outputs`) have the shape `[tokens, …]`. The
            default changes nothing.
        to_task: The inverse: function of the task, the file's outputs and their rows; gives what the task scores. The
            default changes nothing.
        length: The default number of tokens of a file with one length.
        counted: Function of rows; gives which of their tokens are compared with Keras, `[tokens]`. `None` compares
            all tokens.
        metric: Function of the task and prepared data; gives the name of the metric. The default is the task's
            `default_metric`.
        score: Function of the task, its model's outputs, prepared data and the name of the metric; gives the score.
            The default is the task's `score`.
        class_output: The model output with a logit for each label, where an input has one label. `deploy` uses it to
            count which classes are confused.
        writes: Whether the task writes texts token by token, as `Seq2Seq` does. Its file has two graphs, its runtime
            is `Writer`, and it is compared token by token.
        output_notes: The meaning of each output of the file in a sentence, by name, for the file's metadata.
        read_examples: Function of the task, `x`, `y` and columns; gives `Examples` from any data that the task's
            `evaluate` takes, from inputs without labels, or from nothing. The default reads texts and pairs of texts
            as `TextClassifier` does.
        label_texts: Function of the task and inputs; gives `x` and `y` for `fit`, where `y` are the task's own
            answers, so that a teacher can label texts for its student. `None` where it cannot.
        served: How TF Serving serves the task; `None` where it cannot. `ServedTask()` takes texts and gives the
            model's outputs.
        served_file: How `keras-bert serve` answers with the task's file: a subclass of `ServedFile`. The default takes
            texts and gives the file's outputs.
        guide: Function of the task; gives the input that a deployment's guides show.
        android: Lines of Kotlin for the Android guide.
        plain_rows: Whether an example is a text or a pair of texts with a label (`TextRows`). If so, `deploy` may
            replace words in training texts to get more of them, and the command line can calibrate with a table
            without labels.
        matches_states: Whether a student of the same width also learns from its teacher's last hidden states.

    Example:
        ```python
        export.register_export(export.ExportedTask(name="tone", reader=ToneReader, served=export.ServedTask()))
        ```
    """

    name: str
    reader: type[Reader]

    # === The file ===
    in_graph: Callable[["Task"], dict[str, Any]] = _same_tensors
    from_task: Callable[["Task", dict[str, np.ndarray], TokenizedTexts], dict[str, np.ndarray]] = _same_outputs
    to_task: Callable[["Task", dict[str, np.ndarray], TokenizedTexts], dict[str, np.ndarray]] = _same_outputs
    length: int = 128
    counted: Callable[[TokenizedTexts], np.ndarray] | None = None
    metric: Callable[["Task", Any], str] = _default_metric
    score: Callable[["Task", dict[str, np.ndarray], Any, str], float] = _own_score
    class_output: str | None = None
    writes: bool = False
    output_notes: Mapping[str, str] = field(default_factory=dict)

    # === Data ===
    read_examples: Callable[..., Examples] = read_texts
    label_texts: Callable[[Any, list[Any]], tuple[Any, Any]] | None = None

    # === Servers and guides ===
    served: ServedTask | None = None
    served_file: type[ServedFile] = ServedFile
    guide: Callable[[Any], GuideInput] = lambda task: GuideInput()
    android: tuple[str, ...] = ()

    # === Compression ===
    plain_rows: bool = False
    matches_states: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"Got name={self.name!r}; expected the task's name, as in Task.name.")
        if not (isinstance(self.reader, type) and issubclass(self.reader, Reader)):
            raise TypeError(f"Got reader={self.reader!r} for {self.name!r}; expected a subclass of export.Reader.")
