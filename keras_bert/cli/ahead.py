"""`--compile-for`: the process in which `pretrain` and `finetune` compile for accelerators that are not there."""

import os
import subprocess
import sys
from argparse import Namespace
from typing import Any

from keras_bert.training.chips import ENVIRONMENT, Target, read_target

# Set in the process that compiles.
_HERE = "KERAS_BERT_COMPILES"
HELP = (
    "train nothing, but compile the step for accelerators that are not there, such as v5e:2x4, v6e:2x2, a100:4 or t4, "
    "and say what it would need"
)


def chips_of(arguments: Namespace) -> Target | None:
    """Return the chips to compile for, or run the command in a process of its own and return `None`.

    The compilers need JAX on the CPU, which has to be chosen before Keras is imported.
    """
    target = read_target(arguments.compile_for)
    if os.environ.get(_HERE):
        return target
    environment = {**os.environ, **ENVIRONMENT, _HERE: "1"}
    done = subprocess.run([sys.executable, "-m", "keras_bert.cli", *arguments.words], env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return None


def report_of(arguments: Namespace, steps: list[tuple[str, Any, int]]) -> dict[str, Any]:
    """Print what was compiled; with `--json`, return it.

    Args:
        arguments: Of the command.
        steps: Of each phase its name, its `CompiledStep` and the number of steps.
    """
    if arguments.json:
        return {name: {**step.to_dict(), "steps": count} for name, step, count in steps}
    print("\n\n".join(f"{name}\n{step.describe(count)}" for name, step, count in steps))
    return {}
