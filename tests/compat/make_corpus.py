"""python tests/compat/make_corpus.py: writes the compatibility corpus of this version, in about two minutes.

Writes `tests/compat/<version>/`: tiny models with random weights, saved in every form that this version writes, each
with inputs and answers beside it as JSON, and `corpus.json`, the index. Later versions must open all of it with the
same answers (`test_compat.py`). A corpus that exists is left as it is, unless `--force` is given. `make compat` runs
it. Prints the size of each artifact and their sum.
"""

import argparse
import contextlib
import functools
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from compat_artifacts import INDEX, ask, ask_finetuning, ask_model, ask_pretraining, ask_task, write_json

import export
import keras_bert
from keras_bert import UnigramModel

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "[unused2]", "[unused3]", "[unused4]"]
WORDS = "a the film plot cast train was is very and in to it good fine great bad dull poor who where anna rome malmo"
VOCABULARY = [*SPECIAL, *WORDS.split(), "Anna", "Rome", "中", "##s", "##ly", "##e", ".", ",", "?", "!"]
CONFIG = keras_bert.BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=16,
    intermediate_dim=24,
    max_sequence_length=32,
)
# Wide enough for matrices of 4 bits and for a token table of integers.
WIDE = CONFIG.replace(vocabulary_size=136, hidden_dim=32, intermediate_dim=32)
# XLM-R's, with a vocabulary of SentencePiece.
PIECES = [*(f"▁{word}" for word in WORDS.split()), "▁", *"abcdefghijklmnopqrstuvwxyz.,?!"]
UNIGRAM = UnigramModel.from_pieces([(piece, -3.0 - place / 16) for place, piece in enumerate(PIECES)])
XLM_ROBERTA = CONFIG.replace(
    vocabulary_size=len(UNIGRAM.tokens), position_offset=2, num_segments=1, layer_norm_epsilon=1e-5
)
ROWS = {
    "token_ids": [[2, 9, 11, 15, 17, 22, 3, 0], [2, 10, 12, 3, 20, 25, 41, 3]],
    "segment_ids": [[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]],
    "padding_mask": [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
}
TEXTS = ["the film was very good", "A dull plot, and poor casts!", "Is it 中 ?"]
LONG = "the train to malmo was fine and the train to rome was very very bad"
PAIRS = [["the film was great", "the cast is good"], ["a poor plot", "it was fine"]]
SENTENCE = "Anna is in the train to Rome."
LABELS = ["bad", "fine", "good"]
KERAS_TOLERANCE, INTEGER_TOLERANCE = 1e-5, 2e-3
TRAINED_TOLERANCE = 1e-4  # after some steps of training, in which differences of rounding grow

# === Tasks ===


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """A task of the corpus: the public class, its settings, and calls of `predict` as lists of arguments."""

    kind: str
    calls: list
    settings: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)  # of each call
    config: keras_bert.BertConfig = CONFIG
    lowercase: bool = True

    @property
    def inputs(self) -> dict:
        """What the task is asked, as JSON."""
        one = self.config.num_segments == 1
        rows = ROWS | {"segment_ids": [[0] * len(row) for row in ROWS["segment_ids"]]} if one else ROWS
        return {"calls": [{"args": args, "options": self.options} for args in self.calls], "rows": rows}


