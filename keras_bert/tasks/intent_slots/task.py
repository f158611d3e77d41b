"""Joint intent classification and slot filling, as in JointBERT.

`IntentSlots` has one encoder with two heads: the pooled output of the sentence gives the intent, the first piece of
each word gives its tag, and the two losses are added.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_labels
from keras_bert.decoding import softmax
from keras_bert.decoding.entities import Command
from keras_bert.decoding.tags import OUTSIDE, split_known_tag
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.class_labels import check_labels
from keras_bert.tasks.base.task import Task, is_pair_of_xy
from keras_bert.tasks.intent_slots.files import CommandExample, CommandRows, as_commands
from keras_bert.tasks.intent_slots.metrics import CommandReport, command_numbers, command_report
from keras_bert.tasks.tagging.codec import TagCodec
from keras_bert.tasks.tagging.rows import TaggedData, arrange_words, find_splitting, read_entities
from keras_bert.tasks.tagging.schemes import convert_tags, describe_broken, make_tags
from keras_bert.tasks.tagging.task import check_tag_count
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.words import SPLITTINGS, locate_words

if TYPE_CHECKING:
    from typing_extensions import Self

_INTENT, _SLOTS = "class_logits", "token_logits"
_METRICS = ("sentence_accuracy", "intent_accuracy", "slot_f1")


@dataclass(frozen=True)
class CommandData(TaggedData):
    """Commands as the model trains on them.

    Args:
        intents: The true intent of each command.
        true_tags: The true tags of its words, in the model's scheme. Tags that the model does not have count as wrong.
        unknown: The intents and slots of the data that the model does not have, as a text.
    """

    intents: tuple[str, ...] = ()
    true_tags: tuple[tuple[str, ...], ...] = ()
    unknown: str | None = None

    def slice_examples(self, start: int, stop: int) -> "Self":
        """The commands from `start` to before `stop`."""
        rows = super().slice_examples(start, stop)
        return replace(rows, intents=self.intents[start:stop], true_tags=self.true_tags[start:stop])


class IntentSlots(Task):
    """BERT for the intent of a sentence and a tag for each word.

    Args:
        model: A model with `class_logits` and `token_logits`, from `bert_model(…, ("classification",
            "token_classification"), num_classes={…})`.
        tokenizer: Its tokenizer.
        intents: The names of the intents, in the order of the logits.
        tags: The tags of the slots, in the order of the logits: `O`, `B-time`, `I-time` …
        scheme: The scheme of the tags: `"BIO"`, `"BIOES"` or `"IOB1"`. Data may be in any.
        constrained: Whether predicted tags follow the rules of the scheme.
        splitting: How raw texts are split into words: `"words"`, `"characters"`, `"spaces"`, or `"auto"`.
        kwargs: As for `Task`: `sequence_length`. Longer commands are cut, with a note.

    Example:
        ```python
        rows = read_commands("snips/train")
        model = IntentSlots.from_pretrained("all-MiniLM-L6-v2", intents=rows.intents, slots=rows.entity_kinds)
        print(model.fit(rows, validation_data="snips/dev", learning_rate=1e-4, epochs=5))
        print(model.predict("wake me at half past six"))  # set_alarm (99%): half past six (time, 98%)
        model.save("assistant")
        ```
    """

    name = "intent_slots"
    default_metric = "sentence_accuracy"
    token_outputs = (_SLOTS,)
    trains_packed = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        intents: Sequence[str],
        tags: Sequence[str],
        scheme: str = "BIO",
        constrained: bool = True,
        splitting: str = "auto",
        **kwargs: Any,
    ):
        super().__init__(model, tokenizer, **kwargs)
        if self.long_texts != "cut":
            raise ValueError("long_texts='windows': a command has one intent, so it must be one row; use 'cut'.")
        if splitting not in ("auto", *SPLITTINGS):
            known = ", ".join(map(repr, ("auto", *SPLITTINGS)))
            raise ValueError(f"splitting={splitting!r}: expected one of {known}.")
        if _INTENT not in model.output:
            raise ValueError(f"The model gives {', '.join(model.output)}; expected {_INTENT} too, for the intent.")
        self._intents, self._codec = check_labels(intents, "single_label"), TagCodec(tags, scheme, constrained)
        self.splitting = splitting
        check_tag_count(model, self._codec.tags)
        classes = model.output[_INTENT].shape[-1]
        if classes != len(self._intents):
            raise ValueError(f"The model has {classes} intents, but there are {len(self._intents)} names: {intents}.")

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike[str],
        *,
        intents: Sequence[str],
        slots: Sequence[str],
        scheme: str = "BIO",
        pooling: str | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> "IntentSlots":
        """Make a task with pretrained weights.

        Args:
            directory_or_name: A model directory, or the name of a model.
            intents: The names of the intents; `read_commands(path).intents` lists those of a file.
            slots: The kinds of slots, or their tags; `read_commands(path).entity_kinds` lists those of a file.
            scheme: The scheme of the model's tags. Data may be in any.
            pooling: The input of the intent head: `"cls"` or `"mean"`, as for `TextClassifier`; `None` suits the model.
            seed: Random seed of the new head.
            kwargs: `constrained`, `splitting`, `sequence_length`.
        """
        intents, tags = check_labels(intents, "single_label"), make_tags(slots, scheme)
        encoder, tokenizer = cls.load_parts(directory_or_name, seed, pooling=pooling)
        model = _build(encoder, len(intents), len(tags), seed=seed)
        return cls(model, tokenizer, intents=intents, tags=tags, scheme=scheme, fresh_heads=True, **kwargs)

    @property
    def labels(self) -> list[str]:
        """The intents, in the order of the logits."""
        return list(self._intents)

    @property
    def slot_kinds(self) -> list[str]:
        """The kinds of slots."""
        return self._codec.kinds

    # === Training ===

    def fit(
        self, x: Any, y: Any = None, *, validation_data: Any = None, **options: Any
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on commands with their intents and slots. Other arguments are those of `Task.fit`.

        Args:
            x: The path of a folder (`seq.in`, `seq.out`, `label`) or JSONL file; `CommandRows` from `read_commands`;
                utterances of `load_assistant`; texts or lists of words.
            y: For texts: `(intent, slots)` each, the slots as `(start, end, label)` or as tags of the words.
            validation_data: The same, as `(x, y)` or as one value.
            options: `recipe`, `metric` (`"sentence_accuracy"`, `"intent_accuracy"` or `"slot_f1"`), `directory`,
                `verbose`, and changes of the recipe, e.g. `learning_rate=1e-4, epochs=5`.
        """
        rows = self.read(x, y)
        if self.splitting == "auto":
            self.splitting = find_splitting(rows.words)
        if validation_data is not None:
            check = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
            validation_data = self.read(*check)
        return super().fit(rows, validation_data=validation_data, **options)

    # === Answers ===

    def predict(self, texts: Any, *, threshold: float = 0.0, batch_size: int = 64) -> Any:
        """Predict the intents and slots of commands.

        Args:
            texts: Strings, or lists of words. One string gives one answer.
            threshold: The minimum probability of a slot.
            batch_size: Texts per batch.

        Returns:
            For each text a `Command`: the intent with its probability, and the slots with their offsets in the text.
        """
        if isinstance(texts, str):
            return self.predict([texts], threshold=threshold, batch_size=batch_size)[0]
        splitting = "words" if self.splitting == "auto" else self.splitting
        located = [locate_words(text, splitting) for text in texts]
        if not located:
            return []
        data = self._arrange([[word for word, _, _ in words] for _, words in located])
        for note in data.notes:
            warnings.warn(note, stacklevel=2)
        outputs, codec = self.outputs(data.tokenized, batch_size=batch_size), self._codec
        logits = outputs[_SLOTS][data.places]
        found = read_entities(located, data, logits, codec.tags, codec.scores(), threshold=threshold)
        return [
            Command(self._intents[row.argmax()], float(row.max()), tuple(slots))
            for row, slots in zip(softmax(outputs[_INTENT]), found, strict=True)
        ]

    def evaluate(self, x: Any, y: Any = None) -> CommandReport:
        """Measure intent accuracy, slot F1 and whole-sentence accuracy, on data in any form that `fit` takes."""
        data = self.prepare(x, y)
        found = self._decode(self.outputs(data.tokenized), data)
        return command_report(data.intents, data.true_tags, *found, notes=data.notes)

    # === Task definition ===

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        count = len(self._intents), len(self._codec.tags)
        return _build(encoder, *count, classifier_dropout=classifier_dropout, seed=seed)

    def losses(self) -> dict[str, keras.losses.Loss]:
        def loss() -> keras.losses.Loss:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

        return {_INTENT: loss(), _SLOTS: loss()}

    def read(self, x: Any, y: Any) -> CommandRows:
        """Read commands in any form that `fit` takes."""
        return as_commands(x, y, splitting="words" if self.splitting == "auto" else self.splitting)

    def _arrange(self, sentences: Sequence[Sequence[str]]) -> TaggedData:
        return arrange_words(self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts="cut")

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> CommandData:
        if class_weight is not None or columns:
            raise ValueError("class_weight and columns are for labelled texts, not for commands; leave them out.")
        rows = self.read(x, y)
        data, unknown = self._arrange(rows.words), self._find_unknown(rows)
        places: dict[str | None, int] = {name: index for index, name in enumerate(self._intents)}
        intents = np.array([places.get(example.intent, 0) for example in rows], np.int32)
        tags = np.concatenate([self._codec.encode(self._known(example)) for example in rows])
        labels = {_INTENT: intents, _SLOTS: data.token_labels(self._codec.without_gaps(tags, data))}
        true_intents: Any = tuple(example.intent for example in rows)
        true_tags: Any = rows.tags
        broken = describe_broken(true_tags, [example.row for example in rows])
        notes = (*rows.notes, *broken, *data.notes, *((f"{unknown}: counted as wrong",) if unknown else ()))
        return CommandData(
            **{**vars(data), "labels": labels, "tags": tags, "notes": notes},
            intents=true_intents,
            true_tags=tuple(tuple(convert_tags(sentence, self._codec.scheme)) for sentence in true_tags),
            unknown=unknown,
        )

    def _find_unknown(self, rows: CommandRows) -> str | None:
        """The intents and slots that the model does not have, as a text; test sets sometimes have them."""
        unseen = {
            "intents": [name for name in rows.intents if name not in self._intents],
            "slots": [name for name in rows.entity_kinds if name not in self._codec.kinds],
        }
        named = [f"{kind} {', '.join(map(repr, names[:5]))}" for kind, names in unseen.items() if names]
        return f"the data has unknown {' and '.join(named)}" if named else None

    def _known(self, example: CommandExample) -> CommandExample:
        kinds = {*self._codec.kinds, ""}
        tags = [tag if split_known_tag(tag)[1] in kinds else OUTSIDE for tag in example.tags or ()]
        return replace(example, tags=tuple(tags))

    def check_training(self, data: Any) -> None:
        super().check_training(data)
        if data.unknown:
            raise ValueError(
                f"In training, {data.unknown}; the intents are {', '.join(map(repr, self._intents[:10]))}, the slots "
                f"{', '.join(map(repr, self.slot_kinds[:10]))}. Pass all intents and slots of the data to "
                "from_pretrained."
            )
        if len(set(data.intents)) < 2:
            raise ValueError(
                f"All {len(data.intents):,} commands have the intent {data.intents[0]!r}; expected at least two. For "
                "slots without intents use EntityTagger."
            )

    def _decode(self, outputs: dict[str, np.ndarray], data: TaggedData) -> tuple[list[str], list[list[str]]]:
        """The intents and the tags of all commands."""
        intents = [self._intents[index] for index in outputs[_INTENT].argmax(axis=-1)]
        return intents, self._codec.decode(outputs[_SLOTS][data.places], data, self._codec.scores())

    def score(self, outputs: dict[str, np.ndarray], data: Any, metric: str) -> Score:
        if metric not in _METRICS:
            raise ValueError(f"metric={metric!r} is unknown for commands; choose one of {', '.join(_METRICS)}.")
        intents, tags = self._decode(outputs, data)
        numbers = command_numbers(data.intents, data.true_tags, intents, tags)
        degenerate = len(set(intents)) == 1 and len(set(data.intents)) > 1
        details = {"val_loss": self._mean_loss(outputs, data)}
        details |= {f"val_{name}": getattr(numbers, name) for name in _METRICS if name != metric}
        return Score(getattr(numbers, metric), degenerate, details)

    @staticmethod
    def _mean_loss(outputs: dict[str, np.ndarray], data: PreparedData) -> float:
        """The mean loss over commands plus the mean loss over words."""
        by_output: Any = data.labels
        total = 0.0
        for name in (_INTENT, _SLOTS):
            labels = by_output[name] if name == _INTENT else by_output[name].values
            chances = softmax(np.asarray(outputs[name][labels >= 0], np.float64))
            chosen = chances[np.arange(len(chances)), labels[labels >= 0]]
            total += float(-np.mean(np.log(np.maximum(chosen, 1e-30)))) if len(chosen) else 0.0
        return total

    def settings(self) -> dict[str, Any]:
        codec = self._codec
        tags = {"tags": list(codec.tags), "scheme": codec.scheme, "constrained": codec.constrained}
        return {**tags, "splitting": self.splitting}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {**settings, "intents": load_labels(directory)}


def _build(
    encoder: keras.Model,
    intents: int,
    tags: int,
    *,
    classifier_dropout: float | None = None,
    seed: int | None = None,
) -> keras.Model:
    heads = {"classification": intents, "token_classification": tags}
    return bert_model(
        None, tuple(heads), num_classes=heads, classifier_dropout=classifier_dropout, encoder=encoder, seed=seed
    )
