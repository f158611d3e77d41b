"""Models by name: fetched from a small hub on loopback, which also counts what was asked for."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from tiny_models import VOCABULARY, assert_same_weights, tiny_model

from keras_bert.checkpoint import CheckpointError, load_encoder, load_labels, load_model, save_pretrained
from keras_bert.text.tokenizer import BertTokenizer

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """As much of the hub's API as a download needs: what a model has, its list of files, and the files."""

    def __init__(self, models):
        super().__init__(("127.0.0.1", 0), Handler)
        self.models, self.sent = models, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urlsplit(self.path).path.strip("/")
        name, _, rest = path.removeprefix("api/models/").partition("/")
        owner, (name, _, rest) = name, rest.partition("/")
        files = self.server.models.get(f"{owner}/{name}")
        if files is None:
            return self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})
        if path.startswith("api/"):
            return self.reply_about(f"{owner}/{name}", files, rest)
        kind, _, file = rest.removeprefix("resolve/").partition("/")
        if kind not in ("main", COMMIT) or file not in files:
            return self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
        if self.command == "GET":
            self.server.sent.append(file)
        etag = hashlib.sha1(files[file]).hexdigest()
        return self.reply(200, files[file], {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})

    def reply_about(self, name, files, rest):
        if rest.startswith("tree"):
            body = [
                {"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for file, data in files.items()
            ]
        elif rest in ("", "revision/main", f"revision/{COMMIT}"):
            body = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]}
        else:
            return self.reply(404, b"", {"X-Error-Code": "RevisionNotFound"})
        return self.reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def reply(self, status, body, headers):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def model():
    return tiny_model(("classification",))


@pytest.fixture(scope="module")
def hub(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("hub")
    tokenizer = BertTokenizer(VOCABULARY)
    save_pretrained(model, directory, tokenizer=tokenizer, labels=["a", "b", "c"])
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    rest = {"pytorch_model.bin": b"a pickle", "README.md": b"#", "onnx/model.onnx": b"-", "code.py": b"1 / 0"}
    pickle_only = {"config.json": files["config.json"], "pytorch_model.bin": b"a pickle"}
    server = Hub({"someone/tiny-bert": {**files, **rest}, "someone/pickle": pickle_only})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_name_is_fetched_without_pickles_and_code(hub, model, tmp_path):
    hub.sent.clear()
    copy, tokenizer = load_model("someone/tiny-bert", endpoint=hub.address, cache_dir=tmp_path)
    assert_same_weights(model, copy)
    assert tokenizer.vocabulary == VOCABULARY
    assert sorted(hub.sent) == [
        "config.json",
        "labels.txt",
        "model.safetensors",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    # A second time, and by the address in the environment, nothing needs to be sent.
    hub.sent.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.address)
        assert load_labels("someone/tiny-bert", cache_dir=tmp_path, revision="main") == ["a", "b", "c"]
    assert hub.sent == []


def test_a_pickle_on_the_hub_is_not_fetched(hub, tmp_path):
    hub.sent.clear()
    with pytest.raises(CheckpointError, match=r"has neither model.safetensors nor"):
        load_encoder("someone/pickle", endpoint=hub.address, cache_dir=tmp_path)
    assert hub.sent == ["config.json"]


def test_a_name_that_the_hub_does_not_know(hub, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no directory 'someone/else', and the hub has no model 'someone/else'"
    ):
        load_encoder("someone/else", endpoint=hub.address, cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no model 'someone/tiny-bert' at revision 'v9'"):
        load_encoder("someone/tiny-bert", endpoint=hub.address, cache_dir=tmp_path, revision="v9")


def test_no_network(hub, model, tmp_path):
    nobody = "http://127.0.0.1:9"
    with pytest.raises(ConnectionError, match=r"could not be downloaded from the hub .*Connect to the network and try"):
        load_encoder("someone/tiny-bert", endpoint=nobody, cache_dir=tmp_path)
    load_model("someone/tiny-bert", endpoint=hub.address, cache_dir=tmp_path)
    copy, _ = load_model("someone/tiny-bert", endpoint=nobody, cache_dir=tmp_path)  # by what was fetched before
    assert_same_weights(model, copy)


@pytest.mark.parametrize("name", ["../x", "a/b/c", "/no/such", "a b", "~nobody/x", "http://host/x"])
def test_what_is_no_name_is_not_asked_for(hub, tmp_path, name):
    hub.sent.clear()
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        load_encoder(name, endpoint=hub.address, cache_dir=tmp_path)
    assert hub.sent == []


def test_without_the_hub_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="downloading a model by name needs huggingface_hub: pip install"):
        load_encoder("someone/tiny-bert")
