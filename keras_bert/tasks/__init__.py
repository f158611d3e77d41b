"""What a BERT is fine-tuned for: rows of data, their metrics, and one file a task."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "as_generation_rows": "generation.files",
    "bleu_score": "generation.metrics",
    "generation_report": "generation.metrics",
    "is_chinese": "generation.metrics",
    "rouge_scores": "generation.metrics",
    "split_words": "generation.metrics",
    "as_commands": "intent_slots.files",
    "as_questions": "question_answering.files",
    "as_relation_rows": "relation.files",
    "as_tagged_rows": "tagging.files",
    "TEMPLATE": "zero_shot.task",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
