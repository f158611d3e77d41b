"""Read the inputs and labelled data of a task, to run and score a file with.

`ExportedTask.read_examples` gives `Examples`. `read_texts` reads texts and pairs of texts; tasks with other data read
it in their own modules.
"""

from dataclasses import dataclass
from typing import Any

# The inputs of a check without data: plain words, accents, CJK, emoji, punctuation and a long text.
PROBES = (
    "What a lovely film!",
    "wake me at quarter to six on Monday",
    "Der Kaffee im Café München war naïve 5½ Sterne wert.",
    "今天天气很好，我们去公园吧。",
    "great 👍🏽 … not!",
    "a " * 200,
    "?",
)


@dataclass(frozen=True)
class Examples:
    """Data to run a file and its task with.

    Args:
        inputs: What `task.predict` and the runtime take, a list.
        labelled: The same with labels, a list of rows that `task.prepare` and `task.evaluate` take as `x` alone, also a
            part of it; `None` where there are no labels.
    """

    inputs: list[Any]
    labelled: Any = None


def read_texts(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    """Read texts or pairs of texts in any form that `TextClassifier.fit` takes, with labels or without.

    Args:
        task: The task; where its `kind` is `"regression"`, the labels of a file are numbers.
        x: The data; `None` takes `PROBES`.
        y: The labels, where `x` is texts or pairs.
        columns: Columns of a file.

    Example:
        >>> read_texts(classifier, ["a fine film"], ["good"]).inputs  # doctest: +SKIP
        ['a fine film']
    """
    from keras_bert.data.inputs import as_rows

    numeric = getattr(task, "kind", None) == "regression"
    rows = as_rows(list(PROBES) if x is None else x, y, numeric=numeric, **columns)
    return Examples(list(rows.inputs), None if any(label is None for label in rows.labels) else rows)
