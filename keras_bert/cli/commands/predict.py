"""`keras-bert predict`: answer texts with a fine-tuned model."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert.cli.lines import answer_filled, is_blank, read_lines
from keras_bert.cli.models import add_label_arguments, open_task
from keras_bert.cli.output import add_command
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.registry import find_task


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "predict", run, example='sentiment/ "What a lovely film!"')
    command.add_argument("model", help="a directory that finetune wrote; with --labels any model")
    command.add_argument("texts", nargs="*", help="texts to answer")
    command.add_argument("--pair", metavar="TEXT", help="the second text of a pair, or the context of a question")
    command.add_argument(
        "--input",
        type=Path,
        help="a file with one text per line; a tab separates a pair, a question and its context, or choices. A "
        "blank line has no answer (null)",
    )
    add_label_arguments(command)
    command.add_argument("--output", type=Path, help="file to write, with one line of JSON per text")


def run(arguments: Namespace) -> dict[str, Any]:
    """Answer texts with a fine-tuned model."""
    texts, task = _texts(arguments), open_task(arguments)
    entry = find_task(task.name)
    answers = answer_filled(texts, lambda filled: entry.ask(task, filled))
    plain = [None if is_blank(text) else entry.plain(answer) for text, answer in zip(texts, answers, strict=True)]
    if arguments.output is not None:
        lines = [{"text": text, "answer": answer} for text, answer in zip(texts, plain, strict=True)]
        write_whole(arguments.output, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        return {"output": str(arguments.output), "texts": len(texts)}
    if arguments.json:
        return {"texts": texts, "answers": plain}
    return {
        _shown(text): entry.words(answer) for text, answer in zip(texts, answers, strict=True) if not is_blank(text)
    }


def _texts(arguments: Namespace) -> list[Any]:
    texts = list(arguments.texts)
    if arguments.pair is not None:
        if len(texts) != 1:
            raise ValueError(f"--pair is for one text, and there are {len(texts)}; for more, pass --input FILE.")
        texts = [(texts[0], arguments.pair)]
    if arguments.input is not None:
        lines = read_lines(arguments.input)
        texts += [line if is_blank(line) or "\t" not in line else tuple(line.split("\t", 1)) for line in lines]
    if all(map(is_blank, texts)):
        raise ValueError("There is no text; pass texts after the model, or a file with --input.")
    if len({isinstance(text, tuple) for text in texts if not is_blank(text)}) > 1:
        raise ValueError("Some lines are pairs and some are not; expected a tab in every line, or in none.")
    return texts


def _shown(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else " ⏵ ".join(text)
