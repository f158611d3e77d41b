"""Texts → named entities with their places in the text.

`EntityTagger` takes a pretrained model and the kinds of entities; people and places, the slots of a command, the parts
of a résumé are all this one task. It learns from words with tags; each word goes through the tokenizer by itself, its
first piece carries the tag and the others none, so words and tags cannot shift. A softmax over each word or a CRF over
the sentence decides.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoint import load_labels, load_model
from keras_bert.decoding import softmax
from keras_bert.decoding.entities import log_partition, path_score
from keras_bert.decoding.tags import NEVER, OUTSIDE, transition_scores
from keras_bert.finetuning.best_weights import Score
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.task import Task, is_pair_of_xy
from keras_bert.tasks.tagging.codec import TagCodec
from keras_bert.tasks.tagging.crf import CRFLoss, LinearChainCRF
from keras_bert.tasks.tagging.files import TaggedRows, as_tagged_rows
from keras_bert.tasks.tagging.metrics import EntityReport, count_entities, entity_report
from keras_bert.tasks.tagging.rows import TaggedData, arrange_words, find_splitting, read_entities
from keras_bert.tasks.tagging.schemes import describe_broken, make_tags
from keras_bert.text.words import SPLITTINGS, locate_words

_OUTPUT, _CHAIN, _TRANSITIONS = "token_logits", "tag_potentials", "transitions"
_HEADS = ("softmax", "crf")


class EntityTagger(Task):
    """BERT with a tag for each word.

    Args:
        model: A model with `token_logits`, from `bert_model(…, "token_classification")`.
        tokenizer: Its tokenizer.
        labels: The tags, in the order of the logits: `O`, `B-PER`, `I-PER` …
        head: `"softmax"` decides on each word by itself, `"crf"` on the sentence.
        scheme: The scheme of the tags: `"BIO"`, `"BIOES"` or `"IOB1"`. Data may be in any.
        constrained: Whether answers keep to the scheme: the best legal sequence of tags is taken, not the best tags.
        splitting: How raw texts are cut into words (see `split_words`): `"words"`, `"characters"`, `"spaces"`, or
            `"auto"`: `fit` sees whether the words of its data are single characters.
        transitions: What a CRF has learned, `[C + 1, C]`.
        kwargs: As for `Task`: `sequence_length`, `long_texts`; here long texts are read in windows unless asked
            otherwise.

    Example:
        ```python
        rows = read_tagged("train.conll")
        tagger = EntityTagger.from_pretrained("all-MiniLM-L6-v2", labels=rows.entity_kinds)
        print(tagger.fit(rows, validation_data="dev.conll"))
        tagger.predict("Ada lives in Malmö.")[1]  # Entity('Malmö', 'LOC', 13, 18, 0.98)
        tagger.save("names")
        ```
    """

    name = "tagging"
    default_metric = "f1"
    token_outputs = (_OUTPUT,)

    def __init__(
        self,
        model: keras.Model,
        tokenizer,
        *,
        labels: Sequence[str],
        head: str = "softmax",
        scheme: str = "BIO",
        constrained: bool = True,
        splitting: str = "auto",
        transitions=None,
        long_texts: str = "windows",
        **kwargs,
    ):
        super().__init__(model, tokenizer, long_texts=long_texts, **kwargs)
        for name, value, known in (("head", head, _HEADS), ("splitting", splitting, ("auto", *SPLITTINGS))):
            if value not in known:
                raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, known))}.")
        self.head, self.splitting = head, splitting
        self._codec = TagCodec(labels, scheme, constrained)
        self._tags = self._codec.tags
        count = check_tag_count(model, self._tags)
        given = np.zeros((count + 1, count)) if transitions is None else transitions
        self.transitions = np.asarray(given, "float32") if head == "crf" else None

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike,
        *,
        labels: Sequence[str] | None = None,
        scheme: str = "BIO",
        seed: int = 0,
        **kwargs,
    ) -> "EntityTagger":
        """A tagger on pretrained weights.

        Args:
            directory_or_name: A model directory, or a name.
            labels: The kinds of entities, or their tags; `read_tagged(path).entity_kinds` lists those of a file.
                Without them the checkpoint must have a token classifier with named tags; as nothing says by which
                scheme it was trained, its answers are then not constrained unless asked for.
            scheme: The scheme of the model's tags. Data may be in any.
            seed: Of the new head.
            kwargs: `head`, `constrained`, `splitting`, `sequence_length`, `long_texts`.
        """
        if labels is None:
            known = load_labels(directory_or_name)
            if not known:
                raise ValueError(
                    f"{directory_or_name} has no named tags; pass labels=[…], the kinds of entities that your data has "
                    "(read_tagged(path).entity_kinds)."
                )
            model, tokenizer = load_model(directory_or_name, seed=seed)
            return cls(model, tokenizer, labels=known, scheme=scheme, **{"constrained": False, **kwargs})
        tags = make_tags(labels, scheme)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* has no pooler", UserWarning)  # tags need none
            encoder, tokenizer = cls.load_parts(directory_or_name, seed)
        model = bert_model(None, "token_classification", num_classes=len(tags), encoder=encoder, seed=seed)
        return cls(model, tokenizer, labels=tags, scheme=scheme, fresh_heads=True, **kwargs)

    @property
    def labels(self) -> list[str]:
        """The tags, in the order of the logits."""
        return list(self._tags)

    @property
    def entity_kinds(self) -> list[str]:
        """The kinds of entities."""
        return self._codec.kinds

    @property
    def scheme(self) -> str:
        """The scheme of the tags."""
        return self._codec.scheme

    @property
    def constrained(self) -> bool:
        """Whether answers keep to the scheme."""
        return self._codec.constrained

    @constrained.setter
    def constrained(self, value: bool) -> None:
        self._codec = TagCodec(self._tags, self.scheme, value)

    @property
    def scores(self) -> np.ndarray:
        """What decoding takes: the score of each tag behind each other, `[C + 1, C + 1]`."""
        return self._codec.scores(self.transitions)

    # === Training ===

    def compile(self, *args, **kwargs) -> None:
        """As `Task.compile`; for a softmax head alone."""
        if self.head == "crf":
            raise ValueError("A CRF trains by a recipe, with more than the model's output; use head='softmax'.")
        super().compile(*args, **kwargs)

    def fit(self, x, y=None, *, validation_data=None, columns: dict | None = None, **options):
        """Fine-tune on words with their tags. Beside what is said here, as `Task.fit`.

        Args:
            x: The path of a CoNLL or JSONL file; `TaggedRows` from `read_tagged`; lists of words; or texts.
            y: The tags of each list of words, in any scheme; for texts their entities, as `(start, end, label)`.
            validation_data: The same, as `(x, y)` or as one value.
            columns: Arguments of `read_tagged`, e.g. `{"text": 1, "label": 3}` for the columns of a CoNLL file.
            options: `recipe`, `metric` (`"f1"`, `"precision"`, `"recall"` or `"accuracy"`), `directory`, `verbose`, and
                changes of the recipe, e.g. `learning_rate=5e-5, epochs=3`.
        """
        rows = self.read(x, y, **(columns or {}))
        if self.splitting == "auto":
            self.splitting = find_splitting(rows.words)
        if validation_data is not None:
            check = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
            validation_data = self.read(*check, **(columns or {}))
        return super().fit(rows, validation_data=validation_data, **options)

    # === Answers ===

    def predict(self, texts, *, threshold: float = 0.0, batch_size: int = 64) -> Any:
        """Entities, from left to right.

        Args:
            texts: Strings; or lists of words, which are read as the text with a space between them. One string gives
                one answer.
            threshold: The least probability of an entity that is given.
            batch_size: Texts at a time.

        Returns:
            For each text a list of `Entity`, with `text[start:end]` as its text.
        """
        if isinstance(texts, str):
            return self.predict([texts], threshold=threshold, batch_size=batch_size)[0]
        splitting = "words" if self.splitting == "auto" else self.splitting
        located = [locate_words(text, splitting) for text in texts]
        if not located:
            return []
        data, logits = self._word_logits([[word for word, _, _ in words] for _, words in located], batch_size)
        return read_entities(located, data, logits, self._tags, self.scores, threshold=threshold)

    def predict_tags(self, sentences: Sequence[Sequence[str]], *, batch_size: int = 64) -> list[list[str]]:
        """The tags of words: one for each, in the scheme of the tagger."""
        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise TypeError("predict_tags takes lists of words; predict() takes texts.")
        sentences = [list(words) for words in sentences]
        data, logits = self._word_logits(sentences, batch_size)
        return self._codec.decode(logits, data, self.scores) if sentences else []

    def evaluate(self, x, y=None, *, columns: dict | None = None) -> EntityReport:
        """Measure on tagged words, in any form that `fit` takes; entities count as wholes, as in seqeval."""
        data = self.prepare(x, y, **(columns or {}))
        found = self._codec.decode(self._pick(self.outputs(data.tokenized), data), data, self.scores)
        report = entity_report(self._codec.true_tags(data), found)
        return replace(report, notes=(*report.notes, *data.notes))

    def _word_logits(self, sentences, batch_size):
        data = self._arrange(sentences)
        for note in data.notes:
            warnings.warn(f"{note}; long_texts='windows' reads them whole", stacklevel=3)
        if not sentences:
            return data, np.zeros((0, len(self._tags)))
        return data, self._pick(self.outputs(data.tokenized, batch_size=batch_size), data)

    @staticmethod
    def _pick(outputs, data):
        """The logits of each word's first piece."""
        return outputs[_OUTPUT][data.places]  # of words without pieces any row, which nobody looks at

    # === What a task adds ===

    @property
    def trains_packed(self) -> bool:  # type: ignore[override]  # by the head
        """Several texts share a row where each word is decided on by itself; a CRF's chain must not cross them."""
        return self.head == "softmax"

    @property
    def training_layers(self) -> tuple[str, ...]:  # type: ignore[override]  # by the head
        """A CRF is a layer of the model that trains; answers need its transitions alone."""
        return ("crf",) if self.head == "crf" else ()

    def build_model(self, encoder, *, classifier_dropout, seed):
        return bert_model(
            None,
            "token_classification",
            num_classes=len(self._tags),
            classifier_dropout=classifier_dropout,
            encoder=encoder,
            seed=seed,
        )

    def build_training_model(self, encoder, *, classifier_dropout, seed, table=None):
        model = self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        if self.head == "softmax":
            return model
        logits = model.output[_OUTPUT]
        forbidden = transition_scores(self._tags, scheme=self.scheme)[:-1, :-1] == NEVER
        layer = LinearChainCRF(forbidden=forbidden, dtype=logits.dtype, name="crf")
        model = keras.Model(model.input, {_CHAIN: layer(logits)}, name=model.name)
        layer.set_transitions(self.transitions)
        return model

    def extra_state(self, model):
        return {_TRANSITIONS: model.get_layer("crf").transitions} if self.head == "crf" else {}

    def keep_extra_state(self, learned):
        self.transitions = learned.get(_TRANSITIONS)

    def losses(self):
        if self.head == "crf":
            return {_CHAIN: CRFLoss()}
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return {_OUTPUT: loss}

    def read(self, x, y, **columns) -> TaggedRows:
        return as_tagged_rows(x, y, splitting="words" if self.splitting == "auto" else self.splitting, **columns)

    def prepare(self, x, y, *, class_weight=None, **columns):
        if class_weight is not None:
            raise ValueError("class_weight is for one label a text; tags have none. Leave it out.")
        rows = self.read(x, y, **columns)
        missing = [example.row for example in rows if example.tags is None]
        if missing:
            raise ValueError(f"Row {missing[0]} has no tags; expected one for every word.")
        tags = np.concatenate([self._codec.encode(example) for example in rows])
        data = self._arrange(rows.words)
        labels = data.token_labels(self._codec.without_gaps(tags, data), chained=self.head == "crf")
        broken = describe_broken(rows.tags, [example.row for example in rows])
        return replace(data, labels=labels, tags=tags, notes=(*rows.notes, *broken, *data.notes))

    def _arrange(self, sentences) -> TaggedData:
        return arrange_words(
            self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts=self.long_texts
        )

    def check_training(self, data):
        super().check_training(data)
        if len(np.unique(data.tags)) < 2:
            only = self._tags[data.tags[0]] if len(data.tags) else OUTSIDE
            raise ValueError(
                f"All {len(data.tags):,} words have the tag {only!r}; expected words inside and outside of entities, "
                "or there is nothing to learn."
            )

    def score(self, outputs, data, metric):
        # While it trains, a model's own transitions come with its outputs.
        scores = self._codec.scores(outputs.get(_TRANSITIONS, self.transitions))
        logits, true = self._pick(outputs, data), self._codec.true_tags(data)
        found = self._codec.decode(logits, data, scores)
        counts = count_entities(true, found)
        right = [a == b for pair in zip(true, found, strict=True) for a, b in zip(*pair, strict=True)]
        numbers = {name: getattr(counts, name) for name in ("f1", "precision", "recall")}
        numbers["accuracy"] = float(np.mean(right))
        if metric not in numbers:
            raise ValueError(f"metric={metric!r} is unknown for entities; choose one of {', '.join(numbers)}.")
        degenerate = bool(counts.entities) and not counts.predicted
        return Score(numbers[metric], degenerate, {"val_loss": self._mean_loss(logits, data, scores)})

    def _mean_loss(self, logits, data, scores):
        """Minus the log-likelihood of a tag, the mean over all words."""
        present = data.places >= 0
        if not present.any():
            return 0.0
        labels = np.where(present, data.labels.values[data.places], 0)
        if self.head == "softmax":
            chosen = softmax(np.asarray(logits[present], np.float64))[np.arange(present.sum()), labels[present]]
            return float(-np.mean(np.log(np.maximum(chosen, 1e-30))))
        total = 0.0
        for rows, path, kept in zip(*map(data.by_sentence, (logits, labels, present)), strict=True):
            rows, path = np.asarray(rows[kept], np.float64), path[kept]
            total += log_partition(rows, scores) - path_score(rows, scores, path)
        return total / int(present.sum())

    def settings(self):
        transitions = None if self.transitions is None else self.transitions.tolist()
        return {
            "head": self.head,
            "scheme": self.scheme,
            "constrained": self.constrained,
            "splitting": self.splitting,
            "transitions": transitions,
        }

    @classmethod
    def from_settings(cls, settings, directory):
        return {**settings, "labels": load_labels(directory)}


def check_tag_count(model: keras.Model, tags: Sequence[str]) -> int:
    """How many tags there are; an error where the model's token classifier has another number of outputs."""
    if _OUTPUT not in model.output:
        raise ValueError(f"The model gives {', '.join(model.output)}; expected {_OUTPUT}, a token classifier.")
    classes = model.output[_OUTPUT].shape[-1]
    if classes != len(tags):
        raise ValueError(f"The model has {classes} outputs, and there are {len(tags)} tags: {list(tags)}.")
    return classes
