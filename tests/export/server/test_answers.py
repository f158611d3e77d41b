"""What the server answers: as `export.load`, as TF Serving with the same task, as OpenAI's embeddings."""

import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from tiny_server import CORPUS, FILES, serving

import export
import keras_bert
from export.server.answering import plain
from export.serving.graph import SharedGraph
from export.serving.tasks import find_served, serve_strings
from export.tasks.base.inputs import task_reader
from export.tasks.base.registry import find_export
from keras_bert.decoding.similarity import shorten_vectors
from keras_bert.tasks.base.registry import BUILT_IN

TEXTS = ["the film was very good", "Anna is in the train to Rome.", "é 中 👍", "very " * 40 + "poor"]
PAIRS = [("the film was great", "the plot"), ("Anna is in Rome.", "who is it ?"), ("a", "the cast " * 30)]
QUESTIONS = [("where is anna ?", "Anna is in the train to Rome."), ("who ? " * 30, "the film was very good")]
MARKED = ["<e1>Anna</e1> is in the <e2>train</e2>.", "The <e1>plot</e1> was in the <e2>film</e2>"]
CHOICES = [("the film was very good", ["it is good", "a train", "bad"]), ("a plot", ["bad", "the cast"])]


def equal(found, expected, tolerance=1e-6):
    """JSON values are the same, numbers up to a tolerance."""
    if isinstance(expected, dict):
        return set(found) == set(expected) and all(equal(found[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(lambda a, b: equal(a, b, tolerance), found, expected))
    if isinstance(expected, float):
        return abs(found - expected) <= tolerance
    return found == expected


def as_json(value):
    return json.loads(json.dumps(value, default=lambda one: one.tolist()))


# === The answers of export.load ===

INPUTS = {
    "classification.float32": (TEXTS, {}),
    "classification_multi_label": (TEXTS, {"threshold": 0.3}),
    "classification_regression": (PAIRS, {}),
    "classification_wide.all_int4": (TEXTS, {}),
    "aspect": (PAIRS, {}),
    "tagging_crf": (TEXTS, {"threshold": 0.2}),
    "tagging_softmax": ([["Anna", "is", "in", "Rome"]], {}),
    "intent_slots": (TEXTS, {}),
    "relation": (MARKED, {}),
    "multiple_choice": (CHOICES, {}),
    "question_answering": (QUESTIONS, {"n_best": 2}),
    "similarity": (TEXTS, {}),
    "seq2seq": (TEXTS[:2], {"sampler": "beam", "num_beams": 2, "max_length": 4}),
}


@pytest.mark.parametrize("name", INPUTS)
def test_answers_are_those_of_load(name):
    inputs, options = INPUTS[name]
    expected = export.load(FILES / f"{name}.tflite")(inputs, **options)
    with serving(name) as server:
        status, found = server.ask("answer", {"inputs": inputs, "options": options})
    assert status == 200, found
    assert equal(found["answers"], as_json(plain(list(expected))))


@pytest.mark.parametrize("name", ["classification.float32", "tagging_softmax", "question_answering", "similarity"])
def test_requests_that_run_together_get_their_own_answers(name, monkeypatch):
    body = {
        "question_answering": lambda text: {"question": "where is anna ?", "context": text},
        "tagging_softmax": lambda text: {"text": text},
    }.get(name, lambda text: text)
    with serving(name, num_threads=1) as server:
        expected = [server.ask("predict", {"instances": [body(text)]}) for text in TEXTS]
        service, go, calls = server.service, threading.Event(), []
        prepare = service.versions.current.served.prepare
        count = lambda inputs: calls.append(len(inputs)) or prepare(inputs)  # noqa: E731
        monkeypatch.setattr(service.versions.current.served, "prepare", count)
        service.work.submit(lambda thread, items: go.wait(30), [0])
        with ThreadPoolExecutor(len(TEXTS)) as pool:
            asked = [pool.submit(server.ask, "predict", {"instances": [body(text)]}) for text in TEXTS]
            while service.work.waiting < len(TEXTS):
                time.sleep(0.001)
            go.set()
            found = [one.result(30) for one in asked]
    assert calls == [len(TEXTS)]
    assert all(status == 200 for status, _ in expected)
    assert equal([answer for _, answer in found], [answer for _, answer in expected])


def test_every_task_has_a_file_here():
    tasks = {export.read_metadata(FILES / f"{name}.tflite").task for name in INPUTS}
    assert tasks == set(BUILT_IN) - {"zero_shot"}


def test_inputs_may_have_names():
    with serving("question_answering") as server:
        named = [{"question": question, "context": context} for question, context in QUESTIONS]
        assert server.ask("answer", {"inputs": named}) == server.ask("answer", {"inputs": QUESTIONS})
        status, error = server.ask("answer", {"inputs": [{"question": "a", "text": "b"}]})
        assert status == 400 and "question, context" in error["error"]
    with serving("multiple_choice") as server:
        named = [{"context": context, "choices": choices} for context, choices in CHOICES]
        assert server.ask("answer", {"inputs": named}) == server.ask("answer", {"inputs": CHOICES})


# === The answers of TF Serving ===

SERVED = {
    "classification": TEXTS,
    "classification_regression": PAIRS[:2],  # it reads long texts in windows, which TF Serving cuts
    "intent_slots": TEXTS,
    "multiple_choice": PAIRS,
    "question_answering": QUESTIONS[:1],
}


@pytest.mark.parametrize("name", SERVED)
def test_columns_are_those_of_the_saved_model(name):
    """The Keras model's own outputs, read by the server, give what the SavedModel's graph gives."""
    task = keras_bert.load_task(CORPUS / "tasks" / name)
    rows = [(row,) if isinstance(row, str) else row for row in SERVED[name]]
    tensors = [tf.constant(list(column)) for column in zip(*rows, strict=True)]
    expected = serve_strings(find_served(task), SharedGraph(task), *tensors)

    reader = task_reader(task, task.sequence_length)
    served = find_export(task.name).served_file(reader)
    inputs = served.inputs(rows)
    data = served.prepare(inputs)
    outputs = find_export(task.name).from_task(task, task.outputs(data.tokenized), data.tokenized)
    found = served.columns(outputs, data, inputs)
    assert set(found) == set(expected)
    for column, values in expected.items():
        for row, value in enumerate(found[column]):
            wanted = values[row].numpy()
            if column in served.fillers:
                wanted = wanted[: len(value)]
            if np.asarray(wanted).dtype.kind in "SO":
                wanted = np.vectorize(bytes.decode)(wanted).tolist()
                assert (value.tolist() if isinstance(value, np.ndarray) else value) == wanted
            else:
                np.testing.assert_allclose(value, wanted, atol=1e-5, err_msg=column)
    forms = find_served(task).forms
    assert set(served.forms) <= set(forms)


def test_writers_give_texts_and_ids_as_tf_serving_does():
    task = keras_bert.load_task(CORPUS / "tasks" / "seq2seq")
    expected = serve_strings(find_served(task), SharedGraph(task), tf.constant([*TEXTS, ""]))
    with serving("seq2seq") as server:
        status, found = server.ask("predict", {"inputs": [*TEXTS, ""]})
        assert status == 200
        assert set(found["outputs"]) == set(expected)
        assert found["outputs"]["truncated"] == expected["truncated"].numpy().tolist()
        assert np.shape(found["outputs"]["written_ids"]) == expected["written_ids"].shape
        names = {"serving_default", "generate", "generate_beam"}
        metadata = server.get("/v1/models/tiny/metadata").json()["metadata"]["signature_def"]["signature_def"]
        assert set(metadata) == names
        beams = export.load(FILES / "seq2seq.tflite")(TEXTS, sampler="beam")
        _, found = server.ask("predict", {"signature_name": "generate_beam", "instances": TEXTS})
        assert [row["written"] for row in found["predictions"]] == beams


def test_rows_columns_and_examples():
    with serving("classification.float32") as server:
        answers = export.load(FILES / "classification.float32.tflite")(TEXTS)
        _, rows = server.ask("predict", {"instances": TEXTS})
        _, named = server.ask("predict", {"instances": [{"text": text} for text in TEXTS]})
        _, columns = server.ask("predict", {"inputs": {"text": TEXTS}})
        assert rows == named
        assert [row["label"] for row in rows["predictions"]] == [ranked[0].name for ranked in answers]
        assert {key: [row[key] for row in rows["predictions"]] for key in rows["predictions"][0]} == columns["outputs"]
        assert columns["outputs"]["truncated"] == [False, False, False, True]
        _, ranked = server.ask("classify", {"examples": [{"text": text} for text in TEXTS]})
        expected = [[[label.name, label.probability] for label in row] for row in answers]
        assert equal(ranked["results"], expected)
        broken = base64.b64encode(b"the film \xff was very good").decode()
        _, replaced = server.ask("predict", {"instances": [{"b64": broken}]})
        assert equal(replaced["predictions"][0], rows["predictions"][0])
    with serving("classification_regression") as server:
        rows = [{"text": text, "pair": pair} for text, pair in PAIRS]
        _, found = server.ask("regress", {"signature_name": "regress_pairs", "examples": rows})
        assert equal(found["results"], export.load(FILES / "classification_regression.tflite")(PAIRS), 1e-5)
        _, shared = server.ask(
            "regress",
            {"signature_name": "regress_pairs", "context": {"pair": "a"}, "examples": [{"text": "b"}, {"text": "c"}]},
        )
        assert len(shared["results"]) == 2


def test_rows_of_tokens_have_one_width():
    with serving("tagging_crf") as server:
        _, found = server.ask("predict", {"instances": TEXTS})
        rows = found["predictions"]
        for name in ("token_logits", "tags", "starts", "ends"):
            assert len({len(row[name]) for row in rows}) == 1
        assert rows[2]["starts"][-1] == -1 and rows[2]["tags"][-1] == "O"
        definition = server.get("/v1/models/tiny/metadata").json()["metadata"]["signature_def"]["signature_def"]
        shape = definition["serving_default"]["outputs"]["token_logits"]["tensor_shape"]["dim"]
        assert [one["size"] for one in shape[:2]] == ["-1", "-1"]


def test_status_and_versions():
    with serving("classification.float32") as server:
        status = server.get("/v1/models/tiny").json()
        assert status["model_version_status"] == [
            {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
        body = {"instances": TEXTS[:1]}
        assert server.post("/v1/models/tiny/versions/1:predict", json=body).status_code == 200
        for path in ("/v1/models/other:predict", "/v1/models/tiny/versions/2:predict", "/v1/models/tiny:explain"):
            answer = server.post(path, json=body)
            assert answer.status_code == 404 and answer.json()["error"].endswith(".")
        assert server.get("/v1/models/other").status_code == 404


# === OpenAI ===


def test_vectors_as_openai_gives_them():
    vectors = export.load(FILES / "similarity.tflite")(TEXTS)
    with serving("similarity") as server:
        found = server.post("/v1/embeddings", json={"model": "tiny", "input": TEXTS}).json()
        np.testing.assert_allclose([row["embedding"] for row in found["data"]], vectors, atol=1e-6)
        assert [row["index"] for row in found["data"]] == [0, 1, 2, 3] and found["model"] == "tiny"
        assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] > 20
        body = {"model": "tiny", "input": TEXTS[0], "encoding_format": "base64"}
        (row,) = server.post("/v1/embeddings", json=body).json()["data"]
        np.testing.assert_array_equal(np.frombuffer(base64.b64decode(row["embedding"]), "<f4"), vectors[0])
        (row,) = server.post("/v1/embeddings", json={"input": TEXTS[0], "dimensions": 3}).json()["data"]
        np.testing.assert_allclose(row["embedding"], shorten_vectors(vectors[0], 3), atol=1e-6)
        assert server.get("/v1/models").json()["data"][0]["id"] == "tiny"
        for wrong in (
            {"input": [[1, 2]]},
            {"input": []},
            {"input": "a", "dimensions": len(vectors[0]) + 1},
            {"input": "a", "dimensions": True},
            {"input": "a", "model": "b"},
        ):
            answer = server.post("/v1/embeddings", json=wrong)
            assert answer.status_code in (400, 404) and answer.json()["error"]["type"] == "invalid_request_error"
    with serving("classification.float32") as server:
        answer = server.post("/v1/embeddings", json={"input": "a"})
        assert answer.status_code == 400 and "classification" in answer.json()["error"]["message"]
