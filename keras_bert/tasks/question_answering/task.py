"""Extractive question answering: find the part of a text that answers a question (SQuAD 1.1 and 2.0).

`QuestionAnswerer` reads `[CLS] question [SEP] context [SEP]` and gives two logits for each token: the start and the end
of the answer. A context that is too long for one row is read in overlapping windows.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.batching.inference import inference_batches
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_model
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import open_checkpoint
from keras_bert.decoding.spans import Answer, Candidates, Passage, find_answers
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.attention_bias import MASK_BIAS
from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.question_answering.files import as_pairs, as_questions
from keras_bert.tasks.question_answering.metrics import AnswerReport, answer_report
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.question_answering.rows import PreparedQuestions, prepare_questions
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts

_OUTPUT = "span_logits"
_METRICS = ("f1", "exact_match")


@keras.saving.register_keras_serializable("keras_bert")
class SpanLoss(keras.losses.Loss):
    """Mean cross-entropy of the first and the last token of the answer, over [CLS] and the context.

    Takes targets `[B, 4]` (first and last token of the answer, begin and end of the context) and logits `[B, T, 2]`.
    The context is in the targets because a loss has no other input; question and padding cannot be the answer.

    Example:
        >>> loss = SpanLoss()
        >>> float(loss(np.array([[3, 3, 3, 5]]), np.zeros((1, 8, 2))))  # three places are left, all alike: log 3
        1.0986123085021973
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "span_loss", **kwargs: Any):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true = ops.cast(y_true, "int32")
        places = ops.arange(ops.shape(y_pred)[1], dtype="int32")[None]  # [1, T]
        can_be = (places == 0) | ((places >= y_true[:, 2:3]) & (places < y_true[:, 3:4]))  # [B, T]
        logits = y_pred + ops.where(can_be, 0.0, MASK_BIAS)[..., None]
        both = ops.sparse_categorical_crossentropy(y_true[:, :2], ops.transpose(logits, (0, 2, 1)), from_logits=True)
        return ops.mean(both, axis=-1)


