"""Files with metadata in the libraries that apps use: the same answers as the Keras model's.

MediaPipe's Python package has the same C++ core as on Android; it runs where it is installed beside the tests, or in
the Python that KERAS_BERT_MEDIAPIPE_PYTHON names. The older Task Library (tflite-support 0.4.4) has no wheels for new
Pythons: KERAS_BERT_TASK_LIBRARY_PYTHON names one that has it (3.9; `pip install tflite-support==0.4.4 'numpy<2'
libusb-package`). Both run in processes of their own, because they bring their own TFLite.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tiny_tasks import CONFIG, VOCABULARY, WORDS
from tiny_tflite import (
    answerer,
    classifier,
    embedder,
    outputs,
    to_large_tflite,
    to_tflite,
    with_mean,
)

import export
from export.file.metadata import add_metadata
from export.recipes import RECIPES
from export.runtime import load
from keras_bert.checkpoint import load_encoder
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.tasks.question_answering.task import QuestionAnswerer
from keras_bert.tasks.similarity.pooling import embedding_model
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer
from tests.export.runtime.test_runtime import new_classifier

pytestmark = pytest.mark.slow

LABELS = ["good", "bad", "so so"]
TOKENIZER = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
DESCRIPTION = {"vocabulary": VOCABULARY, "tokenizer": TOKENIZER}
CLASSES = {"task": "classification", "kind": "single_label", "labels": LABELS}

# Each reads requests as JSON and prints their answers, or the errors, as JSON on the last line.
MEDIAPIPE = """
import json, sys
sys.modules["tensorflow"] = None  # MediaPipe would import it for its documentation alone
from mediapipe.tasks.python import BaseOptions, text

def answer(name, path, texts):
    Task, Options = getattr(text, name), getattr(text, name + "Options")
    with Task.create_from_options(Options(base_options=BaseOptions(model_asset_path=path))) as task:
        if name == "TextEmbedder":
            return [task.embed(t).embeddings[0].embedding.tolist() for t in texts]
        heads = [task.classify(t).classifications for t in texts]
        assert all(len(head) == 1 for head in heads)
        return [{c.category_name: c.score for c in head[0].categories} for head in heads]
"""
TASK_LIBRARY = """
import ctypes, importlib.util, json, sys
if importlib.util.find_spec("libusb_package"):  # the Task Library links libusb, which few systems have
    import libusb_package
    ctypes.CDLL(str(libusb_package.get_library_path()))
from tflite_support.task import text

def answer(name, path, texts):
    task = getattr(text, name).create_from_file(path)
    if name == "BertQuestionAnswerer":
        results = [task.answer(context, question).answers for question, context in texts]
        return [[(a.pos.start, a.pos.end, a.pos.logit, a.text) for a in result] for result in results]
    results = [task.classify(t).classifications[0].categories for t in texts]
    return [{c.category_name: c.score for c in result} for result in results]
"""
ANSWER_ALL = """
answers = []
for request in json.load(sys.stdin):
    try:
        answers.append(answer(*request))
    except (RuntimeError, ValueError) as error:
        answers.append(str(error))
