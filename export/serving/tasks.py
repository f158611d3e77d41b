"""How each task is served: what strings it takes, and answers from its model's outputs, all of it TensorFlow.

A row in `SERVED` for every task. A room of its own because this is what a new task adds; the functions that a server
calls are put together in `serving/signatures.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from export.serving import generation as serving_generation
from export.serving.graph import SharedGraph, clean
from keras_bert.decoding.spans import Passage, find_answers
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.question_answering.questions import Question
from keras_bert.text.packing import pack
from keras_bert.text.tokenized_texts import tokenize_texts

# What TF Serving's three request types ask of a signature; it refuses a Classify request on a signature for Predict.
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))

# The forms that a row of text can have, with the names of their inputs.
FORMS = {"texts": ("text",), "pairs": ("text", "pair"), "questions": ("question", "context")}


@dataclass(frozen=True)
class ServedTask:
    """How one task is served.

    Args:
        answers: Task and outputs of the model (float32) → answers by name, a row for each text.
        ranking: Task → the Classify or Regress signature: name, method, and answers in that request's own names.
        forms: What a row can be; the first is the form of `serving_default`, which takes ids where there is none.
        serve: Graph and strings `[B]`, a tensor for each text of a row → answers by name; `None` packs them and takes
            `answers`.
        expected: Task and strings, a list for each text of a row → some of what `serve` gives, computed by Keras;
            `None` packs them and takes `answers`.
        rows: An input of the task's `predict` → the rows of strings that ask the same.
        serve_ids: Graph and the model's inputs → what `from_ids` gives; `None` is the model's outputs and `answers`.
        variants: Of a task that writes: ways to write → more signatures for the same strings, each with what serves it
            and what is expected.
        longest: Task → the most tokens of a text.
        labelled: The answer whose last axis has a value for each label.
        notes: What to tell whoever asks the server, in sentences.
    """

    answers: Callable[[Task, dict], dict]
    ranking: Callable[[Task], tuple[str, str, Callable]] | None = None
    forms: tuple[str, ...] = ("texts",)
    serve: Callable[..., dict] | None = None
    expected: Callable[..., dict] | None = None
    rows: Callable[[Any], list[tuple[str, ...]]] = lambda given: [(given,) if isinstance(given, str) else tuple(given)]
    serve_ids: Callable[[SharedGraph, dict], dict] | None = None
    variants: Callable[[Any], dict[str, tuple[Callable, Callable]]] | None = None
    longest: Callable[[Task], int] = lambda task: task.sequence_length
    labelled: str = "probabilities"
    notes: tuple[str, ...] = ()

    def serve_strings(self, graph: SharedGraph, *texts: tf.Tensor) -> dict:
        """What `serving_default` gives for strings."""
        if self.serve is not None:
            return self.serve(graph, *map(clean, texts))
        packed, truncated = graph.pack(*texts)
        return {**self.answers(graph.task, graph.forward(packed)), "truncated": truncated}

    def expect(self, task: Task, *texts: list[str]) -> dict:
        """The same by Keras, or a part of it, to compare with."""
        if self.expected is not None:
            return self.expected(task, *texts)
        packed = pack(task.tokenizer, *texts, sequence_length=task.sequence_length)
        return self.answers(task, task.model(packed, training=False))


def find_served(task: Any) -> ServedTask:
    """How a task is served; an error for what is no task, or none that can be served."""
    if not isinstance(task, Task):
        raise TypeError(
            f"Expected a task model such as TextClassifier; got {type(task).__name__}. A server needs tokenizer and "
            "labels too: make a task of the model, or open a saved one with keras_bert.load_task."
        )
    if task.name not in SERVED:
        raise ValueError(f"The task {task.name!r} cannot be served yet; these can: {', '.join(SERVED)}.")
    return SERVED[task.name]


# === Classification ===


def _class_answers(task, outputs):
    logits = outputs["class_logits"]
    if task.kind == "regression":
        return {"value": logits[:, 0]}
    probabilities = tf.sigmoid(logits) if task.kind == "multi_label" else tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
        "label": tf.gather(tf.constant(task.labels), best),
        "probability": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,  # [B, C], in the order of the labels
    }


def _class_ranking(task):
    def rank(outputs):
        probabilities = _class_answers(task, outputs)["probabilities"]
        scores, order = tf.math.top_k(probabilities, k=len(task.labels))
        return {"classes": tf.gather(tf.constant(task.labels), order), "scores": scores}

    if task.kind == "regression":
        return "regress", REGRESS, lambda outputs: {"outputs": _class_answers(task, outputs)["value"]}
    return "classify", CLASSIFY, rank


# === Entities ===


def _tag_answers(task, outputs):
    best = tf.argmax(outputs["token_logits"], axis=-1, output_type=tf.int32)
    return {"token_logits": outputs["token_logits"], "tags": tf.gather(tf.constant(task.labels), best)}


def _serve_tags(graph, text):
    packed, starts, ends, truncated = graph.pack_with_places(text)
    answers = _tag_answers(graph.task, graph.forward(packed))
    return {**answers, "starts": starts, "ends": ends, "truncated": truncated}


_TAG_NOTES = (
    "`starts` and `ends` say where each token stands in its text, in characters; -1 is a token that is not of the "
    "text: `[CLS]`, `[SEP]`, padding.",
    "`tags` has the likeliest tag of each token by itself. The first token of a word speaks for the word; the best "
    "sequence of tags comes from `token_logits`, by `keras_bert.decoding.entities`.",
)


def _joined_words(given):
    return [(given if isinstance(given, str) else " ".join(given),)]


# === Questions ===


def _span_answers(task, outputs):
    logits = outputs["span_logits"]
    return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def _serve_answers(graph, question, context):
    """The best part of each context, or none: what `find_answers` does, for one window."""
    task = graph.task
    packed, starts, ends, truncated = graph.pack_with_places(
        context, question, longest_question=task.max_question_length
    )
    logits = graph.forward(packed)["span_logits"]  # [B, T, 2]
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


def _best_span(logits, in_context, longest):
    """Score, first and last token of the best span of each row, and the log of the sum over all spans."""
    places = tf.range(tf.shape(logits)[1])
    further = places[None, :] - places[:, None]  # [T, T]
    can_be = (further >= 0) & (further < longest) & in_context[:, :, None] & in_context[:, None, :]
    scores = tf.where(can_be, logits[:, :, None, 0] + logits[:, None, :, 1], tf.float32.min)
    flat = tf.reshape(scores, [tf.shape(scores)[0], -1])
    best, width = tf.argmax(flat, axis=-1, output_type=tf.int32), tf.shape(logits)[1]
    return tf.reduce_max(flat, axis=-1), best // width, best % width, tf.reduce_logsumexp(flat, axis=-1)


def _with_marks(context, starts, ends, token):
    """Where a token ends, with the marks on its last letter: the tokenizer's offsets leave stripped accents out."""
    end = tf.maximum(tf.gather(ends, token, batch_dims=1), 0)
    behind = tf.strings.substr(context, end, tf.fill(tf.shape(end), 16), unit="UTF8_CHAR")
    marks = tf.strings.length(tf.strings.regex_replace(behind, r"(?s)^(\pM*).*$", r"\1"), unit="UTF8_CHAR")
    following = tf.gather(tf.pad(starts, [[0, 0], [0, 1]], constant_values=-1), token + 1, batch_dims=1)
    return tf.where(following < 0, end + marks, tf.minimum(end + marks, tf.maximum(following, end)))


