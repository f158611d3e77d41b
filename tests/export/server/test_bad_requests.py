"""Bad input gets a 4xx with a sentence, a full queue 503 at once; nothing that a client sent is in the log."""

import json
import threading
import time

import pytest
from tiny_server import FILES, serving

from export.server.limits import Limits, RequestError
from export.server.work import WorkQueue

SECRET = "xyzzy"  # in every request below


@pytest.fixture(scope="module")
def server():
    with serving("classification.float32", max_texts=8, max_characters=200, max_body=4000) as server:
        yield server


def nested(depth):
    return '{"instances": ' + "[" * depth + f'"{SECRET}"' + "]" * depth + "}"


BODIES = {
    "nothing": (b"", 400, "not JSON"),
    "not JSON": (f"instances={SECRET}".encode(), 400, "not JSON in UTF-8 (line 1"),
    "a list": ([SECRET], 400, "a list; expected a JSON object"),
    "no instances": ({"text": SECRET}, 400, "either instances"),
    "both": ({"instances": [SECRET], "inputs": [SECRET]}, 400, "either instances"),
    "a number": ({"instances": 3, SECRET: 1}, 400, "instances is a number; expected a list"),
    "no texts": ({"instances": [], SECRET: 1}, 400, "instances is empty"),
    "numbers": ({"instances": [SECRET, 3]}, 400, "instances[1] is a number; expected a string"),
    "null": ({"instances": [{"text": None}], SECRET: 1}, 400, "instances[0].text is null"),
    "other names": ({"instances": [{"txt": SECRET}]}, 400, "expected an object with text"),
    "other columns": ({"inputs": {"txt": [SECRET]}}, 400, "inputs.text is an object"),
    "many texts": ({"instances": [SECRET] * 9}, 400, "has 9 entries; expected at most 8"),
    "a long text": ({"instances": [SECRET * 50]}, 400, "has 250 characters; expected at most 200"),
    "a large body": ({"instances": [SECRET * 1000]}, 413, "expected at most 4,000"),
    "invalid UTF-8": (b'{"instances": ["' + SECRET.encode() + b'\xff\xc3"]}', 400, "not JSON in UTF-8"),
    "a lone surrogate": (f'{{"instances": ["{SECRET} \\ud800"]}}'.encode(), 400, "not JSON in UTF-8"),
    "deep nesting": (nested(100).encode(), 400, "instances[0] is a list"),
    "deeper nesting": (nested(1500).encode(), 400, "not JSON"),
    "not base64": ({"instances": [{"b64": "*" + SECRET}]}, 400, "not base64"),
    "a strange signature": ({"signature_name": SECRET, "instances": ["a"]}, 404, "this model has serving_default"),
    "a signature of another kind": ({"signature_name": "classify", "instances": [SECRET]}, 400, "classify requests"),
    "NaN": (f'{{"instances": [NaN, "{SECRET}"]}}'.encode(), 400, "not JSON"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bad_bodies(server, name):
    body, status, words = BODIES[name]
    found, answer = server.ask("predict", body)
    assert found == status and words in answer["error"], answer
    assert answer["error"][0].isupper() or answer["error"][0].islower()
    assert answer["error"].endswith(".")


def test_a_large_body_without_its_length(server):
    pieces = iter([b'{"instances": ["', *[SECRET.encode() * 100] * 10, b'"]}'])  # sent in chunks
    answer = server.post("/v1/models/tiny:predict", content=pieces)
    assert answer.status_code == 413 and "more than 4,000 bytes" in answer.json()["error"]


def test_bad_examples_and_inputs(server):
    for verb, body, words in [
        ("classify", {"examples": [SECRET]}, "other values than objects"),
        ("classify", {"context": [], "examples": [{"text": SECRET}]}, "context is not an object"),
        ("regress", {"examples": [{"text": SECRET}]}, "is for classify requests"),
        ("answer", {"inputs": SECRET}, "inputs is a string; expected a list"),
        ("answer", {"inputs": [3, SECRET]}, "inputs[0]: An input is not a string"),
        ("answer", {"inputs": [["a", "b", SECRET]]}, "expected strings"),
        ("answer", {"inputs": [SECRET, ["a", "b"]]}, "mixes"),
        ("answer", {"inputs": [SECRET], "options": {"threshold": 0.5}}, "this model has none"),
        ("answer", {"inputs": [SECRET], "options": 3}, "options is a number"),
    ]:
        status, answer = server.ask(verb, body)
        assert 400 <= status < 500 and words in answer["error"], (body, answer)


def test_options_are_checked_before_anything_runs():
    with serving("seq2seq") as server:
        for options, words in [
            ({"num_beams": 10**6}, "options.num_beams is not a whole number from 1 to 16"),
            ({"sampler": SECRET}, "options.sampler is not one of"),
            ({"max_length": 500}, "max_length=500"),
            ({"temperature": 0}, "options.temperature is not a number over 0"),
            ({SECRET: 1}, "only sampler, max_length"),
        ]:
            status, answer = server.ask("answer", {"inputs": ["a"], "options": options})
            assert status == 400 and words in answer["error"], answer


def test_strange_addresses(server):
    for path in (
        f"/{SECRET}",
        f"/v1/models/tiny/../{SECRET}",
        f"/%2e%2e/%2e%2e/{SECRET}",
        "/v1/models/tiny/versions/-1",
    ):
        answer = server.get(path)
        assert answer.status_code == 404 and answer.json()["error"].endswith("."), path
        assert SECRET not in answer.text
    for path in ("/..%2f..%2fsetup.py", "/page/../app.py", f"/v1/models/{SECRET}/metadata"):
        assert server.get(path).status_code == 404
    assert server.get("/v1/models/tiny:predict").status_code == 405
    assert server.post("/healthz").status_code == 405


def test_the_log_has_nothing_that_a_client_sent(server):
    assert server.ask("predict", {"instances": [f"good {SECRET}"]})[0] == 200
    assert SECRET not in server.output.getvalue()
    line = server.log[-1]
    assert line["event"] == "request" and line["method"] == "predict" and line["status"] == 200
    assert line["texts"] == 1 and line["tokens"] > 2 and line["seconds"] > 0


def test_an_error_of_the_server_is_logged_without_its_words(server, monkeypatch):
    def fail(outputs, data, inputs):
        raise KeyError(inputs[0])

    monkeypatch.setattr(server.service.versions.current.served, "columns", fail)
    status, answer = server.ask("predict", {"instances": [SECRET]})
    assert status == 500 and SECRET not in json.dumps(answer)
    event = next(line for line in server.log if line["event"] == "error")
    assert event["type"] == "KeyError" and any("test_bad_requests.py" in place for place in event["places"])
    assert SECRET not in server.output.getvalue()


def test_metrics_and_health(server):
    text = server.get("/metrics").text
    assert 'keras_bert_requests_total{method="predict",status="413"} ' in text
    assert "keras_bert_request_seconds_bucket" in text and "process_resident_memory_bytes" in text
    assert SECRET not in text and "keras_bert_queue_texts 0.0" in text
    assert server.get("/healthz").json() == {"status": "ok", "version": 1}


def test_limits_that_make_no_sense():
    with pytest.raises(ValueError, match="expected a number over 0"):
        Limits(timeout=0)
    with pytest.raises(ValueError, match="room for a request's texts"):
        Limits(max_queue=3, max_texts=4)


# === The queue ===


class Held:
    """Work that waits until it is let go."""

    def __init__(self):
        self.go, self.done = threading.Event(), []

    def __call__(self, thread, items):
        self.go.wait(10)
        self.done += items
        return list(items)


def test_a_full_queue_refuses_at_once():
    work, held = WorkQueue(1, max_waiting=4), Held()
    first = work.submit(held, [0])
    while work.waiting:
        time.sleep(0.001)
    second = work.submit(held, [1, 2, 3])
    start = time.monotonic()
    with pytest.raises(RequestError) as refused:
        work.submit(held, [4, 5])
    assert refused.value.status == 503 and refused.value.retry_after >= 1 and time.monotonic() - start < 0.5
    third = work.submit(held, [4])
    held.go.set()
    assert first.future.result(10) == [[0]] and second.future.result(10) == [[1, 2, 3]]
    assert third.future.result(10) == [[4]]
    work.close()
    with pytest.raises(RequestError, match="shutting down"):
        work.submit(held, [6])


def test_small_requests_do_not_wait_for_all_of_a_large_one():
    work, held = WorkQueue(1, max_waiting=1000), Held()
    large = work.submit(held, list(range(100)))
    small = work.submit(held, ["small"])
    held.go.set()
    small.future.result(10)
    large.future.result(10)
    assert held.done.index("small") <= 16 and len(held.done) == 101
    assert [item for item in held.done if item != "small"] == list(range(100))
    work.close()


def test_dropped_requests_leave_the_queue():
    work, held = WorkQueue(1, max_waiting=1000), Held()
    work.submit(held, [0])
    while work.waiting:
        time.sleep(0.001)
    gone = work.submit(held, list(range(1, 100)))
    assert work.waiting == 99
    work.drop(gone)
    assert work.waiting == 0
    last = work.submit(held, ["last"])
    held.go.set()
    last.future.result(10)
    assert held.done == [0, "last"]
    work.close()


def test_an_error_ends_a_request_alone():
    work = WorkQueue(2, max_waiting=1000)

    def fail(thread, items):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work.submit(fail, list(range(50))).future.result(10)
    assert work.submit(lambda thread, items: len(items), [1]).future.result(10) == [1]
    work.close()
    assert work.waiting == 0


class Whole(list):
    """The result of a call for several requests."""

    def part(self, begin, end):
        return list(self[begin:end])


def test_requests_of_a_kind_are_run_in_one_call():
    work, go, calls = WorkQueue(1, max_waiting=1000), threading.Event(), []

    def run(thread, items):
        go.wait(10)
        calls.append(list(items))
        if len(items) > 1 and "bad" in items:
            raise ZeroDivisionError
        if items == ["bad"]:
            raise KeyError("bad")
        return Whole(item * 2 for item in items)

    first = work.submit(run, ["held"])
    while work.waiting:
        time.sleep(0.001)
    same = [work.submit(run, [word], "one kind") for word in "abcdefghij"]
    other = work.submit(run, ["other"], "another kind")
    alone = [work.submit(run, ["alone"]) for _ in range(2)]
    good, bad, large = (work.submit(run, items, "a third") for items in (["good"], ["bad"], ["large"] * 7))
    go.set()
    assert [job.future.result(10) for job in same] == [[[word * 2]] for word in "abcdefghij"]
    assert other.future.result(10) == [["otherother"]] and first.future.result(10) == [["heldheld"]]
    assert [job.future.result(10) for job in alone] == [[["alonealone"]]] * 2
    assert good.future.result(10) == [["goodgood"]] and large.future.result(10) == [["largelarge"] * 7]
    with pytest.raises(KeyError):
        bad.future.result(10)
    assert calls[:5] == [["held"], list("abcdefghij"), ["other"], ["alone"], ["alone"]]
    assert calls[5:] == [["good", "bad"], ["good"], ["bad"], ["large"] * 7]
    work.close()


def test_the_more_requests_wait_the_more_are_run_in_one_call():
    work, go, sizes = WorkQueue(1, max_waiting=1000), threading.Event(), []

    def run(thread, items):
        go.wait(10)
        sizes.append(len(items))
        return Whole(items)

    jobs = [work.submit(run, ["held"])]
    while work.waiting:
        time.sleep(0.001)
    jobs += [work.submit(run, [index], "one kind") for index in range(100)]
    go.set()
    assert [job.future.result(10)[0][0] for job in jobs[1:]] == list(range(100))
    assert sizes == [1, 32, 32, 18, 9, 8, 1]
    work.close()


def test_threads_share_what_waits():
    work, held = WorkQueue(2, max_waiting=1000), Held()
    jobs = [work.submit(held, ["held"]) for _ in range(2)]
    while work.waiting:
        time.sleep(0.001)
    sizes = []

    def run(thread, items):
        sizes.append(len(items))
        return Whole(items)

    jobs += [work.submit(run, [index], "one kind") for index in range(6)]
    held.go.set()
    assert [job.future.result(10)[0][0] for job in jobs[2:]] == list(range(6))
    assert max(sizes) <= 3
    work.close()


def test_close_finishes_what_waits():
    work, held = WorkQueue(2, max_waiting=1000), Held()
    jobs = [work.submit(held, [index]) for index in range(20)]
    threading.Timer(0.05, held.go.set).start()
    work.close()
    assert all(job.future.result(0) for job in jobs)


def test_a_slow_answer_is_given_up(monkeypatch):
    with serving("classification.float32", timeout=0.2) as server:
        version, go = server.service.versions.current, threading.Event()
        prepare = version.served.prepare

        def wait(inputs):
            if inputs[0].startswith("slow"):
                go.wait(10)
            return prepare(inputs)

        monkeypatch.setattr(version.served, "prepare", wait)
        status, answer = server.ask("predict", {"instances": ["slow"]})
        assert status == 504 and "0.2 seconds" in answer["error"]
        go.set()
        assert server.ask("predict", {"instances": ["quick"]})[0] == 200
    assert FILES.is_dir()
