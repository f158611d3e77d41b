"""A server under load while versions come and go, clients are killed, and others are slow: nothing is lost or wrong."""

import contextlib
import http.client
import json
import random
import shutil
import socket
import threading
import time
import urllib.parse

import pytest
from server_process import server_process
from tiny_server import FILES

import export

pytestmark = pytest.mark.slow

SECONDS, CLIENTS = 12, 12
OLD, NEW = FILES / "classification.float32.tflite", FILES / "classification_wide.tflite"
TEXTS = ["the film was very good", "a dull plot", "Anna is in the train to Rome.", "é 中 👍", "the cast " * 20]
PATH = "/v1/models/tiny:predict"


class Load:
    """Threads of clients, and what went wrong for those that behave well."""

    def __init__(self, address):
        self.place, self.stop = urllib.parse.urlsplit(address), threading.Event()
        self.answers, self.problems = 0, []
        opened = [export.load(file) for file in (OLD, NEW)]
        self.known = [[runtime(text)[0] for runtime in opened] for text in TEXTS]

    def run(self, *workers):
        threads = [threading.Thread(target=worker, args=(number,)) for number, worker in enumerate(workers)]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        self.stop.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()

    def ask(self, seed):
        """Ask over one connection, with one to eight texts; every answer is that of one of the versions."""
        with contextlib.closing(http.client.HTTPConnection(self.place.netloc, timeout=60)) as client:
            self._ask(client, random.Random(seed))

    def _ask(self, client, order):
        while not self.stop.is_set():
            chosen = [order.randrange(len(TEXTS)) for _ in range(order.randrange(1, 9))]
            body = json.dumps({"instances": [TEXTS[index] for index in chosen]})
            try:
                client.request("POST", PATH, body)
                answer = client.getresponse()
                rows = json.loads(answer.read())["predictions"]
            except (OSError, http.client.HTTPException, KeyError) as error:
                self.problems.append(repr(error))
                return
            self.answers += 1
            # All rows of a request are of one version.
            fits = [
                all(self.is_of(version, index, row) for index, row in zip(chosen, rows, strict=True))
                for version in (0, 1)
            ]
            if not any(fits):
                self.problems.append(f"{chosen}: {rows}")

    def is_of(self, version, index, row):
        best = self.known[index][version]
        return row["label"] == best.name and abs(row["probability"] - best.probability) < 1e-4

    def kill(self, seed):
        """Send a part of a request, or all of it, and go away."""
        order, content = random.Random(seed), json.dumps({"instances": TEXTS * 20}).encode()
        request = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        while not self.stop.is_set():
            with socket.create_connection((self.place.hostname, self.place.port), timeout=10) as client:
                client.sendall(request[: order.randrange(1, len(request) + 1)])
            time.sleep(0.005)

    def crawl(self, seed):
        """Send a request byte by byte."""
        with socket.create_connection((self.place.hostname, self.place.port), timeout=10) as client:
            client.sendall(f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n".encode())
            while not self.stop.wait(0.1):
                client.sendall(b"{")


def put(place, number, content):
    (place / str(number)).mkdir(parents=True)
    (place / str(number) / "model.tflite").write_bytes(content)


def test_versions_come_and_go_without_a_lost_request(tmp_path):
    place, files = tmp_path / "tone", [OLD.read_bytes(), NEW.read_bytes()]
    put(place, 1, files[0])
    with server_process(place, "--name", "tiny", "--refresh", "0.1", "--no-request-log") as server:
        load = Load(server.address)

        def reload(seed):
            number = 1
            while not load.stop.wait(0.4):
                number += 1
                whole = number % 3
                put(place, number, files[number % 2] if whole else files[0][: 1000 * number])
                shutil.rmtree(place / str(number - 3), ignore_errors=True)

        load.run(*[load.ask] * CLIENTS, load.kill, load.kill, load.crawl, reload)
        assert not load.problems, load.problems[:3]
        assert load.answers > 100
        events = [line["event"] for line in server.log]
        assert events.count("version_loaded") > 5 and events.count("version_refused") > 2
        assert "error" not in events
        deadline = time.monotonic() + 30
        while b"keras_bert_queue_texts 0.0" not in server.get("/metrics"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.stop() == 0


def test_a_client_that_sends_too_slowly_is_told_so():
    with server_process(OLD, "--name", "tiny", "--client-timeout", "1") as server:
        place = urllib.parse.urlsplit(server.address)
        for begin, words in (
            (b"POST ", b""),
            (f"POST {PATH} HTTP/1.1\r\nContent-Length: 99\r\n\r\n{{".encode(), b" 408 "),
        ):
            with socket.create_connection((place.hostname, place.port), timeout=20) as client:
                client.sendall(begin)
                start = time.monotonic()
                assert words in client.recv(4096)
                assert 0.5 < time.monotonic() - start < 10


def test_a_full_queue_is_answered_at_once():
    with server_process(OLD, "--name", "tiny", "--threads", "1", "--max-queue", "600") as server:
        load, refused = Load(server.address), []

        def flood(seed):
            body = json.dumps({"instances": ["the cast " * 40] * 500})
            with contextlib.closing(http.client.HTTPConnection(load.place.netloc, timeout=60)) as client:
                while not load.stop.is_set() and not refused:
                    start = time.monotonic()
                    client.request("POST", PATH, body)
                    answer = client.getresponse()
                    content = json.loads(answer.read())
                    if answer.status == 503:
                        refused.append((answer.getheader("Retry-After"), content["error"], time.monotonic() - start))

        threads = [threading.Thread(target=flood, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert refused
        after, sentence, seconds = refused[0]
        assert int(after) >= 1 and "texts are waiting" in sentence and seconds < 5
