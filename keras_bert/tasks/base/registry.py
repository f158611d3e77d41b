"""The tasks that the library knows by name: a task is registered here once, and nowhere else.

`load_task` finds the class of a saved directory here, and the command line finds how a task reads files, is made and
shows its answers. A built-in task is a row in `BUILT_IN`, the module that registers it and that loads no TensorFlow.
For a task of your own, call `register_task`. The command line imports the module that does it with `--import`, or
through an entry point of the group `keras_bert.tasks`.
"""

import re
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

from keras_bert.tasks.base.answers import answer_words, plain_answer
from keras_bert.tasks.base.held_out import hold_out
from keras_bert.tasks.base.task_flags import LABEL, PAIR, TEXT, TaskFlag, is_given, read_labelled

# The modules that register the tasks of this library.
BUILT_IN = {
    "aspect": "keras_bert.tasks.classification.aspect_commands",
    "classification": "keras_bert.tasks.classification.commands",
    "intent_slots": "keras_bert.tasks.intent_slots.commands",
    "multiple_choice": "keras_bert.tasks.multiple_choice.commands",
    "question_answering": "keras_bert.tasks.question_answering.commands",
    "relation": "keras_bert.tasks.relation.commands",
    "seq2seq": "keras_bert.tasks.generation.commands",
    "similarity": "keras_bert.tasks.similarity.commands",
    "tagging": "keras_bert.tasks.tagging.commands",
    "zero_shot": "keras_bert.tasks.zero_shot.commands",
}
ENTRY_POINTS = "keras_bert.tasks"

_ENTRIES: dict[str, "TaskEntry"] = {}


def ask_predict(task: Any, texts: list[Any]) -> Sequence[Any]:
    """The answers of `task.predict`, one for each text."""
    return task.predict(texts)


