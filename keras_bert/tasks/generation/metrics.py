"""Measure generated texts: BLEU, ROUGE, exact match, distinct n-grams.

BLEU comes from sacreBLEU and ROUGE from rouge-score, both in the extra `generate`. Chinese is counted by characters in
both.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from keras_bert.evaluation.tables import noted

_CHINESE = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]"
_WORD = re.compile(rf"{_CHINESE}|(?:(?!{_CHINESE})[^\W_])+")
_ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class GenerationReport:
    """How close generated texts are to the references.

    Args:
        count: The number of texts.
        bleu: sacreBLEU's corpus BLEU, 0 to 100.
        rouge_1, rouge_2, rouge_l: F-measures of ROUGE, the mean over all texts, 0 to 100.
        exact_match: The share of texts that equal their reference.
        distinct_1, distinct_2: Distinct words (pairs of words) divided by all words (pairs): how varied texts are.
        length: The number of generated words divided by the number of reference words.
        loss: The mean negative log-likelihood of a reference token; `None` if only texts were measured.
        notes: What was cut or dropped.
    """

    count: int
    bleu: float
    rouge_1: float
    rouge_2: float
    rouge_l: float
    exact_match: float
    distinct_1: float
    distinct_2: float
    length: float
    loss: float | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return json.loads(json.dumps(asdict(self)))

    def __str__(self) -> str:
        names = ("bleu", "rouge_1", "rouge_2", "rouge_l", "exact_match", "distinct_1", "distinct_2", "length")
        if self.loss is not None:
            names += ("loss",)
        head = {"bleu": "BLEU", "rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}
        cells = [(head.get(name, name.replace("_", " ")), _number(name, getattr(self, name))) for name in names]
        widths = [max(len(title), len(value)) for title, value in cells]
        lines = ["  ".join(map(str.rjust, column, widths)) for column in zip(*cells, strict=True)]
        return "\n".join([*lines, f"{self.count:,} texts", *noted(self.notes)])


def generation_report(
    written: Sequence[str],
    wanted: Sequence[str],
    *,
    lowercase: bool = False,
    normalize: Callable[[str], str] = str.strip,
    loss: float | None = None,
    notes: tuple[str, ...] = (),
) -> GenerationReport:
    """Measure generated texts.

    Args:
        written: The generated texts.
        wanted: The reference of each text.
        lowercase: Whether BLEU ignores case; for models with a lowercase vocabulary.
        normalize: Applied to both texts before they are compared for an exact match.
        loss: Shown in the report.
        notes: Shown in the report.

    Example:
        >>> report = generation_report(["the cat sat on the mat"], ["the cat is on the mat"])
        >>> round(report.rouge_1, 2), round(report.distinct_1, 2)
        (83.33, 0.83)
    """
    written, wanted = list(written), list(wanted)
    if len(written) != len(wanted) or not written:
        raise ValueError(
            f"There are {len(written)} generated texts and {len(wanted)} references; expected one for each."
        )
    words = [split_words(text) for text in written]
    rouge = rouge_scores(written, wanted)
    equal = [normalize(one) == normalize(other) for one, other in zip(written, wanted, strict=True)]
    rouge_1, rouge_2, rouge_l = (rouge[name] for name in _ROUGE)
    return GenerationReport(
        len(written),
        bleu_score(written, wanted, lowercase=lowercase),
        rouge_1,
        rouge_2,
        rouge_l,
        sum(equal) / len(equal),
        distinct_share(words, 1),
        distinct_share(words, 2),
        sum(map(len, words)) / max(1, sum(len(split_words(text)) for text in wanted)),
        loss,
        notes,
    )


def bleu_score(written: Sequence[str], wanted: Sequence[str], *, lowercase: bool = False) -> float:
    """Compute sacreBLEU's corpus BLEU, 0 to 100; Chinese by characters, with its `zh` tokenizer.

    Example:
        >>> round(bleu_score(["a small dog runs over the grass"], ["a small dog runs over grass"]), 1)
        59.5
    """
    tokenize = "zh" if is_chinese(wanted) else "13a"
    bleu = _module("sacrebleu").corpus_bleu(list(written), [list(wanted)], lowercase=lowercase, tokenize=tokenize)
    return float(bleu.score)


def rouge_scores(written: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    """Compute ROUGE-1, 2 and L with rouge-score: F-measure, the mean over all texts, 0 to 100.

    Words are runs of letters and digits in any script, and single Chinese characters. For English these are the
    words of rouge-score, which drops those of other scripts.

    Example:
        >>> round(rouge_scores(["the cat sat"], ["the cat sat down"])["rougeL"], 2)
        85.71
    """
    scorer = _module("rouge_score.rouge_scorer").RougeScorer(list(_ROUGE), tokenizer=_Words())
    scores = [scorer.score(one, other) for one, other in zip(wanted, written, strict=True)]
    return {name: 100 * sum(score[name].fmeasure for score in scores) / len(scores) for name in _ROUGE}


def distinct_share(words: Sequence[Sequence[str]], n: int) -> float:
    """Compute distinct n-grams divided by all n-grams of texts (Li et al. 2016); 0 if there are none.

    Example:
        >>> distinct_share([["a", "b", "a", "b"]], 2)
        0.6666666666666666
    """
    grams = [tuple(text[index : index + n]) for text in words for index in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def split_words(text: str) -> list[str]:
    """Split a text into lowercase words: runs of letters and digits, and single Chinese characters.

    Example:
        >>> split_words("Ein süßer Hund, 2 证明")
        ['ein', 'süßer', 'hund', '2', '证', '明']
    """
    return _WORD.findall(text.lower())


def is_chinese(texts: Sequence[str]) -> bool:
    """Whether most words of texts are Chinese characters."""
    words = [word for text in texts for word in split_words(text)]
    return sum(bool(re.fullmatch(_CHINESE, word)) for word in words) * 2 > len(words)


class _Words:
    """`split_words` as a rouge-score tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        return split_words(text)


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'Measuring texts needs {name}: pip install "keras-bert-edge[generate]".') from error


def _number(name: str, value: float) -> str:
    return f"{value:.2f}" if name.startswith(("bleu", "rouge")) else f"{value:.4f}"
