"""Questions on contexts → exact parts of the contexts: how an answerer reads."""

import numpy as np

from export.runtime.readers.reader import Reader, in_rows, split_at_tab
from export.runtime.readers.settings import COUNT, FLAG, NUMBER
from keras_bert.decoding.spans import find_answers
from keras_bert.tasks.question_answering.files import as_pairs, check_pairs
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.question_answering.rows import prepare_questions


class SpanReader(Reader):
    """Pairs of question and context → answers."""

    task = "question_answering"
    outputs = token_outputs = ("start_logits", "end_logits")
    pairs_alone = True
    sample = ("a", "a")
    expected = {
        **Reader.expected,
        "stride": COUNT,
        "max_question_length": COUNT,
        "max_answer_length": COUNT,
        "unanswerable": FLAG,
        "no_answer_threshold": NUMBER,
    }

    def _check(self):
        longest = self.settings["max_question_length"]
        if self.sequence_length < longest + 4:
            raise ValueError(
                f"rows of {self.sequence_length} tokens and max_question_length={longest}: beside the question, 3 "
                f"special tokens and a word of the context need {longest + 4}. Take a longer row, or shorter questions."
            )

    def inputs(self, question, context: str | None = None):
        return as_pairs(question, context)

    @classmethod
    def from_line(cls, line):
        return split_at_tab(line)

    def prepare(self, inputs):
        questions = [Question(*pair) for pair in check_pairs(inputs)]
        longest = {name: self.settings[name] for name in ("max_question_length", "max_answer_length")}
        return prepare_questions(self.tokenizer, questions, **self.reading, **longest)

    def answers(self, outputs, data, inputs, *, n_best: int | None = None):  # type: ignore[override]  # the task's own options
        logits = in_rows(np.stack([outputs[name] for name in self.outputs], axis=-1), data.tokenized.lengths)
        ends = np.cumsum([len(passage.windows) for passage in data.passages])
        options = {"n_best": 1 if n_best is None else n_best, "max_answer_length": self.settings["max_answer_length"]}
        threshold = self.settings["no_answer_threshold"] if self.settings["unanswerable"] else None
        return [
            find_answers(part, passage, **options).best(threshold, n_best)
            for part, passage in zip(np.split(logits, ends[:-1]), data.passages, strict=True)
        ]

    def agreement(self, answers, others):
        places = [[(answer.start, answer.end) for answer in part] for part in (answers, others)]
        return float(np.mean([ours == theirs for ours, theirs in zip(*places, strict=True)]))

    @property
    def reading(self):
        """Rows that are shorter than the model was made for overlap still, by half of what a question leaves."""
        stride, length = self.settings["stride"], self.sequence_length
        if length < self.settings.get("sequence_length", length):
            stride = min(stride, max(1, (length - 3 - self.settings["max_question_length"]) // 2))
        return {"sequence_length": length, "stride": stride}
