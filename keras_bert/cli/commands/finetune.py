"""`keras-bert finetune`: labelled texts and pretrained weights → a model directory that answers.

Reads the data, says what it dropped, trains by a recipe, saves. Ctrl-C saves the best model so far; killed, the same
command goes on where it was.
"""

import shutil
import sys
from pathlib import Path

from keras_bert.cli.data_flags import add_data_arguments
from keras_bert.cli.output import add_command, note
from keras_bert.cli.tasks.flags import check_flags
from keras_bert.cli.tasks.table import TASKS, find_kind, find_task
from keras_bert.model.config import POOLINGS

RECIPES = ("standard", "few_sample", "frozen", "lora", "bitfit")


def add(commands) -> None:
    """The command and its arguments."""
    example = "train.tsv sentiment/ --validation dev.tsv --recipe standard"
    command = add_command(commands, "finetune", run, example=example)
    command.add_argument(
        "data",
        metavar="DATA",
        help="labelled texts: .tsv, .csv, .jsonl; CoNLL, SQuAD's and SemEval's files for their tasks; of seq2seq with "
        "the columns source and target (--text, --label)",
    )
    command.add_argument("output", type=Path, help="the model directory to write")
    command.add_argument("--model", default="all-MiniLM-L6-v2", help="pretrained weights (default: %(default)s)")
    command.add_argument("--task", choices=tuple(TASKS), default="classification", help="default: %(default)s")
    command.add_argument(
        "--kind",
        choices=("single_label", "multi_label", "regression"),
        help="of classification (default: found from the labels; numbers with fractions are regression)",
    )
    command.add_argument(
        "--score-range", type=float, nargs=2, metavar=("LOW", "HIGH"), help="of similarity, such as 0 5"
    )
    command.add_argument(
        "--pooling",
        choices=POOLINGS,
        help="what a classifier reads: the first token or the mean of all (default: what suits the model)",
    )
    command.add_argument("--head", choices=("softmax", "crf"), help="of a tagger (default: softmax)")
    command.add_argument(
        "--negative-label",
        metavar="LABEL",
        help="of relations: texts with none of them, which F1 leaves out (default: Other, no_relation, NA or none, "
        "where there is one; '' counts every label)",
    )
    command.add_argument(
        "--validation",
        metavar="FILE",
        help="more of it to measure on; without it a tenth is held out, in whole sentences and contexts",
    )
    add_data_arguments(command.add_argument_group("data"))
    group = command.add_argument_group("training")
    group.add_argument("--recipe", choices=RECIPES, default="standard", help="default: %(default)s")
    group.add_argument("--learning-rate", type=float, help="instead of the recipe's")
    group.add_argument("--epochs", type=float, help="instead of the recipe's")
    group.add_argument("--steps", type=int, help="at least so many steps, for small data")
    group.add_argument("--batch-size", type=int, help="instead of the recipe's")
    group.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="a run each; the best is kept")
    group.add_argument("--average", action="store_true", help="keep the mean of the seeds' weights, where it is better")
    group.add_argument("--metric", help="what decides on validation data (accuracy, macro_f1, matthews …)")
    group.add_argument("--balanced", action="store_true", help="weigh classes so that each counts the same")
    group.add_argument(
        "--sequence-length",
        type=int,
        help="the most tokens (default: 128; for questions 384, for intents and slots 64)",
    )
    group.add_argument(
        "--target-length",
        type=int,
        help="of seq2seq: the most tokens to write (default: a quarter of the row, at most 64)",
    )
    group.add_argument("--label-smoothing", type=float, help="of seq2seq: 0.1 is usual (default: 0)")
    group.add_argument("--windows", action="store_true", help="read longer texts in windows instead of cutting them")


def run(arguments) -> dict:
    """A model fine-tuned on labelled texts; started again after a kill, it goes on where it was."""
    from keras_bert.system.allocator import keep_freed_memory

    if arguments.average and len(arguments.seeds or ()) == 1:
        raise ValueError(f"--average with --seeds {arguments.seeds[0]}: expected two or more runs to average.")
    check_flags(arguments, arguments.task)
    keep_freed_memory()
    commands = find_task(arguments.task)
    rows, train, validation = _read(arguments, commands)
    task = commands.make(arguments, rows)
    names = ("learning_rate", "epochs", "steps", "batch_size")
    changes = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.label_smoothing is not None:
        changes["label_smoothing"] = arguments.label_smoothing
    if arguments.seeds:
        changes["seeds"] = tuple(arguments.seeds)
    if arguments.average:
        changes["average"] = True
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
    _say(arguments, str(report))
    return {
        "model": str(arguments.output),
        report.metric: round(report.score, 4),
        "examples": len(train),
        "seconds": round(sum(trial.seconds for trial in report.runs), 1),
    }


def _read(arguments, commands):
    """All rows, which name the classes; those to train on, and those to measure on."""
    kind = find_kind(arguments, None) if arguments.task == "classification" else None
    rows = commands.read(arguments, arguments.data, "train", kind)
    if kind == "single_label" and find_kind(arguments, rows) == "regression":
        note("the labels are numbers with fractions, so this is regression; --kind single_label makes classes of them.")
        kind = "regression"
        rows = commands.read(arguments, arguments.data, "train", kind)
    _say(arguments, str(rows.report))
    if arguments.glue or arguments.validation:
        return rows, rows, commands.read(arguments, arguments.validation or arguments.data, "dev", kind)
    train, validation = commands.hold_out(rows)
    _say(arguments, f"no --validation: {len(validation):,} of {len(rows):,} rows are held out to measure on")
    return rows, train, validation


def _say(arguments, words):
    print(words, file=sys.stderr if arguments.json else sys.stdout)
