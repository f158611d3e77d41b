"""A real process: what it loads, the clients of `examples/serving`, slow clients, and how it ends."""

import contextlib
import importlib.util
import json
import re
import socket
import sys
import threading
import time
import urllib.parse

import pytest
from places import ROOT
from server_process import server_process
from tiny_server import FILES

import export
from export.cli.serve import add
from keras_bert.cli.help_page import FrontPage

FILE = FILES / "classification.float32.tflite"
BODY = {"instances": ["the film was very good"]}


@pytest.fixture(scope="module")
def server():
    with server_process(FILE, "--name", "tiny", "--threads", "2") as server:
        yield server


def connect(server):
    place = urllib.parse.urlsplit(server.address)
    return socket.create_connection((place.hostname, place.port), timeout=60)


def test_it_answers_without_tensorflow(server):
    (answer,) = server.post("/v1/models/tiny:predict", BODY)["predictions"]
    assert answer["label"] == export.load(FILE)(BODY["instances"][0])[0].name
    loaded = {
        line.split("/site-packages/")[1].split("/")[0] for line in open_files(server) if "/site-packages/" in line
    }
    assert not loaded & {"tensorflow", "keras", "jax", "torch", "scipy", "h5py"}, loaded


def open_files(server):
    """The files that are mapped into the process: every library that it has loaded."""
    maps = f"/proc/{server.process.pid}/maps"
    if sys.platform != "linux":
        pytest.skip("Only Linux tells what a process has loaded.")
    with open(maps) as lines:
        return [line.strip() for line in lines]


def test_the_example_client_runs_against_it(server, capsys):
    spec = importlib.util.spec_from_file_location("client_rest", ROOT / "examples" / "serving" / "client_rest.py")
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    common = ["--server", server.address, "--model", "tiny"]
    client.main([*common, "the film was very good", "a dull plot"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and re.fullmatch(r"the film was very good  (good|fine|bad) \(\d+%\)", lines[0])
    client.main([*common, "--ranked", "a dull plot"])
    assert capsys.readouterr().out.count("%") == 3  # all labels
    client.main([*common, "--pair", "the film", "--pair", "a dull plot"])
    assert "the film | a dull plot" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"answered 404: .*There is no model of that name"):
        client.main(["--server", server.address, "--model", "other", "a"])


def test_what_is_not_http(server):
    for content in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, b"GET\r\n\r\n", b"\xff" * 999):
        with connect(server) as client:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            assert b" 200 " not in client.recv(4096)
    with connect(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 200_000)
        assert b" 400 " in client.recv(4096)
    for header in (b"a: " + b"b" * 70_000 + b"\r\n", b"a: b\r\n" * 40_000):
        with connect(server) as client, contextlib.suppress(ConnectionError):
            client.sendall(b"GET / HTTP/1.1\r\n" + header + b"\r\n")
            assert b" 400 " in client.recv(4096)
    with connect(server) as client:
        client.sendall(b"GET /../../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 404 " in client.recv(4096)
    assert server.post("/v1/models/tiny:predict", BODY)


def test_a_client_that_goes_away_costs_nothing(server):
    content = json.dumps({"instances": ["the film was very good"] * 500}).encode()
    head = f"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: a\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    for part in (head[:20], head + content[:50], head + content):
        client = connect(server)
        client.sendall(part)
        client.close()
    assert server.post("/v1/models/tiny:predict", BODY)
    deadline = time.monotonic() + 20
    while b"keras_bert_queue_texts 0.0" not in server.get("/metrics"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_ends_well_with_the_requests_that_it_took():
    with server_process(FILE, "--name", "tiny", "--threads", "1") as server:
        found, texts = [], ["the film was very good"] * 500
        server.get("/healthz")

        def ask():
            found.append(server.post("/v1/models/tiny:predict", {"instances": texts}))

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        while b"keras_bert_queue_texts 0.0" in server.get("/metrics") and not found:
            time.sleep(0.002)
        assert server.stop() == 0
        for client in clients:
            client.join()
        assert [len(answer["predictions"]) for answer in found] == [500] * 3
        assert [line["event"] for line in server.log][-1] == "stopped"


def test_a_port_that_is_taken(server):
    port = urllib.parse.urlsplit(server.address).port
    parser = FrontPage("keras-bert")
    parser.commands = parser.add_subparsers(parser_class=type(parser).__mro__[1])
    add(parser.commands)
    arguments = parser.parse_args(["serve", str(FILE), "--port", str(port)])
    arguments.imports = None
    with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1:{port}.*choose another --port"):
        arguments.run(arguments)
