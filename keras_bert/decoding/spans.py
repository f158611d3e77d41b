"""Finds answers in start and end logits: exact substrings of a context, over all of its windows.

Takes the logits of a question's windows and the offsets of the tokens in the context, and gives the best spans with
their character offsets. As in the original BERT for SQuAD, a span is scored in the window that has the most context
around its first token, and "no answer" has the lowest score of [CLS] over the windows.
"""

import unicodedata
from dataclasses import dataclass

import numpy as np

# How much better "no answer" is if there is no span at all: as much as the bias of a masked token.
_NO_SPAN = 120.0


# === Values ===


@dataclass(frozen=True)
class Answer:
    """A part of a context: `text` is `context[start:end]`. "No answer" has an empty text and is false.

    Args:
        text: The text of the answer.
        start: Where it begins, in characters of the context.
        end: Where it ends.
        probability: The probability over all possible spans and "no answer".
        score: Start logit + end logit.

    Example:
        >>> print(Answer("on Monday", 12, 21, probability=0.93, score=8.1))
        on Monday (93%)
    """

    text: str
    start: int
    end: int
    probability: float
    score: float

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return f"{self.text or 'no answer'} ({self.probability:.0%})"


@dataclass(frozen=True, eq=False)
class Passage:
    """A context as the model read it.

    Args:
        context: The text.
        starts, ends: Where each token begins and ends in it, in characters, `[tokens]`.
        windows: The first token and the number of tokens of each window, `[windows, 2]`, from `context_windows`.
        first: The index of a window's first token in its row, after `[CLS] question [SEP]`.
    """

    context: str
    starts: np.ndarray
    ends: np.ndarray
    windows: np.ndarray
    first: int


@dataclass(frozen=True)
class Candidates:
    """The best spans of a context, the best first, and "no answer" with its score."""

    spans: tuple[Answer, ...]
    nothing: Answer

    @property
    def margin(self) -> float:
        """How much higher "no answer" scores than the best span."""
        return self.nothing.score - self.spans[0].score if self.spans else _NO_SPAN

    def ranked(self, threshold: float | None) -> list[Answer]:
        """Return the answers, the best first; "no answer" comes before spans that it beats by more than the threshold.

        Without a threshold there is always an answer, unless the context has no words.
        """
        if threshold is None:
            return list(self.spans) or [self.nothing]
        place = sum(self.nothing.score - span.score <= threshold for span in self.spans)
        return [*self.spans[:place], self.nothing, *self.spans[place:]]

    def best(self, threshold: float | None, n_best: int | None) -> Answer | list[Answer]:
        """Return the best answer, or a list of the `n_best` best ones."""
        ranked = self.ranked(threshold)
        return ranked[0] if n_best is None else ranked[:n_best]


# === Windows ===


