"""What tasks share whose file tags words: settings, examples, decoding, labels by a teacher, and serving."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader, check_texts, check_width
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import FLAG, NUMBER, check_settings, list_of, one_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.entities import Entity
from keras_bert.decoding.tags import OUTSIDE, SCHEMES, split_tag, transition_scores
from keras_bert.text.tokenized_texts import TokenizedTexts
from keras_bert.text.words import SPLITTINGS, locate_words

# === The device ===

TAG_SETTINGS = {
    **Reader.expected,
    "scheme": one_of(*SCHEMES),
    "constrained": FLAG,
    "splitting": one_of("auto", *SPLITTINGS),
}


def locate_inputs(inputs: list[Any], splitting: str) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """Find the words of texts, or of lists of words; raise an error for anything else."""
    for text in inputs:
        check_texts([text] if isinstance(text, str) or not isinstance(text, Sequence) else text)
    return [locate_words(text, "words" if splitting == "auto" else splitting) for text in inputs]


def tag_scores(tags: Sequence[str] | None, settings: dict[str, Any]) -> np.ndarray:
    """Build the transition scores for decoding from a file's tags and settings, and check that they go together.

    Example:
        >>> tag_scores(["O", "B-PER", "I-PER"], {"scheme": "BIO", "constrained": False}).shape
        (4, 4)
    """
    if tags is None or OUTSIDE not in tags or any(split_tag(tag) is None for tag in tags):
        raise ValueError(f"The labels are {list(tags or ())[:6]}; expected tags of words: 'O', 'B-PER', 'I-PER' …")
    transitions = None
    if settings.get("head") == "crf":
        rows = list_of(list_of(NUMBER, len(tags)), len(tags) + 1)
        check_settings(settings, {"transitions": rows})
        transitions = np.array(settings["transitions"], np.float32)
    return transition_scores(
        tags, scheme=settings["scheme"], transitions=transitions, constrained=settings["constrained"]
    )


def same_entities(ours: Sequence[Entity], theirs: Sequence[Entity]) -> bool:
    """Whether both have the same entities at the same places."""
    places = [{(one.label, one.start, one.end) for one in part} for part in (ours, theirs)]
    return places[0] == places[1]


# === Data ===


def read_words(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    """Read texts or lists of words; with tags or entities, any form that the task's `read` takes."""
    if x is None or (y is None and isinstance(x, list | tuple) and all(map(_is_text, x))):
        return Examples(list(PROBES if x is None else x))
    rows = task.read(x, y, **columns)
    return Examples([list(words) for words in rows.words], None if None in rows.tags else rows)


def _is_text(item: Any) -> bool:
    """Whether this is a string, or a list of words."""
    return isinstance(item, str) or (isinstance(item, list | tuple) and all(isinstance(word, str) for word in item))


def entity_labels(text: str | Sequence[str], entities: Sequence[Entity]) -> list[Any]:
    """Turn entities into labels of a string; of a list of words into tags, because it has no places."""
    if isinstance(text, str):
        return [(entity.start, entity.end, entity.label) for entity in entities]
    tags = []
    for _, start, _ in locate_words(text)[1]:
        inside = next((entity for entity in entities if entity.start <= start < entity.end), None)
        tags.append(OUTSIDE if inside is None else f"{'B' if start == inside.start else 'I'}-{inside.label}")
    return tags


# === The servers ===


TAG_NOTES = (
    "`starts` and `ends` are the place of each token in its text, in characters; -1 marks tokens that are not part of "
    "the text: `[CLS]`, `[SEP]` and padding.",
    "`tags` has the likeliest tag of each token alone. The tag of a word is that of its first token; "
    "`keras_bert.decoding.entities` finds the best sequence of tags from `token_logits`.",
)


def served_tags(outputs: dict[str, Any], tags: Sequence[str]) -> dict[str, Any]:
    """The likeliest tag of each token, with the logits."""
    import tensorflow as tf

    best = tf.argmax(outputs["token_logits"], axis=-1, output_type=tf.int32)
    return {"token_logits": outputs["token_logits"], "tags": tf.gather(tf.constant(tags), best)}


def joined_words(given: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Turn a text, or a list of words, into a row of strings."""
    return [(given if isinstance(given, str) else " ".join(given),)]


@dataclass(frozen=True)
class LocatedTexts(PreparedData):
    """Texts, each cut to one row, with the place of every token in its text, in characters, and which were cut."""

    places: np.ndarray = field(kw_only=True)  # [tokens, 2]; -1 for [CLS] and [SEP]
    cut: np.ndarray = field(kw_only=True)


class ServedTags(ServedFile):
    """Answers with the likeliest tag and the place of every token, as the SavedModel does: of a row for each text."""

    fillers = {"token_logits": 0.0, "tags": OUTSIDE, "starts": -1, "ends": -1}

    @property
    def tags(self) -> Sequence[str]:
        """The tags, in the order of the logits."""
        return self.reader.labels

    def prepare(self, inputs: list[Any]) -> LocatedTexts:
        tokenizer, limit = self.reader.tokenizer, self.reader.sequence_length
        ids, splits, starts, ends = tokenizer.tokenize_flat_with_offsets(inputs)
        special = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
        whole = TokenizedTexts(ids, splits, **special)
        rows, _ = whole.trimmed(limit)
        places = np.full((rows.lengths.sum(), 2), -1, np.int32)
        ends_of_rows = np.cumsum(rows.lengths)
        for row, end in enumerate(ends_of_rows):
            count = rows.lengths[row] - 2
            kept = slice(splits[row], splits[row] + count)
            places[end - count - 1 : end - 1] = np.stack([starts[kept], ends[kept]], axis=-1)
        owners = np.arange(len(rows))
        return LocatedTexts(rows, None, None, owners, places=places, cut=whole.lengths > limit)

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        check_width("token_logits", outputs["token_logits"], self.tags)
        logits, places = (self.by_row(values, data) for values in (outputs["token_logits"], data.places))
        return {
            "token_logits": logits,
            "tags": [[self.tags[best] for best in row.argmax(axis=-1)] for row in logits],
            "starts": [row[:, 0] for row in places],
            "ends": [row[:, 1] for row in places],
            "truncated": data.cut.tolist(),
        }