TASKS = {
    "aspect": TaskPlan(kind="AspectClassifier", calls=[[[SENTENCE, TEXTS[0]]]], options={"aspects": ["cast", "plot"]}),
    "classification": TaskPlan(kind="TextClassifier", calls=[[TEXTS]], settings={"labels": LABELS}),
    "classification_multi_label": TaskPlan(
        kind="TextClassifier",
        calls=[[TEXTS]],
        settings={"labels": ["cast", "plot", "train"], "kind": "multi_label", "pooling": "mean"},
        options={"threshold": 0.6},
    ),
    "classification_regression": TaskPlan(
        kind="TextClassifier",
        calls=[[[*TEXTS, LONG]], [PAIRS]],
        settings={"kind": "regression", "sequence_length": 12, "long_texts": "windows"},
    ),
    "classification_unigram": TaskPlan(
        kind="TextClassifier", calls=[[TEXTS]], settings={"labels": LABELS}, config=XLM_ROBERTA
    ),
    "classification_wide": TaskPlan(kind="TextClassifier", calls=[[TEXTS]], settings={"labels": LABELS}, config=WIDE),
    "intent_slots": TaskPlan(
        kind="IntentSlots",
        calls=[[[SENTENCE, TEXTS[0]]]],
        settings={"intents": ["book", "ask"], "slots": ["place", "person"]},
    ),
    "multiple_choice": TaskPlan(kind="MultipleChoice", calls=[[TEXTS[0], ["it is good", "a train", "bad"]]]),
    "question_answering": TaskPlan(
        kind="QuestionAnswerer",
        calls=[["where is anna ?", SENTENCE], ["who is it ?", LONG]],
        settings={"sequence_length": 16, "unanswerable": True, "no_answer_threshold": 9.0},
        options={"n_best": 2},
    ),
    "relation": TaskPlan(
        kind="RelationClassifier",
        calls=[[["<e1>Anna</e1> is in the <e2>train</e2>.", "The <e1>plot</e1> was in the <e2>film</e2>"]]],
        settings={"labels": ["in(e1,e2)", "in(e2,e1)", "Other"]},
    ),
    "seq2seq": TaskPlan(kind="Seq2Seq", calls=[[TEXTS]], settings={"target_length": 8}),
    "similarity": TaskPlan(kind="SentenceEmbedder", calls=[[TEXTS]], settings={"score_range": (0, 5)}),
    "similarity_prompts": TaskPlan(
        kind="SentenceEmbedder",
        calls=[[TEXTS]],
        settings={"prompts": {"query": "where is ", "passage": "the "}, "default_prompt_name": "passage"},
    ),
    "tagging_crf": TaskPlan(
        kind="EntityTagger",
        calls=[[[SENTENCE, *TEXTS]]],
        settings={"labels": ["PER", "LOC"], "scheme": "BIOES", "head": "crf"},
        lowercase=False,
    ),
    "tagging_softmax": TaskPlan(
        kind="EntityTagger", calls=[[[SENTENCE, *TEXTS]]], settings={"labels": ["PER", "LOC"]}, lowercase=False
    ),
}
# Options of `export.convert` by the name of the file; what stands before a dot is the task.
FILES = {
    **{name: {} for name in TASKS},
    "classification.float32": {"recipe": "float32", "lengths": "dynamic"},
    "classification.float16": {"recipe": "float16", "lengths": (8, 16)},
    "classification_wide.all_int4": {"recipe": "all_int4"},
    "classification_quantized": {"recipe": "static_int8"},
}