@dataclass(frozen=True)
class TaskEntry:
    """What the library knows of a task. A task that reads labelled texts needs the first two fields only.

    Args:
        name: The task's name: `name` of its class, `--task` on the command line, and what a saved directory says.
        task_class: The class, or where it is as `"module:Class"`. With the string, the module that registers the task
            does not load TensorFlow, and `keras-bert --help` stays quick.
        read: Takes the parsed arguments, a path, a split (`"train"` or `"dev"`) and the task that the data is for
            (`None` before there is one); gives labelled examples that `fit` and `evaluate` take. Where these have a
            `report`, it is printed. The default reads a table of texts and labels, as `read_rows` does.
        make: Takes the parsed arguments and all labelled data; gives an untrained task. The default calls
            `from_pretrained` with `sequence_length`, with those of `flags` that were given, by name, and with the
            `labels` of the data, where `from_pretrained` has such an argument.
        hold_out: Takes the labelled data; gives what to train on and a tenth to measure on, for a run without
            `--validation`. The default gives each class its share.
        ask: Takes the task and the texts of `predict`: strings, or pairs of strings where a line has a tab. Gives an
            answer for each. The default calls `task.predict`.
        plain: Takes an answer; gives values that JSON has. The default makes dictionaries of dataclasses and lists of
            arrays.
        words: Takes an answer; gives the line to print. The default is `str`, with commas between several.
        sequence_length: What `--sequence-length` is where it is not given; `None` leaves it to the task.
        data_flags: Flags that `read` looks at. Every command that reads labelled data has them.
        flags: Flags of `finetune` that `make` looks at.
        fit_flags: Flags of `finetune` that are passed to `fit`, as changes of the recipe.

    Example:
        ```python
        from keras_bert import TaskEntry, TaskFlag, register_task

        register_task(
            TaskEntry(
                "toxicity",
                "my_package.toxicity:ToxicityClassifier",
                flags=(TaskFlag("--threshold", type=float, help="from which probability on a text is toxic"),),
            )
        )
        ```
    """

    name: str
    task_class: type | str
    read: Callable[..., Any] = read_labelled
    make: Callable[[Namespace, Any], Any] | None = None
    hold_out: Callable[[Any], tuple[Any, Any]] = hold_out
    ask: Callable[[Any, list[Any]], Sequence[Any]] = ask_predict
    plain: Callable[[Any], Any] = plain_answer
    words: Callable[[Any], str] = answer_words
    sequence_length: int | None = 128
    data_flags: tuple[TaskFlag, ...] = (TEXT, PAIR, LABEL)
    flags: tuple[TaskFlag, ...] = ()
    fit_flags: tuple[TaskFlag, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", self.name):
            raise ValueError(f"name={self.name!r}: expected a word of letters, digits and underscores.")
        if isinstance(self.task_class, type):
            self._check_class(self.task_class)
        elif not isinstance(self.task_class, str) or not re.fullmatch(r"[\w.]+:[\w.]+", self.task_class):
            raise ValueError(f"task_class={self.task_class!r}: expected a class, or a string such as 'module:Class'.")
        for field in ("data_flags", "flags", "fit_flags"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
            if not all(isinstance(flag, TaskFlag) for flag in getattr(self, field)):
                raise TypeError(f"{field}={getattr(self, field)!r}: expected a tuple of TaskFlag.")

    @property
    def all_flags(self) -> tuple[TaskFlag, ...]:
        """The flags that the task takes, in any command."""
        return (*self.data_flags, *self.flags, *self.fit_flags)

    def load_class(self) -> type[Any]:
        """The task's class; imports its module where that is given by name."""
        if isinstance(self.task_class, type):
            return self.task_class
        module, _, name = self.task_class.partition(":")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        self._check_class(found)
        return found

    def make_task(self, arguments: Namespace, train: Any) -> Any:
        """An untrained task for labelled data: by `make`, or by the default that is described there."""
        if self.make is not None:
            return self.make(arguments, train)
        build = self.load_class().from_pretrained
        options = {flag.dest: getattr(arguments, flag.dest) for flag in self.flags if is_given(arguments, flag.dest)}
        if arguments.sequence_length is not None:
            options["sequence_length"] = arguments.sequence_length
        if "labels" in signature(build).parameters:
            options["labels"] = label_names(train)
        return build(arguments.model, **options)

    def _check_class(self, found: Any) -> None:
        if getattr(found, "name", None) != self.name:
            raise ValueError(
                f"{found.__module__}.{found.__qualname__} has name={getattr(found, 'name', None)!r}, its entry "
                f"{self.name!r}; expected the same, because a saved directory holds the class's name."
            )

    @property
    def _class_path(self) -> str:
        if isinstance(self.task_class, str):
            return self.task_class
        return f"{self.task_class.__module__}:{self.task_class.__qualname__}"


def label_names(rows: Any) -> list[str]:
    """The names of the classes in labelled data, sorted.

    Example:
        >>> label_names(["good", "bad", "good"])
        ['bad', 'good']
    """
    from keras_bert.data.label_statistics import describe_labels

    return sorted(name for name, _ in describe_labels(rows).counts)


# === By name ===


def register_task(entry: TaskEntry) -> None:
    """Make a task known to `load_task` and to the command line.

    The same class may be registered again, as when a notebook's cell is run twice; the newer entry counts. Another
    class under a name that is taken is an error.

    Example:
        ```python
        keras_bert.register_task(keras_bert.TaskEntry("toxicity", ToxicityClassifier))
        keras_bert.load_task("saved/toxicity")
        ```
    """
    if not isinstance(entry, TaskEntry):
        raise TypeError(f"register_task got a {type(entry).__name__}; expected TaskEntry(name, task_class).")
    if entry.name in BUILT_IN and entry.name not in _ENTRIES:
        import_module(BUILT_IN[entry.name])  # does nothing while that module itself registers
    known = _ENTRIES.get(entry.name)
    if known is not None and known._class_path != entry._class_path:
        raise ValueError(
            f"The task {entry.name!r} is {known._class_path} already and cannot be {entry._class_path} too; give "
            "yours another name."
        )
    _ENTRIES[entry.name] = entry


def find_task(name: str) -> TaskEntry:
    """The entry of a task; an error that lists the known ones where there is none.

    Only registered tasks are found: nothing is imported because of what a name says.

    Example:
        >>> find_task("tagging").name
        'tagging'
    """
    if isinstance(name, str) and name in BUILT_IN:
        import_module(BUILT_IN[name])
    if isinstance(name, str) and name in _ENTRIES:
        return _ENTRIES[name]
    known = registered_tasks()
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"The task {name!r} is unknown; known are {', '.join(known)}. Make a task of your own known by "
            "keras_bert.register_task(TaskEntry(…)); on the command line by keras-bert --import FILE.py, a file or a "
            f"module that does so; in a package by an entry point of the group {ENTRY_POINTS!r}."
        )
    return known[name]


def registered_tasks() -> dict[str, TaskEntry]:
    """All tasks by name, those of installed packages too.

    Example:
        >>> "tagging" in registered_tasks()
        True
    """
    for module in BUILT_IN.values():
        import_module(module)
    _import_entry_points()
    return dict(sorted(_ENTRIES.items()))


@cache
def _import_entry_points() -> None:
    """Packages that were installed may register tasks. One that fails is named, and the others still work."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"The entry point {point.name} = {point.value} of the group {ENTRY_POINTS!r} failed, so its tasks are "
                f"unknown: {type(error).__name__}: {error}",
                stacklevel=3,
            )
