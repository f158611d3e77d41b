"""The browser page and the Android sample: tokenizers equal to ours, a page that answers as the Python runtime does.

`tests/golden/wordpiece.json` is shared by all three tokenizers. The page runs in headless Chromium, put together by the
README's own commands; the Kotlin tokenizer runs on the JVM. What they need beside Python (Node.js with npm, Chromium,
Java) is used where it is installed, and npm packages come into a temporary directory.
"""

import base64
import contextlib
import functools
import http.server
import json
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest
from places import HELPERS, ROOT
from tiny_unigram import GOLDEN_MODELS, UNIGRAM_GOLDEN, expected_ids
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from unicode_fuzz import random_texts

import export.runtime
from export.file.archive import append_files, read_files
from export.file.metadata import add_metadata, describe_task
from export.tasks.base.app_model import app_model
from export.tflite.conversion import convert
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer
from tests.golden.make_wordpiece_golden import GOLDEN, VOCABULARY, make_tokenizer

WEB, PARTS = ROOT / "examples" / "web", HELPERS / "web"
TABLES = ROOT / "keras_bert" / "text" / "unicode_tables.json"
KOTLIN = [ROOT / "examples" / "android" / "textclassifier" / name for name in ("WordPiece.kt", "ModelFiles.kt")]
LABELS = ["good", "bad", "so so <b>"]  # a label is text, not HTML
# In npm's words: there is no network, or no way to the registry.
UNREACHABLE = re.compile("ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH")


def require(*names):
    """The path of the first of these programs that is installed; without any, the test is skipped."""
    for name in names:
        if path := shutil.which(name):
            return path
    return pytest.skip(f"{' or '.join(names)} is not installed")


def run(command, *, directory, given=None):
    done = subprocess.run(
        list(map(str, command)), cwd=directory, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode and "npm" in str(command) and UNREACHABLE.search(done.stderr):
        pytest.skip(f"npm cannot reach its registry: {done.stderr[:300]}")
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="session")
def golden():
    return json.loads(GOLDEN.read_text("ascii"))


def make_reference(vocabulary, rules):
    """The Rust `tokenizers`."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    reference = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    reference.normalizer = normalizers.BertNormalizer(
        lowercase=rules["do_lower_case"],
        strip_accents=rules["strip_accents"],
        handle_chinese_chars=rules["tokenize_chinese_chars"],
    )
    reference.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return reference


def reference_ids(vocabulary, rules, texts):
    encodings = make_reference(vocabulary, rules).encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def first_difference(texts, found, expected):
    assert len(found) == len(expected) == len(texts)
    rows = zip(texts, found, expected, strict=True)
    return next((row for row in rows if row[1] != row[2]), None)


# === Tokenizers ===


def test_golden_vectors_are_what_our_tokenizer_and_the_reference_say(golden):
    texts = golden["texts"]
    assert len(texts) > 150 and golden["vocabulary"] == VOCABULARY
    for mode in golden["modes"]:
        assert first_difference(texts, make_tokenizer(VOCABULARY, mode["rules"])(texts).to_list(), mode["ids"]) is None
        assert first_difference(texts, reference_ids(VOCABULARY, mode["rules"], texts), mode["ids"]) is None


def tokenize_in_javascript(directory, request):
    node = require("node")
    for file in (WEB / "wordpiece.js", WEB / "metadata.js", WEB / "package.json", PARTS / "tokenize.mjs"):
        shutil.copy(file, directory)
    return json.loads(run([node, "tokenize.mjs", TABLES], directory=directory, given=json.dumps(request)))


def test_javascript_tokenizer_equals_the_golden_vectors(golden, tmp_path):
    found = tokenize_in_javascript(tmp_path, golden)
    for mode, ids in zip(golden["modes"], found, strict=True):
        assert first_difference(golden["texts"], ids, mode["ids"]) is None


def test_javascript_tokenizer_equals_the_reference_on_random_unicode(golden, minilm_dir, tmp_path):
    """With the vocabulary of MiniLM, and halves of surrogate pairs, which no other tokenizer lets in."""
    vocabulary = (minilm_dir / "vocab.txt").read_bytes().decode().removesuffix("\n").split("\n")
    texts = random_texts(5000, vocabulary, seed=21)
    modes = [{"rules": mode["rules"]} for mode in golden["modes"]]
    request = {"vocabulary": vocabulary, "modes": modes, "texts": [*texts, "a\ud800b\udc00"]}
    for mode, ids in zip(modes, tokenize_in_javascript(tmp_path, request), strict=True):
        assert ids.pop() == reference_ids(vocabulary, mode["rules"], ["ab"])[0]
        assert first_difference(texts, ids, reference_ids(vocabulary, mode["rules"], texts)) is None


def compile_kotlin(directory, sources):
    """Compile for the JVM into `classes`; gives the directory of the compiler's libraries."""
    java, npm = require("java"), require("npm")
    run([npm, "install", "--no-audit", "--no-fund", "kotlin-compiler@2.2.21"], directory=directory)
    library = directory / "node_modules" / "kotlin-compiler" / "lib"
    compiler = [java, "-cp", library / "*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-Werror"]
    options = ["-no-reflect", "-no-stdlib", "-cp", library / "kotlin-stdlib.jar", "-d", "classes"]
    run([*compiler, *options, *sources], directory=directory)
    return library


