"""Named entity recognition, or any tagging of words.

`EntityTagger` learns from words with tags. Each word is tokenized by itself; its first piece has the tag and the others
have none, so that words and tags stay aligned. The head is a softmax over each word or a CRF over the sentence.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from keras_bert.checkpoint import load_labels
from keras_bert.decoding import softmax
from keras_bert.decoding.entities import log_partition, path_score
from keras_bert.decoding.tags import NEVER, OUTSIDE, transition_scores
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.task import Task, is_pair_of_xy, load_with_tokenizer
from keras_bert.tasks.tagging.codec import TagCodec
from keras_bert.tasks.tagging.crf import CRFLoss, LinearChainCRF
from keras_bert.tasks.tagging.files import TaggedExample, TaggedRows, as_tagged_rows
from keras_bert.tasks.tagging.metrics import EntityReport, count_entities, entity_report
from keras_bert.tasks.tagging.rows import TaggedData, arrange_words, find_splitting, read_entities
from keras_bert.tasks.tagging.schemes import describe_broken, make_tags
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.words import SPLITTINGS, locate_words

_OUTPUT, _CHAIN, _TRANSITIONS = "token_logits", "tag_potentials", "transitions"
_HEADS = ("softmax", "crf")


class EntityTagger(Task):
    """BERT with a tag for each word.

    Args:
        model: A model with `token_logits`, from `bert_model(…, "token_classification")`.
        tokenizer: Its tokenizer.
        labels: The tags, in the order of the logits: `O`, `B-PER`, `I-PER` …
        head: `"softmax"` decides for each word by itself, `"crf"` for the whole sentence.
        scheme: The scheme of the tags: `"BIO"`, `"BIOES"` or `"IOB1"`. Data may be in any.
        constrained: Whether predicted tags follow the rules of the scheme: the best legal sequence is chosen.
        splitting: How raw texts are split into words (see `split_words`): `"words"`, `"characters"`, `"spaces"`, or
            `"auto"`: `fit` checks whether the words of its data are single characters.
        transitions: The learned transitions of a CRF, `[C + 1, C]`.
        kwargs: As for `Task`: `sequence_length`, `long_texts`; by default, long texts are read in
            windows.

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
        tokenizer: SubwordTokenizer,
        *,
        labels: Sequence[str],
        head: str = "softmax",
        scheme: str = "BIO",
        constrained: bool = True,
        splitting: str = "auto",
        transitions: ArrayLike | None = None,
        long_texts: str = "windows",
        **kwargs: Any,
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
        directory_or_name: str | os.PathLike[str],
        *,
        labels: Sequence[str] | None = None,
        scheme: str = "BIO",
        seed: int = 0,
        **kwargs: Any,
    ) -> "EntityTagger":
        """Make a tagger with pretrained weights.

        Args:
            directory_or_name: A model directory, or the name of a model.
            labels: The kinds of entities, or their tags; `read_tagged(path).entity_kinds` lists those of a file.
                Without them the checkpoint must have a token classifier with named tags. Its scheme is unknown, so its
                answers are not constrained by default.
            scheme: The scheme of the model's tags. Data may be in any.
            seed: Random seed of the new head.
            kwargs: `head`, `constrained`, `splitting`, `sequence_length`, `long_texts`.
        """
        if labels is None:
            known = load_labels(directory_or_name)
            if not known:
                raise ValueError(
                    f"{directory_or_name} has no named tags; pass labels=[…], the kinds of entities of your data "
                    "(read_tagged(path).entity_kinds)."
                )
            model, tokenizer = load_with_tokenizer(directory_or_name, seed=seed)
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
        """Whether predicted tags follow the rules of the scheme."""
        return self._codec.constrained

    @constrained.setter
    def constrained(self, value: bool) -> None:
        self._codec = TagCodec(self._tags, self.scheme, value)

    @property
    def scores(self) -> np.ndarray:
        """The transition scores for decoding, from each tag to each other, `[C + 1, C + 1]`."""
        return self._codec.scores(self.transitions)

    # === Training ===

    def compile(self, optimizer: Any = "adamw", loss: Any = None, **options: Any) -> None:
        """As `Task.compile`; only for a softmax head."""
        if self.head == "crf":
            raise ValueError("head='crf' trains only by a recipe; use head='softmax', or leave out compile().")
        super().compile(optimizer, loss, **options)

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        validation_data: Any = None,
        columns: dict[str, Any] | None = None,
        **options: Any,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on words with their tags. Other arguments are those of `Task.fit`.

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

    def predict(self, texts: Any, *, threshold: float = 0.0, batch_size: int = 64) -> Any:
        """Find entities, from left to right.

        Args:
            texts: Strings; or lists of words, which are read as the text with a space between them. One string gives
                one answer.
            threshold: The minimum probability of an entity.
            batch_size: Texts per batch.

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
        """Predict the tags of words: one for each, in the scheme of the tagger."""
        if isinstance(sentences, str) or any(isinstance(words, str) for words in sentences):
            raise TypeError("predict_tags got a string; expected lists of words. predict() takes texts.")
        sentences = [list(words) for words in sentences]
        data, logits = self._word_logits(sentences, batch_size)
        return self._codec.decode(logits, data, self.scores) if sentences else []

    def evaluate(self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None) -> EntityReport:
        """Measure on tagged words, in any form that `fit` takes; whole entities count, as in seqeval."""
        data = self.prepare(x, y, **(columns or {}))
        found = self._codec.decode(self._pick(self.outputs(data.tokenized), data), data, self.scores)
        report = entity_report(self._codec.true_tags(data), found)
        return replace(report, notes=(*report.notes, *data.notes))

    def _word_logits(self, sentences: Sequence[Sequence[str]], batch_size: int) -> tuple[TaggedData, np.ndarray]:
        data = self._arrange(sentences)
        for note in data.notes:
            warnings.warn(f"{note}; long_texts='windows' reads them whole", stacklevel=3)
        if not sentences:
            return data, np.zeros((0, len(self._tags)))
        return data, self._pick(self.outputs(data.tokenized, batch_size=batch_size), data)

    @staticmethod
    def _pick(outputs: dict[str, np.ndarray], data: TaggedData) -> np.ndarray:
        """The logits of each word's first piece."""
        return outputs[_OUTPUT][data.places]  # for words without pieces any row, which is not used

    # === Task definition ===

    @property
    def trains_packed(self) -> bool:  # type: ignore[override]  # by the head
        """Whether several texts can share a row: a CRF's chain must not cross texts."""
        return self.head == "softmax"

    @property
    def training_layers(self) -> tuple[str, ...]:  # type: ignore[override]  # by the head
        """The CRF layer of the training model; answers need only its transitions."""
        return ("crf",) if self.head == "crf" else ()

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        return bert_model(
            None,
            "token_classification",
            num_classes=len(self._tags),
            classifier_dropout=classifier_dropout,
            encoder=encoder,
            seed=seed,
        )

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        model = self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        if self.head == "softmax":
            return model
        logits = model.output[_OUTPUT]
        forbidden = transition_scores(self._tags, scheme=self.scheme)[:-1, :-1] == NEVER
        layer = LinearChainCRF(forbidden=forbidden, dtype=logits.dtype, name="crf")
        model = keras.Model(model.input, {_CHAIN: layer(logits)}, name=model.name)
        if self.transitions is not None:
            layer.set_transitions(self.transitions)
        return model

    def extra_state(self, model: keras.Model) -> dict[str, np.ndarray]:
        return {_TRANSITIONS: model.get_layer("crf").transitions} if self.head == "crf" else {}

    def keep_extra_state(self, state: dict[str, np.ndarray]) -> None:
        self.transitions = state.get(_TRANSITIONS)

    def losses(self) -> dict[str, keras.losses.Loss]:
        if self.head == "crf":
            return {_CHAIN: CRFLoss()}
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return {_OUTPUT: loss}

    def read(self, x: Any, y: Any, **columns: Any) -> TaggedRows[TaggedExample]:
        """Read tagged words in any form that `fit` takes."""
        return as_tagged_rows(x, y, splitting="words" if self.splitting == "auto" else self.splitting, **columns)

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> TaggedData:
        if class_weight is not None:
            raise ValueError("class_weight is for labels of texts, not for tags; leave it out.")
        rows = self.read(x, y, **columns)
        missing = [example.row for example in rows if example.tags is None]
        if missing:
            raise ValueError(f"Row {missing[0]} has no tags; expected one for every word.")
        tags = np.concatenate([self._codec.encode(example) for example in rows])
        data = self._arrange(rows.words)
        labels = data.token_labels(self._codec.without_gaps(tags, data), chained=self.head == "crf")
        true_tags: Any = rows.tags
        broken = describe_broken(true_tags, [example.row for example in rows])
        return replace(data, labels=labels, tags=tags, notes=(*rows.notes, *broken, *data.notes))

    def _arrange(self, sentences: Sequence[Sequence[str]]) -> TaggedData:
        return arrange_words(
            self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts=self.long_texts
        )

    def check_training(self, data: Any) -> None:
        super().check_training(data)
        if len(np.unique(data.tags)) < 2:
            only = self._tags[data.tags[0]] if len(data.tags) else OUTSIDE
            raise ValueError(
                f"All {len(data.tags):,} words have the tag {only!r}; expected words inside and outside of entities."
            )

    def score(self, outputs: dict[str, np.ndarray], data: Any, metric: str) -> Score:
        # During training, the model's transitions are among its outputs.
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

    def _mean_loss(self, logits: np.ndarray, data: TaggedData, scores: np.ndarray) -> float:
        """The mean negative log-likelihood of a tag, over all words."""
        token_labels: Any = data.labels
        present = data.places >= 0
        if not present.any():
            return 0.0
        labels = np.where(present, token_labels.values[data.places], 0)
        if self.head == "softmax":
            chosen = softmax(np.asarray(logits[present], np.float64))[np.arange(present.sum()), labels[present]]
            return float(-np.mean(np.log(np.maximum(chosen, 1e-30))))
        total = 0.0
        for rows, path, kept in zip(*map(data.by_sentence, (logits, labels, present)), strict=True):
            rows, path = np.asarray(rows[kept], np.float64), path[kept]
            total += log_partition(rows, scores) - path_score(rows, scores, path)
        return total / int(present.sum())

    def settings(self) -> dict[str, Any]:
        transitions = None if self.transitions is None else self.transitions.tolist()
        return {
            "head": self.head,
            "scheme": self.scheme,
            "constrained": self.constrained,
            "splitting": self.splitting,
            "transitions": transitions,
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {**settings, "labels": load_labels(directory)}


def check_tag_count(model: keras.Model, tags: Sequence[str]) -> int:
    """Return the number of tags; raise an error if the model's token classifier has another number of outputs."""
    if _OUTPUT not in model.output:
        raise ValueError(f"The model gives {', '.join(model.output)}; expected {_OUTPUT}, a token classifier.")
    classes = model.output[_OUTPUT].shape[-1]
    if classes != len(tags):
        raise ValueError(f"The model has {classes} outputs, but there are {len(tags)} tags: {list(tags)}.")
    return classes
