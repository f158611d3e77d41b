"""Taggers and answerers served: strings give the tokens, tags and answers of Keras, by ops that servers have."""

import numpy as np
import pytest
import tensorflow as tf
from saved_model_servers import ServedModel, saved_graph

from export.serving.saving import save_serving
from keras_bert.tasks.question_answering.task import QuestionAnswerer
from keras_bert.text.packing import pack
from tests.export.runtime.test_tagging_and_answers import PAIRS, TEXTS, loud_answerer
from tests.export.serving.test_saved_model import CORE_OPS, TEXT_OPS
from tests.tasks.test_question_answering import toys
from tests.tasks.test_tagging import told_tagger

# Beside what a classifier needs. All have been in TensorFlow since 1.x; 2.12's `tf.raw_ops` has them.
MORE_OPS = """
    Any BitwiseAnd DecodeRaw Exp FloorDiv FloorMod IsFinite Log LogicalAnd PadV2 ReduceJoin StaticRegexReplace Substr
    Sum
"""
TOLERANCE = 1e-4


def unknown_ops(path):
    graph = saved_graph(path).graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    ops = {node.op for node in nodes} - {function.signature.name for function in graph.library.function}
    return ops - TEXT_OPS - set(CORE_OPS.split()) - set(MORE_OPS.split())


@pytest.fixture(scope="module")
def tagging(tmp_path_factory):
    task = told_tagger(sequence_length=32)
    artifact = save_serving(task, tmp_path_factory.mktemp("serving") / "names", long_texts="cut")
    return task, artifact, ServedModel("names", artifact.path)


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    task = loud_answerer()
    artifact = save_serving(task, tmp_path_factory.mktemp("serving") / "answers", long_texts="cut")
    return task, artifact, ServedModel("answers", artifact.path)


# === Entities ===


@pytest.mark.slow
def test_every_token_has_its_logits_and_its_place(tagging):
    task, artifact, served = tagging
    answers = served.predict("names", "serving_default", {"text": tf.constant(TEXTS)})
    packed = pack(task.tokenizer, TEXTS, sequence_length=32)
    logits = task.model(packed, training=False)["token_logits"].numpy()
    np.testing.assert_allclose(answers["token_logits"], logits, atol=TOLERANCE)
    ids, starts, ends = (part.to_list() for part in task.tokenizer.tokenize_with_offsets(TEXTS))
    for row, text in enumerate(TEXTS):
        count = min(len(ids[row]), 30)
        assert answers["truncated"][row] == (len(ids[row]) > 30)
        for name, places in (("starts", starts), ("ends", ends)):
            assert answers[name][row].tolist() == [-1, *places[row][:count], *[-1] * (31 - count)]
        named = [
            (text[start:end], tag.decode())
            for start, end, tag in zip(*(answers[name][row] for name in ("starts", "ends", "tags")), strict=True)
            if start >= 0 and tag != b"O"
        ]
        if row == 0:
            assert named == [("Ada", "B-PER"), ("Smith", "I-PER"), ("Bob", "B-PER"), ("Rome", "B-LOC")]
    assert artifact.max_error < TOLERANCE
    page = (artifact.path / "README.md").read_text(encoding="utf-8")
    assert "in the order of `token_logits`" in page and "`starts` and `ends`" in page


@pytest.mark.slow
def test_ids_give_the_tokens_logits(tagging):
    task, artifact, served = tagging
    assert [signature.name for signature in artifact.signatures] == ["serving_default", "from_ids"]
    batch = pack(task.tokenizer, TEXTS[:2], sequence_length=32)
    answers = served.predict("names", "from_ids", batch)
    np.testing.assert_allclose(
        answers["token_logits"], task.model(batch, training=False)["token_logits"], atol=TOLERANCE
    )
    assert answers["tags"].shape == (2, 32)


