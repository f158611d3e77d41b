"""A `Seq2Seq` served: strings give the texts of Keras, by a graph with a loop of ops that stock servers have."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf
import tiny_tasks
from places import HELPERS
from saved_model_servers import ServedModel, saved_graph

import export
from export.serving.generation import served_variants
from export.serving.saving import save_serving
from export.serving.text import join_tokens
from keras_bert.decoding.written_text import write_text
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.generation.sampling import Decoding
from tests.export.serving.test_saved_model import CORE_OPS, TEXT_OPS
from tests.export.tflite.test_generation import TARGET, TEXTS, the_task

pytestmark = pytest.mark.slow

# Beside what other tasks need. All are in TensorFlow 2.12's `tf.raw_ops`.
MORE_OPS = """
    Any BatchMatMulV2 FloorDiv FloorMod GatherV2 Log LogicalAnd Pow RealDiv ReduceJoin ScatterNd StaticRegexReplace Sum
    UnsortedSegmentJoin While
"""
STRINGS = [text for text in TEXTS if isinstance(text, str)]
BEAMS = {"sampler": "beam", "num_beams": 3, "length_penalty": 0.5, "min_length": 2, "no_repeat_ngram": 2}


def keras_texts(texts, **choice):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* sources were cut")
        return the_task().predict(texts, **choice)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return save_serving(the_task(), tmp_path_factory.mktemp("serving") / "writer", decodings={"careful": BEAMS})


@pytest.fixture(scope="module")
def served(artifact):
    return ServedModel("writer", artifact.path)


# === The same texts ===


@pytest.mark.slow
def test_equals_keras_in_a_fresh_process(artifact, tmp_path):
    requests = {name: {"text": STRINGS} for name in ("generate", "generate_careful")}
    job = {"directory": str(artifact.path), "requests": requests}
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, HELPERS / "saved_model_reader.py", tmp_path / "job.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    greedy, beams = keras_texts(STRINGS), keras_texts(STRINGS, **BEAMS)
    assert greedy != beams and len(set(greedy)) > 6 < len(set(beams))
    for answers in json.loads(done.stdout.splitlines()[-1]).values():  # two loaders
        assert answers["generate"]["written"] == greedy
        assert answers["generate_careful"]["written"] == beams
        assert answers["generate"]["truncated"] == [len(text.split()) > 22 for text in STRINGS]


def test_ids_take_sources_of_several_texts(served):
    task, turns = the_task(), TEXTS[3]
    rows = task._source_rows([tuple(turns)], task.writer(Decoding())[1])
    ids, mask = task.padded([[*rows[0], task.tokenizer.pad_id]])
    mask[0, -1] = 0
    answers = served.predict("writer", "from_ids", {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": mask})
    assert answers["written"][0].decode() == keras_texts([turns])[0]


def test_the_default_is_generate_and_takes_no_texts_empty_ones_and_broken_bytes(served):
    answers = served.predict("writer", "serving_default", {"text": tf.constant(STRINGS)})
    assert [text.decode() for text in answers["written"]] == keras_texts(STRINGS)
    none = served.predict("writer", "generate", {"text": tf.constant([], tf.string)})
    assert none["written_ids"].shape == (0, TARGET) and len(none["written"]) == 0
    texts = tf.constant([b"", b"w1 \xff\xc3 w2 w3"])
    answers = served.predict("writer", "generate_careful", {"text": texts})
    assert answers["written"][1].decode() == keras_texts(["w1 \ufffd\ufffd w2 w3"], **BEAMS)[0]


def test_texts_are_joined_as_on_the_device():
    """Random rows of the tokens that the rules are about."""
    words = "a|B|é|3|²|½|中|。|(|)|[|\"|'|’|-|/|.|,|:|!|#|s|T|re|ll|İ|«|x-y"
    vocabulary = [*words.split("|"), "##s", "##.", "##", "##中", "##LL"]
    random = np.random.default_rng(3)
    ids = random.integers(0, len(vocabulary), (4000, 9)).astype(np.int32)
    lengths = random.integers(0, 10, 4000).astype(np.int32)
    found = join_tokens(tf.constant(ids), tf.constant(lengths), vocabulary).numpy()
    for row, length, text in zip(ids, lengths, found, strict=True):
        tokens = [vocabulary[index] for index in row[:length]]
        assert text.decode() == write_text(tokens), tokens


# === The file ===


def test_graph_has_no_op_that_stock_servers_lack(artifact):
    graph = saved_graph(artifact.path).graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    ops = {node.op for node in nodes} - {function.signature.name for function in graph.library.function}
    assert ops - TEXT_OPS - set(CORE_OPS.split()) - set(MORE_OPS.split()) == set()
    assert "While" in ops and not any("Xla" in op for op in ops)


def test_describes_itself(artifact):
    signatures = {signature.name: signature for signature in artifact.signatures}
    assert set(signatures) == {"serving_default", "generate", "generate_careful", "from_ids"}
    assert signatures["generate"].inputs == ("text",)
    assert signatures["generate"].outputs == ("truncated", "written", "written_ids")
    assert artifact.max_error == 0.0
    page = (artifact.path / "README.md").read_text(encoding="utf-8")
    assert "A text is cut to 24 tokens" in page and "`written` is the text" in page


def test_is_verified_with_the_task(artifact):
    report = export.verify(the_task(), artifact, STRINGS)
    assert report.same_texts == report.agreement == 1.0
    report.check()


# === What goes wrong ===


def test_what_cannot_be_served(tmp_path):
    with pytest.raises(ValueError, match=r"sampler='top_k' in decodings\['luck'\]; expected 'greedy' or 'beam'"):
        save_serving(the_task(), tmp_path / "writer", decodings={"luck": {"sampler": "top_k"}})
    with pytest.raises(ValueError, match="max_length=9; expected at most target_length=8"):
        save_serving(the_task(), tmp_path / "writer", decodings={"long": {"max_length": 9}})
    classifier = TextClassifier.from_pretrained(tiny_tasks.pretrained_directory(), labels=["a", "b"])
    with pytest.raises(ValueError, match="decodings=, which is for tasks that write; 'classification' does not"):
        save_serving(classifier, tmp_path / "classes", decodings={})
    assert list(served_variants(None)) == ["generate", "generate_beam"]
    assert not list(tmp_path.rglob("saved_model.pb"))