def randomize(model: keras.Model, seed: int) -> keras.Model:
    """Give every weight random values: biases and norms too, which an initializer would leave at 0 and 1."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        mean, deviation = (1.0, 0.1) if weight.path.endswith("gamma") else (0.0, 0.3)
        weight.assign(random.normal(mean, deviation, weight.shape))
    return model


@functools.cache
def base_directory(config: keras_bert.BertConfig, lowercase: bool) -> str:
    """A pretrained directory that tasks are made from; each has other weights in the end."""
    directory = str(Path(tempfile.mkdtemp(prefix="compat-")) / "base")
    tokenizer = keras_bert.BertTokenizer(VOCABULARY, lowercase=lowercase)
    if config is XLM_ROBERTA:
        tokenizer = keras_bert.UnigramTokenizer(UNIGRAM)
    heads = "masked_lm" if config is XLM_ROBERTA else ("masked_lm", "next_sentence")
    model = keras_bert.bert_model(config, heads, seed=0)
    keras_bert.save_pretrained(model, directory, tokenizer=tokenizer)
    return directory


def make_task(name: str):
    """A task of the table."""
    plan, seed = TASKS[name], list(TASKS).index(name)
    settings = plan.settings
    if settings.get("head") == "crf":
        tags = 1 + 4 * len(settings["labels"])
        transitions = np.random.default_rng(seed).normal(0.0, 0.5, (tags + 1, tags))
        settings = {**settings, "transitions": transitions}
    task = getattr(keras_bert, plan.kind).from_pretrained(base_directory(plan.config, plan.lowercase), **settings)
    randomize(task.model, seed)
    task.fresh_heads = False  # these weights are as good as trained ones
    return task


def make_quantized():
    """A classifier that was trained for its integer file, with the ranges that it learned."""
    task = make_task("classification")
    export.train_quantized(task, TEXTS, LABELS, quantization="static_int8", epochs=2, batch_size=2, verbose=0)
    return task


def make_zero_shot(method: str) -> keras_bert.ZeroShotClassifier:
    """A zero-shot classifier around a classifier for entailment or a sentence embedder."""
    if method == "similarity":
        return keras_bert.ZeroShotClassifier(make_task("similarity"), labels={"travel": "train", "cinema": "film"})
    labels = ["entailment", "neutral", "contradiction"]
    task = keras_bert.TextClassifier.from_pretrained(base_directory(CONFIG, True), labels=labels)
    randomize(task.model, 100)
    return keras_bert.ZeroShotClassifier(task, labels=["train", "film"], template="it is a {} .")


# === Artifacts ===


def write_tasks():
    """A saved directory of every task."""
    made = {name: (make_task(name), plan.inputs) for name, plan in TASKS.items()}
    made["classification_quantized"] = (make_quantized(), TASKS["classification"].inputs)
    for method in ("entailment", "similarity"):
        made[f"zero_shot_{method}"] = (make_zero_shot(method), TASKS["classification"].inputs)
    for name, (task, inputs) in made.items():
        path = Path("tasks") / name
        task.save(path)
        yield entry("task", path, inputs, ask_task(task, inputs), KERAS_TOLERANCE, task=task.name)


def write_files():
    """A `.tflite` file of every task that has a model of its own; several of a classifier."""
    for name, options in FILES.items():
        task = keras_bert.load_task(Path("tasks") / name.split(".")[0])
        path = Path("tflite") / f"{name}.tflite"
        path.parent.mkdir(exist_ok=True)
        recipe = export.convert(task, path, **options).recipe
        plan = TASKS[name.split(".")[0].replace("_quantized", "")]
        tolerance = KERAS_TOLERANCE if recipe == "float32" else INTEGER_TOLERANCE
        yield entry("tflite", path, plan.inputs, None, tolerance, task=task.name, recipe=recipe)


def write_serving():
    """A SavedModel of a classifier. Half of its megabyte is the table by which the graph normalizes text."""
    path = Path("serving") / "classification"
    task = keras_bert.load_task("tasks/classification")
    version = export.save_serving(task, path, inputs="texts", warmup_texts=TEXTS[:1], batch_sizes=(1,)).path
    inputs = {"requests": {"serving_default": {"text": TEXTS}, "from_ids": ROWS}}
    yield entry("serving", version, inputs, None, KERAS_TOLERANCE, task=task.name, answers=path.with_suffix(".json"))


def write_checkpoints():
    """Checkpoints in all formats, one of them with settings that only the library's own can say."""
    config = CONFIG.replace(num_layers=2)
    models = {
        "huggingface": keras_bert.bert_model(config, ("masked_lm", "next_sentence"), seed=0),
        "huggingface_half": keras_bert.bert_model(config, "masked_lm", seed=0),
        "huggingface_narrow": keras_bert.bert_encoder(config.replace(embedding_dim=8, attention_dim=8), seed=0),
        "google": keras_bert.bert_model(config, ("masked_lm", "next_sentence"), seed=0),
        "keras_hub": keras_bert.bert_encoder(config.replace(activation="gelu_tanh"), seed=0),
    }
    for seed, (name, model) in enumerate(models.items(), 200):
        path = Path("checkpoints") / name
        form = name.partition("_")[0] if name.startswith("huggingface") else name
        tokenizer = keras_bert.BertTokenizer(VOCABULARY, lowercase=name != "google")
        dtype = "float16" if name.endswith("_half") else "float32"
        keras_bert.save_pretrained(randomize(model, seed), path, tokenizer=tokenizer, format=form, dtype=dtype)
        if dtype == "float16":
            model, _ = keras_bert.load_model(path)  # which has what the file kept of the numbers
        has_heads = any("logits" in output for output in model.output)
        function = "load_model" if has_heads else "load_encoder"
        inputs = {"function": function, "texts": [*TEXTS, SENTENCE], "rows": ROWS}
        yield entry("checkpoint", path, inputs, ask_model(model, tokenizer, inputs), KERAS_TOLERANCE, format=form)


def write_pretraining():
    """A pretraining run that stopped after two of three saved states, with the answers of one that did not."""
    path = Path("pretraining") / "stopped"
    plan = {"steps": 12, "save_every": 4, "batch_size": 4, "learning_rate": 1e-2, "max_predictions": 4}
    plan |= {"strategy": "one", "precision": "float32"}
    inputs = {"config": CONFIG.to_dict(), "vocabulary": VOCABULARY, "plan": plan, "rows": ROWS}
    write_examples(path / "examples")
    with tempfile.TemporaryDirectory() as directory:
        answers = ask_pretraining(Path(shutil.copytree(path, Path(directory) / "whole")), inputs)
    with interrupted_fit(), contextlib.suppress(KeyboardInterrupt):
        ask_pretraining(path, inputs)
    shutil.rmtree(path / "run" / "logs")  # TensorBoard's, which a run writes anew
    shutil.rmtree(path / "run" / "state" / "step-000000004")  # the one before the newest
    require_stopped(path / "run" / "state", "step-000000008")
    yield entry("pretraining", path, inputs, answers, TRAINED_TOLERANCE)