def test_no_texts_and_broken_bytes(tagging, answering):
    none = tagging[2].predict("names", "serving_default", {"text": tf.constant([], tf.string)})
    assert none["token_logits"].shape == (0, 2, 5)
    broken = tagging[2].predict("names", "serving_default", {"text": tf.constant([b"Ada \xff\xc3 ran"])})
    assert broken["tags"][0, 1] == b"B-PER"
    empty = tf.constant([], tf.string)
    assert len(answering[2].predict("answers", "serving_default", {"question": empty, "context": empty})["answer"]) == 0


# === Questions ===


def ask(served, pairs):
    questions, contexts = map(list, zip(*pairs, strict=True))
    given = {"question": tf.constant(questions), "context": tf.constant(contexts)}
    return served.predict("answers", "serving_default", given)


def check_answers(answers, expected):
    assert [answer.decode() for answer in answers["answer"]] == [answer.text for answer in expected]
    for name in ("start", "end"):
        assert answers[name].tolist() == [getattr(answer, name) for answer in expected]
    for name in ("score", "probability"):
        np.testing.assert_allclose(answers[name], [getattr(one, name) for one in expected], atol=TOLERANCE, rtol=1e-4)


def test_a_question_and_a_context_give_the_answer_of_keras(answering):
    task, artifact, served = answering
    strange = [PAIRS[3], ("which", "dark cafe\u0301\u0323"), ("which", "東京 red İzmir 😀")]
    pairs = [*toys(40, seed=3, words=(4, 9))[0], *strange]
    answers, expected = ask(served, pairs), task.predict(pairs)
    assert len({answer.text for answer in expected}) > 20 and not answers["truncated"].any()
    check_answers(answers, expected)
    assert artifact.max_error < TOLERANCE
    assert '{"question": "some text", "context": "another"}' in (artifact.path / "README.md").read_text("utf-8")


def test_a_long_context_is_cut_to_its_first_window(answering):
    task, _, served = answering
    long = toys(10, seed=4, words=(60, 90))[0]
    answers = ask(served, long)
    assert answers["truncated"].all()
    # Beside [CLS] which colour [SEP] and [SEP], 19 words fit.
    first = [(question, " ".join(context.split()[:19])) for question, context in long]
    check_answers(answers, task.predict(first))
    assert ask(served, [("which " * 30, "a red box")])["truncated"].all()


@pytest.mark.slow
def test_no_answer_where_that_is_better(answering, tmp_path):
    task, pairs = answering[0], toys(30, seed=5, words=(4, 9))[0]
    strict = QuestionAnswerer(task.model, task.tokenizer, sequence_length=24, unanswerable=True)
    strict.no_answer_threshold = -1e9
    strict.no_answer_threshold = float(
        np.median([nothing.score - best.score for nothing, best in strict.predict(pairs, n_best=2)])
    )
    artifact = save_serving(strict, tmp_path / "answers", long_texts="cut")
    expected = strict.predict(pairs)
    assert 5 < sum(map(bool, expected)) < 25
    check_answers(ask(ServedModel("answers", artifact.path), pairs), expected)


def test_ids_give_start_and_end_logits(answering):
    task, artifact, served = answering
    assert [signature.name for signature in artifact.signatures] == ["serving_default", "from_ids"]
    batch = pack(task.tokenizer, ["which colour"], ["a red box"], sequence_length=24)
    answers = served.predict("answers", "from_ids", batch)
    logits = task.model(batch, training=False)["span_logits"].numpy()
    for side, name in enumerate(("start_logits", "end_logits")):
        np.testing.assert_allclose(answers[name], logits[..., side], atol=TOLERANCE)


# === Both ===


def test_graphs_have_no_op_that_stock_tf_serving_lacks(tagging, answering):
    for _, artifact, _ in (tagging, answering):
        assert unknown_ops(artifact.path) == set()


def test_windows_are_not_cut_in_silence(tagging, tmp_path):
    with pytest.raises(ValueError, match="reads long texts in windows"):
        save_serving(tagging[0], tmp_path / "names")
    with pytest.raises(ValueError, match="the task 'tagging' takes 'texts'"):
        save_serving(tagging[0], tmp_path / "names", inputs="pairs", long_texts="cut")
