"""Find the smallest file that stays within an accuracy budget, and write it with the measurements behind the choice.

`deploy` searches (`search/run.py`), chooses (`search/trials.py`) and writes a directory (`deployment/files.py`) for an
app, a server and a reader. Each step can also be done with the functions that it calls.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export.deployment.files import write_deployment
from export.deployment.proof import Proof, gather_proof
from export.deployment.result import Deployment, count_points
from export.search.candidates import Candidate
from export.search.data import read_data
from export.search.intervals import ScoreInterval, least_half_width, needed_examples
from export.search.proposals import list_candidates
from export.search.run import Search
from export.search.trials import choose
from export.serving.tasks import find_served
from export.tasks.base.tensorflow_process import on_tensorflow
from export.verification.parity import VerificationError
from keras_bert.system.directory_claim import claimed
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.base.task import Task

WORK = ".work"


@on_tensorflow()
def deploy(
    model: Task | str | os.PathLike[str],
    directory: str | os.PathLike[str],
    train: Any = None,
    validation: Any = None,
    accuracy_budget: float = 0.01,
    *,
    candidates: Sequence[Candidate] | None = None,
    recipes: Sequence[str] | None = None,
    lengths: str | int | Sequence[int] | None = None,
    time_limit: float | None = None,
    columns: dict[str, Any] | None = None,
    seed: int = 0,
    verbose: int | str = "auto",
) -> Deployment:
    """Find the smallest file that stays within an accuracy budget, and write all that an app needs.

    Tries, in the order of their cost: the model as it is with every recipe, a smaller vocabulary, fewer blocks,
    distilled students, and quantization-aware training. Each candidate is measured with the device runtime. If it is
    interrupted and started again with the same data, it continues: finished candidates are kept in `directory/.work`,
    which you may delete if you do not want to try another budget.

    Args:
        model: A fine-tuned task, or a directory that has one.
        directory: The directory to write: `model.tflite`, `saved_model/`, `keras/`, `vocab.txt`, `labels.txt`,
            `golden.json`, `report.html`, `model_card.md`, `manifest.json`. Old files are replaced when all new ones
            are done.
        train: Training data in any form that `model.fit` takes, `(x, y)` or one value; without it nothing is trained.
        validation: Labelled data in the same forms, to measure the files on.
        accuracy_budget: How much of the task's metric may be lost: 0.01 is one point.
        candidates: The candidates to try instead of `list_candidates(…)`.
        recipes: Names of recipes of `convert`; `None` takes all except `static_int16x8`, which is slow on CPUs.
        lengths: The lengths that the app's runtime takes. `"fixed"` are some lengths that suit the validation texts,
            for browsers and LiteRT on Android; a number is one length, for MediaPipe; several numbers are several
            lengths; `"dynamic"` is any length. `None` tries `"dynamic"` and `"fixed"`, and takes the smaller.
        time_limit: Seconds. Candidates that are expected to take longer are skipped, with a note.
        columns: Columns of files, as for `fit`.
        seed: The seed of the training and of random choices.
        verbose: 0 shows nothing, 1 a bar and each trial, 2 the training too; `"auto"` is 1.

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
    find_served(teacher)  # raises an error now rather than after the search
    data = read_data(teacher, train, validation, columns=columns, seed=seed)
    examples = 0 if data.train is None else len(data.train.labelled)
    if candidates is None:
        wanted: dict[str, Any] = {"row_lengths": data.row_lengths(teacher), "recipes": recipes, "lengths": lengths}
        candidates = list_candidates(teacher, examples=examples, seed=seed, **wanted)
    elif recipes is not None or lengths is not None:
        raise ValueError("Got candidates with recipes or lengths; candidates have their own. Pass one or the other.")
    directory, verbose = Path(directory).expanduser(), 1 if verbose == "auto" else int(verbose)
    notes = (*data.notes, *_doubts(len(data.validation.labelled), accuracy_budget))
    if verbose:
        print(*notes, sep="\n", end="\n" if notes else "")
    with claimed(directory):
        work = directory / WORK / data.fingerprint(teacher)
        search = Search(teacher, data, work, budget=accuracy_budget, time_limit=time_limit, verbose=verbose)
        result, task, file, proof = _find(search, directory, candidates, lengths, notes)
        write_deployment(result, task, file, data, proof)
    return result


def _find(
    search: Search,
    directory: Path,
    candidates: Sequence[Candidate],
    lengths: str | int | Sequence[int] | None,
    notes: tuple[str, ...],
) -> tuple[Deployment, Task, Path, Proof]:
    """The smallest file that keeps the promise: what is known of it, its task, the file, and the proof."""
    teacher, data, budget = search.teacher, search.data, search.budget
    found = search.run(candidates)
    asked = {candidate.key for candidate in candidates}
    eligible = [trial for trial in found.trials if lengths is None or trial.key in asked]  # without the reference
    chosen, is_kept = choose(eligible, found.teacher_score - budget)
    task, file = search.models.make(search.candidates[chosen.key].model).task, search.restore_file(chosen)
    proof = gather_proof(teacher, task, data, file, search.file_of(found.reference))
    if proof.parity.tokens_differ:
        raise VerificationError(
            f"{file} splits {proof.parity.tokens_differ} texts differently from the task; please report this."
        )
    result = Deployment(
        directory=directory,
        chosen=chosen,
        trials=found.trials,
        reference=found.reference,
        metric=data.metric,
        teacher_score=found.teacher_score,
        budget=budget,
        is_kept=is_kept,
        interval=proof.interval,
        notes=(*notes, *_verdicts(proof.interval, budget)),
    )
    return result, task, file, proof


def _check(budget: Any, time_limit: float | None) -> None:
    if not isinstance(budget, int | float) or not 0 <= budget < 1:
        raise ValueError(
            f"Got accuracy_budget={budget!r}; expected a number of at least 0 and below 1, such as 0.01 for one point."
        )
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"Got time_limit={time_limit!r}; expected seconds above 0, or None.")


def _doubts(examples: int, budget: float) -> tuple[str, ...]:
    """What a small validation set cannot show, said before the search."""
    least = least_half_width(examples)
    if least <= budget:
        return ()
    return (
        f"{examples:,} validation examples cannot show a loss of {count_points(budget)}: even if all answers are the "
        f"same, the interval is ± {100 * least:.1f} points; use at least {needed_examples(budget):,} examples",
    )


def _verdicts(interval: ScoreInterval | None, budget: float) -> tuple[str, ...]:
    """What the validation data shows about the chosen file, and how certain that is."""
    if interval is None:
        return ()
    if interval.low >= -budget:
        return (f"the difference from the teacher is {interval}, all of it within the budget",)
    return (
        f"the difference from the teacher is {interval}: {interval.examples:,} examples cannot rule out a larger loss "
        f"than the budget of {count_points(budget)}",
    )
