"""Texts or words → entities with their places: how a tagger reads."""

from collections.abc import Sequence

import numpy as np

from export.runtime.readers.reader import Reader, check_texts, check_width
from export.runtime.readers.settings import FLAG, NUMBER, check_settings, list_of, one_of
from keras_bert.decoding.tags import OUTSIDE, SCHEMES, split_tag, transition_scores
from keras_bert.tasks.tagging.rows import arrange_words, read_entities
from keras_bert.text.words import SPLITTINGS, locate_words

# Of every task whose file tags words.
TAG_SETTINGS = {
    **Reader.expected,
    "scheme": one_of(*SCHEMES),
    "constrained": FLAG,
    "splitting": one_of("auto", *SPLITTINGS),
}


class EntityReader(Reader):
    """Texts, or lists of words, → entities."""

    task = "tagging"
    outputs = token_outputs = ("token_logits",)
    expected = {**TAG_SETTINGS, "head": one_of("softmax", "crf")}

    def _check(self):
        self._scores = tag_scores(self.labels, self.settings)

    def prepare(self, inputs):
        sentences = [[word for word, _, _ in words] for _, words in self._locate(inputs)]
        long_texts = self.settings.get("long_texts") or "windows"
        return arrange_words(self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts=long_texts)

    def answers(self, outputs, data, inputs, *, threshold: float = 0.0):  # type: ignore[override]  # the task's own options
        logits = outputs["token_logits"]
        check_width("token_logits", logits, self.labels or ())
        located, words = self._locate(inputs), logits[data.places]
        return read_entities(located, data, words, self.labels or (), self._scores, threshold=threshold)

    def agreement(self, answers, others):
        """The share of texts with the same entities."""
        return float(np.mean([same_entities(ours, theirs) for ours, theirs in zip(answers, others, strict=True)]))

    def _locate(self, inputs):
        return locate_inputs(inputs, self.settings["splitting"])


# === What readers of words share ===


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
