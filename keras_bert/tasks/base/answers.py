"""Format the answers of tasks: as values for JSON, and as text for a terminal."""

from dataclasses import fields, is_dataclass
from typing import Any


def plain_answer(answer: Any) -> Any:
    """Turn an answer into JSON values: dataclasses become dictionaries, tuples and arrays become lists.

    Example:
        >>> from keras_bert.decoding.entities import Command, Entity
        >>> plain_answer(Command("wake", 0.98765, (Entity("six", "time", 3, 6, 0.5),)))["slots"][0]["text"]
        'six'
    """
    if is_dataclass(answer) and not isinstance(answer, type):
        return {field.name: plain_answer(getattr(answer, field.name)) for field in fields(answer)}
    if isinstance(answer, dict):
        return {str(name): plain_answer(value) for name, value in answer.items()}
    if isinstance(answer, (list, tuple, set, frozenset)):
        return [plain_answer(part) for part in answer]
    if hasattr(answer, "tolist"):  # a NumPy array or number
        return plain_answer(answer.tolist())
    if isinstance(answer, float):
        return round(answer, 4)
    return answer if answer is None or isinstance(answer, (str, int)) else str(answer)


def answer_words(answer: Any) -> str:
    """Format an answer as a line to print.

    Example:
        >>> answer_words([0.5, "good"]), answer_words([])
        ('0.500, good', 'none')
    """
    if isinstance(answer, (list, tuple)):
        return ", ".join(map(answer_words, answer)) or "none"
    return f"{answer:.3f}" if isinstance(answer, float) else str(answer)


# === Labels ===


def plain_labels(answer: Any) -> Any:
    """Turn the labels of a classifier, or its number, into JSON values.

    Example:
        >>> from keras_bert.decoding.labels import Label
        >>> plain_labels([Label("good", 0.98765)])
        [{'label': 'good', 'probability': 0.9877}]
    """
    if isinstance(answer, float):
        return answer
    return [{"label": label.name, "probability": round(label.probability, 4)} for label in answer]


def likeliest_words(answer: Any) -> str:
    """Format the first three of a ranked list, or a number.

    Example:
        >>> likeliest_words(["a (40%)", "b (30%)", "c (20%)", "d (10%)"])
        'a (40%), b (30%), c (20%)'
    """
    return answer_words(answer if isinstance(answer, float) else list(answer)[:3])