@pytest.mark.slow
def test_kotlin_tokenizer_equals_the_golden_vectors_and_the_reference(golden, tmp_path, classifier):
    java, library = require("java"), compile_kotlin(tmp_path, [*KOTLIN, PARTS / "WordPieceMain.kt"])

    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY), encoding="utf-8")
    tables = json.loads(TABLES.read_text("ascii"))
    classes = [("combining_class", text) for text in tables.pop("combining_class")]
    (tmp_path / "tables.txt").write_text("".join(f"{name} {text}\n" for name, text in [*tables.items(), *classes]))
    more, lines, expected = random_texts(1000, VOCABULARY, seed=31), [], []
    texts = [*golden["texts"], *more]
    for mode in golden["modes"]:
        rules = mode["rules"]
        expected += [*mode["ids"], *reference_ids(VOCABULARY, rules, more)]
        accents = rules["do_lower_case"] if rules["strip_accents"] is None else rules["strip_accents"]
        lines.append(f"mode {rules['do_lower_case']} {accents} {rules['tokenize_chinese_chars']}".lower())
        lines += [" ".join(f"{ord(char):x}" for char in text) for text in texts]
    path = f"classes:{library / 'kotlin-stdlib.jar'}"
    arguments = ["vocab.txt", "tables.txt", classifier]
    given = "".join(f"{line}\n" for line in lines)
    files, *found = run(
        [java, "-cp", path, "WordPieceMainKt", *arguments], directory=tmp_path, given=given
    ).splitlines()

    sizes = {"vocab.txt": (tmp_path / "vocab.txt").stat().st_size, "labels.txt": len("".join(LABELS)) + len(LABELS)}
    assert {name: int(size) for name, size in (item.split(":") for item in files.split())}.items() >= sizes.items()
    found = [list(map(int, line.split())) for line in found]
    assert first_difference(texts * len(golden["modes"]), found, expected) is None


# === Unigram ===


def write_hexadecimal(texts):
    return "".join(" ".join(f"{ord(char):x}" for char in text) + "\n" for text in texts)


def unigram_texts():
    """Those of the golden file, and random ones, with the ids that our tokenizer gives."""
    texts = [*UNIGRAM_GOLDEN["texts"], *random_texts(1500, VOCABULARY, seed=41)]
    return texts, [UnigramTokenizer(model)(texts).to_list() for model in GOLDEN_MODELS]


def test_javascript_unigram_equals_sentencepiece_and_our_tokenizer(tmp_path):
    node = require("node")
    for file in (WEB / "unigram.js", WEB / "package.json", PARTS / "unigram.mjs"):
        shutil.copy(file, tmp_path)
    texts, expected = unigram_texts()
    models = [base64.b64encode(model.to_bytes()).decode() for model in GOLDEN_MODELS]
    request = json.dumps({"models": models, "texts": texts})
    found = json.loads(run([node, "unigram.mjs"], directory=tmp_path, given=request))
    for row, ids, wanted in zip(UNIGRAM_GOLDEN["models"], found, expected, strict=True):
        assert ids[: len(row["ids"])] == expected_ids(row)
        assert first_difference(texts, ids, wanted) is None


@pytest.mark.slow
def test_kotlin_unigram_equals_sentencepiece_and_our_tokenizer(tmp_path):
    compile_kotlin(tmp_path, [KOTLIN[0].with_name("Unigram.kt"), PARTS / "UnigramMain.kt"])
    path = f"classes:{tmp_path / 'node_modules/kotlin-compiler/lib/kotlin-stdlib.jar'}"
    texts, expected = unigram_texts()
    for model, wanted in zip(GOLDEN_MODELS, expected, strict=True):
        (tmp_path / "unigram.model").write_bytes(model.to_bytes())
        command = [require("java"), "-cp", path, "UnigramMainKt", "unigram.model"]
        found = run(command, directory=tmp_path, given=write_hexadecimal(texts)).split("\n")[:-1]
        assert first_difference(texts, [list(map(int, line.split())) for line in found], wanted) is None


# === The page ===


@pytest.fixture(scope="session")
def task():
    """A classifier with the golden vocabulary, and weights large enough for different texts to differ."""
    config = BertConfig(
        vocabulary_size=len(VOCABULARY),
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=32,
        initializer_range=0.3,
    )
    model = bert_model(config, "classification", num_classes=len(LABELS), seed=0)
    return TextClassifier(model, BertTokenizer(VOCABULARY), labels=LABELS, sequence_length=16)


def write(path, task, **settings):
    """The task as a file; `settings` are changes of what the file says of itself."""
    lengths = settings.pop("lengths", (16,))
    convert(app_model(task), path, recipe=settings.pop("recipe", "float32"), lengths=lengths)
    path.write_bytes(add_metadata(path.read_bytes(), **(describe_task(task) | settings)))
    return path


