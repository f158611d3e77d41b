"""Export question answering: questions about contexts, answered with exact parts of the contexts."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, GuideInput, ServedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader, in_rows, is_token, split_at_tab
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import COUNT, FLAG, NUMBER
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.spans import Passage, find_answers
from keras_bert.tasks.question_answering.files import as_pairs, as_questions, check_pairs
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.tasks.question_answering.rows import prepare_questions
from keras_bert.text.tokenized_texts import TokenizedTexts

# === The device ===


class SpanReader(Reader):
    """Reads pairs of a question and a context; answers with `Answer`s."""

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

    def check(self) -> None:
        longest = self.settings["max_question_length"]
        if self.sequence_length < longest + 4:
            raise ValueError(
                f"Rows have {self.sequence_length} tokens, and max_question_length={longest}; expected at least "
                f"{longest + 4} tokens: the question, 3 special tokens and a word of the context. Take longer rows, or "
                "shorter questions."
            )

    def inputs(self, question: Any, context: str | None = None) -> tuple[list[Any], bool]:
        return as_pairs(question, context)

    @classmethod
    def from_line(cls, line: str) -> Any:
        return split_at_tab(line)

    def prepare(self, inputs: list[Any]) -> PreparedData:
        questions = [Question(*pair) for pair in check_pairs(inputs)]
        longest = {name: self.settings[name] for name in ("max_question_length", "max_answer_length")}
        return prepare_questions(self.tokenizer, questions, **self.reading, **longest)

    def answers(  # type: ignore[override]  # the task's own options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any], *, n_best: int | None = None
    ) -> list[Any]:
        logits = in_rows(np.stack([outputs[name] for name in self.outputs], axis=-1), data.tokenized.lengths)
        ends = np.cumsum([len(passage.windows) for passage in data.passages])
        options = {"n_best": 1 if n_best is None else n_best, "max_answer_length": self.settings["max_answer_length"]}
        threshold = self.settings["no_answer_threshold"] if self.settings["unanswerable"] else None
        return [
            find_answers(part, passage, **options).best(threshold, n_best)
            for part, passage in zip(np.split(logits, ends[:-1]), data.passages, strict=True)
        ]

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        places = [[(answer.start, answer.end) for answer in part] for part in (answers, others)]
        return float(np.mean([ours == theirs for ours, theirs in zip(*places, strict=True)]))

    @property
    def reading(self) -> dict[str, int]:
        """The length and stride of rows. Shorter rows than the model's overlap by half of what a question leaves."""
        stride, length = self.settings["stride"], self.sequence_length
        if length < self.settings.get("sequence_length", length):
            stride = min(stride, max(1, (length - 3 - self.settings["max_question_length"]) // 2))
        return {"sequence_length": length, "stride": stride}


# === The file ===


def _tensors(task: Any) -> dict[str, Any]:
    """The logits of start and end as two tensors, as the Task Library expects them, with the question masked.

    The loss ignores the question, so its logits may be high, and the Task Library takes the best tokens of the whole
    row. Tokens outside of the context get a bias. `[CLS]` does not: its logits stand for "no answer".
    """
    import keras
    from keras import ops

    from keras_bert.model.attention_bias import MASK_BIAS

    inputs = {tensor.name: tensor for tensor in task.model.inputs}
    is_first = ops.cast(ops.equal(inputs["token_ids"], task.tokenizer.cls_id), "float32")
    can_be = ops.maximum(ops.cast(inputs["segment_ids"], "float32"), is_first)  # [B, T]
    # Subtracted below: an addition would become a BiasAdd over T, which cannot be converted.
    penalty = (can_be - 1.0) * MASK_BIAS
    sides = {"start_logits": 0, "end_logits": 1}
    logits = {name: task.model.output["span_logits"][..., side] - penalty for name, side in sides.items()}
    return {name: keras.layers.Identity(dtype="float32", name=name)(value) for name, value in logits.items()}


def _from_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    logits = outputs["span_logits"]
    logits = logits[is_token(tokenized.lengths, logits.shape[1])]  # [tokens, 2]
    return {"start_logits": logits[:, 0], "end_logits": logits[:, 1]}


def _to_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    from keras_bert.model.attention_bias import MASK_BIAS

    both = np.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)
    return {"span_logits": in_rows(both, tokenized.lengths, fill=MASK_BIAS)}


def _outside_of_questions(tokenized: TokenizedTexts) -> np.ndarray:
    """Which tokens are `[CLS]` or of the context."""
    _, splits, second_begins = tokenized.packed()
    places = np.arange(splits[-1]) - np.repeat(splits[:-1], tokenized.lengths)
    return (places == 0) | (places >= np.repeat(second_begins, tokenized.lengths))


def _score(task: Any, outputs: dict[str, np.ndarray], data: Any, metric: str) -> float:
    """Score with the threshold that the file has, not with the one that fits this data best."""
    return float(getattr(task.report(outputs, data), metric))


# === Data ===


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    if columns:
        raise ValueError(f"Got columns={columns}, but questions have no columns; leave them out.")
    if x is None:
        return Examples([("What is it?", text) for text in PROBES])
    if y is None and isinstance(x, list | tuple) and x and all(isinstance(item, list | tuple) for item in x):
        return Examples(check_pairs(x))
    questions = as_questions(x, y)
    return Examples([(question.question, question.context) for question in questions], questions)


def _label_texts(teacher: Any, pairs: list[Any]) -> tuple[list[Any], list[Any]]:
    answers = teacher.predict(pairs)
    return pairs, [(answer.text, answer.start) if answer.text else None for answer in answers]


# === The servers ===


class ServedSpans(ServedFile):
    """Answers with a part of each context, of which all windows are read. Only a question is ever cut."""

    options = {"n_best": COUNT}

    @property
    def forms(self) -> tuple[str, ...]:
        """Questions with their contexts."""
        return ("questions",)

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        answers = self.reader.answers(outputs, data, inputs)
        names = {"answer": "text", "start": "start", "end": "end", "score": "score", "probability": "probability"}
        columns = {name: [getattr(answer, field) for answer in answers] for name, field in names.items()}
        return {**columns, "truncated": self.truncated(data, inputs)}

    def truncated(self, data: Any, inputs: list[Any]) -> list[bool]:
        longest = self.reader.settings["max_question_length"]
        return [
            passage.first >= longest + 2 and self.tokens_of(question) > longest + 2
            for passage, (question, _) in zip(data.passages, inputs, strict=True)
        ]


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    logits = outputs["span_logits"]
    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def _serve(graph: Any, question: Any, context: Any) -> dict[str, Any]:
    """The best part of each context, or none: what `find_answers` does, for one window."""
    import tensorflow as tf

    task = graph.task
    tensors, starts, ends, truncated = graph.pack_with_places(
        context, question, longest_question=task.max_question_length
    )
    logits = graph.forward(tensors)["span_logits"]  # [B, T, 2]
    score, first, last, log_total = _best_span(logits, starts >= 0, task.max_answer_length)
    nothing = tf.reduce_sum(logits[:, 0], axis=-1)
    log_total = tf.reduce_logsumexp(tf.stack([log_total, nothing], axis=-1), axis=-1)
    refuses = ~tf.reduce_any(starts >= 0, axis=-1)
    if task.unanswerable:
        refuses |= nothing - score > task.no_answer_threshold
    start = tf.where(refuses, 0, tf.gather(starts, first, batch_dims=1))
    end = tf.where(refuses, 0, _with_marks(context, starts, ends, last))
    score = tf.where(refuses, nothing, score)
    return {
        "answer": tf.strings.substr(context, start, end - start, unit="UTF8_CHAR"),
        "start": start,
        "end": end,
        "score": score,
        "probability": tf.exp(score - log_total),
        "truncated": truncated,
    }


def _best_span(logits: Any, in_context: Any, longest: int) -> tuple[Any, ...]:
    """Score, first and last token of the best span of each row, and the log of the sum over all spans."""
    import tensorflow as tf

    places = tf.range(tf.shape(logits)[1])
    further = places[None, :] - places[:, None]  # [T, T]
    can_be = (further >= 0) & (further < longest) & in_context[:, :, None] & in_context[:, None, :]
    scores = tf.where(can_be, logits[:, :, None, 0] + logits[:, None, :, 1], tf.float32.min)
    flat = tf.reshape(scores, [tf.shape(scores)[0], -1])
    best, width = tf.argmax(flat, axis=-1, output_type=tf.int32), tf.shape(logits)[1]
    return tf.reduce_max(flat, axis=-1), best // width, best % width, tf.reduce_logsumexp(flat, axis=-1)


def _with_marks(context: Any, starts: Any, ends: Any, token: Any) -> Any:
    """Where a token ends, with the marks on its last letter: the tokenizer's offsets leave out stripped accents."""
    import tensorflow as tf

    end = tf.maximum(tf.gather(ends, token, batch_dims=1), 0)
    behind = tf.strings.substr(context, end, tf.fill(tf.shape(end), 16), unit="UTF8_CHAR")
    marks = tf.strings.length(tf.strings.regex_replace(behind, r"(?s)^(\pM*).*$", r"\1"), unit="UTF8_CHAR")
    following = tf.gather(tf.pad(starts, [[0, 0], [0, 1]], constant_values=-1), token + 1, batch_dims=1)
    return tf.where(following < 0, end + marks, tf.minimum(end + marks, tf.maximum(following, end)))


def _expected_answers(task: Any, questions: list[str], contexts: list[str]) -> dict[str, Any]:
    """The answers in the first window, by Keras and NumPy: the graph reads only that window."""
    import tensorflow as tf

    data = task.read([Question(*pair) for pair in zip(questions, contexts, strict=True)])
    logits, row, found = task.outputs(data.tokenized)["span_logits"], 0, []
    for passage in data.passages:
        window = Passage(passage.context, passage.starts, passage.ends, passage.windows[:1], passage.first)
        candidates = find_answers(logits[row : row + 1], window, max_answer_length=task.max_answer_length)
        found.append(candidates.best(task.no_answer_threshold if task.unanswerable else None, None))
        row += len(passage.windows)
    return {name: tf.constant([getattr(one, name) for one in found], tf.float32) for name in ("score", "probability")}


_NOTES = (
    "`answer` is the part of the context from `start` to `end`, in characters; empty if there is none.",
    "`truncated` says where the question or the context was cut: the graph reads one window. Long contexts have to be "
    "divided before they are sent, and the answer with the highest `score` counts.",
)

_GUIDE = GuideInput('"Where is it?", "It is in Rome."', '{"question": "Where is it?", "context": "It is in Rome."}')

register_export(
    ExportedTask(
        name="question_answering",
        reader=SpanReader,
        in_graph=_tensors,
        from_task=_from_task,
        to_task=_to_task,
        length=384,
        counted=_outside_of_questions,
        score=_score,
        read_examples=_read_examples,
        label_texts=_label_texts,
        served=ServedTask(
            _served_answers, forms=("questions",), serve=_serve, expected=_expected_answers, notes=_NOTES
        ),
        served_file=ServedSpans,
        guide=lambda task: _GUIDE,
    )
)
