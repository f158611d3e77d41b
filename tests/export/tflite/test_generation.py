"""A `Seq2Seq` on the device: its file writes the tokens of Keras, greedily and with beams, without TensorFlow."""

import functools
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import tiny_tasks
from places import ROOT

import export
from export.file.contents import describe
from export.file.ops import audit_ops
from export.recipes import RECIPES
from export.runtime import Runtime, load
from export.runtime.writer import Writer
from export.tflite import generation as writer_files
from export.verification.parity import VerificationError
from keras_bert.model.config import BertConfig
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.generation.task import Seq2Seq
from keras_bert.text.tokenizer import BertTokenizer

pytestmark = pytest.mark.slow

WORDS = [
    *(f"w{number}" for number in range(30)),
    "##s",
    "##ing",
    ",",
    ".",
    "'",
    "s",
    "-",
    '"',
    "(",
    ")",
    "3",
    "中",
    "文",
]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "[unused1]", ""]  # SimBERT has an empty one too
LENGTHS, TARGET = (12, 24), 8
TEXTS = [
    "w1 w2 w3",
    "w4s w5, (w6) 中文 w7",
    " ".join(WORDS[:30]),  # is cut
    ["w9 w8", "", "w2 w11"],  # turns
    *(f"w{number} w{number * 7 % 30} w{number * 11 % 30}" for number in range(12, 24)),
]


@functools.cache
def the_task():
    """A writer with random weights that writes texts of several lengths; its table has rows without a token."""
    config = BertConfig(
        vocabulary_size=len(VOCABULARY) + 1,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=40,
    )
    task = Seq2Seq.from_scratch(config, BertTokenizer(VOCABULARY), seed=1, sequence_length=32, target_length=TARGET)
    random = np.random.default_rng(0)
    for weight in task.model.weights:
        if "norm" not in weight.path:
            weight.assign(random.normal(0, 0.25 if "embedding" in weight.path else 0.5, weight.shape))
    bias = random.normal(0, 0.3, config.vocabulary_size)
    bias[task.tokenizer.sep_id] += 3.5
    task.model.get_layer("mlm_bias").bias.assign(bias)
    return task


@pytest.fixture(scope="module", autouse=True)
def drawn():
    """One float graph for all files: graph it takes most of the time."""
    convert, kept = writer_files.convert_saved_model, []

    def convert_once(archive, keys):
        kept.extend([] if kept else [convert(archive, keys)])
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_files, "convert_saved_model", convert_once)
        yield


@pytest.fixture(scope="module")
def files(drawn, tmp_path_factory):
    """Files by recipe."""
    place = tmp_path_factory.mktemp("writers")
    return {
        recipe: export.convert(
            the_task(),
            place / f"{recipe}.tflite",
            recipe=recipe,
            lengths=LENGTHS,
            num_beams=3,
            check=recipe != "weight_int4",  # random weights suffer more than trained ones
        )
        for recipe in ("float32", "float16", "dynamic_int8", "weight_int4")
    }


@pytest.fixture(scope="module")
def write(files):
    return load(files["float32"].path)


def keras_texts(texts, **choice):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* sources were cut")
        return the_task().predict(texts, **choice)


# === The same texts ===


def test_greedy_texts_are_those_of_keras(write):
    expected = keras_texts(TEXTS)
    assert len(set(expected)) > len(TEXTS) / 2 and len({len(text.split()) for text in expected}) >= 3
    assert write(TEXTS) == expected
    assert write(TEXTS[0]) == expected[0]


def test_beams_are_those_of_keras(files):
    choice = {"sampler": "beam", "num_beams": 3, "length_penalty": 0.5, "min_length": 2, "no_repeat_ngram": 2}
    expected, write = keras_texts(TEXTS, **choice), load(files["float32"].path)
    assert len(set(expected)) > len(TEXTS) / 2 and len({len(text.split()) for text in expected}) >= 3
    assert write(TEXTS, **choice) == expected  # in one run of the graph for three
    for graphs in write._runner._graphs:
        del graphs.steps[3]
    assert write(TEXTS, **choice) == expected  # one after the other


def test_streams_what_it_writes(write):
    for text in TEXTS[:4]:
        pieces = list(write.stream(text, min_length=4))
        assert "".join(pieces) == write([text], min_length=4)[0] and len(pieces) > 2


