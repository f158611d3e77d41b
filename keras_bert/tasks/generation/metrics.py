"""Written texts and the texts that were wanted → BLEU, ROUGE, exact match, distinct n-grams.

Takes lists of strings, gives a frozen report that prints as a table and turns into JSON. A room of its own because
generation is measured by the overlap of texts, where `evaluation/reports.py` measures labels. BLEU is sacreBLEU's and
ROUGE is rouge-score's, with the packages of the extra `generate`; Chinese counts by characters in both.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType

from keras_bert.evaluation.tables import noted

_CHINESE = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f]"
_WORD = re.compile(rf"{_CHINESE}|(?:(?!{_CHINESE})[^\W_])+")
_ROUGE = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class GenerationReport:
    """How near written texts come to those that were wanted.

    Args:
        count: How many texts.
        bleu: sacreBLEU's corpus BLEU, 0 to 100.
        rouge_1, rouge_2, rouge_l: F-measures of ROUGE, the mean of all texts, 0 to 100.
        exact_match: The share of texts that are the wanted ones.
        distinct_1, distinct_2: Different words (pairs of words) over all that were written: how varied texts are.
        length: Words of a written text over words of a wanted one.
        loss: Minus the log-probability of a wanted token, the mean; `None` where texts alone were measured.
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

    def to_dict(self) -> dict:
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
    """Measure written texts.

    Args:
        written: What a model wrote.
        wanted: What it should have written, a text for each.
        lowercase: Whether BLEU takes upper and lower case for the same, as it must where the model knows one of them.
        normalize: What is done to both texts before they are compared for an exact match.
        loss: To be shown with it.
        notes: The same.

    Example:
        >>> report = generation_report(["the cat sat on the mat"], ["the cat is on the mat"])
        >>> round(report.rouge_1, 2), round(report.distinct_1, 2)
        (83.33, 0.83)
    """
    written, wanted = list(written), list(wanted)
    if len(written) != len(wanted) or not written:
        raise ValueError(f"There are {len(written)} written texts and {len(wanted)} wanted ones; expected as many.")
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
    """sacreBLEU's corpus BLEU, 0 to 100; Chinese by characters, as its `zh` tokenizer does it.

    Example:
        >>> round(bleu_score(["a small dog runs over the grass"], ["a small dog runs over grass"]), 1)
        59.5
    """
    tokenize = "zh" if is_chinese(wanted) else "13a"
    bleu = _module("sacrebleu").corpus_bleu(list(written), [list(wanted)], lowercase=lowercase, tokenize=tokenize)
    return float(bleu.score)


def rouge_scores(written: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    """ROUGE-1, 2 and L by rouge-score, F-measure, the mean over all texts, 0 to 100.

    Words are runs of letters and digits in any script, and single Chinese characters: on English texts these are the
    words of rouge-score, which would drop all others.

    Example:
        >>> round(rouge_scores(["the cat sat"], ["the cat sat down"])["rougeL"], 2)
        85.71
    """
    scorer = _module("rouge_score.rouge_scorer").RougeScorer(list(_ROUGE), tokenizer=_Words())
    scores = [scorer.score(one, other) for one, other in zip(wanted, written, strict=True)]
    return {name: 100 * sum(score[name].fmeasure for score in scores) / len(scores) for name in _ROUGE}


def distinct_share(words: Sequence[Sequence[str]], n: int) -> float:
    """Different n-grams over all n-grams of texts (Li et al. 2016); 0 where there are none.

    Example:
        >>> distinct_share([["a", "b", "a", "b"]], 2)
        0.6666666666666666
    """
    grams = [tuple(text[index : index + n]) for text in words for index in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def split_words(text: str) -> list[str]:
    """The words of a text, lowercased: runs of letters and digits, and single Chinese characters.

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
    """`split_words` in the form that rouge-score asks for."""

    def tokenize(self, text):
        return split_words(text)


def _module(name) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'measuring texts needs {name}: pip install "keras-bert-edge[generate]"') from error


def _number(name, value):
    return f"{value:.2f}" if name.startswith(("bleu", "rouge")) else f"{value:.4f}"