def write_finetuning():
    """A fine-tuning that stopped after two of three epochs, with the answers of one that did not."""
    path, task = Path("finetuning") / "stopped", "tasks/classification"
    options = {"epochs": 3, "batch_size": 4, "learning_rate": 1e-3}
    texts = [f"{text} {word}" for text in (*TEXTS, LONG) for word in LABELS]
    inputs = {"task": task, "texts": texts, "labels": LABELS * 4, "options": options}
    with tempfile.TemporaryDirectory() as directory:
        answers = ask_finetuning(Path(directory), inputs, keras_bert.load_task(task))
    with interrupted_fit():
        ask_finetuning(path, inputs, keras_bert.load_task(task))
    require_stopped(path / "seed-0", "step-000000006")
    yield entry("finetuning", path, inputs, {**answers, "first_epoch": 2}, TRAINED_TOLERANCE)


def write_examples(directory: Path) -> None:
    """Examples of random sentences."""
    random = np.random.default_rng(5)
    sentences = [" ".join(random.choice(WORDS.split(), random.integers(3, 8))) + "." for _ in range(80)]
    documents = ["\n".join(sentences[begin : begin + 4]) for begin in range(0, len(sentences), 4)]
    Path("corpus.txt").write_text("\n\n".join(documents), encoding="utf-8")
    tokenizer = keras_bert.BertTokenizer(VOCABULARY)
    keras_bert.write_examples("corpus.txt", directory, tokenizer, sequence_length=24, workers=1, progress=False)
    Path("corpus.txt").unlink()


def interrupted_fit():
    """A context in which `keras.Model.fit` is interrupted before its third epoch, as by Ctrl-C."""
    fit = keras.Model.fit

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    def stopped(*args, callbacks=(), **options):
        return fit(*args, callbacks=[*callbacks, Stop()], **options)

    return mock.patch.object(keras.Model, "fit", stopped)


def require_stopped(directory: Path, state: str) -> None:
    """Raise unless a run stopped midway, with this state alone."""
    states = [path.name for path in directory.glob("step-*")]
    if states != [state]:
        raise RuntimeError(f"{directory} has the states {states}; expected {state}, of a run that stopped midway.")


# === The corpus ===


def entry(kind: str, path: Path, inputs: dict, given: dict | None, tolerance: float, answers=None, **about) -> dict:
    """Write inputs and answers beside an artifact; gives its row of the index. Without answers, asks the artifact."""
    if given is None:
        given = ask(kind, Path(), str(path), inputs, Path())
    answers = Path(f"{path}.json") if answers is None else answers
    write_json(answers, {"inputs": inputs, "answers": given})
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    print(f"{size / 1e3:8.1f} kB  {path}", flush=True)
    return {"kind": kind, "path": str(path), "answers": str(answers), "tolerance": tolerance, **about}


def make_corpus() -> None:
    """Write a corpus into the working directory."""
    writers = (write_tasks, write_files, write_serving, write_checkpoints, write_pretraining, write_finetuning)
    artifacts = [row for writer in writers for row in writer()]
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__}
    write_json(Path(INDEX), {"version": keras_bert.__version__, "made_with": versions, "artifacts": artifacts})
    size = sum(file.stat().st_size for file in Path().rglob("*") if file.is_file())
    print(f"{size / 1e3:8.1f} kB  {keras_bert.__version__}, {len(artifacts)} artifacts")


def main() -> None:
    """Write the corpus of this version beside the others, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--force", action="store_true", help="replace the corpus of this version")
    args = parser.parse_args()
    target = Path(__file__).resolve().parent / keras_bert.__version__
    if target.exists() and not args.force:
        sys.exit(f"{target} exists, and later versions are tested with it; raise the version, or pass --force.")
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    os.chdir(partial)  # so that no artifact can name a path of this machine
    make_corpus()
    os.chdir(target.parent)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


if __name__ == "__main__":
    main()
