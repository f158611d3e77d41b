"""The flags of `keras-bert pretrain`, group by group, and how their values are read."""

import argparse
from pathlib import Path
from typing import Any

from keras_bert.cli.ahead import HELP

_TEACHER_LOSSES = ("hidden", "sentence", "relations", "mlm")
INITIAL = ("neighbours", "random")
SIZES = ("tiny", "mini", "small", "medium", "base", "large")


def add_model_arguments(group: Any) -> None:
    """Size, vocabulary and weights to begin with."""
    sizes = f"{', '.join(SIZES)}, or blocks and width such as 4x320 (default: %(default)s)"
    size = group.add_mutually_exclusive_group()
    size.add_argument("--size", default="mini", metavar="SIZE", help=sizes)
    size.add_argument(
        "--blocks",
        type=int,
        metavar="N",
        help="instead: the widths of the --teacher, with this many of its blocks to begin with",
    )
    group.add_argument("--vocabulary", type=Path, help="a vocab.txt; without it one is learned from the files")
    group.add_argument(
        "--vocabulary-size", type=int, metavar="N", help="tokens to learn (default: 8000), or to keep of a teacher's"
    )
    group.add_argument(
        "--embedding-dim",
        type=int,
        metavar="N",
        help="columns of the token table, fewer than the width: small models with many tokens (default: the width)",
    )
    group.add_argument("--start-from", metavar="MODEL", help="go on from this model, with its size and vocabulary")


def add_training_arguments(group: Any) -> None:
    """Length, schedule, masks and validation."""
    length = group.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="default: 10000")
    length.add_argument(
        "--budget",
        type=_read_budget,
        metavar="TIME",
        help="a time instead, such as 45m or 1h30m: the step is measured, and the number of steps set so that all ends "
        "in time",
    )
    length.add_argument(
        "--phases",
        type=_read_phases,
        metavar="PHASES",
        help="several instead, LENGTH:STEPS or LENGTH:STEPS:BATCH each, such as 128:9000,512:1000:8",
    )
    group.add_argument("--sequence-length", type=int, default=128, help="tokens of a row (default: %(default)s)")
    group.add_argument("--batch-size", type=int, default=32, help="rows of a step (default: %(default)s)")
    group.add_argument("--learning-rate", type=float, help="its peak (default: by size, 2e-3 for tiny, 1e-3 for mini)")
    group.add_argument("--warmup", type=float, default=0.05, help="share of the steps (default: %(default)s)")
    group.add_argument("--optimizer", choices=("adamw", "lamb"), default="adamw", help="default: %(default)s")
    group.add_argument("--beta-2", type=float, default=0.999, help="of the optimizer (default: %(default)s)")
    group.add_argument(
        "--dropout",
        type=float,
        default=0.0,
        help="while pretraining (default: 0); 0.1 for many passes over little text",
    )
    group.add_argument(
        "--initial",
        choices=INITIAL,
        default="neighbours",
        help="weights to begin with: heads that look at neighbouring tokens, or all random (default: %(default)s)",
    )
    group.add_argument(
        "--grow",
        type=_read_growth,
        default=(),
        metavar="GROWTH",
        help="begin with fewer blocks, BLOCKS:UNTIL_STEP each, such as 1:1000,2:3000",
    )
    group.add_argument(
        "--mask-rate", type=float, default=0.3, help="share of tokens to predict at the start (default: %(default)s)"
    )
    group.add_argument(
        "--final-mask-rate", type=float, default=0.15, help="and at the end, falling evenly (default: %(default)s)"
    )
    group.add_argument("--mask", choices=("token", "word", "span"), default="token", help="default: %(default)s")
    group.add_argument(
        "--packed", action="store_true", help="several short examples in one row: no compute for padding"
    )
    group.add_argument("--negatives", type=int, metavar="K", help="sampled softmax, for large vocabularies")
    group.add_argument("--validation", nargs="+", metavar="FILE", help="text to measure on, every --save-every steps")
    group.add_argument(
        "--validation-steps", type=int, default=50, help="batches to measure on each time (default: %(default)s)"
    )
    group.add_argument("--seed", type=int, default=0)


