"""The long jobs of the library, each on something tiny: `run` works in a directory and can be started again there.

`wrong` says what is wrong with a directory after a kill, and `same` what differs from the directory of a run that
nobody disturbed. Both give `None` where all is well.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """A job, with its checks.

    Args:
        run: Takes the directory with what is made beforehand, and the one to work in.
        files: Files and directories that the job leaves and that have the same bytes after every run.
        weights: Files of weights that are the same up to a tolerance.
        check: Opens what is there after a kill, where that promises something.
        leaves: Directories of the job in which there may be more: states, logs, caches.
    """

    run: Callable[[Path, Path], Any]
    files: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    check: Callable[[Path, Path], str | None] = lambda made, place: None
    leaves: tuple[str, ...] = ()


def prepare(made: Path) -> None:
    """What the jobs start from: a corpus, a tiny model, a teacher, a fitted task, reviews."""
    from pretraining_run import write_tiny_examples
    from taught_run import write_teacher
    from tiny_tasks import CONFIG, VOCABULARY, reviews

    import keras_bert

    made.mkdir(parents=True, exist_ok=True)
    write_tiny_examples(made / "pairs")
    write_tiny_examples(made / "singles", pairs="single")
    write_teacher(made / "teacher")
    encoder = keras_bert.bert_encoder(CONFIG.replace(initializer_range=0.1), seed=3)
    keras_bert.save_pretrained(encoder, made / "bert", tokenizer=keras_bert.BertTokenizer(VOCABULARY))
    for name, count, seed in (("train", 64, 1), ("test", 32, 2)):
        rows = [f"{text}\t{label}" for text, label in zip(*reviews(count, seed=seed), strict=True)]
        (made / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    _classifier(made).save(made / "old")
    task = _classifier(made)
    task.fit(made / "train.tsv", verbose=0, epochs=3, learning_rate=1e-2, batch_size=16)
    task.save(made / "task")


def _classifier(made: Path) -> Any:
    import keras_bert

    options = {"labels": ["bad", "good"], "sequence_length": 24, "seed": 0}
    return keras_bert.TextClassifier.from_pretrained(made / "bert", **options)


# === Jobs ===


def _corpus(made: Path, place: Path) -> None:
    from pretraining_run import TOKENIZER

    import keras_bert

    options = {"sequence_length": 32, "workers": 1, "progress": False, "shard_bytes": 1 << 13}
    keras_bert.write_examples(made / "pairs.txt", place / "examples", TOKENIZER, **options)


def _vocabulary(made: Path, place: Path) -> None:
    import keras_bert
    from keras_bert.text.vocabulary import write_vocabulary

    learned = keras_bert.learn_vocabulary([made / "pairs.txt"], 120, progress=False)
    write_vocabulary(learned, place / "vocab.txt")


def _pretrain(made: Path, place: Path) -> None:
    from dataclasses import replace

    from pretraining_run import CONFIG, PLAN, TOKENIZER

    import keras_bert

    plan = replace(PLAN, steps=24, save_every=3)
    keras_bert.pretrain(made / "pairs", place / "run", CONFIG, TOKENIZER, plan, validation=made / "pairs", verbose=0)


def _taught(made: Path, place: Path) -> None:
    from taught_run import teach

    from keras_bert.pretraining.teacher import cache

    cache.CHUNK_ROWS = 32
    teach(made / "singles", made / "teacher", place / "run", relations=1.0, mlm=0.5, cache_gb=0.002)


def _finetune(made: Path, place: Path) -> None:
    task = _classifier(made)
    options = {"epochs": 3, "learning_rate": 1e-2, "batch_size": 16, "seeds": (0, 1), "verbose": 0}
    task.fit(made / "train.tsv", validation_data=made / "test.tsv", directory=place / "runs", **options)
    task.save(place / "model")


def _distill(made: Path, place: Path) -> None:
    import export
    import keras_bert

    teacher = keras_bert.load_task(made / "task")
    student = export.make_student(teacher, num_layers=1, hidden_dim=16, num_heads=2, intermediate_dim=32)
    export.distill(teacher, student, made / "train.tsv", epochs=2, batch_size=16, learning_rate=1e-2, verbose=0)
    student.save(place / "model")


def _quantized(made: Path, place: Path) -> None:
    import export
    import keras_bert

    task = keras_bert.load_task(made / "task")
    export.train_quantized(task, made / "train.tsv", epochs=1, batch_size=16, verbose=0)
    task.save(place / "model")


def _prune(made: Path, place: Path) -> None:
    import export
    import keras_bert

    task = keras_bert.load_task(made / "task")
    export.prune(task, made / "train.tsv", sparsity=0.5, epochs=2, batch_size=16, verbose=0)
    task.save(place / "model")


def _convert(made: Path, place: Path) -> None:
    import export
    import keras_bert

    export.convert(keras_bert.load_task(made / "task"), place / "model.tflite", recipe="dynamic_int8")


def _serve(made: Path, place: Path) -> None:
    import export
    import keras_bert

    # A version that is there is whole, and saving over it is refused: a server may be using it.
    if not (place / "served" / "1").exists():
        export.save_serving(keras_bert.load_task(made / "task"), place / "served")


def _deploy(made: Path, place: Path) -> None:
    import export
    import keras_bert

    recipes = [export.Candidate(recipe=recipe) for recipe in ("dynamic_int8", "float16")]
    task = keras_bert.load_task(made / "task")
    export.deploy(task, place / "out", made / "train.tsv", made / "test.tsv", 0.1, candidates=recipes, verbose=0)


def _save_over(made: Path, place: Path) -> None:
    import shutil

    import keras_bert

    if not (place / "model").exists():
        shutil.rmtree(place / "copying", ignore_errors=True)
        shutil.copytree(made / "old", place / "copying")
        (place / "copying").rename(place / "model")
    new = keras_bert.load_task(made / "task")
    new.save(place / "model")


# === What must hold after a kill ===


def _same_file_or_none(name: str) -> Callable[[Path, Path], str | None]:
    def check(made: Path, place: Path) -> str | None:
        path, wanted = place / name, made / "reference" / name
        if path.exists() and wanted.exists() and path.read_bytes() != wanted.read_bytes():
            return f"{name} is there with other bytes than those of a whole run"
        return None

    return check


def _opens(name: str) -> Callable[[Path, Path], str | None]:
    """A saved task that is there answers; one that is not there yet is no fault."""

    def check(made: Path, place: Path) -> str | None:
        import keras_bert

        if not (place / name / "keras_bert_task.json").exists():
            return None
        answers = keras_bert.load_task(place / name).predict(["a good film", "a dull plot"])
        return None if len(answers) == 2 else f"{name} answers {answers}"

    return check


def _old_or_new(made: Path, place: Path) -> str | None:
    from keras_bert.checkpoint.files import finish_writing

    if not (place / "model").exists():
        return None
    finish_writing(place / "model")  # what every opening does first
    # A killed process leaves a directory with what it was writing; the next one removes it.
    found = {name: one for name, one in digests(place / "model").items() if ".partial" not in name}
    known = [digests(path) for path in (made / "old", made / "reference" / "model")]
    return None if found in known else "the directory is neither the old nor the new"


JOBS = {
    "corpus": Job(_corpus, files=("examples",)),
    "vocabulary": Job(_vocabulary, files=("vocab.txt",), check=_same_file_or_none("vocab.txt")),
    "pretrain": Job(_pretrain, weights=("run/model/model.safetensors",), leaves=("run",)),
    "pretrain_teacher": Job(_taught, weights=("run/model/model.safetensors",), leaves=("run",)),
    "finetune": Job(_finetune, weights=("model/model.safetensors",), check=_opens("model"), leaves=("runs",)),
    "distill": Job(_distill, weights=("model/model.safetensors",), check=_opens("model")),
    "train_quantized": Job(_quantized, weights=("model/model.safetensors",), check=_opens("model")),
    "prune": Job(_prune, weights=("model/model.safetensors",), check=_opens("model")),
    "convert": Job(_convert, files=("model.tflite",), check=_same_file_or_none("model.tflite")),
    "save_serving": Job(_serve, leaves=("served",)),
    "deploy": Job(_deploy, files=("out/model.tflite", "out/golden.json"), leaves=("out",)),
    "save_over": Job(_save_over, files=("model",), check=_old_or_new),
}


# === Comparison ===


def difference(job: Job, reference: Path, place: Path) -> str | None:
    """What differs between a run that was disturbed and one that was not."""
    for name in job.files:
        wanted, found = digests(reference / name), digests(place / name)
        if wanted != found:
            changed = sorted({*wanted.items()} ^ {*found.items()})
            return f"{name}: other files or bytes: {', '.join(sorted({path or name for path, _ in changed}))}"
    for name in job.weights:
        from safetensors.numpy import load_file

        wanted, found = load_file(reference / name), load_file(place / name)
        if wanted.keys() != found.keys():
            return f"{name}: other weights: {sorted(wanted.keys() ^ found.keys())}"
        most = max(float(np.abs(wanted[key] - found[key]).max()) for key in wanted)
        if not most <= 1e-5:
            return f"{name}: weights differ by {most:.2g}"
    wanted_names, found_names = names(job, reference), names(job, place)
    if wanted_names != found_names:
        return f"other files: {sorted(wanted_names ^ found_names)}"
    return None


def digests(path: Path) -> dict[str, str]:
    """The sha256 of a file, or of all files of a directory."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def names(job: Job, place: Path) -> set[str]:
    """The names of all files that are the job's promise: temporary ones would show here."""
    found = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    kept = {name for name in found if not name.startswith(tuple(f"{leaf}/" for leaf in job.leaves))}
    return kept | {name for name in found if ".partial" in name}


def history(place: Path) -> list[dict[str, Any]]:
    """The rows of a run's history."""
    path = place / "run" / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