print("\\n" + json.dumps(answers))
"""


def ask(library, requests):
    """The answers to `(class, path, texts)`, all from one process of the library."""
    variable, package, script = {
        "mediapipe": ("KERAS_BERT_MEDIAPIPE_PYTHON", "mediapipe", MEDIAPIPE),
        "task library": ("KERAS_BERT_TASK_LIBRARY_PYTHON", "tflite_support", TASK_LIBRARY),
    }[library]
    python = os.environ.get(variable) or (sys.executable if importlib.util.find_spec(package) else None)
    if python is None:
        pytest.skip(f"{package} is not installed; install it, or set {variable} to a Python that has it")
    requests = [(name, str(make()), texts) for name, make, texts in requests]
    command = [python, "-c", script + ANSWER_ALL]
    done = subprocess.run(command, input=json.dumps(requests), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def ascii_texts(count):
    """Known words in any case, punctuation, numbers, unknown words; one empty, one past the length."""
    random, others = np.random.default_rng(5), [*"!,.?-'\"()[]{}~^$", "film's", "42", "Xyzzy", "a" * 120]
    words = [*WORDS, *(word.upper() for word in WORDS), *others]
    return ["", "a film " * 20, *(" ".join(random.choice(words, random.integers(1, 10))) for _ in range(count))]


def keras_answers(model, texts, length=16):
    (values,) = outputs(model, pack(BertTokenizer(VOCABULARY), texts, sequence_length=length)).values()
    return values


def writer(path, make, **description):
    """A function that writes a file: called only where a library is there to read it."""

    def write():
        path.write_bytes(add_metadata(make(), **(DESCRIPTION | description)))
        return path

    return write


def scores(answers, labels=LABELS):
    assert not isinstance(answers, str), answers
    return np.array([[answer[label] for label in labels] for answer in answers])


# === MediaPipe ===

TEXTS = ascii_texts(40)
SHORT_TEXTS = [TEXTS[0], *TEXTS[2:]]  # MediaPipe does not cut texts for a dynamic length
CLASSIFIERS = {
    "float32": (TEXTS, {}, 1e-5),
    "dynamic length": (SHORT_TEXTS, {"lengths": (None,)}, 1e-5),
    "int8 weights": (TEXTS, {"optimize": True}, 0.03),
    "two lengths": (TEXTS, {"lengths": (8, 16)}, None),
}


@pytest.fixture(scope="module")
def mediapipe_answers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mediapipe")
    requests = [
        (
            "TextClassifier",
            writer(directory / name, functools.partial(to_tflite, classifier(), **options), **CLASSES),
            texts,
        )
        for name, (texts, options, _) in CLASSIFIERS.items()
    ]
    make = functools.partial(to_tflite, embedder())
    requests.append(("TextEmbedder", writer(directory / "embedder", make, task="embedding"), TEXTS))
    return dict(zip([*CLASSIFIERS, "embedder"], ask("mediapipe", requests), strict=True))


@pytest.mark.parametrize("name", ["float32", "dynamic length", "int8 weights"])
def test_mediapipe_classifies_as_keras_does(mediapipe_answers, name):
    texts, _, tolerance = CLASSIFIERS[name]
    expected = keras_answers(classifier(), texts)
    assert expected.std(0).max() > 0.1  # constant answers would fail
    np.testing.assert_allclose(scores(mediapipe_answers[name]), expected, atol=tolerance)


def test_mediapipe_embeds_as_keras_does(mediapipe_answers):
    np.testing.assert_allclose(mediapipe_answers["embedder"], keras_answers(embedder(), TEXTS), atol=1e-5)


def test_mediapipe_takes_one_length_alone(mediapipe_answers):
    assert "single subgraph" in mediapipe_answers["two lengths"]


def test_mediapipe_opens_what_convert_writes_by_every_recipe(tmp_path):
    """Whole files of ours, compared with our own runtime on the same file: the same graph, another library."""
    task, texts = new_classifier(), TEXTS[2:]

    def convert(recipe):
        path = tmp_path / f"{recipe}.tflite"
        return export.convert(task, path, recipe=recipe, lengths=16, calibration=texts).path

    requests = [("TextClassifier", functools.partial(convert, recipe), texts) for recipe in RECIPES]
    for recipe, answers in zip(RECIPES, ask("mediapipe", requests), strict=True):
        ours = [{label.name: label.probability for label in one} for one in load(tmp_path / f"{recipe}.tflite")(texts)]
        np.testing.assert_allclose(scores(answers, task.labels), scores(ours, task.labels), atol=1e-3, err_msg=recipe)


def test_mediapipe_opens_the_embedder_that_convert_writes(tmp_path):
    task = SentenceEmbedder(embedding_model(bert_encoder(CONFIG, seed=0)), BertTokenizer(VOCABULARY))
    path = tmp_path / "embedder.tflite"

    def convert():
        return export.convert(task, path, recipe="dynamic_int8", lengths=16).path

    (vectors,) = ask("mediapipe", [("TextEmbedder", convert, TEXTS)])
    np.testing.assert_allclose(vectors, load(path)(TEXTS), atol=1e-3)


@pytest.mark.slow
def test_mediapipe_runs_minilm(tmp_path, minilm_dir):
    texts = [
        "Wake me up at seven o'clock, please!",
        "What a lovely film (though 2.5 hours is LONG)...",
        "The quick brown fox's antidisestablishmentarianism; email me@example.org, pay $9.99 & go",
    ]
    encoder, tokenizer = load_encoder(minilm_dir)
    model = with_mean(encoder)
    make = functools.partial(to_large_tflite, model, lengths=(32,))
    write = writer(tmp_path / "model.tflite", make, task="embedding", vocabulary=tokenizer.vocabulary)
    (answers,) = ask("mediapipe", [("TextEmbedder", write, texts)])
    expected = outputs(model, pack(tokenizer, texts, sequence_length=32))["embedding"]
    np.testing.assert_allclose(answers, expected, atol=1e-5)


# === Task Library ===

QUESTIONS = [
    ("was the film good", "a film is very dull and it was the cast fine plot good"),
    ("is it bad", "the plot is poor and the cast was great"),
]


@pytest.fixture(scope="module")
def task_library_answers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("task_library")
    float32, int8 = (functools.partial(to_tflite, classifier(), optimize=optimize) for optimize in (False, True))
    make = functools.partial(to_tflite, answerer(), lengths=(384,))
    requests = [
        ("BertNLClassifier", writer(directory / "float32", float32, **CLASSES), TEXTS),
        ("BertNLClassifier", writer(directory / "int8", int8, **CLASSES), TEXTS),
        ("BertQuestionAnswerer", writer(directory / "answers", make, task="question_answering"), QUESTIONS),
    ]
    return dict(zip(("float32", "int8", "answers"), ask("task library", requests), strict=True))


def test_task_library_classifies_as_keras_does(task_library_answers):
    expected = keras_answers(classifier(), TEXTS)
    np.testing.assert_allclose(scores(task_library_answers["float32"]), expected, atol=1e-5)


def test_task_library_refuses_int8_weights(task_library_answers):
    """Its runtime has no FULLY_CONNECTED with a scale per channel: an error that names the op, and no crash."""
    assert "'FULLY_CONNECTED' version '12'" in task_library_answers["int8"]


def test_task_library_answers_questions_as_keras_does(task_library_answers):
    questions, contexts = map(list, zip(*QUESTIONS, strict=True))
    logits = outputs(answerer(), pack(BertTokenizer(VOCABULARY), questions, contexts, sequence_length=384))
    for row, (question, context) in enumerate(QUESTIONS):
        first = len(question.split()) + 2
        (start, end, score, text), words = task_library_answers["answers"][row][0], context.split()
        expected = _best_span(logits["start_logits"][row], logits["end_logits"][row], first, first + len(words))
        assert (start, end, text) == (*expected[:2], " ".join(words[start - first : end - first + 1]))
        assert score == pytest.approx(expected[2], abs=1e-4)


def test_task_library_opens_the_answerer_that_convert_writes(tmp_path):
    """A whole file of ours; the question's words are not among the best tokens, whatever their logits are."""
    config = CONFIG.replace(max_sequence_length=384, num_layers=1, initializer_range=0.3)
    task = QuestionAnswerer(bert_model(config, "question_answering", seed=0), BertTokenizer(VOCABULARY))
    path = tmp_path / "answers.tflite"

    def convert():
        return export.convert(task, path, recipe="float16").path

    (answers,) = ask("task library", [("BertQuestionAnswerer", convert, QUESTIONS)])
    runtime = load(path)
    for (question, context), (found, *_) in zip(QUESTIONS, answers, strict=True):
        logits = runtime.outputs(runtime.reader.prepare([(question, context)]).tokenized)
        first, words = len(question.split()) + 2, context.split()
        expected = _best_span(logits["start_logits"], logits["end_logits"], first, first + len(words))
        assert (found[0], found[1]) == expected[:2] and found[2] == pytest.approx(expected[2], abs=1e-3)
        assert found[3] == " ".join(words[found[0] - first : found[1] - first + 1])


def _best_span(starts, ends, first, last):
    """The best pair of the five likeliest starts and ends, which is how the Task Library decides."""
    top = [np.argsort(-values)[:5] for values in (starts, ends)]
    pairs = [(s, e, starts[s] + ends[e]) for s in top[0] for e in top[1] if first <= s <= e < last]
    return max(pairs, key=lambda pair: pair[2])
