"""Finds entities in the logits of words: Viterbi, probabilities, and the merging of windows.

Takes `[words, tags]` logits and the scores of `transition_scores`, and gives tags and `Entity`. The same code decodes a
softmax head and a CRF: for a softmax head, all legal transitions have the same score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_bert.decoding.tags import NEVER, OUTSIDE, continues, split_known_tag, tag_spans


@dataclass(frozen=True)
class Entity:
    """A part of a text and its kind: `text == the_whole_text[start:end]`, in characters."""

    text: str
    label: str
    start: int
    end: int
    probability: float

    def __str__(self) -> str:
        return f"{self.text} ({self.label}, {self.probability:.0%})"


# === Windows ===


def widest_context(pieces: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Return, for each piece of the texts, the token of the windows that has the most context on both sides.

    Args:
        pieces: The number of the piece, from 0, of each token of the windows, window after window.
        splits: Where each window begins and ends.

    Example:
        >>> widest_context(np.array([0, 1, 2, 3, 2, 3, 4, 5]), np.array([0, 4, 8])).tolist()
        [0, 1, 2, 5, 6, 7]
    """
    lengths = np.diff(splits)
    within = np.arange(len(pieces)) - np.repeat(splits[:-1], lengths)
    length = np.repeat(lengths, lengths)
    # As in the original BERT: the smaller side decides; of equal ones the longer window.
    context = np.minimum(within, length - 1 - within) + 0.01 * length
    order = np.lexsort((np.arange(len(pieces)), -context, pieces))
    return order[np.unique(pieces[order], return_index=True)[1]]


# === Paths ===