def _expected_answers(task, questions, contexts):
    """By Keras and NumPy, of the first window: the graph reads no other."""
    data = task.read([Question(*pair) for pair in zip(questions, contexts, strict=True)])
    logits, row, found = task.outputs(data.tokenized)["span_logits"], 0, []
    for passage in data.passages:
        window = Passage(passage.context, passage.starts, passage.ends, passage.windows[:1], passage.first)
        candidates = find_answers(logits[row : row + 1], window, max_answer_length=task.max_answer_length)
        found.append(candidates.best(task.no_answer_threshold if task.unanswerable else None, None))
        row += len(passage.windows)
    return {name: tf.constant([getattr(one, name) for one in found], tf.float32) for name in ("score", "probability")}


_SPAN_NOTES = (
    "`answer` is the part of the context from `start` to `end`, in characters; empty where there is none.",
    "`truncated` says where the question or the context was cut: the graph reads one window. Long contexts have to be "
    "divided before they are sent, and the answer with the highest `score` counts.",
)

# === Commands ===


def _command_answers(task, outputs):
    logits, tags = outputs["class_logits"], tf.constant(task.settings()["tags"])
    probabilities = tf.nn.softmax(logits)
    best = tf.argmax(outputs["token_logits"], axis=-1, output_type=tf.int32)
    return {
        "label": tf.gather(tf.constant(task.labels), tf.argmax(logits, axis=-1, output_type=tf.int32)),
        "probability": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,
        "token_logits": outputs["token_logits"],
        "tags": tf.gather(tags, best),
    }


