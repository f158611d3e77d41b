"""Metadata changes nothing but itself, comes back as it was given, and a file from a stranger does no harm."""

import io
import json
import subprocess
import sys
import tracemalloc
import zipfile

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from places import ROOT
from tensorflow.lite.python import schema_py_generated as tflite
from tiny_tasks import VOCABULARY, pretrained_directory
from tiny_tflite import answerer, classifier, to_tflite

from export.file.contents import read_signatures
from export.file.metadata import add_metadata, describe_task
from export.file.metadata_reader import read_metadata
from keras_bert.tasks.classification.task import TextClassifier

LABELS = ("good", "bad", "so so")
TOKENIZER = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
SETTINGS = {
    "task": "classification",
    "kind": "single_label",
    "labels": LABELS,
    "vocabulary": VOCABULARY,
    "tokenizer": TOKENIZER,
    "settings": {"sequence_length": 16, "long_texts": "truncate"},
    "name": "réviews",
    "description": "Good or bad?",
}


@pytest.fixture(scope="module")
def plain():
    """A file with two signatures that share their weights, as the converter wrote it."""
    return to_tflite(classifier(), lengths=(16, 8), optimize=True)


@pytest.fixture(scope="module")
def described(plain):
    return add_metadata(plain, **SETTINGS)


def with_files(content, files, **options):
    """A TFLite file with an archive behind it that `add_metadata` would not write."""
    buffer = io.BytesIO(content)
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name) if not options else name, content)
    return buffer.getvalue()


def archive_of(content):
    """The files behind a TFLite file, in order, and the file without them."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        return files, content[: min(entry.header_offset for entry in archive.infolist())]


def pack_file(file):
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


# === Writing ===


def test_everything_but_the_metadata_is_as_it_was(plain, described):
    before, after = (tflite.ModelT.InitFromPackedBuf(content, 0) for content in (plain, described))
    added, count = after.metadata.pop(), len(before.buffers)
    assert added.name == b"TFLITE_METADATA"
    assert added.buffer == count == len(after.buffers) - 1
    assert bytes(after.buffers.pop().data[4:8]) == b"M001"

    def tree(value):
        if isinstance(value, list | tuple):
            return [tree(item) for item in value]
        return {name: tree(item) for name, item in vars(value).items()} if hasattr(value, "__dict__") else value

    np.testing.assert_equal(tree(after), tree(before))
    assert len(before.subgraphs) == 2


def test_weights_stay_aligned_and_answers_are_the_same_bits(plain, described):
    old, new = (
        [buffer.Vector(buffer.Offset(4)) for buffer in buffers if buffer.Offset(4)]
        for buffers in (
            [root.Buffers(index)._tab for index in range(root.BuffersLength())]
            for root in (tflite.Model.GetRootAs(content, 0) for content in (plain, described))
        )
    )
    assert len({(after - before) for before, after in zip(old, new[:-1], strict=True)}) == 1  # moved as one
    assert (new[0] - old[0]) % 64 == 0
    assert new[-1] % 16 == 0
    ids = np.random.default_rng(0).integers(0, len(VOCABULARY), (1, 8)).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": np.ones_like(ids)}
    old, new = (
        Interpreter(model_content=content).get_signature_runner("length_8")(**inputs)["probabilities"]
        for content in (plain, described)
    )
    np.testing.assert_array_equal(old, new)


def test_what_was_added_comes_back(described, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(described)
    metadata = read_metadata(path)
    assert metadata == read_metadata(described)
    assert (metadata.task, metadata.kind, metadata.labels) == ("classification", "single_label", LABELS)
    assert (metadata.name, metadata.description) == ("réviews", "Good or bad?")
    assert metadata.vocabulary == tuple(VOCABULARY)
    assert metadata.tokenizer == TOKENIZER
    assert metadata.settings == SETTINGS["settings"]
    assert list(metadata.signatures.items()) == [("length_8", 8), ("length_16", 16)]
    assert metadata.outputs == ("probabilities",)
    assert str(metadata) == "réviews  classification  lengths 8/16  3 labels  21 tokens"


def test_same_input_gives_the_same_bytes(plain, described):
    assert add_metadata(plain, **SETTINGS) == described


def test_task_describes_itself(plain):
    task = TextClassifier.from_pretrained(pretrained_directory(), labels=LABELS, sequence_length=16)
    metadata = read_metadata(add_metadata(plain, **describe_task(task)))
    assert (metadata.labels, metadata.vocabulary) == (LABELS, tuple(VOCABULARY))
    assert metadata.tokenizer == TOKENIZER
    assert metadata.settings["sequence_length"] == 16


def test_tasks_without_labels_and_dynamic_lengths():
    content = to_tflite(answerer(32), lengths=(None,))
    assert {tensor.shape for tensor in read_signatures(content)[0].inputs.values()} == {(1, -1)}
    metadata = read_metadata(add_metadata(content, task="answers", vocabulary=VOCABULARY, tokenizer=TOKENIZER))
    assert (metadata.labels, metadata.kind, metadata.signatures) == (None, None, {"length_None": None})
    assert set(metadata.outputs) == {"start_logits", "end_logits"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ("good", "bad")}, "has 3 probabilities and there are 2 labels"),
        ({"labels": None}, "has 3 probabilities and there are 0 labels"),
        ({"labels": ("good", "bad\n", "so so")}, "labels has 'bad\\\\n' at 1"),
        ({"labels": ("good", "", "so so")}, "labels has '' at 1"),
        ({"labels": ("good", "bad", "bad")}, "twice"),
        ({"vocabulary": VOCABULARY[1:]}, "The vocabulary has no \\[PAD\\]"),
        ({"vocabulary": [*VOCABULARY, ""]}, "The vocabulary has '' at 21"),
        ({"tokenizer": {"do_lower_case": "yes"}}, "is not what export.convert writes"),
    ],
)
def test_bad_descriptions_are_named(plain, changes, message):
    with pytest.raises(ValueError, match=message):
        add_metadata(plain, **(SETTINGS | changes))


def test_classifier_without_probabilities_is_refused():
    content = to_tflite(answerer(32))
    with pytest.raises(ValueError, match="a classifier for apps gives 'probabilities'"):
        add_metadata(content, **SETTINGS)


def test_buffers_behind_the_flatbuffer_are_refused(plain):
    file = tflite.ModelT.InitFromPackedBuf(plain, 0)
    file.buffers[2].offset, file.buffers[2].size, file.buffers[2].data = 4096, 64, None
    with pytest.raises(ValueError, match="Buffer 2 is stored after the flatbuffer.*inline first"):
        add_metadata(pack_file(file), **SETTINGS)


def test_weights_in_other_files_are_refused(plain):
    """TFLite's schema has two fields for that, behind the eight that we know; this fails where it gets another."""
    file = tflite.ModelT.InitFromPackedBuf(plain, 0)
    assert list(vars(file))[8:] == ["externalBufferGroups", "externalBuffers"]
    assert list(vars(tflite.BufferT())) == ["data", "offset", "size"]
    file.externalBuffers = [tflite.ExternalBufferT()]
    with pytest.raises(ValueError, match="weights are in separate files"):
        add_metadata(pack_file(file), **SETTINGS)


