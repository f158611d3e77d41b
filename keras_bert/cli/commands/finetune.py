"""`keras-bert finetune`: train a model for a task on labelled texts, and save it.

It prints which rows were dropped, and trains by a recipe. Ctrl-C saves the best model so far. After a kill, the same
command resumes the run.
"""

import shutil
import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from keras_bert.cli.ahead import HELP, chips_of, report_of
from keras_bert.cli.data_flags import add_data_arguments, add_flags, check_flags
from keras_bert.cli.output import add_command
from keras_bert.tasks.base.registry import TaskEntry, find_task, registered_tasks
from keras_bert.tasks.base.task_flags import is_given

RECIPES = ("standard", "few_sample", "frozen", "lora", "bitfit")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = "train.tsv sentiment/ --validation dev.tsv --recipe standard"
    command = add_command(commands, "finetune", run, example=example)
    command.add_argument(
        "data",
        metavar="DATA",
        help="labelled texts: .tsv, .csv, .jsonl; CoNLL, SQuAD's and SemEval's files for their tasks; for seq2seq with "
        "the columns source and target (--text, --label)",
    )
    command.add_argument("output", type=Path, help="the model directory to write")
    command.add_argument("--model", default="all-MiniLM-L6-v2", help="pretrained weights (default: %(default)s)")
    command.add_argument(
        "--task",
        type=_task_name,
        choices=tuple(registered_tasks()),
        default="classification",
        help="default: %(default)s",
    )
    command.add_argument(
        "--validation",
        metavar="FILE",
        help="labelled texts to measure on; without it a tenth of DATA is held out, in whole sentences and contexts",
    )
    add_data_arguments(command.add_argument_group("data"))
    group = command.add_argument_group("training")
    group.add_argument("--recipe", choices=RECIPES, default="standard", help="default: %(default)s")
    group.add_argument("--learning-rate", type=float, help="instead of the recipe's")
    group.add_argument("--epochs", type=float, help="instead of the recipe's")
    group.add_argument("--steps", type=int, help="minimum number of steps, for small data")
    group.add_argument("--batch-size", type=int, help="instead of the recipe's")
    group.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="one run per seed; the best is kept")
    group.add_argument("--average", action="store_true", help="keep the mean of the seeds' weights, if it is better")
    group.add_argument("--metric", help="what decides on validation data (accuracy, macro_f1, matthews …)")
    group.add_argument("--balanced", action="store_true", help="weigh classes so that each counts the same")
    group.add_argument("--compile-for", metavar="CHIPS", help=HELP)
    group.add_argument(
        "--sequence-length",
        type=int,
        help="maximum number of tokens (default: 128; for questions 384, for intents and slots 64)",
    )
    add_flags(command.add_argument_group("settings of single tasks"), "flags", "fit_flags", name_tasks=True)


def run(arguments: Namespace) -> dict[str, Any]:
    """Fine-tune a model on labelled texts; the same command resumes a killed run."""
    from keras_bert.system.allocator import keep_freed_memory

    if arguments.average and len(arguments.seeds or ()) == 1:
        raise ValueError(f"--average with --seeds {arguments.seeds[0]}: expected two or more seeds to average.")
    check_flags(arguments, arguments.task)
    target = None
    if arguments.compile_for is not None and (target := chips_of(arguments)) is None:
        return {}
    keep_freed_memory()
    entry = find_task(arguments.task)
    if arguments.sequence_length is None:
        arguments.sequence_length = entry.sequence_length
    task, train, validation = _make(arguments, entry)
    names = ("learning_rate", "epochs", "steps", "batch_size")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    own = [flag.dest for flag in entry.fit_flags if is_given(arguments, flag.dest)]
    changes |= {name: getattr(arguments, name) for name in own}
    if arguments.seeds:
        changes["seeds"] = tuple(arguments.seeds)
    if arguments.average:
        changes["average"] = True
    if target is not None:
        from keras_bert.tasks.base.ahead_of_time import compile_fit

        step, steps = compile_fit(task, train, target=target, recipe=arguments.recipe, **changes)
        return report_of(arguments, [(f"{step.rows} rows of {step.tokens // step.rows} tokens", step, steps)])
    state = arguments.output / "state"
    report = task.fit(
        train,
        validation_data=validation,
        recipe=arguments.recipe,
        metric=arguments.metric,
        class_weight="balanced" if arguments.balanced else None,
        directory=state,
        verbose=0 if arguments.json else "auto",
        **changes,
    )
    task.save(arguments.output)
    if not report.interrupted:
        shutil.rmtree(state, ignore_errors=True)
    _print(arguments, str(report))
    return {
        "model": str(arguments.output),
        report.metric: round(report.score, 4),
        "examples": len(train),
        "seconds": round(sum(trial.seconds for trial in report.runs), 1),
    }


def _task_name(word: str) -> str:
    try:
        return find_task(word).name
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _make(arguments: Namespace, entry: TaskEntry) -> tuple[Any, Any, Any]:
    """An untrained task with all classes of the data, the rows to train on, and the rows to measure on."""
    if arguments.validation and not Path(arguments.validation).exists():  # before the model is loaded
        raise FileNotFoundError(f"{arguments.validation} does not exist; expected a file to measure on.")
    rows = entry.read(arguments, arguments.data, "train", None)
    if (report := getattr(rows, "report", None)) is not None:
        _print(arguments, str(report))
    if arguments.glue or arguments.validation:
        task = entry.make_task(arguments, rows)
        return task, rows, entry.read(arguments, arguments.validation or arguments.data, "dev", task)
    train, validation = entry.hold_out(rows)
    _print(arguments, f"no --validation: {len(validation):,} of {len(rows):,} rows are held out to measure on")
    return entry.make_task(arguments, rows), train, validation


def _print(arguments: Namespace, text: str) -> None:
    print(text, file=sys.stderr if arguments.json else sys.stdout)
