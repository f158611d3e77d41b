"""Read questions with contexts and answers from SQuAD 1.1 and 2.0 JSON, or JSONL.

Takes a path, or Python values; gives `Questions`, a sequence of `Question` with `.report`. Every entry is checked:
missing values, wrong types and wrong offsets are reported.
"""

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from keras_bert.data.examples import Dropped, RowReport, collect_rows
from keras_bert.data.tables import file_list, read_records
from keras_bert.tasks.question_answering.questions import (
    GoldAnswer,
    Question,
    QuestionReport,
    Questions,
)

__all__ = [
    "GoldAnswer",
    "Question",
    "QuestionReport",
    "Questions",
    "as_pairs",
    "as_questions",
    "check_pairs",
    "read_squad",
]

_SURROGATE = re.compile("[\ud800-\udfff]")


# === Reading ===


def read_squad(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, strict: bool = False) -> Questions:
    """Read questions, and report every entry that cannot be used.

    Args:
        paths: One file or several: SQuAD's `.json`, or `.jsonl` with a question per line, each also with `.gz`. A line
            has `question`, `context` and `answers`: a list of `{"text", "answer_start"}`, of strings (which are looked
            for in the context), or the lists `{"text": […], "answer_start": […]}`; `[]` if there is no answer.
        strict: Whether to raise an error at the first bad entry instead of reporting it.

    Example:
        >>> questions = read_squad("dev-v2.0.json")  # doctest: +SKIP
        >>> print(questions.report)  # doctest: +SKIP
        11,873 questions read, 11,873 kept, 0 dropped; 5,945 have no answer
    """
    files = file_list(paths)
    found = (one for path in files for one in _read_file(path))
    return collect_rows(_questions, found, files, what="question", strict=strict)


def _read_file(path: str) -> Iterator[Question | Dropped]:
    for place, entry, context in _entries(path):
        try:
            yield _question(entry, context)
        except _BadEntry as error:
            yield Dropped(str(error), path, 0, place)


def as_questions(x: Any, y: Any = None) -> Questions:
    """Make `Questions` from a file or from pairs and answers; `Questions` stay as they are.

    Args:
        x: A path (or several), `Questions`, a list of `Question`, or `(question, context)` pairs with `y`.
        y: The answer to each pair: a string (its first occurrence in the context counts), `(text, start)`, `None` for
            no answer, or a list of these if several are right.

    Example:
        >>> as_questions([("Where?", "In Rome, Rome.")], [("Rome", 9)])[0].answers[0].start
        9
    """
    if isinstance(x, str | os.PathLike):
        return read_squad(x)
    if isinstance(x, Questions):
        return x
    x = list(x)
    if x and all(isinstance(item, str | os.PathLike) for item in x):
        return read_squad(x)
    if all(isinstance(item, Question) for item in x):
        return _questions(tuple(x), RowReport((), len(x), len(x)))
    y = [] if y is None else list(y)
    if len(y) != len(x):
        raise ValueError(
            f"There are {len(x):,} questions and {len(y):,} answers; expected one for each (None for none)."
        )
    questions = []
    for number, (pair, answer) in enumerate(zip(check_pairs(x), y, strict=True)):
        try:
            questions.append(_question({"question": pair[0], "answers": _as_list(answer)}, pair[1]))
        except _BadEntry as error:
            raise ValueError(f"Question {number} ({pair[0][:40]!r}): {error}.") from None
    return _questions(tuple(questions), RowReport((), len(questions), len(questions)))


def as_pairs(question: Any, context: str | None = None) -> tuple[list[tuple[str, str]], bool]:
    """Turn the arguments of `predict` into pairs, and say whether it was one question.

    Args:
        question: A question; a pair of question and context; or a list of such pairs.
        context: The context of the one question.

    Example:
        >>> as_pairs("Where?", "In Rome.")
        ([('Where?', 'In Rome.')], True)
    """
    if isinstance(question, str):
        if context is None:
            raise TypeError("There is no context; expected (question, context), or a list of such pairs.")
        return check_pairs([(question, context)]), True
    if context is not None:
        raise TypeError("context= is for one question; for several, pass [(question, context), …].")
    is_one = isinstance(question, tuple) and len(question) == 2 and all(isinstance(part, str) for part in question)
    return check_pairs([question] if is_one else question), is_one


def check_pairs(pairs: Iterable[Any]) -> list[tuple[str, str]]:
    """Check pairs of question and context; the error names the first wrong one.

    Example:
        >>> check_pairs([["Where?", "In Rome."]])
        [('Where?', 'In Rome.')]
    """
    checked = []
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise TypeError(
                f"Question {number} is {str(pair)[:60]!r}; expected a pair of strings: (question, context)."
            )
        for name, text in zip(("question", "context"), pair, strict=True):
            if problem := _text_problem(name, text):
                raise ValueError(f"Pair {number}: {problem}; expected a question and its context.")
        checked.append(tuple(pair))
    return checked