def best_path(logits: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the best sequence of tags (Viterbi).

    Args:
        logits: `[words, C]`.
        scores: `[C + 1, C + 1]`, from `transition_scores`.

    Example:
        >>> best_path(np.array([[0.0, 1.0], [0.5, 0.0]]), np.zeros((3, 3))).tolist()
        [1, 0]
    """
    count = logits.shape[1]
    if not len(logits):
        return np.zeros(0, np.int64)
    likeliest = logits.argmax(axis=1)
    stops = np.concatenate([[count], likeliest, [count]])
    if scores.max() <= 0 and not scores[stops[:-1], stops[1:]].any():  # each word's best tag, without a penalty
        return likeliest
    best, back = logits[0] + scores[count, :count], np.zeros(logits.shape, np.int64)
    for place in range(1, len(logits)):
        options = best[:, None] + scores[:count, :count]
        back[place] = options.argmax(axis=0)
        best = options.max(axis=0) + logits[place]
    path = np.zeros(len(logits), np.int64)
    path[-1] = (best + scores[:count, count]).argmax()
    for place in range(len(logits) - 1, 0, -1):
        path[place - 1] = back[place, path[place]]
    return path


def path_score(logits: np.ndarray, scores: np.ndarray, path: np.ndarray) -> float:
    """Return the sum of the logits and transitions along a path.

    Example:
        >>> path_score(np.array([[0.0, 1.0], [0.5, 0.0]]), np.zeros((3, 3)), np.array([1, 0]))
        1.5
    """
    count = logits.shape[1]
    stops = np.concatenate([[count], path, [count]]).astype(int)
    return float(logits[np.arange(len(path)), path].sum() + scores[stops[:-1], stops[1:]].sum())


def log_partition(logits: np.ndarray, scores: np.ndarray) -> float:
    """Return the logarithm of the sum of `exp(path_score)` over all paths.

    Example:
        >>> round(log_partition(np.zeros((3, 2)), np.zeros((3, 3))), 6)  # 8 paths
        2.079442
    """
    if not len(logits):
        return float(scores[-1, -1])
    return float(_log_sum(_forward(logits, scores)[-1] + scores[:-1, -1], axis=0))


def span_probabilities(
    logits: np.ndarray, scores: np.ndarray, path: np.ndarray, tags: Sequence[str], spans: Sequence[tuple[str, int, int]]
) -> list[float]:
    """Return, over all paths, the probability that each span has the tags of `path` and ends where it does.

    For a softmax head without constraints it is the product of its words' probabilities and of the probability that the
    next word does not continue the span.

    Example:
        >>> logits = np.log([[0.2, 0.8], [0.5, 0.5]])
        >>> span_probabilities(logits, np.zeros((3, 3)), np.array([1, 0]), ["O", "B-PER"], [("PER", 0, 1)])
        [0.8]
    """
    if not spans:
        return []
    forward, backward, inner = _forward(logits, scores), _backward(logits, scores), scores[:-1, :-1]
    total = _log_sum(forward[-1] + scores[:-1, -1], axis=0)
    parts = [split_known_tag(tag) for tag in tags]
    found = []
    for _, begin, end in spans:
        within = path[begin:end]
        score = forward[begin, within[0]] + inner[within[:-1], within[1:]].sum()
        score += logits[np.arange(begin + 1, end), within[1:]].sum()
        if end < len(logits):
            after = inner[within[-1]] + logits[end] + backward[end]
            goes_on = np.array([continues(parts[within[-1]], part) for part in parts])
            score += _log_sum(np.where(goes_on, NEVER, after), axis=0)
        else:
            score += scores[within[-1], -1]
        found.append(round(float(np.exp(min(score - total, 0.0))), 6))
    return found


def _forward(logits: np.ndarray, scores: np.ndarray) -> np.ndarray:
    sums = np.empty(logits.shape)
    sums[0] = logits[0] + scores[-1, :-1]
    for place in range(1, len(logits)):
        sums[place] = _log_sum(sums[place - 1][:, None] + scores[:-1, :-1], axis=0) + logits[place]
    return sums


def _backward(logits: np.ndarray, scores: np.ndarray) -> np.ndarray:
    sums = np.empty(logits.shape)
    sums[-1] = scores[:-1, -1]
    for place in range(len(logits) - 1, 0, -1):
        sums[place - 1] = _log_sum(scores[:-1, :-1] + (logits[place] + sums[place])[None, :], axis=1)
    return sums


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    highest = values.max(axis=axis, keepdims=True)
    return np.squeeze(highest, axis) + np.log(np.exp(values - highest).sum(axis=axis))


# === Entities ===


def find_entities(
    text: str, words: Sequence[tuple[str, int, int]], logits: np.ndarray, tags: Sequence[str], scores: np.ndarray
) -> list[Entity]:
    """Return the entities of one text, from left to right.

    Args:
        text: The text.
        words: For each row of the logits: `(word, start, end)`, as `split_words` gives them. Words without tokens are
            left out of both.
        logits: `[words, C]`: the logits of each word's first piece.
        tags: The tags, in the order of the logits.
        scores: From `transition_scores`.

    Example:
        >>> words, tags = [("Zoë", 0, 3), ("ran", 4, 7)], ["O", "B-PER", "I-PER"]
        >>> logits = np.array([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]])
        >>> print(*find_entities("Zoë ran", words, logits, tags, transition_scores(tags)))
        Zoë (PER, 100%)
    """
    logits = np.asarray(logits, np.float64)
    path = best_path(logits, scores)
    spans = tag_spans([tags[index] for index in path])
    entities = []
    for (kind, begin, end), probability in zip(
        spans, span_probabilities(logits, scores, path, tags, spans), strict=True
    ):
        start, stop = words[begin][1], words[end - 1][2]
        entities.append(Entity(text[start:stop], kind, start, stop, probability))
    return entities


def fill_tags(tags: Sequence[str], present: np.ndarray) -> list[str]:
    """Return the tags of all words from those of the words that have one; a gap within an entity belongs to it.

    Example:
        >>> fill_tags(["B-PER", "I-PER", "O"], np.array([True, False, True, True, False]))
        ['B-PER', 'I-PER', 'I-PER', 'O', 'O']
    """
    filled, known, before = [], iter(tags), OUTSIDE
    upcoming = next(known, OUTSIDE)
    for is_present in present:
        if is_present:
            filled.append(upcoming)
            before, upcoming = upcoming, next(known, OUTSIDE)
        else:
            last, kind = split_known_tag(before)
            goes_on = continues((last, kind), split_known_tag(upcoming))
            filled.append(f"I-{kind}" if goes_on else OUTSIDE)
    return filled


@dataclass(frozen=True)
class Command:
    """A command: its intent, the probability of the intent, and its slots.

    Example:
        >>> print(Command("set_alarm", 0.98, (Entity("six", "time", 11, 14, 0.97),)))
        set_alarm (98%): six (time, 97%)
    """

    intent: str
    probability: float
    slots: tuple[Entity, ...] = ()

    def __str__(self) -> str:
        slots = f": {', '.join(map(str, self.slots))}" if self.slots else ""
        return f"{self.intent} ({self.probability:.0%}){slots}"
