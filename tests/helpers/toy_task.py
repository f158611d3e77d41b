"""A task of its own in one file: how many words of a text are verbs.

It has what no task of the library has: a head on tokens whose answer is a number, a form of data in which verbs stand
between asterisks, a metric, a setting and a flag. Public names alone; `project/test_own_task.py` takes it everywhere.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np

import export
import keras_bert

OUTSIDE = ("[CLS]", "[SEP]", "[PAD]")


# === Data ===


@dataclass(frozen=True)
class MarkedText:
    """A text, and the places where its verbs begin."""

    text: str
    verbs: tuple[int, ...]


def read_marked(path) -> list[MarkedText]:
    """Read a file with a text a line, in which verbs stand between asterisks: `the dog *barks* and *runs*`."""
    return [mark(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def mark(line: str) -> MarkedText:
    """A line of such a file.

    Example:
        >>> mark("the dog *barks*")
        MarkedText(text='the dog barks', verbs=(8,))
    """
    parts = line.split("*")
    if len(parts) % 2 == 0:
        raise ValueError(f"{line!r} has an asterisk without its second; expected two around each verb.")
    begins = np.cumsum([0, *map(len, parts)])
    return MarkedText("".join(parts), tuple(begins[1:-1:2].tolist()))


def as_marked(x, y=None) -> list[MarkedText]:
    """Examples from a file, from marked texts, or from texts and the places of their verbs."""
    if isinstance(x, str | Path):
        return read_marked(x)
    return list(x) if y is None else [MarkedText(text, tuple(verbs)) for text, verbs in zip(x, y, strict=True)]


# === Words ===


def first_pieces(tokenizer) -> np.ndarray:
    """Which tokens of the vocabulary begin a word: bool `[V]`."""
    tokens = [tokenizer.id_to_token(index) for index in range(tokenizer.vocabulary_size)]
    return np.array([not token.startswith("##") and token not in OUTSIDE for token in tokens])


def least_logit(threshold: float) -> float:
    """The logit of a probability."""
    return float(np.log(threshold / (1 - threshold)))


def count_verbs(logits: np.ndarray, tokenized, first: np.ndarray, threshold: float) -> np.ndarray:
    """The verbs of each row, from the logit of each token."""
    ids, splits, _ = tokenized.packed()
    return np.add.reduceat((first[ids] & (logits > least_logit(threshold))).astype(int), splits[:-1])


def verb_logits(token_logits):
    """How far a verb is likelier than any other word, `[…, 2]` → `[…]`; NumPy, Keras and TensorFlow alike."""
    return token_logits[..., 1] - token_logits[..., 0]


# === The task ===


@dataclass(frozen=True)
class CountReport:
    """How good a counter is."""

    count: int
    accuracy: float
    mean_absolute_error: float

    def __str__(self) -> str:
        return f"{self.accuracy:.1%} of {self.count} counts are exact, on average {self.mean_absolute_error:.2f} off"

    def to_dict(self) -> dict:
        return asdict(self)


class VerbCounter(keras_bert.Task):
    """BERT that counts verbs."""

    name = "verbs"
    default_metric = "accuracy"
    token_outputs = ("token_logits",)
    trains_packed = True

    def __init__(self, model, tokenizer, *, threshold: float = 0.5, **options):
        super().__init__(model, tokenizer, **options)
        if not 0 < threshold < 1:
            raise ValueError(f"threshold={threshold!r}: expected a probability between 0 and 1.")
        self.threshold = threshold

    @classmethod
    def from_pretrained(cls, directory_or_name, *, seed: int = 0, **options):
        encoder, tokenizer = cls.load_parts(directory_or_name, seed)
        return cls(verb_model(encoder, None, seed), tokenizer, fresh_heads=True, **options)

    def build_model(self, encoder, *, classifier_dropout, seed):
        return verb_model(encoder, classifier_dropout, seed)

    def prepare(self, x, y, **options):
        rows = as_marked(x, y)
        tokenized, owners, notes = self.tokenize([row.text for row in rows])
        _, begins = self._located([row.text for row in rows])
        ids, splits, _ = tokenized.packed()
        labels = np.where(first_pieces(self.tokenizer)[ids], 0, -1)
        for row, start, end, places in zip(rows, splits[:-1], splits[1:], begins, strict=True):
            inside = slice(start + 1, end - 1)  # without [CLS] and [SEP]
            is_verb = np.isin(places[: end - start - 2], row.verbs) & (labels[inside] == 0)
            labels[inside][is_verb] = 1
        return keras_bert.PreparedData(tokenized, keras_bert.TokenLabels(labels, splits), None, owners, notes)

    def losses(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return {"token_logits": loss}

    def score(self, outputs, data, metric):
        found, true = self._counts(outputs, data.tokenized), self._true_counts(data)
        numbers = {
            "accuracy": float(np.mean(found == true)),
            "negative_mean_absolute_error": -float(np.mean(np.abs(found - true))),
        }
        if metric not in numbers:
            raise ValueError(f"metric={metric!r} is unknown for counts; choose one of {', '.join(numbers)}.")
        labelled = data.labels.values >= 0
        signs = 1 - 2 * data.labels.values[labelled]
        loss = float(np.mean(np.logaddexp(0, signs * verb_logits(outputs["token_logits"])[labelled])))
        degenerate = len(true) > 1 and np.ptp(found) == 0 < np.ptp(true)
        return keras_bert.Score(numbers[metric], bool(degenerate), {"val_loss": loss})

    def settings(self):
        return {"threshold": self.threshold}

    # === Answers ===

    def predict(self, texts, *, batch_size: int = 64):
        """The number of verbs; of a list of texts a list."""
        if isinstance(texts, str):
            return self.predict([texts], batch_size=batch_size)[0]
        tokenized, _, _ = self.tokenize(list(texts))
        return self._counts(self.outputs(tokenized, batch_size=batch_size), tokenized).tolist() if len(texts) else []

    def find(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The places where the verbs of each text begin."""
        tokenized, _, _ = self.tokenize(texts)
        ids, splits, _ = tokenized.packed()
        is_verb = verb_logits(self.outputs(tokenized)["token_logits"]) > least_logit(self.threshold)
        chosen = np.split(is_verb & first_pieces(self.tokenizer)[ids], splits[1:-1])
        return [
            tuple(places[: len(row) - 2][row[1:-1]].tolist())
            for row, places in zip(chosen, self._located(texts)[1], strict=True)
        ]

    def evaluate(self, x, y=None) -> CountReport:
        data = self.prepare(x, y)
        found, true = self._counts(self.outputs(data.tokenized), data.tokenized), self._true_counts(data)
        return CountReport(len(true), float(np.mean(found == true)), float(np.mean(np.abs(found - true))))

    def _counts(self, outputs, tokenized):
        logits = verb_logits(outputs["token_logits"])
        return count_verbs(logits, tokenized, first_pieces(self.tokenizer), self.threshold)

    @staticmethod
    def _true_counts(data):
        return np.add.reduceat((data.labels.values == 1).astype(int), data.labels.splits[:-1])

    def _located(self, texts):
        """The ids of each text, and the places where its tokens begin."""
        ids, splits, begins, _ = self.tokenizer.tokenize_flat_with_offsets(texts)
        return np.split(ids, splits[1:-1]), np.split(begins, splits[1:-1])