def add_teacher_arguments(group: Any) -> None:
    """Whom to learn from, and what."""
    group.add_argument("--teacher", metavar="MODEL", help="learn from this model's hidden states, on the same text")
    group.add_argument(
        "--teacher-losses",
        type=_read_weights,
        default={},
        metavar="WEIGHTS",
        help="hidden, sentence, relations and mlm with their weights (default: hidden=1,sentence=1)",
    )
    group.add_argument(
        "--teacher-layers",
        type=_read_layers,
        metavar="PAIRS",
        help="layers whose states are compared, STUDENT:TEACHER each, such as 0:0,1:2,2:4; 0 is the embeddings "
        "(default: the last of both)",
    )
    group.add_argument("--teacher-passes", type=int, default=4, help="reads of a text (default: %(default)s)")
    group.add_argument(
        "--teacher-words",
        type=int,
        default=0,
        metavar="N",
        help="also read all words of the vocabulary in random order, N times, to learn those that the text hardly has",
    )
    group.add_argument(
        "--teacher-cache-gb", type=float, default=4.0, help="outputs to keep on disk; 0: none (default: %(default)s)"
    )
    group.add_argument("--teacher-device", metavar="DEVICE", help="where the teacher runs, such as gpu:1")


def add_machine_arguments(group: Any) -> None:
    """States, memory and devices."""
    group.add_argument(
        "--save-every",
        type=int,
        help="steps between states, a divisor of the steps (default: up to 500; with --budget up to 20 states in all)",
    )
    group.add_argument("--accumulation", type=int, default=1, help="parts of a batch, to save memory")
    group.add_argument("--precision", default="auto", help="a dtype policy; auto: half precision on GPUs and TPUs")
    group.add_argument("--strategy", default="auto", help="which devices (default: %(default)s)")
    group.add_argument("--compile-for", metavar="CHIPS", help=HELP)
    group.add_argument("--service", metavar="ADDRESS", help="a tf.data service that reads, for several machines")


def _read_budget(text: str) -> float:
    from keras_bert.system.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _read_growth(text: str) -> tuple[tuple[int, int], ...]:
    """`1:1000,2:3000` → `((1, 1000), (2, 3000))`."""
    return _read_pairs(text, f"{text!r} is no growth; expected BLOCKS:UNTIL_STEP, such as 1:1000,2:3000")


def _read_phases(text: str) -> list[tuple[int, int, int | None]]:
    """`128:9000,512:1000:8` → `[(128, 9000, None), (512, 1000, 8)]`."""
    phases = []
    for part in text.split(","):
        numbers = part.split(":")
        if len(numbers) not in (2, 3) or not all(number.isascii() and number.isdigit() for number in numbers):
            raise argparse.ArgumentTypeError(f"{part!r} is no phase; expected LENGTH:STEPS or LENGTH:STEPS:BATCH")
        length, steps, *batch = map(int, numbers)
        phases.append((length, steps, batch[0] if batch else None))
    return phases


def _read_layers(text: str) -> tuple[tuple[int, int], ...]:
    """`0:0,1:2` → `((0, 0), (1, 2))`."""
    return _read_pairs(text, f"{text!r} are no layers; expected STUDENT:TEACHER, such as 1:2,2:4")


def _read_pairs(text: str, error: str) -> tuple[tuple[int, int], ...]:
    pairs = [part.split(":") for part in text.split(",")]
    if not all(len(pair) == 2 and all(number.isascii() and number.isdigit() for number in pair) for pair in pairs):
        raise argparse.ArgumentTypeError(error)
    return tuple((int(first), int(second)) for first, second in pairs)


def _read_weights(text: str) -> dict[str, float]:
    """`hidden=1,relations=0.5` → `{"hidden": 1.0, "relations": 0.5}`."""
    weights = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is no weight; expected NAME=NUMBER") from None
        if name not in _TEACHER_LOSSES:
            raise argparse.ArgumentTypeError(f"{name!r} is no loss; expected one of {', '.join(_TEACHER_LOSSES)}")
    return weights
