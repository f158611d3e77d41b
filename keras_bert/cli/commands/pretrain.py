"""`keras-bert pretrain`: pretrains a BERT on text files, in one command that can be killed and resumed.

Learns a vocabulary, makes examples, trains in one phase or several, and draws a report. This module decides where files
go in the output directory; the work is done in `keras_bert.pretraining`.
"""

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.cli.ahead import chips_of, report_of
from keras_bert.cli.output import add_command
from keras_bert.cli.pretraining_flags import (
    add_machine_arguments,
    add_model_arguments,
    add_teacher_arguments,
    add_training_arguments,
)

if TYPE_CHECKING:
    from keras_bert.model.config import BertConfig
    from keras_bert.pretraining.plan import Phase, PretrainingPlan
    from keras_bert.pretraining.teacher.plan import Teacher
    from keras_bert.text.tokenizer import BertTokenizer


def add(commands: Any) -> None:
    """The command and its arguments."""
    command = add_command(commands, "pretrain", run, example="corpus/*.txt.gz my-bert/ --size mini --steps 10000")
    command.add_argument("files", nargs="+", help="text files, a blank line between documents; .gz, .jsonl; globs work")
    command.add_argument("output", type=Path, help="the directory to write: model/, report.html, state/, examples-…/")
    add_model_arguments(command.add_argument_group("model"))
    add_training_arguments(command.add_argument_group("training"))
    add_teacher_arguments(command.add_argument_group("teacher"))
    add_machine_arguments(command.add_argument_group("machine"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """A BERT of one's own, from text files; started again, it continues where it was."""
    from keras_bert.pretraining.run import pretrain, pretrain_in_phases
    from keras_bert.system.allocator import keep_freed_memory
    from keras_bert.training.resume import require_writable

    if arguments.compile_for is not None:
        return _compile(arguments)
    began = time.monotonic()
    output, several = arguments.output, arguments.phases is not None
    lengths = arguments.phases or [(arguments.sequence_length, _steps(arguments), arguments.batch_size)]
    plans = [_plan(arguments, steps, batch_size or arguments.batch_size) for _, steps, batch_size in lengths]
    teacher = _teacher(arguments)
    require_writable(output)
    keep_freed_memory()
    try:
        tokenizer, config = _tokenizer_and_config(arguments, max(length for length, *_ in lengths))
        phases = [_phase(arguments, tokenizer, length, plan) for (length, *_), plan in zip(lengths, plans, strict=True)]
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; what is made so far is in {output}. The same command goes on.") from None
    options = {"start_from": arguments.start_from, "verbose": 0 if arguments.json else "auto"}
    if several:
        history = pretrain_in_phases(phases, output, config, tokenizer, **options)[-1]
    else:
        (phase,) = phases
        if arguments.budget is not None:
            phase = _fit_to_budget(arguments, phase, config, tokenizer, teacher, spent=time.monotonic() - began)
        options |= {"validation": phase.validation, "teacher": teacher}
        history = pretrain(phase.examples, output, config, tokenizer, phase.plan, **options)
    return {**{name: round(values[-1], 4) for name, values in history.items()}, **_places(output, several)}


def _compile(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile the step of each phase for chips that are not there; neither text nor examples are read."""
    if arguments.teacher is not None or arguments.grow:
        raise ValueError("--compile-for compiles a plan without --teacher and --grow; leave them out.")
    if (target := chips_of(arguments)) is None:
        return {}
    from keras_bert.model.config import BertConfig
    from keras_bert.pretraining.ahead_of_time import compile_plan
    from keras_bert.text.vocabulary import read_vocabulary

    lengths = arguments.phases or [(arguments.sequence_length, _steps(arguments), arguments.batch_size)]
    if arguments.start_from is not None:
        from keras_bert.checkpoint.hub import find_directory
        from keras_bert.checkpoint.loading import open_checkpoint

        config = open_checkpoint(find_directory(arguments.start_from)).settings.config
    else:
        size = arguments.vocabulary_size or 8000
        if arguments.vocabulary is not None:
            size = len(read_vocabulary(arguments.vocabulary))
        longest = max(length for length, *_ in lengths)
        config = BertConfig.preset(arguments.size, **_sizes(arguments, size, longest))
    found = []
    for length, steps, batch_size in lengths:
        plan = _plan(arguments, steps, batch_size or arguments.batch_size)
        found.append((f"{plan.batch_size} rows of {length} tokens", compile_plan(config, plan, length, target), steps))
    return report_of(arguments, found)


def _steps(arguments: argparse.Namespace) -> int:
    """Those of the plan; with a budget they are decided when the step is measured."""
    if arguments.budget is not None:
        return 500 if arguments.save_every is None else arguments.save_every
    return 10_000 if arguments.steps is None else arguments.steps


def _save_every(arguments: argparse.Namespace, steps: int) -> int:
    """The number that was given, or the largest up to 500 that divides the steps of the run and of its growth."""
    if arguments.save_every is not None:
        return arguments.save_every
    shared = math.gcd(steps, *(step for _, step in arguments.grow))
    every = next((count for count in range(min(shared, 500), 0, -1) if shared % count == 0), 500)
    return every if every >= min(shared, 50) else 500  # a state after every few steps would take most of the time


def _fit_to_budget(
    arguments: argparse.Namespace,
    phase: "Phase",
    config: "BertConfig | None",
    tokenizer: "BertTokenizer",
    teacher: "Teacher | None",
    spent: float,
) -> "Phase":
    from keras_bert.pretraining.budget import fit_to_budget

    return fit_to_budget(
        phase,
        arguments.output,
        config,
        tokenizer,
        arguments.budget,
        teacher=teacher,
        save_every=arguments.save_every,
        start_from=arguments.start_from,
        spent=spent,
        verbose=not arguments.json,
    )


def _plan(arguments: argparse.Namespace, steps: int, batch_size: int) -> "PretrainingPlan":
    from keras_bert.pretraining.plan import PretrainingPlan

    return PretrainingPlan(
        steps=steps,
        batch_size=batch_size,
        accumulation=arguments.accumulation,
        learning_rate=arguments.learning_rate,
        optimizer=arguments.optimizer,
        beta_2=arguments.beta_2,
        warmup=arguments.warmup,
        dropout=arguments.dropout,
        initial=arguments.initial,
        growth=arguments.grow,
        mask_rate=arguments.mask_rate,
        final_mask_rate=arguments.final_mask_rate,
        mask_unit=arguments.mask,
        packed=arguments.packed,
        negatives=arguments.negatives,
        save_every=_save_every(arguments, steps),
        validation_steps=arguments.validation_steps,
        service=arguments.service,
        strategy=arguments.strategy,
        precision=arguments.precision,
        seed=arguments.seed,
    )


def _tokenizer_and_config(arguments: argparse.Namespace, longest: int) -> "tuple[BertTokenizer, BertConfig | None]":
    """From the model to start from, from a given vocabulary, or from one that is learned now."""
    from keras_bert.checkpoint import load_tokenizer
    from keras_bert.model.config import BertConfig
    from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece
    from keras_bert.text.vocabulary import learn_vocabulary, write_vocabulary

    if arguments.start_from is not None:
        if arguments.vocabulary is not None:
            raise ValueError("--vocabulary and --start-from: a model has its own vocabulary; leave out one of the two.")
        if arguments.embedding_dim is not None:
            raise ValueError("--embedding-dim and --start-from: a model has its own sizes; leave out one of the two.")
        tokenizer = load_tokenizer(arguments.start_from)
        if tokenizer is None:
            raise ValueError(
                f"--start-from {arguments.start_from} has no vocabulary; expected a model directory with one."
            )
        return require_wordpiece(tokenizer, "Pretraining"), None
    if arguments.teacher is not None:
        return _student_tokenizer_and_config(arguments, longest)
    if arguments.blocks is not None:
        raise ValueError(f"--blocks {arguments.blocks} without --teacher: expected a model whose widths to take.")
    vocabulary = arguments.vocabulary
    if vocabulary is None:
        vocabulary = arguments.output / "vocab.txt"
        if not vocabulary.exists():
            size = arguments.vocabulary_size or 8000
            write_vocabulary(learn_vocabulary(arguments.files, size, progress=not arguments.json), vocabulary)
    tokenizer = BertTokenizer(vocabulary)
    return tokenizer, BertConfig.preset(arguments.size, **_sizes(arguments, tokenizer.vocabulary_size, longest))


def _teacher(arguments: argparse.Namespace) -> "Teacher | None":
    if arguments.teacher is None:
        return None
    from keras_bert.pretraining.teacher.plan import Teacher

    if arguments.phases is not None:
        raise ValueError("--phases and --teacher: a teacher teaches in one phase; go on with --start-from afterwards.")
    if arguments.grow:
        raise ValueError(
            "--grow and --teacher: a student of a teacher has all its blocks from the start; leave out one of the two."
        )
    return Teacher(
        model=arguments.teacher,
        passes=arguments.teacher_passes,
        cache_gb=arguments.teacher_cache_gb,
        device=arguments.teacher_device,
        hidden_layers=arguments.teacher_layers,
        **arguments.teacher_losses,
    )


def _student_tokenizer_and_config(arguments: argparse.Namespace, longest: int) -> "tuple[BertTokenizer, BertConfig]":
    """The teacher's vocabulary, as it is or trimmed, or a given one, read by the teacher's rules."""
    from keras_bert.checkpoint import load_tokenizer
    from keras_bert.checkpoint.hub import find_directory
    from keras_bert.checkpoint.loading import open_checkpoint
    from keras_bert.model.config import BertConfig
    from keras_bert.pretraining.teacher.vocabulary import trim_tokenizer
    from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece
    from keras_bert.text.vocabulary import read_vocabulary

    tokenizer = load_tokenizer(arguments.teacher)
    if tokenizer is None:
        raise ValueError(f"--teacher {arguments.teacher} has no vocabulary; expected a model directory with one.")
    tokenizer = require_wordpiece(tokenizer, "A teacher of pretraining")
    vocabulary, trimmed = arguments.vocabulary, arguments.output / "vocab.txt"
    if vocabulary is None and arguments.vocabulary_size is not None:
        if not trimmed.exists():
            trim_tokenizer(tokenizer, arguments.files, arguments.vocabulary_size).save_vocabulary(trimmed)
        vocabulary = trimmed
    if vocabulary is not None:
        tokens = read_vocabulary(vocabulary)
        tokenizer = BertTokenizer.from_config({**tokenizer.get_config(), "vocabulary": tokens})
    config = open_checkpoint(find_directory(arguments.teacher)).settings.config
    sizes = _sizes(arguments, tokenizer.vocabulary_size, longest)
    if arguments.blocks is None:
        return tokenizer, BertConfig.preset(arguments.size, pooling=config.pooling, **sizes)
    if not 1 <= arguments.blocks <= config.num_layers:
        raise ValueError(f"--blocks {arguments.blocks}: the teacher has {config.num_layers}; expected 1 to that many.")
    return tokenizer, config.replace(num_layers=arguments.blocks, **sizes)


def _sizes(arguments: argparse.Namespace, vocabulary_size: int, longest: int) -> dict[str, Any]:
    """What a config has beside the size's own values. Narrow tables are ELECTRA's, so other libraries open them so."""
    sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "max_sequence_length": max(512, longest)}
    if arguments.embedding_dim is not None:
        sizes |= {"embedding_dim": arguments.embedding_dim, "pooler_activation": "gelu"}
    return sizes


def _phase(arguments: argparse.Namespace, tokenizer: "BertTokenizer", length: int, plan: "PretrainingPlan") -> "Phase":
    """The examples of one length, made where they are not there yet."""
    from keras_bert.pretraining.corpus.writing import layout_there, write_examples
    from keras_bert.pretraining.plan import Phase

    settings = {"sequence_length": length, "seed": arguments.seed, "progress": not arguments.json}
    if arguments.teacher is not None and not arguments.teacher_losses.get("mlm"):
        settings["pairs"] = "single"  # a pair is for the next sentence, which nobody learns here

    def write(files: Any, directory: Path) -> Path:
        # Teachers and services read examples, and so do runs that an earlier version began.
        rows = arguments.teacher is None and arguments.service is None and layout_there(directory) != "examples"
        layout = ("packed" if plan.packed else "padded") if rows else "examples"
        write_examples(files, directory, tokenizer, layout=layout, **settings)
        return directory

    files = [*arguments.files, *_word_lists(arguments, tokenizer)]
    examples, validation = write(files, arguments.output / f"examples-{length}"), None
    if arguments.validation:
        validation = write(arguments.validation, arguments.output / f"validation-{length}")
    return Phase(examples=examples, plan=plan, validation=validation)


def _word_lists(arguments: argparse.Namespace, tokenizer: "BertTokenizer") -> list[Path]:
    """The file for `--teacher-words`, written where it is missing."""
    from keras_bert.pretraining.teacher.vocabulary import write_word_lists

    if not arguments.teacher_words:
        return []
    if arguments.teacher is None:
        raise ValueError(f"--teacher-words {arguments.teacher_words} without --teacher: nobody says what a word means.")
    words = arguments.output / "words.txt"
    if not words.exists():
        write_word_lists(tokenizer, words, arguments.teacher_words, seed=arguments.seed)
    return [words]


def _places(output: Path, several: bool) -> dict[str, str]:
    """Where everything is, to print at the end."""
    from keras_bert.pretraining.report import write_report

    try:
        report = str(write_report(output))
    except ImportError as error:
        report = f"not drawn: {error}"
    runs = str(output / "phase-*") if several else str(output)
    return {
        "model": str(output / "model"),
        "report": report,
        "history": f"{runs}/history.jsonl",
        "tensorboard": f"tensorboard --logdir {output}",
    }
