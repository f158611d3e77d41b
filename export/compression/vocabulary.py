"""Remove tokens that a task's texts do not need, because the token table is most of a small BERT.

`trim_vocabulary` removes tokens that do not occur. WordPiece always takes the longest token that fits, so a text whose
tokens are all kept is tokenized as before and gets the same answer. The effect on other texts is counted and printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.task import Task
from keras_bert.text.tokenized_texts import tokenize_texts
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, single_characters


@dataclass(frozen=True)
class TrimReport:
    """What was removed, and the effect on held-out texts. Prints as three lines.

    Args:
        before, after: Tokens of the vocabulary.
        parameters_before, parameters_after: Parameters of the model.
        checked: The number of held-out texts.
        same: How many of them are tokenized as before.
        pieces_before, pieces_after: The number of their tokens.
        unknown: How many more of these are the unknown token than before.
    """

    before: int
    after: int
    parameters_before: int
    parameters_after: int
    checked: int = 0
    same: int = 0
    pieces_before: int = 0
    pieces_after: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        saved = 1 - self.parameters_after / self.parameters_before
        lines = [
            f"{self.after:,} of {self.before:,} tokens kept; {self.parameters_after:,} parameters instead of "
            f"{self.parameters_before:,} ({saved:.0%} less)"
        ]
        if self.checked:
            longer = self.pieces_after / max(1, self.pieces_before) - 1
            lines.append(f"of {self.checked:,} other texts {self.same / self.checked:.1%} are cut as before")
            lines.append(f"they have {longer:+.1%} pieces, {self.unknown:,} of them newly unknown")
        return "\n".join(lines)


def trim_vocabulary(
    task: Task,
    texts: Sequence[str | Sequence[str]],
    *,
    held_out: Sequence[str | Sequence[str]] = (),
    min_count: int = 1,
    keep: Sequence[str] = (),
    keep_characters: bool = True,
) -> tuple[Task, TrimReport]:
    """Give a task a smaller vocabulary, chosen by texts.

    Args:
        task: Any task; it stays as it is.
        texts: Strings or pairs of strings, such as the training data; as similar as possible to later inputs.
        held_out: Other texts, to measure the effect on.
        min_count: How often a token must occur to be kept.
        keep: Tokens to keep in any case.
        keep_characters: Keep single characters of the alphabets that occur, so that unseen words are spelled in
            characters instead of becoming unknown.

    Returns:
        The smaller task and a report to print.

    Example:
        ```python
        smaller, report = trim_vocabulary(classifier, train.texts, held_out=dev.texts)
        print(report)
        ```
    """
    texts = _flat(texts)
    if not texts:
        raise ValueError("There are no texts; expected texts to choose the vocabulary by.")
    tokenizer = task.tokenizer
    counts = np.bincount(tokenize_texts(tokenizer, texts).first_ids, minlength=tokenizer.vocabulary_size)
    unknown = [token for token in keep if token not in set(tokenizer.vocabulary)]
    if unknown:
        raise ValueError(f"Got keep={unknown[:10]}, which are not in the vocabulary; pass tokens that are.")
    wanted = {*SPECIAL_TOKENS, *keep, *getattr(task, "markers", ())}
    wanted |= single_characters(tokenizer.vocabulary, counts) if keep_characters else set()
    kept = np.array(
        [
            index
            for index, token in enumerate(tokenizer.vocabulary)
            if counts[index] >= max(1, min_count) or token in wanted
        ]
    )
    options = {**tokenizer.get_config(), "vocabulary": [tokenizer.vocabulary[index] for index in kept]}
    smaller = task.on_encoder(
        task.config.replace(vocabulary_size=len(kept)), tokenizer=BertTokenizer.from_config(options)
    )
    copy_weights(task.model, smaller.model, table_rows=kept)
    smaller.fresh_heads = task.fresh_heads
    report = TrimReport(tokenizer.vocabulary_size, len(kept), task.model.count_params(), smaller.model.count_params())
    return smaller, _with_cost(report, tokenizer, smaller.tokenizer, kept, _flat(held_out))


def _flat(texts: Sequence[str | Sequence[str]]) -> list[str]:
    return [part for text in texts for part in ((text,) if isinstance(text, str) else text)]


def _with_cost(
    report: TrimReport, before: BertTokenizer, after: BertTokenizer, kept: np.ndarray, texts: list[str]
) -> TrimReport:
    if not texts:
        return report
    old, new = tokenize_texts(before, texts), tokenize_texts(after, texts)
    renumbered = kept[new.first_ids]  # as old ids, to compare
    pairs = [
        (old.first_ids[slice(*old.first_splits[row : row + 2])], renumbered[slice(*new.first_splits[row : row + 2])])
        for row in range(len(texts))
    ]
    unknown = int(np.sum(renumbered == before.unk_id) - np.sum(old.first_ids == before.unk_id))
    return TrimReport(
        report.before,
        report.after,
        report.parameters_before,
        report.parameters_after,
        checked=len(texts),
        same=sum(np.array_equal(*pair) for pair in pairs),
        pieces_before=len(old.first_ids),
        pieces_after=len(new.first_ids),
        unknown=max(0, unknown),
    )