def test_only_whole_tflite_files_get_metadata(plain, described):
    with pytest.raises(ValueError, match="has metadata already"):
        add_metadata(described, **SETTINGS)
    with pytest.raises(ValueError, match="is not a TFLite file"):
        add_metadata(b"PK\3\4 and more", **SETTINGS)
    for size in (8, 40, 200, 2000):
        with pytest.raises(ValueError, match="is damaged or cut short"):
            add_metadata(plain[:size], **SETTINGS)


def test_damaged_flatbuffers_are_errors(plain):
    """Offsets that point anywhere: a ValueError or a file, within bounds, and never another exception."""
    random, failures = np.random.default_rng(0), 0
    head = min(len(plain), 1 << 12)
    for _ in range(300):
        damaged = bytearray(plain)
        for position in random.integers(8, head, 12):
            damaged[position] = random.integers(256)
        try:
            read_signatures(bytes(damaged))
        except ValueError:
            failures += 1
    assert failures > 30


# === Reading what strangers made ===


def test_cut_files_are_errors(described):
    size = len(described)
    for end in [*range(size - 400, size), *range(0, size, size // 50)]:
        with pytest.raises(ValueError, match="cut short|not a TFLite file|damaged"):
            read_metadata(described[:end])


def test_plain_and_foreign_files_are_errors(plain, described, tmp_path):
    with pytest.raises(ValueError, match="cut short, or written without metadata"):
        read_metadata(plain)
    with pytest.raises(ValueError, match="is not a TFLite file"):
        read_metadata(b"")
    path = tmp_path / "model.zip"
    path.write_bytes(with_files(b"", [("vocab.txt", b"a\n")]))
    with pytest.raises(ValueError, match="model.zip cannot be used.*is not a TFLite file"):
        read_metadata(path)
    with pytest.raises(FileNotFoundError):
        read_metadata(tmp_path / "none.tflite")
    assert read_metadata(described)


@pytest.mark.parametrize("missing", ["vocab.txt", "keras_bert_task.json"])
def test_missing_files_are_named(described, missing):
    files, content = archive_of(described)
    with pytest.raises(ValueError, match=f"It has no {missing}"):
        read_metadata(with_files(content, [(name, files[name]) for name in files if name != missing]))


@pytest.mark.parametrize("name", ["../labels.txt", "/etc/passwd", "..", "a\\b", "C:x", "directory/"])
def test_strange_names_are_refused(described, name):
    files, content = archive_of(described)
    with pytest.raises(ValueError, match="expected plain names"):
        read_metadata(with_files(content, [*files.items(), (name, b"x")]))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")  # zipfile's own, while the test writes
def test_bombs_are_refused_before_they_are_read(described):
    files, content = archive_of(described)
    rest = [item for item in files.items() if item[0] != "vocab.txt"]
    bombs = {
        "compressed or encrypted": with_files(
            content, [*rest, ("vocab.txt", b"a" * (64 << 20))], compression=zipfile.ZIP_DEFLATED
        ),
        "has 33,554,432 bytes; expected at most": with_files(content, [*rest, ("vocab.txt", b"a" * (32 << 20))]),
        "more than 1,000,000 lines": with_files(content, [*rest, ("vocab.txt", b"\n" * (8 << 20))]),
        "claims 40000 files": with_files(content, [(f"{index}", b"") for index in range(40_000)]),
        "each once": with_files(content, [*files.items(), ("vocab.txt", b"a")]),
        "cut short": with_files(content, list(files.items()))[:-2] + b"\1\0x",  # a comment
    }
    for message, content in bombs.items():
        tracemalloc.start()
        with pytest.raises(ValueError, match=message):
            read_metadata(content)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 24 << 20, message


def test_sizes_that_are_not_true_are_errors(described):
    """The directory says 4 GB for every file; and the entries of an archive of the large kind."""
    end = described.rindex(b"PK\5\6")
    lying, position = bytearray(described), described.index(b"PK\1\2", 0, end)
    while position != -1:
        lying[position + 20 : position + 28] = b"\xf0\xff\xff\xff" * 2
        position = lying.find(b"PK\1\2", position + 4, end)
    with pytest.raises(ValueError, match="4,294,967,280 bytes; expected at most"):
        read_metadata(bytes(lying))
    large = described[:end] + b"PK\6\7" + bytes(16) + described[end:]
    with pytest.raises(ValueError, match="expected at most 16"):
        read_metadata(large)


def test_a_directory_that_is_not_where_it_should_be_is_damage(described, tmp_path):
    """The files would begin before the file does, which an open file calls an invalid argument."""
    path, moved = tmp_path / "model.tflite", bytearray(described)
    end = described.rindex(b"PK\5\6")
    moved[end + 16 : end + 20] = b"\xff\xff\xff\x7f"
    path.write_bytes(moved)
    for source in (path, bytes(moved)):
        with pytest.raises(ValueError, match="behind the model are damaged"):
            read_metadata(source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (b"{", "Expecting property name"),
        (b"[" * 500_000, "recursion"),
        (b"[]", "has format 'list'"),
        (b"\xff\xfe", "codec can't decode"),
        ({"format": 2}, "has format 2; this version reads 1"),
        ({"signatures": {}}, "is not what export.convert writes"),
        ({"signatures": {"length_8": 10**12}}, "is not what export.convert writes"),
        ({"signatures": {"length_8": "8"}}, "is not what export.convert writes"),
        ({"outputs": [1]}, "is not what export.convert writes"),
        ({"tokenizer": {"do_lower_case": {}}}, "is not what export.convert writes"),
        ({"settings": None}, "is not what export.convert writes"),
        ({"kind": 0}, "is not what export.convert writes"),
        ({"task": None}, "is not what export.convert writes"),
    ],
)
def test_settings_that_make_no_sense_are_errors(described, change, message):
    files, content = archive_of(described)
    if isinstance(change, dict):
        change = json.dumps(json.loads(files["keras_bert_task.json"]) | change).encode()
    files["keras_bert_task.json"] = change
    with pytest.raises(ValueError, match=message):
        read_metadata(with_files(content, files.items()))


def test_damage_anywhere_behind_the_model_is_an_error_or_harmless(described):
    random, begin, errors = np.random.default_rng(1), described.index(b"PK\3\4"), 0
    for _ in range(2000):
        damaged = bytearray(described)
        for position in random.integers(begin, len(described), random.integers(1, 8)):
            damaged[position] = random.integers(256)
        try:
            metadata = read_metadata(bytes(damaged))
        except ValueError:
            errors += 1
        else:  # in a date or another field that says nothing about the files
            assert (metadata.labels or LABELS, metadata.vocabulary) == (LABELS, tuple(VOCABULARY))
    assert errors > 1000


def test_reading_loads_no_tensorflow(described, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(described)
    code = (
        "import sys; from export.file.metadata_reader import read_metadata; read_metadata(sys.argv[1]); "
        "print([m for m in ('tensorflow', 'keras', 'ai_edge_litert') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
