"""`keras-bert tokenize`: show the pieces, ids and offsets of a text."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.cli.output import add_command

if TYPE_CHECKING:
    from keras_bert.text.subword_tokenizer import SubwordTokenizer


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "tokenize", run, example='all-MiniLM-L6-v2 "Hello, world!"')
    command.add_argument("model", help="a model directory, a name, or a vocab.txt")
    command.add_argument("text")


def run(arguments: Namespace) -> dict[str, Any]:
    """Show the pieces, ids and character offsets of a text."""
    tokenizer = _load_tokenizer(arguments.model)
    ids, starts, ends = (part.numpy().tolist() for part in tokenizer.tokenize_with_offsets(arguments.text))
    offsets = [[start, end] for start, end in zip(starts, ends, strict=True)]
    return {"tokens": [tokenizer.id_to_token(index) for index in ids], "ids": ids, "offsets": offsets}


def _load_tokenizer(model: str) -> "SubwordTokenizer":
    from keras_bert.checkpoint import load_tokenizer
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.unigram import UnigramTokenizer

    if Path(model).is_file():
        return UnigramTokenizer(model) if model.endswith(".model") else BertTokenizer(model)
    tokenizer = load_tokenizer(model)
    if tokenizer is None:
        raise ValueError(f"{model} has no vocab.txt; expected a model directory with one, or the file itself.")
    return tokenizer
