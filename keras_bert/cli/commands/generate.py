"""`keras-bert generate`: write translations, summaries or replies with a fine-tuned model."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.cli.lines import answer_filled, is_blank, read_lines
from keras_bert.cli.output import add_command
from keras_bert.system.atomic_files import write_whole

if TYPE_CHECKING:
    from keras_bert.tasks.generation.task import Seq2Seq

SAMPLERS = ("greedy", "beam", "top_k", "top_p", "random")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "generate", run, example='translator/ "Two dogs run." --sampler beam')
    command.add_argument("model", help="a directory that finetune --task seq2seq wrote, or any with an MLM head")
    command.add_argument("texts", nargs="*", help="source texts")
    command.add_argument(
        "--file",
        type=Path,
        help="a file with one text per line; tabs separate the turns of a dialogue. A blank line has no answer (null)",
    )
    command.add_argument("--output", type=Path, help="file to write, with one line of JSON per text")
    command.add_argument("--stream", action="store_true", help="print each text as it is written")
    group = command.add_argument_group("how to write")
    group.add_argument("--sampler", choices=SAMPLERS, default="greedy", help="default: %(default)s")
    group.add_argument("--num-beams", type=int, help="with beam (default: 4)")
    group.add_argument("--k", type=int, help="with top_k: how many tokens to choose from (default: 50)")
    group.add_argument("--p", type=float, help="with top_p: their total probability (default: 0.9)")
    group.add_argument("--temperature", type=float, help="below 1 likely tokens become likelier (default: 1)")
    group.add_argument("--max-length", type=int, help="maximum number of tokens (default: the model's)")
    group.add_argument("--min-length", type=int, help="minimum number of tokens (default: 0)")
    group.add_argument("--length-penalty", type=float, help="with beam: 0 prefers short texts (default: 1)")
    group.add_argument("--no-repeat-ngram", type=int, metavar="N", help="write no n-gram of N tokens twice")
    group.add_argument("--seed", type=int, help="random seed")


def run(arguments: Namespace) -> dict[str, Any]:
    """Write texts with a fine-tuned model."""
    texts, task = _texts(arguments), _open(arguments.model)
    names = ("sampler", "num_beams", "k", "p", "temperature", "max_length", "min_length", "length_penalty")
    names += ("no_repeat_ngram", "seed")
    decoding = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.stream:
        return _stream(arguments, task, texts, decoding)
    answers = answer_filled(texts, lambda filled: task.generate(filled, **decoding))
    if arguments.output is not None:
        return _write(arguments, texts, answers)
    if arguments.json:
        return {"texts": texts, "answers": answers}
    return {_shown(text): answer for text, answer in zip(texts, answers, strict=True) if not is_blank(text)}


def _open(model: str) -> "Seq2Seq":
    from keras_bert.checkpoint.hub import find_directory
    from keras_bert.tasks.base.saved_tasks import SETTINGS, load_task
    from keras_bert.tasks.generation.task import Seq2Seq

    directory = find_directory(model)
    if not (directory / SETTINGS).is_file():
        task = Seq2Seq.from_pretrained(directory)
        if task.fresh_heads:
            raise ValueError(f"{model} has no MLM head, so it cannot write; run finetune --task seq2seq first.")
        return task
    task = load_task(directory)
    if not isinstance(task, Seq2Seq):
        raise ValueError(f"{model} is a model for the task {task.name!r}, which does not write texts; use predict.")
    return task


def _texts(arguments: Namespace) -> list[Any]:
    texts = list(arguments.texts)
    if arguments.file is not None:
        lines = read_lines(arguments.file)
        texts += [line if is_blank(line) or "\t" not in line else line.split("\t") for line in lines]
    if all(map(is_blank, texts)):
        raise ValueError("There is no text; pass texts after the model, or a file with --file.")
    return texts


def _stream(arguments: Namespace, task: "Seq2Seq", texts: list[Any], decoding: dict[str, Any]) -> dict[str, Any]:
    if arguments.json or arguments.output is not None:
        raise ValueError("--stream prints texts while they are written; leave out --json and --output.")
    for text in texts:
        for piece in () if is_blank(text) else task.stream(text, **decoding):
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
    return {}


def _write(arguments: Namespace, texts: list[Any], answers: list[Any]) -> dict[str, Any]:
    lines = [{"text": text, "answer": answer} for text, answer in zip(texts, answers, strict=True)]
    write_whole(arguments.output, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return {"output": str(arguments.output), "texts": len(texts)}


def _shown(text: str | Sequence[str]) -> str:
    return text if isinstance(text, str) else " ⏵ ".join(text)
