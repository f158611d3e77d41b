"""Tokenize questions and contexts into rows `[CLS] question [SEP] window [SEP]` with targets.

Takes a tokenizer and questions; gives `PreparedQuestions`. A question has one row for each window of its context. Only
NumPy is used, because the device runtime reads the same windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.spans import Passage, context_windows
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts, tokenize_texts

# === Values ===


@dataclass(frozen=True, eq=False)
class TokenizedContext:
    """The ids of a context, and the start and end of each token in characters."""

    text: str
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True, eq=False)
class PreparedQuestions(PreparedData):
    """Questions as the model trains on them: a row for each window, in the order of the questions.

    Args:
        passages: The context of each question.
        gold: The right answers to each question, as texts; none if it has no answer.
    """

    passages: tuple[Passage, ...] = ()
    gold: tuple[tuple[str, ...], ...] = ()

    def first_rows(self, count: int) -> "PreparedQuestions":
        """The first questions with at most `count` rows; at least one question."""
        ends = np.cumsum(np.bincount(self.owners))
        questions = max(1, int(np.searchsorted(ends, count, side="right")))
        return replace(self.slice_examples(0, questions), weights=None)

    def slice_examples(self, start: int, stop: int) -> "PreparedQuestions":
        """The questions from `start` to before `stop`, with all of their windows."""
        rows = super().slice_examples(start, stop)
        return replace(rows, passages=self.passages[start:stop], gold=self.gold[start:stop])


# === Questions ===


def prepare_questions(
    tokenizer: FlatTokenizer,
    questions: Sequence[Question],
    *,
    sequence_length: int,
    stride: int,
    max_question_length: int,
    max_answer_length: int,
) -> PreparedQuestions:
    """Make the rows and targets of questions. Notes say what was cut and what cannot be learned.

    The first right answer of a question is the target. If no window has all of it, its rows get the weight 0, because
    "the answer is not here" would be wrong for some of them.

    Args:
        tokenizer: A `BertTokenizer`, or another with its flat methods.
        questions: The questions.
        sequence_length, stride: As for `make_rows`.
        max_question_length: Longer questions are cut.
        max_answer_length: Maximum number of tokens of an answer; notes count longer ones.
    """
    asked = tokenize_texts(tokenizer, [question.question for question in questions])
    asked, number_cut = asked.trimmed(max_question_length + 2)  # with [CLS] and [SEP]
    contexts = tokenize_contexts(tokenizer, [question.context for question in questions])
    rows, owners, passages = make_rows(asked, contexts, sequence_length=sequence_length, stride=stride)
    targets, weights, counts = [], [], {"inside": 0, "nowhere": 0, "long": 0}
    for question, passage in zip(questions, passages, strict=True):
        tokens, answer = None, question.answers[0] if question.answers else None
        if answer is not None:
            tokens = find_tokens(passage, answer.start, answer.end)
        targets.append(window_targets(passage, tokens))
        if answer is not None and tokens is not None:
            counts["inside"] += is_inside_pieces(passage, tokens, answer.start, answer.end)
            counts["long"] += tokens[1] - tokens[0] >= max_answer_length
        is_lost = answer is not None and not targets[-1][:, 0].any()
        counts["nowhere"] += is_lost
        weights.append(0.0 if is_lost else 1.0)
    said = {
        f"questions were cut to {max_question_length} tokens": number_cut,
        "answers begin or end inside a word piece, and the whole piece is learned": counts["inside"],
        f"answers have more than max_answer_length={max_answer_length} tokens, so they cannot be given": counts["long"],
        "answers do not fit into any window, and are not learned": counts["nowhere"],
    }
    return PreparedQuestions(
        rows,
        np.concatenate([np.zeros((0, 4), np.int32), *targets]),
        np.array(weights, np.float32)[owners] if counts["nowhere"] else None,
        owners,
        tuple(f"{count:,} of {len(questions):,} {what}" for what, count in said.items() if count),
        passages,
        tuple(question.texts for question in questions),
    )


def tokenize_contexts(
    tokenizer: FlatTokenizer, contexts: Sequence[str], *, batch: int = 1024
) -> list[TokenizedContext]:
    """Tokenize contexts with offsets; a context that several questions share is tokenized once."""
    different = list(dict.fromkeys(contexts))
    tokenized = {}
    for start in range(0, len(different), batch):
        texts = different[start : start + batch]
        ids, splits, *offsets = tokenizer.tokenize_flat_with_offsets(texts)
        columns = (ids, *offsets)
        for text, begin, end in zip(texts, splits[:-1], splits[1:], strict=True):
            tokenized[text] = TokenizedContext(text, *(column[begin:end] for column in columns))
    return [tokenized[text] for text in contexts]


# === Rows ===


def make_rows(
    questions: TokenizedTexts, contexts: Sequence[TokenizedContext], *, sequence_length: int, stride: int
) -> tuple[TokenizedTexts, np.ndarray, tuple[Passage, ...]]:
    """Make a row for every window of every context; gives the rows, the question of each row, and the passages.

    Args:
        questions: The questions, short enough to leave room for a context.
        contexts: The context of each.
        sequence_length: Maximum number of tokens of a row.
        stride: The distance between the starts of two windows, in tokens.

    Example:
        >>> questions = TokenizedTexts(np.array([9], np.int32), np.array([0, 1]))
        >>> context = TokenizedContext("a b c", np.array([4, 5, 6], np.int32), np.arange(0, 5, 2), np.arange(1, 6, 2))
        >>> rows, owners, passages = make_rows(questions, [context], sequence_length=6, stride=1)
        >>> rows.packed()[0].tolist(), owners.tolist()
        ([2, 9, 3, 4, 5, 3, 2, 9, 3, 5, 6, 3], [0, 0])
    """
    first, second, owners, passages = [], [], [], []
    for number, context in enumerate(contexts):
        question = questions.first_ids[questions.first_splits[number] : questions.first_splits[number + 1]]
        before = 1 + len(question) + questions.separators
        windows = context_windows(len(context.ids), sequence_length - before - 1, stride)
        passages.append(Passage(context.text, context.starts, context.ends, windows, first=before))
        first += [question] * len(windows)
        second += [context.ids[begin : begin + length] for begin, length in windows]
        owners += [number] * len(windows)
    first_ids, first_splits = _flat(first)
    second_ids, second_splits = _flat(second)
    rows = replace(
        questions,
        first_ids=first_ids,
        first_splits=first_splits,
        second_ids=second_ids,
        second_splits=second_splits,
    )
    return rows, np.array(owners, np.int64), tuple(passages)


def _flat(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(part) for part in parts], np.int64)
    ids = np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)
    return ids, np.concatenate([[0], np.cumsum(lengths)])


# === Targets ===


def find_tokens(passage: Passage, start: int, end: int) -> tuple[int, int] | None:
    """Find the first and the last token that overlap the characters `start` to `end`; `None` if there is none.

    Example:
        >>> passage = Passage("in Rome", np.array([0, 3]), np.array([2, 7]), np.array([[0, 2]]), first=3)
        >>> find_tokens(passage, 4, 7)
        (1, 1)
    """
    first = int(np.searchsorted(passage.ends, start, side="right"))
    last = int(np.searchsorted(passage.starts, end, side="left")) - 1
    return (first, last) if first <= last else None


def is_inside_pieces(passage: Passage, tokens: tuple[int, int], start: int, end: int) -> bool:
    """Whether the characters begin or end inside a token, so that the tokens cover more than the characters."""
    return bool(passage.starts[tokens[0]] < start or passage.ends[tokens[1]] > end)


def window_targets(passage: Passage, tokens: tuple[int, int] | None) -> np.ndarray:
    """Make the targets of the rows of a passage, `[windows, 4]`.

    They are the first and last token of the answer, and the begin and end of the context in the row. If the window does
    not have the whole answer, or there is none, the answer is [CLS]: 0 and 0.

    Example:
        >>> ends = np.arange(1, 6)
        >>> passage = Passage("abcde", ends - 1, ends, np.array([[0, 3], [2, 3]]), first=4)
        >>> window_targets(passage, (1, 2)).tolist()
        [[5, 6, 4, 7], [0, 0, 4, 7]]
    """
    begins, lengths = passage.windows[:, 0], passage.windows[:, 1]
    targets = np.zeros((len(begins), 4), np.int32)
    targets[:, 2], targets[:, 3] = passage.first, passage.first + lengths
    if tokens is not None:
        whole = (begins <= tokens[0]) & (tokens[1] < begins + lengths)
        for column, token in enumerate(tokens):
            targets[:, column] = np.where(whole, passage.first + token - begins, 0)
    return targets
