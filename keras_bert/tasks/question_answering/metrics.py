"""Answers and gold answers → exact match and F1, as SQuAD's official script defines them.

Takes answers as text and the gold answers of each question (none: it has no answer), gives a report that prints as a
table. A room of its own because these numbers are compared all over the world, so each definition stands here by
itself and is tested on its corner cases. Where the scripts of SQuAD 1.1 and 2.0 differ (answers of which normalization
leaves nothing), these are 2.0's. Shares, not percent, as in all reports of this library.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from keras_bert.evaluation.tables import noted

_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Of ASCII alone: the official script keeps „ “ ’ – and 。
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# === Definitions ===


def normalize_answer(text: str) -> str:
    """Lowercase, without ASCII punctuation, then without English articles, white space made single.

    Example:
        >>> normalize_answer(" The U.S.  army! ")
        'us army'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """1.0 where the answer is one of the gold answers after normalization; without gold answers, where it is empty.

    Example:
        >>> exact_match("the Rhine", ["Rhine", "river Rhine"])
        1.0
    """
    return max(float(normalize_answer(answer) == text) for text in _normalized(gold))


def answer_f1(answer: str, gold: Sequence[str]) -> float:
    """The F1 over words that answer and gold answer share, at the gold answer where it is highest.

    Example:
        >>> round(answer_f1("in the river Rhine", ["Rhine", "river Rhine"]), 4)
        0.8
    """
    words = normalize_answer(answer).split()
    return max(_word_f1(words, text.split()) for text in _normalized(gold))


def _normalized(gold):
    """Gold answers of which nothing is left do not count; a question without any has the empty one."""
    return [text for text in map(normalize_answer, gold) if text] or [""]


def _word_f1(words, gold):
    if not words or not gold:
        return float(words == gold)
    shared = sum((Counter(words) & Counter(gold)).values())
    return 2 * shared / (len(words) + len(gold))  # the harmonic mean of shared/words and shared/gold


# === Threshold ===


def best_threshold(scores, answerable, margins) -> tuple[float, float]:
    """The threshold for "no answer" that gives the best mean score, and that score.

    Args:
        scores: What each question gets if it is answered; one without an answer then gets 0.
        answerable: Whether each question has an answer.
        margins: How much better "no answer" is than the answer, of each; over the threshold it is given.

    Returns:
        The threshold, halfway between two margins (1 beyond the last where all is alike), and the mean score.

    Example:
        >>> best_threshold([1.0, 0.5, 0.0], [True, True, False], [-3.0, -1.0, 2.0])
        (0.5, 0.8333333333333334)
    """
    scores, answerable, margins = (np.asarray(values, float) for values in (scores, answerable, margins))
    if not len(margins):
        raise ValueError("There are no questions to find a threshold on.")
    gains = scores - (1.0 - answerable)  # what answering adds: "no answer" has a point where there is none
    values, places = np.unique(margins, return_inverse=True)  # questions with equal margins go together
    totals = np.sum(answerable == 0) + np.cumsum(np.concatenate([[0.0], np.bincount(places, gains)]))
    best = int(totals.argmax())
    padded = np.concatenate([[values[0] - 2.0], values, [values[-1] + 2.0]])
    return float((padded[best] + padded[best + 1]) / 2), float(totals[best] / len(margins))


# === Report ===


@dataclass(frozen=True)
class PartScores:
    """Mean scores of some of the questions."""

    exact_match: float
    f1: float
    count: int


