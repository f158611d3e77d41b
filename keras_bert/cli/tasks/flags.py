"""Which flags belong to which tasks: one row a flag, so that none is passed over without a word.

A room of its own because `finetune` and `evaluate` have the flags of all tasks, and each task reads a few. Flags that
are not here are for all.
"""

_TABLES = ("aspect", "classification", "multiple_choice", "relation", "seq2seq", "similarity", "tagging", "zero_shot")
_CLASSES = ("classification", "zero_shot")

TASKS_OF_FLAGS = {
    "aspects": ("aspect",),
    "glue": ("classification", "similarity", "zero_shot"),
    "head": ("tagging",),
    "kind": ("classification",),
    "label": _TABLES,
    "label_separator": _CLASSES,
    "label_smoothing": ("seq2seq",),
    "negative_label": ("relation",),
    "pair": ("aspect", "classification", "similarity", "zero_shot"),
    "pooling": ("classification", "intent_slots", "aspect"),
    "score_range": ("similarity",),
    "target_length": ("seq2seq",),
    "text": _TABLES,
    "windows": ("classification",),
}


def check_flags(arguments, task: str) -> None:
    """An error for a flag that the task does not read.

    Example:
        >>> from types import SimpleNamespace
        >>> check_flags(SimpleNamespace(head="crf"), "tagging")
    """
    for name, tasks in TASKS_OF_FLAGS.items():
        if getattr(arguments, name, None) not in (None, False) and task not in tasks:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} is for --task {', '.join(tasks)}, not for {task}; leave it out.")
