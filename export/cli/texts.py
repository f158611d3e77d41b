"""What the commands of `export` share: numbers and texts from the command line.

A room of its own because `export`, `verify` and `benchmark` must read the same words in the same way. Columns are given
as for `finetune`, so that the file which a model was measured on is read the same again.
"""

from pathlib import Path

from keras_bert.cli.data import read_columns, read_labelled


def read_lengths(words: str) -> tuple[int, ...] | None:
    """`"32,128"` → (32, 128); `"dynamic"` → None."""
    if words == "dynamic":
        return None
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ValueError(f"--lengths {words!r}: expected numbers with commas between, or dynamic.") from None


def read_texts(arguments, path: str) -> list:
    """Texts, or pairs, without labels: the lines of a .txt file, or the columns of a table."""
    if Path(path).suffix == ".txt":
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        texts = [line for line in lines if line.strip()]
        if not texts:
            raise ValueError(f"{path} has no texts; expected one a line.")
        return texts
    from keras_bert.tasks.rows import read_rows

    return read_rows(path, label=None, **read_columns(arguments, "text", "pair")).inputs


def read_examples(arguments, path: str, task):
    """What a file is verified with: a table with labels, or the lines of a .txt file."""
    if Path(path).suffix == ".txt":
        return read_texts(arguments, path)
    return read_labelled(arguments, path, "dev", numeric=getattr(task, "kind", None) == "regression")