@dataclass(frozen=True)
class AnswerReport:
    """How well questions were answered; prints as a table.

    Args:
        count: How many questions.
        exact_match, f1: Over all of them.
        has_answer, no_answer: Over those that have an answer, and those that have none; `None` where there are none.
        threshold: The no-answer threshold that was used; `None` where every question was answered.
        best_exact_match, best_exact_match_threshold, best_f1, best_f1_threshold: What the best threshold for these very
            questions would give; `None` without margins, or where all questions or none have an answer.
        notes: What was cut or dropped.
    """

    count: int
    exact_match: float
    f1: float
    has_answer: PartScores | None
    no_answer: PartScores | None
    threshold: float | None = None
    best_exact_match: float | None = None
    best_exact_match_threshold: float | None = None
    best_f1: float | None = None
    best_f1_threshold: float | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict:
        """The report as plain values, for JSON."""
        return json.loads(json.dumps(asdict(self)))

    def __str__(self) -> str:
        lines = [f"exact match {self.exact_match:.4f} · F1 {self.f1:.4f} · {self.count:,} questions"]
        if self.no_answer is not None:
            lines += ["", f"{'':<12}exact match      F1  questions"]
            for name, part in (("has answer", self.has_answer), ("no answer", self.no_answer)):
                if part is not None:
                    lines.append(f"{name:<12}{part.exact_match:11.4f}  {part.f1:6.4f}  {part.count:9,}")
        if self.threshold is not None:
            lines += ["", f"no-answer threshold {self.threshold:.3f}"]
        if self.best_f1 is not None:
            lines.append(
                f"best for these questions: F1 {self.best_f1:.4f} at {self.best_f1_threshold:.3f}, exact match "
                f"{self.best_exact_match:.4f} at {self.best_exact_match_threshold:.3f}"
            )
        return "\n".join([*lines, *noted(self.notes)])


def answer_report(
    answers: Sequence[str],
    gold: Sequence[Sequence[str]],
    *,
    margins: Sequence[float] | None = None,
    threshold: float | None = None,
    notes: Sequence[str] = (),
) -> AnswerReport:
    """Measure answers.

    Args:
        answers: The answer to each question, as if every question had one; `""` for none.
        gold: The gold answers of each; none where it has no answer.
        margins: How much better "no answer" is than each answer. With them the best thresholds are found.
        threshold: Answers whose margin is over it count as "no answer"; `None` takes the answers as they are.
        notes: For the report.

    Example:
        >>> print(answer_report(["the Rhine", "Rome"], [["Rhine"], ["in Rome"]]))
        exact match 0.5000 · F1 0.8333 · 2 questions
    """
    if len(answers) != len(gold) or (margins is not None and len(margins) != len(gold)):
        raise ValueError(f"There are {len(answers):,} answers to {len(gold):,} questions; expected one for each.")
    if not len(gold):
        raise ValueError("There are no questions to measure on.")
    if threshold is not None and margins is None:
        raise ValueError(f"threshold={threshold} needs margins to compare with; pass margins=[…].")
    answerable = np.array([len(texts) > 0 for texts in gold])
    given = answers
    if threshold is not None and margins is not None:
        given = ["" if margin > threshold else text for text, margin in zip(answers, margins, strict=True)]
    exact, f1 = _scores(given, gold)
    best = {}
    if margins is not None and 0 < answerable.sum() < len(gold):
        if_answered = (exact, f1) if threshold is None else _scores(answers, gold)
        for name, scores in zip(("exact_match", "f1"), if_answered, strict=True):
            best[f"best_{name}_threshold"], best[f"best_{name}"] = best_threshold(scores, answerable, margins)
    return AnswerReport(
        count=len(gold),
        exact_match=float(exact.mean()),
        f1=float(f1.mean()),
        has_answer=_part(exact, f1, answerable),
        no_answer=_part(exact, f1, ~answerable),
        threshold=threshold,
        notes=tuple(notes),
        **best,
    )


def _scores(answers, gold):
    pairs = list(zip(answers, gold, strict=True))
    return (np.array([measure(*pair) for pair in pairs]) for measure in (exact_match, answer_f1))


def _part(exact, f1, chosen):
    if not chosen.any():
        return None
    return PartScores(float(exact[chosen].mean()), float(f1[chosen].mean()), int(chosen.sum()))
