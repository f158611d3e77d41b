"""A fine-tuned task and its user's data → the smallest file that keeps an accuracy promise, with the proof.

`deploy` searches (`search/run.py`), chooses (`search/trials.py`) and writes a directory (`deployment/files.py`) that an
app, a server and a reader can take over. A room of its own because it is the whole path in one call: everything it does
can be done by hand with the functions that it calls.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export.deployment.files import write_deployment
from export.deployment.proof import gather_proof
from export.deployment.result import Deployment
from export.search.candidates import Candidate
from export.search.data import read_data
from export.search.intervals import least_half_width, needed_examples
from export.search.proposals import list_candidates
from export.search.run import Search
from export.search.trials import choose
from export.serving.tasks import find_served
from export.verification.parity import VerificationError
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.base.task import Task

WORK = ".work"


def deploy(
    model: Task | str | os.PathLike,
    directory: str | os.PathLike,
    train: Any = None,
    validation: Any = None,
    accuracy_budget: float = 0.01,
    *,
    candidates: Sequence[Candidate] | None = None,
    recipes: Sequence[str] | None = None,
    lengths: str | int | Sequence[int] | None = None,
    time_limit: float | None = None,
    columns: dict | None = None,
    seed: int = 0,
    verbose: int | str = "auto",
) -> Deployment:
    """Find the smallest file that stays within an accuracy budget, and write all that an app needs.

    Tries, in the order of what they cost: the model as it is by every recipe, a smaller vocabulary, fewer blocks,
    distilled students, and training for quantization. Each candidate is measured through the device's runtime. Killed
    and started again with the same data, it goes on where it was: what is finished is kept in `directory/.work`, which
    may be deleted when no other budget is to be tried.

    Args:
        model: A fine-tuned task, or a directory that has one.
        directory: Where to write: `model.tflite`, `saved_model/`, `keras/`, `vocab.txt`, `labels.txt`, `golden.json`,
            `report.html`, `model_card.md`, `manifest.json`. They are replaced when all of them are done.
        train: Training data in any form that `model.fit` takes, `(x, y)` or one value; without it nothing is trained.
        validation: Labelled data in the same forms, which the promise is measured on.
        accuracy_budget: How much of the task's metric may be lost: 0.01 is one point.
        candidates: What to try instead of `list_candidates(…)`.
        recipes: Names of recipes of `convert`; `None` takes all but `static_int16x8`, which CPUs have no kernels for.
        lengths: What the app's runtime takes. `"fixed"` are some lengths that suit the validation texts, which browsers
            and LiteRT on Android run, a number is one length, as MediaPipe wants it, several are several; `"dynamic"`
            is any length. `None` tries any and fixed, and takes what is smaller.
        time_limit: Seconds. Nothing is begun that would take longer, judged by what was measured; skipped rows say so.
        columns: Columns of files, as for `fit`.
        seed: Of the training and of what is drawn.
        verbose: 0 says nothing, 1 shows a bar and each row, 2 the training too; `"auto"` is 1.

    Returns:
        A `Deployment` to print.

    Example:
        ```python
        result = export.deploy(classifier, "out", train="train.tsv", validation="dev.tsv", accuracy_budget=0.01)
        print(result)
        classify = export.load("out")
        ```
    """
    _check(accuracy_budget, time_limit)
    teacher = model if isinstance(model, Task) else load_task(model)
    find_served(teacher)  # an error now, and not behind the search
    data = read_data(teacher, train, validation, columns=columns, seed=seed)
    examples = 0 if data.train is None else len(data.train.labelled)
    if candidates is None:
        wanted = {"row_lengths": data.row_lengths(teacher), "recipes": recipes, "lengths": lengths}
        candidates = list_candidates(teacher, examples=examples, seed=seed, **wanted)
    elif recipes is not None or lengths is not None:
        raise ValueError("candidates have their own recipes and lengths: pass candidates or these, not both.")
    directory, verbose = Path(directory).expanduser(), 1 if verbose == "auto" else int(verbose)
    notes = (*data.notes, *_doubts(len(data.validation.labelled), accuracy_budget))
    if verbose:
        print(*notes, sep="\n", end="\n" if notes else "")
    work = directory / WORK / data.fingerprint(teacher)
    search = Search(teacher, data, work, budget=accuracy_budget, time_limit=time_limit, verbose=verbose)
    found = search.run(candidates)
    asked = {candidate.key for candidate in candidates}
    eligible = [trial for trial in found.trials if lengths is None or trial.key in asked]  # all but the reference
    chosen, is_kept = choose(eligible, found.teacher_score - accuracy_budget)
    task, file = search.models.make(search.candidates[chosen.key].model).task, search.restore_file(chosen)
    proof = gather_proof(teacher, task, data, file, search.file_of(found.reference))
    if proof.parity.tokens_differ:
        raise VerificationError(f"{file} splits {proof.parity.tokens_differ} texts otherwise than the task does.")
    result = Deployment(
        directory=directory,
        chosen=chosen,
        trials=found.trials,
        reference=found.reference,
        metric=data.metric,
        teacher_score=found.teacher_score,
        budget=accuracy_budget,
        is_kept=is_kept,
        interval=proof.interval,
        notes=(*notes, *_verdicts(proof.interval, accuracy_budget)),
    )
    write_deployment(result, task, file, data, proof)
    return result


def _check(budget, time_limit):
    if not isinstance(budget, int | float) or not 0 <= budget < 1:
        raise ValueError(
            f"accuracy_budget={budget!r}: expected a share of the metric from 0 to below 1; 0.01 is a point."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit={time_limit!r}: expected seconds, more than 0, or None.")


def _doubts(examples, budget):
    """What so few validation examples cannot tell, before anything is tried."""
    least = least_half_width(examples)
    if least <= budget:
        return ()
    return (
        f"{examples:,} validation examples cannot tell a loss of {100 * budget:g} points: even answers that are all "
        f"the same leave ± {100 * least:.1f} points open; it takes {needed_examples(budget):,} examples or more",
    )


def _verdicts(interval, budget):
    """What the validation data says of the chosen file, and how sure that is."""
    if interval is None:
        return ()
    if interval.low >= -budget:
        return (f"the difference to the teacher is {interval}: all of that is within the budget",)
    return (
        f"the difference to the teacher is {interval}: {interval.examples:,} examples cannot rule out a larger loss "
        f"than the budget of {100 * budget:g} points",
    )