def verb_model(encoder, dropout, seed):
    """A classifier of tokens: any word, or a verb."""
    options = {"num_classes": 2, "classifier_dropout": dropout, "encoder": encoder, "seed": seed}
    return keras_bert.bert_model(None, "token_classification", **options)


keras_bert.register_task(
    keras_bert.TaskEntry(
        "verbs",
        VerbCounter,
        read=lambda arguments, path, split, task: read_marked(path),
        words=lambda count: f"{count} verbs",
        sequence_length=32,
        data_flags=(),
        flags=(keras_bert.TaskFlag("--threshold", type=float, help="from which probability on a word is a verb"),),
    )
)


# === Export ===


class VerbReader(export.Reader):
    """Texts → numbers of verbs. The file has one logit for each token."""

    outputs = token_outputs = ("verb_logits",)
    expected = {
        **export.Reader.expected,
        "threshold": export.Setting(lambda value: type(value) is float and 0 < value < 1, "between 0 and 1"),
    }

    def check(self):
        self.first = first_pieces(self.tokenizer)

    def answers(self, outputs, data, inputs, **options):
        logits = np.asarray(outputs["verb_logits"])
        return count_verbs(logits, data.tokenized, self.first, self.settings["threshold"]).tolist()


def verb_tensors(task):
    return {"verb_logits": verb_logits(task.model.output["token_logits"])}


def file_outputs(task, outputs, tokenized):
    return {"verb_logits": verb_logits(outputs["token_logits"])}


def task_outputs(task, outputs, tokenized):
    logits = outputs["verb_logits"]
    return {"token_logits": np.stack([np.zeros_like(logits), logits], axis=-1)}


def read_verbs(task, x, y, **columns):
    """Texts alone, or anything that `fit` takes; without data some marked texts."""
    if x is None:
        return export.Examples(["the dog barks", "a dog", "naïve 👍🏽 中 dogs … " * 40, "?"])
    if y is None and not isinstance(x, str | Path) and all(isinstance(text, str) for text in x):
        return export.Examples(list(x))
    rows = as_marked(x, y)
    return export.Examples([row.text for row in rows], rows)


def label_texts(teacher, texts):
    return texts, teacher.find(texts)


def served_counts(task, packed, outputs):
    import tensorflow as tf

    is_verb = verb_logits(outputs["token_logits"]) > least_logit(task.threshold)
    is_word = tf.gather(tf.constant(first_pieces(task.tokenizer)), packed["token_ids"])
    return {"verbs": tf.reduce_sum(tf.cast(is_verb & is_word, tf.int32), axis=-1)}


def serve(graph, text):
    packed, truncated = graph.pack(text)
    return {**served_counts(graph.task, packed, graph.forward(packed)), "truncated": truncated}


def serve_ids(graph, packed):
    outputs = graph.forward(packed)
    return {**outputs, **served_counts(graph.task, packed, outputs)}


def expected_counts(task, texts):
    packed = keras_bert.pack(task.tokenizer, texts, sequence_length=task.sequence_length)
    return served_counts(task, packed, task.model(packed, training=False))


export.register_export(
    export.ExportedTask(
        name="verbs",
        reader=VerbReader,
        in_graph=verb_tensors,
        from_task=file_outputs,
        to_task=task_outputs,
        length=32,
        output_notes={"verb_logits": "For each token, how likely a verb begins there."},
        read_examples=read_verbs,
        label_texts=label_texts,
        served=export.ServedTask(
            serve=serve, serve_ids=serve_ids, expected=expected_counts, notes=("`verbs` counts.",)
        ),
        guide=lambda task: export.GuideInput('"the dog barks"', '"the dog barks"'),
    )
)
