"""What tasks share whose file tags words: settings, examples, decoding, labels by a teacher, and the server."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader, check_texts
from export.tasks.base.settings import FLAG, NUMBER, check_settings, list_of, one_of
from keras_bert.decoding.tags import OUTSIDE, SCHEMES, split_tag, transition_scores
from keras_bert.text.words import SPLITTINGS, locate_words

# === The device ===

TAG_SETTINGS = {
    **Reader.expected,
    "scheme": one_of(*SCHEMES),
    "constrained": FLAG,
    "splitting": one_of("auto", *SPLITTINGS),
}


def locate_inputs(inputs: list, splitting: str) -> list[tuple[str, list]]:
    """Texts, or lists of words, with the places of their words; an error where something is neither."""
    for text in inputs:
        check_texts([text] if isinstance(text, str) or not isinstance(text, Sequence) else text)
    return [locate_words(text, "words" if splitting == "auto" else splitting) for text in inputs]


def tag_scores(tags: Sequence[str] | None, settings: dict) -> np.ndarray:
    """What decoding takes, from the tags and settings of a file; an error where they do not go together.

    Example:
        >>> tag_scores(["O", "B-PER", "I-PER"], {"scheme": "BIO", "constrained": False}).shape
        (4, 4)
    """
    if tags is None or OUTSIDE not in tags or any(split_tag(tag) is None for tag in tags):
        raise ValueError(f"the labels {list(tags or ())[:6]}; expected tags of words: 'O', 'B-PER', 'I-PER' …")
    transitions = None
    if settings.get("head") == "crf":
        rows = list_of(list_of(NUMBER, len(tags)), len(tags) + 1)
        check_settings(settings, {"transitions": rows})
        transitions = np.array(settings["transitions"], np.float32)
    return transition_scores(
        tags, scheme=settings["scheme"], transitions=transitions, constrained=settings["constrained"]
    )


def same_entities(ours: Sequence, theirs: Sequence) -> bool:
    """Whether both are the same entities at the same places."""
    places = [{(one.label, one.start, one.end) for one in part} for part in (ours, theirs)]
    return places[0] == places[1]


# === Data ===


def read_words(task: Any, x: Any, y: Any, **columns) -> Examples:
    """Texts or lists of words; with tags or entities, any form that the task's `read` takes."""
    if x is None or (y is None and isinstance(x, list | tuple) and all(map(_is_text, x))):
        return Examples(list(PROBES if x is None else x))
    rows = task.read(x, y, **columns)
    return Examples([list(words) for words in rows.words], None if None in rows.tags else rows)


def _is_text(item):
    """Whether this is a string, or a list of words."""
    return isinstance(item, str) or (isinstance(item, list | tuple) and all(isinstance(word, str) for word in item))


def entity_labels(text: str | Sequence[str], entities: Sequence) -> list:
    """Entities as labels of a string; of a list of words as tags, for it has no places."""
    if isinstance(text, str):
        return [(entity.start, entity.end, entity.label) for entity in entities]
    tags = []
    for _, start, _ in locate_words(text)[1]:
        inside = next((entity for entity in entities if entity.start <= start < entity.end), None)
        tags.append(OUTSIDE if inside is None else f"{'B' if start == inside.start else 'I'}-{inside.label}")
    return tags


# === The server ===

TAG_NOTES = (
    "`starts` and `ends` say where each token stands in its text, in characters; -1 is a token that is not of the "
    "text: `[CLS]`, `[SEP]`, padding.",
    "`tags` has the likeliest tag of each token by itself. The first token of a word speaks for the word; the best "
    "sequence of tags comes from `token_logits`, by `keras_bert.decoding.entities`.",
)


def served_tags(outputs: dict, tags: Sequence[str]) -> dict:
    """The likeliest tag of each token, and the logits."""
    import tensorflow as tf

    best = tf.argmax(outputs["token_logits"], axis=-1, output_type=tf.int32)
    return {"token_logits": outputs["token_logits"], "tags": tf.gather(tf.constant(tags), best)}


def joined_words(given: str | Sequence[str]) -> list[tuple[str, ...]]:
    """A text, or a list of words, as a row of strings."""
    return [(given if isinstance(given, str) else " ".join(given),)]