def _questions(kept: tuple[Question, ...], report: RowReport) -> Questions:
    """Make `Questions` with their report; with several files, it names the file of each dropped entry."""
    dropped = report.dropped
    if len(report.files) > 1:
        dropped = tuple(replace(drop, place=f"{drop.path}: {drop.place}") for drop in dropped)
    unanswerable = sum(not question.answers for question in kept)
    return Questions(kept, QuestionReport(report.files, report.read, report.kept, dropped, unanswerable))


# === Files ===


class _BadEntry(Exception):
    """Why an entry is not a question."""


def _entries(path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every entry of a file: its place, the entry, and its context, unchecked."""
    if os.path.basename(path).lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        for record in read_records(path, format="jsonl"):
            entry = record.cells if record.problem is None else _BadEntry(record.problem)
            yield f"line {record.line}", entry, entry.get("context") if isinstance(entry, dict) else None
        return
    content = _read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError(
            f'{path} is not a SQuAD file: expected {{"data": [{{"paragraphs": […]}}]}}; a question per line is .jsonl.'
        )
    for number, article in enumerate(content["data"]):
        place = f"data[{number}]"
        for part, paragraph in _items(article, "paragraphs", place):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for place, entry in _items(paragraph, "qas", part):
                named = f" (id {entry['id']!r})" if isinstance(entry, dict) and isinstance(entry.get("id"), str) else ""
                yield place + named, entry, context


def _items(parent: Any, key: str, place: str) -> list[tuple[str, Any]]:
    """The members of a list in the file; if there is no list, one broken entry that says so."""
    if isinstance(parent, _BadEntry):  # its parent is broken
        return [(place, parent)]
    if not isinstance(parent, dict) or not isinstance(parent.get(key), list):
        return [(place, _BadEntry(f"no list {key!r}"))]
    return [(f"{place}.{key}[{number}]", item) for number, item in enumerate(parent[key])]


def _read_json(path: str) -> Any:
    opened = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            return json.loads(file.read())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}); download or compress it again.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON document ({error}); a question per line is .jsonl.") from None


# === Entries ===


def _question(entry: Any, context: Any) -> Question:
    if isinstance(entry, _BadEntry):
        raise entry
    if not isinstance(entry, dict):
        raise _BadEntry("not a JSON object")
    for name, text in (("question", entry.get("question")), ("context", context)):
        if problem := _text_problem(name, text):
            raise _BadEntry(problem)
    impossible = entry.get("is_impossible")
    if not (impossible is None or isinstance(impossible, bool)):
        raise _BadEntry("is_impossible is neither true nor false")
    if "answers" not in entry and "answer" not in entry and not impossible:
        raise _BadEntry("no key 'answers'")
    given = entry.get("answers", entry.get("answer"))
    answers = tuple(_gold(answer, context) for answer in _as_list(given))
    if impossible and answers:
        raise _BadEntry("is_impossible, yet it has answers")
    if impossible is False and not answers:
        raise _BadEntry("is not is_impossible, yet it has no answers")
    name = entry.get("id", "")
    return Question(entry["question"], context, answers, name if isinstance(name, str) else str(name)[:40])


def _text_problem(name: str, text: Any) -> str | None:
    if text is None:
        return f"no key {name!r}"
    if not isinstance(text, str):
        return f"{name} is no string"
    if not text.strip():
        return f"empty {name}"
    return f"{name} is no valid UTF-8" if _SURROGATE.search(text) else None


def _as_list(answers: Any) -> list[Any]:
    """Answers in any of the accepted forms as a list."""
    if answers is None:
        return []
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        starts = answers.get("answer_start")
        if not isinstance(starts, list) or len(starts) != len(answers["text"]):
            raise _BadEntry("answers has different numbers of 'answer_start' and 'text'")
        return list(zip(answers["text"], starts, strict=True))
    return answers if isinstance(answers, list) else [answers]


def _gold(answer: Any, context: str) -> GoldAnswer:
    """Check an answer and its start."""
    if isinstance(answer, dict):
        answer = (answer.get("text"), answer.get("answer_start"))
    elif isinstance(answer, GoldAnswer):
        answer = (answer.text, answer.start)
    elif isinstance(answer, str):
        answer = (answer, None)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise _BadEntry("answer is neither a text nor a text with its start")
    text, start = answer
    if not isinstance(text, str) or not text.strip():
        raise _BadEntry("answer has no text")
    if start is None:
        start = context.find(text)
        if start < 0:
            raise _BadEntry("answer is not in the context")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise _BadEntry("answer_start is not a character offset from 0")
    if context[start : start + len(text)] != text:
        elsewhere = "it is elsewhere in the context" if text in context else "it is not in the context"
        raise _BadEntry(f"answer is not at answer_start; {elsewhere}")
    return GoldAnswer(text, start)