@pytest.fixture(scope="session")
def classifier(task, tmp_path_factory):
    return write(tmp_path_factory.mktemp("classifier") / "model.tflite", task)


@pytest.fixture(scope="session")
def site(classifier, tmp_path_factory):
    """A directory as the README's commands make it."""
    require("npm")
    directory = tmp_path_factory.mktemp("web")
    shutil.copy(classifier, directory)
    for name in ("examples", "keras_bert"):
        (directory / name).symlink_to(ROOT / name)
    block = re.search(r"```bash\n(.*?)```", (WEB / "README.md").read_text("utf-8"), re.DOTALL)[1]
    commands = [line for line in block.splitlines() if "http.server" not in line]
    assert len(commands) == 3
    run([require("bash"), "-ec", "\n".join(commands)], directory=directory)
    return directory / "site"


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A directory with the script that drives Chromium."""
    directory = tmp_path_factory.mktemp("driver")
    shutil.copy(PARTS / "drive_page.mjs", directory)
    run([require("npm"), "install", "--no-audit", "--no-fund", "playwright-core@1.65.0"], directory=directory)
    return directory


@contextlib.contextmanager
def serve(directory):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=directory)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def use_page(site, driver, **request):
    chromium = require("chromium", "chromium-browser", "google-chrome")
    with serve(site) as url:
        given = json.dumps({"chromium": chromium, "url": url, **request})
        seen = json.loads(run([require("node"), "drive_page.mjs"], directory=driver, given=given))
    assert seen["errors"] == []
    assert seen["outside"] == []  # nothing is loaded from elsewhere
    return seen


def answers_of(seen, texts):
    """The probabilities in the order of LABELS, each row checked to be sorted."""
    assert len(seen["answers"]) == len(texts)
    rows = [dict(answer["labels"]) for answer in seen["answers"]]
    for answer in seen["answers"]:
        probabilities = [probability for _, probability in answer["labels"]]
        assert probabilities == sorted(probabilities, reverse=True)
    return np.array([[row[label] for label in LABELS] for row in rows])


def runtime_answers(path, texts):
    rows = [{label.name: label.probability for label in labels} for labels in export.runtime.load(path)(texts)]
    return np.array([[row[label] for label in LABELS] for row in rows])


def page_texts(golden):
    return ["The film was very good!", "", "dull", "Café " * 40, "中国語 한국어 😀", *golden["texts"][45:60]]


@pytest.mark.slow
def test_page_answers_as_the_python_runtime(golden, site, driver, classifier):
    texts = page_texts(golden)
    seen = use_page(site, driver, texts=texts)
    assert seen["statuses"][0] == "model.tflite: 3 labels, up to 16 tokens"
    expected = runtime_answers(classifier, texts)
    assert expected.std(0).min() > 0.03, expected.std(0)  # constant answers would fail
    np.testing.assert_allclose(answers_of(seen, texts), expected, atol=1e-4)
    details = [answer["details"] for answer in seen["answers"]]
    assert details[0].endswith("Tokens: the film was very good !")
    assert details[1].endswith("No tokens.")
    assert details[3].endswith("(the rest was cut)")


def say_dynamic(content):
    """A file that says its length is dynamic: the last archive is the one that is read."""
    files = read_files(content, dict.fromkeys(("vocab.txt", "labels.txt", "keras_bert_task.json"), 1 << 20))
    about = json.loads(files["keras_bert_task.json"]) | {"signatures": {"dynamic": None}}
    return append_files(content, files | {"keras_bert_task.json": json.dumps(about).encode()})


@pytest.mark.slow
def test_page_takes_other_files_and_says_what_is_wrong(golden, site, driver, task, classifier, tmp_path):
    """Broken files leave the page as it was; then int8, two lengths, and long texts in windows."""
    (tmp_path / "cut.tflite").write_bytes(classifier.read_bytes()[:-30])
    (tmp_path / "other.tflite").write_bytes(b"no model, but text that is long enough to look into")
    dynamic = tmp_path / "dynamic.tflite"
    dynamic.write_bytes(say_dynamic(classifier.read_bytes()))
    settings = {"sequence_length": 16, "long_texts": "windows"}
    path = write(tmp_path / "int8.tflite", task, recipe="dynamic_int8", lengths=(8, 32), settings=settings)
    files = [tmp_path / "cut.tflite", tmp_path / "other.tflite", dynamic, path]
    texts = page_texts(golden)
    seen = use_page(site, driver, texts=texts, files=list(map(str, files)))
    _, cut, other, dynamic, opened, _ = seen["statuses"]
    assert cut.startswith("cut.tflite cannot be used. There are no files behind the model")
    assert other.startswith("other.tflite cannot be used. This is not a TFLite file")
    assert dynamic.endswith("a dynamic length, which LiteRT.js does not run; convert it with lengths=128.")
    assert opened == "int8.tflite: 3 labels, up to 16 tokens"
    np.testing.assert_allclose(answers_of(seen, texts), runtime_answers(path, texts), atol=1e-4)