def test_chance_goes_by_its_seed(write):
    draws = [write(TEXTS[0], sampler="top_p", p=0.95, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert write(TEXTS, sampler="top_k", k=1) == write(TEXTS)


def test_writes_without_tensorflow_and_keras(files, write):
    code = (
        "import json, sys\n"
        "sys.modules.update(tensorflow=None, keras=None, keras_hub=None)\n"
        "from export.runtime import load\n"
        f"write = load({str(files['float32'].path)!r})\n"
        f"texts = json.loads({json.dumps(json.dumps(TEXTS))})\n"
        "print(json.dumps([write(texts), write(texts[:3], sampler='beam', num_beams=3), list(write.stream(texts[0]))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    texts, beams, pieces = json.loads(done.stdout.splitlines()[-1])
    assert texts == keras_texts(TEXTS) and "".join(pieces) == texts[0]
    assert beams == write(TEXTS[:3], sampler="beam", num_beams=3)


# === The file ===


def test_graphs_share_their_weights_and_need_no_loop(files):
    values = sum(int(np.prod(weight.shape)) for weight in the_task().model.weights)
    table = the_task().config.vocabulary_size * 32
    summary = describe(files["float32"].path)
    assert sorted(signature.name for signature in summary.signatures) == sorted(
        f"{name}_{length}" for name in ("read_source", "next_token", "next_tokens") for length in LENGTHS
    )
    # Six graphs; beside the weights they store the positions' first rows, and shapes.
    assert 0.95 < summary.bytes_by_type["FLOAT32"] / (4 * values) < 1.1
    assert not {"WHILE", "IF", "CALL_ONCE"} & set(summary.ops) and not summary.custom_ops
    small = describe(files["dynamic_int8"].path).bytes_by_type
    matrices = sum(int(np.prod(w.shape)) for w in the_task().model.weights if w.path.endswith("kernel"))
    assert small["INT8"] == matrices + table + 40 * 32 * (40 * 32 >= 4096)  # the table once, though it is read twice
    four = describe(files["weight_int4"].path).bytes_by_type
    assert four["INT4"] == matrices / 2 and four["INT8"] == table
    for recipe in ("float32", "dynamic_int8"):
        partitions = audit_ops(files[recipe].path, count_partitions=True).partitions
        assert len(partitions) == 6 and set(partitions.values()) == {1}, recipe


def test_every_recipe_gives_the_scores_of_keras(files):
    for recipe, tokens, texts in (("float32", 1, 1), ("float16", 0.97, 0.8), ("dynamic_int8", 0.9, 0.3)):
        report = export.verify(the_task(), files[recipe], TEXTS)
        assert report.relative_error <= RECIPES[recipe].tolerance and report.tokens_differ == 0
        assert report.agreement >= tokens and report.same_texts >= texts, report
    assert "same texts      " in str(report)
    assert files["dynamic_int8"].num_bytes < files["float32"].num_bytes
    assert load(files["weight_int4"].path)(TEXTS[:2], max_length=2)  # runs


def test_another_models_file_is_found_out(files):
    kernel = the_task().model.get_layer("block_0").attention.key.kernel
    before = kernel.numpy()
    kernel.assign(before * 1.01)
    try:
        with pytest.raises(VerificationError, match="outputs differ by"):
            export.verify(the_task(), files["float32"], TEXTS[:4]).check()
        with pytest.raises(VerificationError, match="scores differ by"):
            writer_files.check_writer(the_task(), files["float32"].path.read_bytes(), RECIPES["float32"])
    finally:
        kernel.assign(before)


def test_targets_are_scored(files):
    pairs = list(
        zip([text for text in TEXTS if isinstance(text, str)], keras_texts(TEXTS)[:3] + TEXTS[4:], strict=False)
    )
    report = export.verify(the_task(), files["float32"], pairs).check()
    assert report.metric == "accuracy" and report.keras_score == report.file_score
    assert 0.05 < report.file_score < 0.9


@pytest.mark.filterwarnings("ignore:.* sources were cut")
def test_a_package_has_the_file_and_golden_texts(files, tmp_path, monkeypatch):
    monkeypatch.setattr(the_task(), "keeps", "end")
    package = export.write_package(the_task(), tmp_path, lengths=LENGTHS, data=TEXTS, check=False)
    assert package.artifact.lengths == LENGTHS and package.report.agreement > 0.8
    golden = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    write = load(tmp_path)
    assert type(write) is Writer and [row["answer"] for row in golden] == write(TEXTS)
    assert golden[2]["token_ids"][-2] == write.reader.tokenizer.token_to_id("w29")  # the end of a long source is read
    assert all(isinstance(token, int) for token in golden[0]["outputs"]["written_ids"])


# === What goes wrong ===


def test_what_cannot_be_converted(tmp_path):
    path, task = tmp_path / "model.tflite", the_task()
    with pytest.raises(ValueError, match="needs calibration, which files that write do not support"):
        export.convert(task, path, recipe="static_int8")
    for lengths in ("dynamic", None, 2, (12, 25), ()):
        with pytest.raises(ValueError, match=r"from 3 to 24, which is sequence_length=32 without target_length=8"):
            export.convert(task, path, lengths=lengths)
    with pytest.raises(ValueError, match="num_beams=1; expected a whole number of at least 2"):
        export.convert(task, path, num_beams=1)
    with pytest.raises(ValueError, match="calibration=, which tasks that write do not use"):
        export.convert(task, path, calibration=["w1"])
    classifier = TextClassifier.from_pretrained(tiny_tasks.pretrained_directory(), labels=["a", "b"])
    with pytest.raises(ValueError, match="num_beams=2, which is for tasks that write; TextClassifier does not"):
        export.convert(classifier, path, num_beams=2)
    assert not path.exists()


def test_what_cannot_be_written(write, files):
    for texts, error in (
        ([""], "Text 1: empty source"),
        ([["", " "]], "empty source"),
        ([3], "neither a text nor a list"),
    ):
        with pytest.raises(ValueError, match=error):
            write(texts)
    assert write([]) == []
    with pytest.raises(ValueError, match="max_length=9; the file writes at most 8 tokens"):
        write("w1", max_length=9)
    with pytest.raises(TypeError, match="expected a name on a device"):
        write("w1", sampler=object())
    with pytest.raises(ValueError, match="Beams cannot be streamed"):
        next(write.stream("w1", sampler="beam"))
    with pytest.raises(ValueError, match="min_length=9 exceeds max_length=8"):
        write("w1", min_length=9)
    with pytest.raises(ValueError, match="is for the task 'seq2seq'"):
        type("Other", (Runtime,), {"task": "tagging"})(files["float32"].path)
