"""Convert between tags and classes of a model, and decode logits of words into tags.

Used by all tasks that tag words: entities, and the slots of commands.
"""

from collections.abc import Sequence

import numpy as np

from keras_bert.decoding.entities import best_path, fill_tags
from keras_bert.decoding.tags import OUTSIDE, SCHEMES, split_known_tag, split_tag, transition_scores
from keras_bert.tasks.tagging.files import TaggedExample
from keras_bert.tasks.tagging.rows import TaggedData
from keras_bert.tasks.tagging.schemes import convert_tags, entity_kinds


class TagCodec:
    """The tags of a model.

    Args:
        tags: Their names, in the order of the logits: `O`, `B-PER`, `I-PER` …
        scheme: `"BIO"`, `"BIOES"` or `"IOB1"`. Data may be in any.
        constrained: Whether predicted tags follow the rules of the scheme: the best legal sequence is chosen.

    Example:
        >>> codec = TagCodec(["O", "B-PER", "I-PER"])
        >>> codec.encode(TaggedExample(("Ada", "ran"), ("S-PER", "O"))).tolist()
        [1, 0]
    """

    def __init__(self, tags: Sequence[str], scheme: str = "BIO", constrained: bool = True):
        self.tags, self.scheme, self.constrained = tuple(map(str, tags)), scheme, constrained
        if scheme not in SCHEMES:
            raise ValueError(f"scheme={scheme!r}: expected one of {', '.join(map(repr, SCHEMES))}.")
        wrong = [tag for tag in self.tags if split_tag(tag) is None]
        if wrong or OUTSIDE not in self.tags:
            raise ValueError(f"labels={list(self.tags)[:12]}: expected tags of words, such as 'O', 'B-PER', 'I-PER'.")
        self._classes = {split_known_tag(tag): index for index, tag in enumerate(self.tags)}

    @property
    def kinds(self) -> list[str]:
        """The kinds of entities, without `B-` and `I-`."""
        return entity_kinds(self.tags)

    def scores(self, transitions: np.ndarray | None = None) -> np.ndarray:
        """The transition scores for decoding, from each tag to each other, `[C + 1, C + 1]`."""
        return transition_scores(self.tags, scheme=self.scheme, transitions=transitions, constrained=self.constrained)

    def encode(self, example: TaggedExample) -> np.ndarray:
        """Turn the tags of a sentence into classes. Raises an error for a kind that the model does not have."""
        parts = [split_known_tag(tag) for tag in convert_tags(example.tags or (), self.scheme)]
        unknown = next((part for part in parts if part not in self._classes), None)
        if unknown is not None:
            raise ValueError(
                f"Row {example.row} ({' '.join(example.words)[:40]!r}) has an entity of the unknown kind "
                f"{unknown[1]!r}; the kinds are {', '.join(map(repr, self.kinds))}."
            )
        return np.array([self._classes[part] for part in parts], np.int32)

    def without_gaps(self, tags: np.ndarray, data: TaggedData) -> np.ndarray:
        """The tags of the words that have a piece; tags next to a left-out word follow the rules of the scheme."""
        if (data.places >= 0).all():
            return tags
        kept = []
        for part, places in zip(data.by_sentence(tags), data.by_sentence(data.places), strict=True):
            names = [self.tags[index] for index in part[places >= 0]]
            kept += [self._classes[split_known_tag(tag)] for tag in convert_tags(names, self.scheme)]
        return np.array(kept, np.int32)

    def decode(self, logits: np.ndarray, data: TaggedData, scores: np.ndarray) -> list[list[str]]:
        """Decode the tags of all words from the logits of each word's first piece."""
        found = []
        for rows, places in zip(data.by_sentence(logits), data.by_sentence(data.places), strict=True):
            path = best_path(np.asarray(rows[places >= 0], np.float64), scores)
            found.append(fill_tags([self.tags[index] for index in path], places >= 0))
        return found

    def true_tags(self, data: TaggedData) -> list[list[str]]:
        """The true tags, in the scheme of the model."""
        if data.tags is None:
            raise ValueError("The data has no tags to measure with; expected tags for every word.")
        return [[self.tags[index] for index in part] for part in data.by_sentence(data.tags)]