def _serve_commands(graph, text):
    packed, starts, ends, truncated = graph.pack_with_places(text)
    answers = _command_answers(graph.task, graph.forward(packed))
    return {**answers, "starts": starts, "ends": ends, "truncated": truncated}


# === Other tasks ===


def _relation_answers(task, outputs):
    probabilities = tf.nn.softmax(outputs["relation_logits"])
    best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
    label = tf.gather(tf.constant(task.labels), best)
    return {"label": label, "probability": tf.reduce_max(probabilities, axis=-1), "probabilities": probabilities}


def _vector_answers(task, outputs):
    return {"embedding": outputs["sentence_embedding"]}


def _choice_answers(task, outputs):
    return {"score": outputs["class_logits"][:, 0]}


def _serve_choices(graph, context, choice):
    packed, truncated = graph.pack_cutting_first(context, choice)
    return {**_choice_answers(graph.task, graph.forward(packed)), "truncated": truncated}


def _expected_scores(task, contexts, choices):
    limit = task.sequence_length
    second, _ = tokenize_texts(task.tokenizer, choices).trimmed(limit - 1)  # beside [CLS] and two [SEP]
    rows = tokenize_texts(task.tokenizer, contexts)
    rows = replace(rows, second_ids=second.first_ids, second_splits=second.first_splits)
    return {"score": tf.constant(task.outputs(rows.trimmed_first(limit)[0])["class_logits"][:, 0])}


_RELATION_NOTES = (
    "There is no signature for strings: rows have markers around two entities, which `pack_marked` of "
    "`keras_bert.tasks.relation.rows` puts there.",
)
_CHOICE_NOTES = (
    "A row is a context (`text`) with one choice (`pair`); the softmax over the scores of a question's choices gives "
    "their probabilities.",
)

SERVED = {
    "aspect": ServedTask(_class_answers, _class_ranking, forms=("pairs",)),
    "classification": ServedTask(_class_answers, _class_ranking, forms=("texts", "pairs")),
    "intent_slots": ServedTask(_command_answers, serve=_serve_commands, rows=_joined_words, notes=_TAG_NOTES),
    "multiple_choice": ServedTask(
        _choice_answers,
        forms=("pairs",),
        serve=_serve_choices,
        expected=_expected_scores,
        rows=lambda given: [(given[0], choice) for choice in given[1]],
        notes=_CHOICE_NOTES,
    ),
    "question_answering": ServedTask(
        _span_answers, forms=("questions",), serve=_serve_answers, expected=_expected_answers, notes=_SPAN_NOTES
    ),
    "relation": ServedTask(_relation_answers, forms=(), notes=_RELATION_NOTES),
    "seq2seq": ServedTask(**serving_generation.SERVED_TEXTS),
    "similarity": ServedTask(_vector_answers),
    "tagging": ServedTask(
        _tag_answers, serve=_serve_tags, rows=_joined_words, labelled="token_logits", notes=_TAG_NOTES
    ),
}
