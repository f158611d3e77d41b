"""Measure answers by exact match and F1, as SQuAD's official script defines them.

Takes answers as texts and the gold answers of each question (none if it has no answer). For answers that are empty
after normalization the scripts of SQuAD 1.1 and 2.0 differ; this module follows 2.0. Values are shares, not percent.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keras_bert.evaluation.tables import noted

_ARTICLES = re.compile(r"\b(a|an|the)\b")
# ASCII only: the official script keeps „ “ ’ – and 。
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# === Definitions ===


def normalize_answer(text: str) -> str:
    """Normalize an answer: lowercase, no ASCII punctuation, no English articles, single spaces.

    Example:
        >>> normalize_answer(" The U.S.  army! ")
        'us army'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """Return 1.0 if the normalized answer is one of the gold answers; without gold answers, if it is empty.

    Example:
        >>> exact_match("the Rhine", ["Rhine", "river Rhine"])
        1.0
    """
    return max(float(normalize_answer(answer) == text) for text in _normalized(gold))


def answer_f1(answer: str, gold: Sequence[str]) -> float:
    """Compute the F1 over shared words; the highest over the gold answers.

    Example:
        >>> round(answer_f1("in the river Rhine", ["Rhine", "river Rhine"]), 4)
        0.8
    """
    words = normalize_answer(answer).split()
    return max(_word_f1(words, text.split()) for text in _normalized(gold))


def _normalized(gold: Sequence[str]) -> list[str]:
    """Gold answers that are not empty after normalization; a question without any has the empty answer."""
    return [text for text in map(normalize_answer, gold) if text] or [""]


def _word_f1(words: list[str], gold: list[str]) -> float:
    if not words or not gold:
        return float(words == gold)
    shared = sum((Counter(words) & Counter(gold)).values())
    return 2 * shared / (len(words) + len(gold))  # the harmonic mean of shared/words and shared/gold


# === Threshold ===


def best_threshold(scores: ArrayLike, answerable: ArrayLike, margins: ArrayLike) -> tuple[float, float]:
    """Find the "no answer" threshold with the best mean score; gives the threshold and the score.

    Args:
        scores: The score of each question if it is answered; 0 for a question without an answer.
        answerable: Whether each question has an answer.
        margins: For each question, how much better "no answer" is than the answer. Over the threshold it is chosen.

    Returns:
        The threshold, halfway between two margins or 1 beyond the outermost, and the mean score.

    Example:
        >>> best_threshold([1.0, 0.5, 0.0], [True, True, False], [-3.0, -1.0, 2.0])
        (0.5, 0.8333333333333334)
    """
    scores, answerable, margins = (np.asarray(values, float) for values in (scores, answerable, margins))
    if not len(margins):
        raise ValueError("There are no questions to find a threshold on; expected at least one.")
    gains = scores - (1.0 - answerable)  # what answering adds: "no answer" scores 1 if there is no answer
    values, places = np.unique(margins, return_inverse=True)  # equal margins fall on the same side
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
        count: The number of questions.
        exact_match, f1: Over all of them.
        has_answer, no_answer: Over those with an answer, and those without; `None` if there are none.
        threshold: The no-answer threshold that was used; `None` if every question was answered.
        best_exact_match, best_exact_match_threshold, best_f1, best_f1_threshold: What the best threshold for these
            questions would give; `None` without margins, or if all questions or none have an answer.
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

    def to_dict(self) -> dict[str, Any]:
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
        gold: The gold answers of each; none if it has no answer.
        margins: How much better "no answer" is than each answer; needed to find the best thresholds.
        threshold: Answers with a larger margin count as "no answer"; `None` uses all answers.
        notes: Shown in the report.

    Example:
        >>> print(answer_report(["the Rhine", "Rome"], [["Rhine"], ["in Rome"]]))
        exact match 0.5000 · F1 0.8333 · 2 questions
    """
    if len(answers) != len(gold) or (margins is not None and len(margins) != len(gold)):
        raise ValueError(f"There are {len(answers):,} answers to {len(gold):,} questions; expected one for each.")
    if not len(gold):
        raise ValueError("There are no questions to measure on; expected at least one.")
    if threshold is not None and margins is None:
        raise ValueError(f"threshold={threshold} is compared with margins; pass margins=[…].")
    answerable = np.array([len(texts) > 0 for texts in gold])
    given = answers
    if threshold is not None and margins is not None:
        given = ["" if margin > threshold else text for text, margin in zip(answers, margins, strict=True)]
    exact, f1 = _scores(given, gold)
    best: dict[str, float] = {}
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


def _scores(answers: Sequence[str], gold: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = list(zip(answers, gold, strict=True))
    exact, f1 = (np.array([measure(*pair) for pair in pairs]) for measure in (exact_match, answer_f1))
    return exact, f1


def _part(exact: np.ndarray, f1: np.ndarray, chosen: np.ndarray) -> PartScores | None:
    if not chosen.any():
        return None
    return PartScores(float(exact[chosen].mean()), float(f1[chosen].mean()), int(chosen.sum()))
