"""`keras-bert visualize`: write a page or a picture of what a model does with a text."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.cli.output import add_command

VIEWS = ("attributions", "attention", "inputs")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = 'sentiment/ "What a lovely film!" --view attributions --output why.html'
    command = add_command(commands, "visualize", run, example=example)
    command.add_argument("model", help="a directory that finetune wrote; for attention and inputs any model")
    command.add_argument("text", help="the text to look at")
    command.add_argument("--pair", metavar="TEXT", help="the second text, such as a question's context")
    command.add_argument("--view", choices=VIEWS, default="attention", help="default: %(default)s")
    command.add_argument(
        "--output", type=Path, default=Path("view.html"), help="a .html or .png file (default: %(default)s)"
    )
    heads = command.add_argument_group("attention")
    heads.add_argument("--layer", type=int, help="from 0 on, −1 is the last (default: all)")
    heads.add_argument("--head", help="a number, or mean (default: all)")
    answers = command.add_argument_group("attributions")
    answers.add_argument("--label", help="the class to explain (default: the model's answer)")
    answers.add_argument("--against", metavar="LABEL", help="a class to compare it with")
    answers.add_argument("--token", metavar="WORD", help="for a tagger or an answer: the word whose label is explained")


def run(arguments: Namespace) -> dict[str, Any]:
    """Write a page or a picture of a model's attention, attributions or inputs for a text."""
    from keras_bert import visualize

    view: visualize.Attributions | visualize.Attention | visualize.EmbeddingInputs
    source, tokenizer = _open(arguments.model)
    text = arguments.text if arguments.pair is None else (arguments.text, arguments.pair)
    if arguments.view == "attributions":
        options = {"label": arguments.label, "against": arguments.against, "token": arguments.token}
        view = visualize.attributions(source, text, tokenizer=tokenizer, **options)
    elif arguments.view == "attention":
        head = arguments.head if arguments.head in (None, "mean") else _number(arguments.head)
        view = visualize.attention(source, text, layer=arguments.layer, head=head, tokenizer=tokenizer)
    else:
        view = visualize.embedding_inputs(source, text, tokenizer=tokenizer)
    result = {"output": str(view.save(arguments.output)), "tokens": list(view.tokens)}
    if not isinstance(view, visualize.Attributions):
        return result
    values = [round(float(value), 4) for value in view.values]
    return {**result, "label": view.answer.label, "values": values, "score": round(view.score, 4)}


def _open(directory: str) -> tuple[Any, Any]:
    """The task of a directory without a tokenizer, or its model and tokenizer."""
    from keras_bert.checkpoint import load_model
    from keras_bert.checkpoint.hub import find_directory
    from keras_bert.tasks.base.saved_tasks import SETTINGS, load_task

    place = find_directory(directory)
    return (load_task(place), None) if (Path(place) / SETTINGS).exists() else load_model(place)


def _number(word: str) -> int:
    if not word.isdigit():
        raise ValueError(f"--head {word!r}: expected a number, or mean.")
    return int(word)