class QuestionAnswerer(Task):
    """BERT that finds the answer to a question in a text.

    Args:
        model: A model with `span_logits`, from `bert_model(…, "question_answering")`.
        tokenizer: Its tokenizer.
        sequence_length: Maximum number of tokens of a row; `None` is 384, or the model's maximum if less.
        stride: The distance between the starts of two windows, in tokens; `None` is 128, or half a window if less.
        max_question_length: Longer questions are cut; `None` is 64 tokens, or half a row if less.
        max_answer_length: Maximum number of tokens of an answer.
        unanswerable: Whether a context may have no answer (SQuAD 2.0).
        no_answer_threshold: With `unanswerable`: how much better "no answer" must be than the best answer.
            `fit` finds it on validation data.
        fresh_heads: As for `Task`.

    Example:
        ```python
        answerer = QuestionAnswerer.from_pretrained("all-MiniLM-L6-v2")
        print(answerer.fit("train-v1.1.json", validation_data="dev-v1.1.json", learning_rate=1e-4, epochs=2))
        print(answerer.predict("Where does the train go?", "The train to Malmö leaves at nine."))  # Malmö (97%)
        answerer.save("answers")
        ```
    """

    name = "question_answering"
    default_metric = "f1"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        sequence_length: int | None = None,
        stride: int | None = None,
        max_question_length: int | None = None,
        max_answer_length: int = 30,
        unanswerable: bool = False,
        no_answer_threshold: float = 0.0,
        fresh_heads: bool = False,
    ):
        length = min(encoder_config(model).max_sequence_length, 384) if sequence_length is None else sequence_length
        super().__init__(model, tokenizer, sequence_length=length, long_texts="windows", fresh_heads=fresh_heads)
        if _OUTPUT not in model.output:
            raise ValueError(f"The model gives {', '.join(model.output)}; expected {_OUTPUT}: see bert_model.")
        special = 2 + tokenizer.pair_separators
        room = length - special
        question = min(64, room // 2) if max_question_length is None else max_question_length
        if not 1 <= question < room:
            raise ValueError(
                f"max_question_length={question}: of {length} tokens, {special} are special and the context needs at "
                f"least 1; expected 1 to {room - 1}. Use a larger sequence_length, or shorter questions."
            )
        self.max_question_length = question
        self.stride = max(1, min(128, (room - question) // 2)) if stride is None else stride
        self.max_answer_length = max_answer_length
        if self.stride < 1 or max_answer_length < 1:
            raise ValueError(f"stride={stride}, max_answer_length={max_answer_length}: expected at least 1 token each.")
        self.unanswerable, self.no_answer_threshold = unanswerable, float(no_answer_threshold)

    @classmethod
    def from_pretrained(
        cls, directory_or_name: str | os.PathLike[str], *, seed: int = 0, **kwargs: Any
    ) -> "QuestionAnswerer":
        """Make a task with pretrained weights; the head for answers is used if the checkpoint has one.

        Args:
            directory_or_name: A model directory, or the name of a model.
            seed: Random seed of the new head.
            kwargs: As for the class: `sequence_length`, `stride`, `max_question_length`, `max_answer_length`,
                `unanswerable`, `no_answer_threshold`.
        """
        directory = find_directory(directory_or_name)
        if open_checkpoint(directory).has("span_classifier"):
            model, tokenizer = load_model(directory, seed=seed)
            if tokenizer is None:
                raise ValueError(
                    f"{directory} has no vocab.txt, so texts cannot be tokenized; add the model's vocabulary."
                )
            model = keras.Model(model.input, {_OUTPUT: model.output[_OUTPUT]}, name=model.name)
            return cls(model, tokenizer, **kwargs)
        encoder, tokenizer = cls.load_parts(directory, seed)
        model = bert_model(None, "question_answering", encoder=encoder, seed=seed)
        return cls(model, tokenizer, fresh_heads=True, **kwargs)

    # === Answers ===

    def predict(
        self, question: Any, context: str | None = None, *, n_best: int | None = None, batch_size: int = 64
    ) -> Any:
        """Find the answer to a question, as an exact part of its context.

        Args:
            question: A question; or a list of `(question, context)`, which gives a list of answers.
            context: The text that answers it.
            n_best: The number of answers for each question, the best first; `None` gives only the best one.
            batch_size: Windows per batch.

        Returns:
            An `Answer`, or with `n_best` a list of them. With `unanswerable`, an empty answer means no answer.

        Example:
            ```python
            answerer.predict("Where?", "It is in Rome.").text  # "Rome"
            answerer.predict([("Where?", "It is in Rome."), ("Who?", "It is Anna.")], n_best=3)
            ```
        """
        pairs, is_one = as_pairs(question, context)
        if not pairs:
            return []
        data = self.read([Question(*pair) for pair in pairs])
        for note in data.notes:
            warnings.warn(note, stacklevel=2)
        found = self._candidates(
            self.outputs(data.tokenized, batch_size=batch_size), data, 1 if n_best is None else n_best
        )
        threshold = self.no_answer_threshold if self.unanswerable else None
        answers = [candidates.best(threshold, n_best) for candidates in found]
        return answers[0] if is_one else answers

    def evaluate(self, x: Any, y: Any = None) -> AnswerReport:
        """Measure exact match and F1, as SQuAD defines them, on data in any form that `fit` takes."""
        data = self.prepare(x, y)
        return self.report(self.outputs(data.tokenized), data)

    def choose_threshold(self, x: Any, y: Any = None, *, metric: str = "f1") -> float:
        """Find the no-answer threshold that is best on labelled questions, keep it, and return it.

        `fit` with validation data does this automatically, except after `compile`.
        """
        _check_metric(metric)
        data = self.prepare(x, y)
        found = getattr(self.report(self.outputs(data.tokenized), data), f"best_{metric}_threshold")
        if found is None:
            raise ValueError(
                "A threshold needs unanswerable=True, and questions with and without answers (SQuAD 2.0); "
                f"here unanswerable={self.unanswerable} and {sum(map(bool, data.gold)):,} of {len(data.gold):,} "
                "questions have answers."
            )
        self.no_answer_threshold = found
        return found

    # === Task definition ===

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        return bert_model(None, "question_answering", encoder=encoder, seed=seed)

    def losses(self) -> dict[str, keras.losses.Loss]:
        return {_OUTPUT: SpanLoss()}

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedQuestions:
        if class_weight is not None or columns:
            raise ValueError("class_weight and columns are for labelled texts, not for questions; leave them out.")
        questions = as_questions(x, y)
        if not len(questions):
            raise ValueError("There are no questions; expected at least one with its context and answers.")
        data = self.read(questions)
        return replace(data, notes=(str(questions.report), *data.notes)) if questions.report.dropped else data

    def read(self, questions: Sequence[Question]) -> PreparedQuestions:
        """Tokenize questions into rows with targets."""
        return prepare_questions(
            self.tokenizer,
            questions,
            sequence_length=self.sequence_length,
            stride=self.stride,
            max_question_length=self.max_question_length,
            max_answer_length=self.max_answer_length,
        )

    def check_training(self, data: Any) -> None:
        super().check_training(data)
        empty = sum(not texts for texts in data.gold)
        if empty and not self.unanswerable:
            raise ValueError(
                f"{empty:,} of {len(data.gold):,} questions have no answer in their context (SQuAD 2.0); pass "
                "unanswerable=True to from_pretrained, or leave these questions out."
            )
        if data.weights is not None and not data.weights.any():
            raise ValueError("No answer fits into a window; use a larger sequence_length or a smaller stride.")

    def outputs(
        self, tokenized: TokenizedTexts, model: keras.Model | None = None, batch_size: int = 64
    ) -> dict[str, np.ndarray]:
        """The logits of all rows, `[rows, T, 2]`, with T of the longest row; very negative after the end of a row."""
        forward = self.forward(self.model if model is None else model)
        longest = int(tokenized.lengths.max())
        logits = np.full((len(tokenized), longest, 2), MASK_BIAS, np.float32)
        sizes = {"sequence_length": self.sequence_length, "batch_size": batch_size}
        for inputs, rows in inference_batches(tokenized, **sizes):
            part = np.asarray(forward(inputs)[_OUTPUT])[: len(rows), :longest]
            logits[rows, : part.shape[1]] = part
        return {_OUTPUT: logits}

    def _candidates(self, outputs: dict[str, np.ndarray], data: PreparedQuestions, n_best: int = 1) -> list[Candidates]:
        """The best answers to each question, from the logits of its windows."""
        ends = np.cumsum([len(passage.windows) for passage in data.passages])
        parts = np.split(outputs[_OUTPUT], ends[:-1])
        options: dict[str, Any] = {"n_best": n_best, "max_answer_length": self.max_answer_length}
        return [find_answers(logits, passage, **options) for logits, passage in zip(parts, data.passages, strict=True)]

    def report(
        self, outputs: dict[str, np.ndarray], data: PreparedQuestions, found: list[Candidates] | None = None
    ) -> AnswerReport:
        """Measure outputs on labelled questions."""
        found = self._candidates(outputs, data) if found is None else found
        return answer_report(
            [candidates.ranked(None)[0].text for candidates in found],
            data.gold,
            margins=[candidates.margin for candidates in found] if self.unanswerable else None,
            threshold=self.no_answer_threshold if self.unanswerable else None,
            notes=data.notes,
        )

    def score(self, outputs: dict[str, np.ndarray], data: Any, metric: str) -> Score:
        _check_metric(metric)
        found = self._candidates(outputs, data)
        report = self.report(outputs, data, found)
        details = {"val_loss": float(self.losses()[_OUTPUT](data.labels, outputs[_OUTPUT]))}
        value, best = getattr(report, metric), getattr(report, f"best_{metric}")
        if best is not None:  # the threshold is chosen with the weights
            value, details["no_answer_threshold"] = best, getattr(report, f"best_{metric}_threshold")
        threshold = details.get("no_answer_threshold", report.threshold)
        answers = [candidates.ranked(threshold)[0] for candidates in found]
        return Score(float(value), _are_alike(answers, data), details)

    def begin_fit(self, train: PreparedData, validation: PreparedData | None, metric: str) -> None:
        super().begin_fit(train, validation, metric)
        _check_metric(metric)

    def end_fit(
        self,
        train: PreparedData,
        validation: PreparedData | None,
        metric: str,
        *,
        report: FinetuneReport | None = None,
        outputs: Callable[[PreparedData], dict[str, np.ndarray]] | None = None,
    ) -> None:
        measured = [] if report is None else [row for row in report.measurements if "no_answer_threshold" in row]
        if validation is not None and report is not None and measured:
            best = next(row for row in measured if row["epoch"] == report.best.best_epoch)  # whose weights are kept
            self.no_answer_threshold = float(best["no_answer_threshold"])
            if (
                len(report.averaged) > 1 and outputs is not None
            ):  # the measurements are of one run, not of the mean of several
                questions: Any = validation
                final = self.report(outputs(validation), questions)
                self.no_answer_threshold = float(getattr(final, f"best_{metric}_threshold"))

    def settings(self) -> dict[str, Any]:
        names = ("stride", "max_question_length", "max_answer_length", "unanswerable", "no_answer_threshold")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name != "long_texts"}  # always windows


def _are_alike(answers: Sequence[Answer], data: Any) -> bool:
    """Whether all answers are empty or at the same position of row or context, while the right positions differ."""
    found = np.array([_tokens_of(answer, passage) for answer, passage in zip(answers, data.passages, strict=True)])
    begins = np.concatenate([passage.windows[:, :1] for passage in data.passages])
    right = np.where(data.labels[:, :1] > 0, data.labels[:, :2] - data.labels[:, 2:3] + begins, -1)
    # The windows that have the whole answer agree on its position, and the others have −1.
    right = np.maximum.reduceat(right, np.unique(data.owners, return_index=True)[1])
    before = np.array([[passage.first] for passage in data.passages])  # tokens of the row
    in_rows = (np.where(places < 0, -1, places + before) for places in (found, right))
    return any(_is_constant(ours) and not _is_constant(theirs) for ours, theirs in ((found, right), tuple(in_rows)))


def _tokens_of(answer: Answer, passage: Passage) -> tuple[int, int]:
    """The first and the last token of an answer, counted in its context; −1 if there is none."""
    if not answer:
        return -1, -1
    first, behind = np.searchsorted(passage.starts, [answer.start, answer.end])
    return first, behind - 1


def _is_constant(places: np.ndarray) -> bool:
    return bool((places == places[:1]).all())


def _check_metric(metric: str) -> None:
    if metric not in _METRICS:
        raise ValueError(f"metric={metric!r} is unknown for answers; choose one of {', '.join(_METRICS)}.")
