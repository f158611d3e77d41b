"""Uses one process for long, and measures whether memory grows or work gets slower.

    python tests/faults/endurance.py predict --seconds 3600     # all tasks by turns, texts of any number and length
    python tests/faults/endurance.py convert --times 10000      # convert → load → answer
    python tests/faults/endurance.py fit --times 1000           # a new task each time, as in a search of settings
    python tests/faults/endurance.py refit --times 1000         # one task again and again

Prints and records, for the time after the first fifth (in which shapes are compiled and pools fill): the slope of
the process's memory by least squares, how much it grew between the first and the last quarter of that time, and
the processor time of a round at the end as a multiple of that at the beginning. `--output` is written every minute and
keeps what other kinds of work have written there.
"""

import argparse
import gc
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1]), str(HERE.parents[1] / "benchmarks")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
from record import write_run  # noqa: E402

CORPUS = HERE.parent / "compat" / "0.1.0"
TEXT = "the film was very good and a train in to rome anna who is it dull plot poor cast fine 中 🎬 unknown"
_WARM_UP = 0.2
_EVERY = 60.0  # seconds between two writings of the results

# === Work ===
# Each is a generator that does one round of work every time it is asked, and gives what kind of round it was.


def predict(directory: Path) -> Iterator[str]:
    """Answers of all tasks, to texts of any number and length."""
    import keras_bert

    chance = random.Random(0)
    # Every call of its recorded questions is a form that a task takes; the texts in it are put in place of others.
    tasks = {}
    for answers in sorted((CORPUS / "tasks").glob("*.json")):
        inputs = json.loads(answers.read_text(encoding="utf-8"))["inputs"]
        tasks[answers.stem] = (keras_bert.load_task(CORPUS / "tasks" / answers.stem), inputs["calls"])

    def text() -> str:
        return " ".join(chance.choices(TEXT.split(), k=chance.choice([1, 2, 3, 5, 8, 13, 21, 34, 200])))

    while True:
        name, (task, calls) = chance.choice(list(tasks.items()))
        call = chance.choice(calls)
        given = call["args"]
        if name not in ("relation", "aspect") and len(given) == 1 and all(isinstance(one, str) for one in given[0]):
            given = [[text() for _ in range(chance.choice([1, 1, 1, 2, 3, 7, 40]))]]
        elif name in ("question_answering", "multiple_choice"):
            given = [text(), given[1]] if name == "multiple_choice" else [given[0], text()]
        task.predict(*given, **call.get("options", {}))
        yield name


def convert(directory: Path) -> Iterator[str]:
    """A file, written anew, opened and asked."""
    import export
    import keras_bert

    task = keras_bert.load_task(CORPUS / "tasks" / "classification")
    recipes = ("float32", "dynamic_int8")
    while True:
        for recipe in recipes:
            artifact = export.convert(task, directory / "model.tflite", recipe=recipe, check=False)
            answers = export.load(artifact.path)(["a good film", "a very long and dull plot"])
            if len(answers) != 2:
                raise RuntimeError(f"the file answers {answers}")
            yield recipe


def fit(directory: Path) -> Iterator[str]:
    """A new task, fitted."""
    while True:
        _fit(_new_task())
        yield "fit"


def refit(directory: Path) -> Iterator[str]:
    """The same task, fitted again."""
    task = _new_task()
    while True:
        _fit(task)
        yield "refit"


def _new_task():
    import keras_bert

    return keras_bert.TextClassifier.from_pretrained(
        CORPUS / "checkpoints" / "huggingface", labels=["bad", "good"], sequence_length=16, seed=0
    )


def _fit(task) -> None:
    texts, labels = ["a good film", "a dull plot"] * 8, ["good", "bad"] * 8
    task.fit(texts, labels, validation_data=(texts, labels), epochs=1, batch_size=8, verbose=0)
    task.predict(texts[:1])


WORK: dict[str, Callable[[Path], Iterator[str]]] = {"predict": predict, "convert": convert, "fit": fit, "refit": refit}

# === Measuring ===


def main() -> None:
    """Work until the time or the count is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORK)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--times", type=int, default=10**9)
    parser.add_argument("--output", type=Path, help="a file for the measurements, as JSON")
    arguments = parser.parse_args()
    if arguments.seconds == float("inf") and arguments.times == 10**9:
        parser.error("say --seconds or --times")
    began = written = time.monotonic()
    memory: list[float] = []
    seconds: list[float] = []
    kinds: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        rounds = WORK[arguments.work](Path(directory))
        while len(memory) < arguments.times and time.monotonic() - began < arguments.seconds:
            start = time.process_time()
            kinds.append(next(rounds))
            seconds.append(time.process_time() - start)
            memory.append(_resident(collects=seconds[-1] > 1.0 or len(memory) % 50 == 0))
            if time.monotonic() - written > _EVERY:
                written = time.monotonic()
                _write(arguments, memory, seconds, kinds, written - began)
        rounds.close()
    print(json.dumps(_write(arguments, memory, seconds, kinds, time.monotonic() - began), indent=1))


def _resident(*, collects: bool) -> float:
    """The megabytes of memory that the process has to itself; models are cycles, which only a collection frees."""
    if collects:
        gc.collect()
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(memory: list[float], seconds: list[float], kinds: list[str]) -> dict:
    """What grows with the rounds.

    Example:
        >>> measure([100.0] * 10, [1.0] * 10, ["fit"] * 10)["megabytes_per_1000_rounds"]
        0.0
    """
    first = int(len(memory) * _WARM_UP)
    kept = np.array(memory[first:])
    quarter = max(1, len(kept) // 4)
    slope = float(np.polyfit(np.arange(len(kept)), kept, 1)[0]) if len(kept) > 1 else 0.0
    return {
        "rounds": len(memory),
        "megabytes_at_first": round(memory[0], 1),
        "megabytes_after_warm_up": round(float(np.median(kept[:quarter])), 1),
        "megabytes_at_last": round(float(np.median(kept[-quarter:])), 1),
        "megabytes_per_1000_rounds": round(1000 * slope, 3),
        "seconds_of_a_round": round(float(np.mean(seconds[first:])), 4),
        "slowdown": _slowdown(seconds[first:], kinds[first:]),
    }


def _slowdown(seconds: list[float], kinds: list[str]) -> float | None:
    """The median time of a round in the last quarter, as a multiple of that in the first; the mean of all kinds."""
    found = []
    for kind in sorted(set(kinds)):
        own = [one for one, name in zip(seconds, kinds, strict=True) if name == kind]
        quarter = len(own) // 4
        if quarter:
            found.append(float(np.median(own[-quarter:]) / np.median(own[:quarter])))
    return round(float(np.mean(found)), 3) if found else None


def _write(arguments: argparse.Namespace, memory, seconds, kinds, passed: float) -> dict:
    found = {"wall_seconds": round(passed, 1), **measure(memory, seconds, kinds)}
    if arguments.output is not None:
        write_run(arguments.output, found, packages=("tensorflow", "keras", "ai-edge-litert"), part=arguments.work)
    return found


if __name__ == "__main__":
    main()