def context_windows(num_tokens: int, room: int, stride: int) -> np.ndarray:
    """Return the first token and the number of tokens of each window over a context, `[windows, 2]`.

    Args:
        num_tokens: The number of tokens of the context.
        room: The largest number of tokens in a window.
        stride: How many tokens after one window the next one begins, at most `room`.

    Example:
        >>> context_windows(10, room=6, stride=3).tolist()
        [[0, 6], [3, 6], [6, 4]]
    """
    if room < 1 or stride < 1:
        raise ValueError(f"room={room}, stride={stride}: expected at least 1 token for both.")
    count = 1 + max(0, -(-(num_tokens - room) // min(stride, room)))
    begins = np.arange(count) * min(stride, room)
    return np.stack([begins, np.minimum(room, num_tokens - begins)], axis=1)


def max_context(windows: np.ndarray, num_tokens: int) -> np.ndarray:
    """Return, for each token, the window with the most context: the smaller side decides, then the length.

    Example:
        >>> max_context(np.array([[0, 6], [3, 6], [6, 4]]), 10).tolist()
        [0, 0, 0, 0, 0, 1, 1, 2, 2, 2]
    """
    begins, lengths = np.asarray(windows)[:, :1], np.asarray(windows)[:, 1:]  # [W, 1]
    left = np.arange(num_tokens)[None] - begins  # [W, tokens]
    right = lengths - 1 - left
    merit = np.minimum(left, right) + 0.01 * lengths
    return np.where((left >= 0) & (right >= 0), merit, -np.inf).argmax(axis=0)


# === Spans ===


def span_scores(logits: np.ndarray, can_start: np.ndarray, max_length: int) -> np.ndarray:
    """Return the scores of all spans of a window, `[L, K]`: of those that begin at token i and have k + 1 tokens.

    Args:
        logits: Start and end logits of the window's context, `[L, 2]`.
        can_start: Whether a span may begin at a token, `[L]`.
        max_length: The largest number of tokens in a span; K is the smaller one of it and L.

    Example:
        >>> span_scores(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([True, True]), 30).tolist()
        [[1.0, 3.0], [2.0, -inf]]
    """
    longest = min(max_length, len(logits))
    if not longest:
        return np.zeros((len(logits), 0))
    ends = np.concatenate([logits[:, 1], np.full(longest - 1, -np.inf)])
    starts = np.where(can_start, logits[:, 0], -np.inf)
    return starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, longest)


def find_answers(logits: np.ndarray, passage: Passage, *, n_best: int = 1, max_answer_length: int = 30) -> Candidates:
    """Return the best spans of a context from the logits of its windows.

    Args:
        logits: Start and end logits of the rows, `[windows, T, 2]`; padding is not read.
        passage: The context.
        n_best: The number of spans.
        max_answer_length: The largest number of tokens in a span.

    Example:
        >>> passage = Passage("in Rome", np.array([0, 3]), np.array([2, 7]), np.array([[0, 2]]), first=3)
        >>> logits = np.zeros((1, 6, 2))
        >>> logits[0, 4] = 5.0
        >>> find_answers(logits, passage).spans[0].text
        'Rome'
    """
    if n_best < 1 or max_answer_length < 1:
        raise ValueError(f"n_best={n_best}, max_answer_length={max_answer_length}: expected at least 1 for both.")
    logits = np.asarray(logits, np.float64)
    null_score = float(logits[:, 0].sum(axis=-1).min())
    home = max_context(passage.windows, len(passage.starts))
    found, totals = [], [null_score]
    for window, (begin, length) in enumerate(passage.windows):
        rows = logits[window, passage.first : passage.first + length]
        scores = span_scores(rows, home[begin : begin + length] == window, max_answer_length)
        best = _largest(scores, n_best)
        found += [(scores[start, more], begin + start, begin + start + more) for start, more in best]
        totals.append(_log_sum(scores))
    log_total = _log_sum(np.array(totals))
    found.sort(key=lambda span: (-span[0], span[1], span[2]))
    answers: dict[tuple[int, int], Answer] = {}
    for score, first, last in found:
        start, end = int(passage.starts[first]), _end(passage, last)
        # The letters of a Hangul syllable are tokens with the same offsets: of equal answers the best is kept.
        answers.setdefault((start, end), _answer(passage.context, start, end, score, log_total))
    return Candidates(tuple(answers.values())[:n_best], _answer(passage.context, 0, 0, null_score, log_total))


def _answer(context: str, start: int, end: int, score: float, log_total: float) -> Answer:
    return Answer(context[start:end], start, end, float(np.exp(score - log_total)), float(score))


def _largest(scores: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Return the indices of the largest scores."""
    flat = scores.ravel()
    count = min(count, int(np.isfinite(flat).sum()))
    if not count:
        return []
    return [divmod(int(place), scores.shape[1]) for place in np.argpartition(-flat, count - 1)[:count]]


def _log_sum(values: np.ndarray) -> float:
    top = values.max(initial=-np.inf)
    return top + np.log(np.exp(values - top).sum()) if np.isfinite(top) else -np.inf


def _end(passage: Passage, token: int) -> int:
    """Return where a token ends, with the marks on its last letter: the tokenizer's offsets leave out accents."""
    end = int(passage.ends[token])
    behind = passage.starts[token + 1] if token + 1 < len(passage.starts) else len(passage.context)
    while end < behind and unicodedata.category(passage.context[end]).startswith("M"):
        end += 1
    return end
