"""A served model answers as the Keras model does, in every loader that a server could have."""

import importlib.util
import json
import os
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2
from places import HELPERS, ROOT
from saved_model_servers import ServedModel, grpc_server, rest_server, saved_graph, signature_definitions
from tensorflow_serving.apis import prediction_log_pb2

import export.serving.saving
from export.serving.saving import save_serving
from export.verification.parity import VerificationError, verify
from keras_bert.cli import main
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer

LABELS = ["schlecht", "良い", "so so 😐"]
WORDS = "the a film plot was very good bad un ##able ##s , . ! ( é ñ 中 文 电 影 很 好 看 😀 👍 🏽 ½ ﷽ ক ি ह ि א ב"
SEQUENCE_LENGTH = 16
TOLERANCE = 1e-5

# The ops of tensorflow-text in a graph may be these alone (TF Serving 2.12 to 2.19 links tensorflow-text 2.12.1).
TEXT_OPS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
# Core ops that TensorFlow 2.12 has. A new one: see that it is in `tf.raw_ops` of 2.12 before it goes on the list.
CORE_OPS = """
    AddN AddV2 All ArgMax Assert AssignVariableOp BatchMatMulV2 BiasAdd BroadcastTo Cast ConcatV2 Const Cumsum
    DenseBincount DisableCopyOnRead Equal Erf Erfc ExpandDims Fill GatherV2 Greater GreaterEqual Identity If
    Less LessEqual LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean MergeV2Checkpoints Minimum Mul Neg
    NoOp NotEqual OnesLike Pack ParseExampleV2 PartitionedCall Placeholder Prod RaggedGather RaggedRange
    RaggedTensorToTensor Range ReadVariableOp Reshape RestoreV2 Rsqrt SaveV2 Select SelectV2 Shape
    ShardedFilename Sigmoid Size Softmax SquaredDifference Squeeze StatefulPartitionedCall StatelessIf
    StaticRegexFullMatch StopGradient StridedSlice StringJoin StringLength StringSplitV2 Sub Tanh Tile TopKV2
    Transpose UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode UnsortedSegmentSum VarHandleOp Where
    ZerosLike
"""


def make_task(kind="single_label", *, labels=LABELS, **options):
    """A classifier with random weights, large enough that texts get different answers."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
    config = BertConfig(
        vocabulary_size=len(vocabulary),
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=SEQUENCE_LENGTH,
        initializer_range=0.5,
    )
    model = bert_model(config, "classification", num_classes=len(labels or [""]), seed=5)
    return TextClassifier(model, BertTokenizer(vocabulary), labels=labels, kind=kind, **options)


def make_texts(count, *, seed=0):
    """Texts of 0 to 24 words in several scripts, with emoji, marks, long words and characters that BERT drops."""
    random = np.random.default_rng(seed)
    rare = [
        "x" * 120,
        "e\u0301\u0323",
        "\x00",
        "\ufeff",
        "\ufffd",
        "\u2028",
        "GOOD",
        "Ünable",
        "\U0010ffff",
        "ﬁlm",
        "İ",
    ]
    words = [*(word.removeprefix("##") for word in WORDS.split()), *rare]
    return [
        "".join(str(random.choice(words)) + " " * int(random.random() < 0.8) for _ in range(random.integers(0, 25)))
        for _ in range(count)
    ]


def keras_answers(task, rows):
    """Labels and probabilities by `predict`, probabilities in the order of the labels."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* texts were cut to .* tokens")
        ranked = task.predict(rows, **({"threshold": 0.0} if task.kind == "multi_label" else {}))
    by_name = [{label.name: label.probability for label in labels} for labels in ranked]
    return [labels[0].name for labels in ranked], np.array([[row[name] for name in task.labels] for row in by_name])


TEXTS = ["", *make_texts(999)]
PAIRS = list(zip(TEXTS[:200], TEXTS[200:400], strict=True))
WARMUP = PAIRS[:40]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def syncs():
    """Which files and directories had been synced when the version appeared, and which it has."""
    return {}


@pytest.fixture(scope="module")
def artifact(task, syncs, tmp_path_factory):
    synced, fsync, rename = set(), os.fsync, os.rename

    def record_fsync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_rename(partial, target):
        assert partial.parent == target.parent and not partial.name.isdecimal()
        syncs.update(needed={path.stat().st_ino for path in [partial, *partial.rglob("*")]}, done=set(synced))
        rename(partial, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", record_fsync)
        patch.setattr(os, "rename", record_rename)
        return save_serving(task, tmp_path_factory.mktemp("serving") / "reviews", version=7, warmup_texts=WARMUP)


@pytest.fixture(scope="module")
def expected(task):
    """What Keras says to the texts and the pairs."""
    labels, probabilities = keras_answers(task, TEXTS)
    assert len(set(labels)) == 3 and probabilities.std() > 0.1  # or equality would mean nothing
    return {"serving_default": (labels, probabilities), "serving_pairs": keras_answers(task, PAIRS)}


@pytest.fixture(scope="module")
def served(artifact):
    return ServedModel("reviews", artifact.path)


def check_answers(answers, expected):
    labels, probabilities = expected
    np.testing.assert_allclose(answers["probabilities"], probabilities, atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(answers["probability"], probabilities.max(-1), atol=TOLERANCE, rtol=0)
    close = np.diff(np.sort(probabilities, axis=-1)[:, -2:]).ravel() < 2 * TOLERANCE  # either label is right
    assert all(ours == theirs or tie for ours, theirs, tie in zip(answers["label"], labels, close, strict=True))


# === Loaders ===


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "loaders"), [("saved_model_reader.py", {"load", "session"}), ("saved_model_c_api.py", {"c_api"})]
)
def test_equals_keras_in_a_fresh_process(artifact, expected, tmp_path, script, loaders):
    requests = {
        "serving_default": {"text": TEXTS},
        "serving_pairs": {"text": [text for text, _ in PAIRS], "pair": [pair for _, pair in PAIRS]},
    }
    definitions = signature_definitions(artifact.path)
    tensors = {
        name: {
            side: {key: info.name for key, info in getattr(definitions[name], side).items()}
            for side in ("inputs", "outputs")
        }
        for name in requests
    }
    job = {"directory": str(artifact.path), "requests": requests, "tensors": tensors}
    (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [sys.executable, HELPERS / script, tmp_path / "job.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert set(answers) == loaders
    for by_signature in answers.values():
        for name in requests:
            check_answers(by_signature[name], expected[name])


def test_ids_give_the_raw_outputs(task, served):
    batch = pack(task.tokenizer, TEXTS[:50], sequence_length=SEQUENCE_LENGTH)
    answers = served.predict("reviews", "from_ids", batch)
    logits = task.model(batch, training=False)["class_logits"].numpy()
    np.testing.assert_allclose(answers["class_logits"], logits, atol=TOLERANCE)
    np.testing.assert_allclose(answers["probabilities"].sum(-1), 1.0, atol=TOLERANCE)


def test_says_which_texts_were_cut(task, served):
    answers = served.predict("reviews", "serving_default", {"text": tf.constant(TEXTS)})
    lengths = task.tokenizer(TEXTS).row_lengths().numpy() + 2
    assert 100 < np.sum(lengths > SEQUENCE_LENGTH) < 900
    np.testing.assert_array_equal(answers["truncated"], lengths > SEQUENCE_LENGTH)


def test_empty_batch_and_broken_bytes(task, served):
    none = served.predict("reviews", "serving_default", {"text": tf.constant([], tf.string)})
    assert none["probabilities"].shape == (0, 3)
    answers = served.predict("reviews", "serving_default", {"text": tf.constant([b"bad \xff\xc3 film", b"good"])})
    _, probabilities = keras_answers(task, ["bad \ufffd\ufffd film", "good"])
    np.testing.assert_allclose(answers["probabilities"], probabilities, atol=TOLERANCE)


# === TF Serving's files ===


def test_graph_has_no_op_that_stock_tf_serving_lacks(artifact):
    graph = saved_graph(artifact.path).graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    ops = {node.op for node in nodes} - {function.signature.name for function in graph.library.function}
    assert ops >= TEXT_OPS  # the list is of the whole graph
    assert ops - TEXT_OPS - set(CORE_OPS.split()) == set()


def test_tokenizer_stands_in_the_file_once(artifact):
    functions = saved_graph(artifact.path).graph_def.library.function
    holders = [f for f in functions if any(node.op == "FastBertNormalize" for node in f.node_def)]
    assert len(holders) == 2  # the tokenizer, and its branch for hard rows: not once for each signature


def test_warmup_requests_replay_with_the_answers_of_keras(task, artifact, served):
    records = tf.data.TFRecordDataset(str(artifact.path / "assets.extra/tf_serving_warmup_requests"))
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records.as_numpy_iterator()]
    assert len(logs) == artifact.warmup_requests == 2 * len(artifact.signatures)  # 40 texts are two requests
    singles, pairs = keras_answers(task, [text for text, _ in WARMUP]), keras_answers(task, WARMUP)
    seen = set()
    for index, log in enumerate(logs):
        rows = slice(0, 32) if index < len(artifact.signatures) else slice(32, 40)
        kind = log.WhichOneof("log_type")
        request = getattr(log, kind).request
        name = request.model_spec.signature_name
        labels, probabilities = (part[rows] for part in (pairs if name.endswith("_pairs") else singles))
        if kind == "predict_log":
            inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
            answers = served.predict("reviews", name, inputs)
            answers["label"] = [label.decode() for label in answers["label"]]
            check_answers(answers, (labels, probabilities))
        else:
            examples = [example.SerializeToString() for example in request.input.example_list.examples]
            ranked = served.classify("reviews", name, examples)
            np.testing.assert_allclose([row[0][1] for row in ranked], probabilities.max(-1), atol=TOLERANCE)
        seen.add((kind, name))
    assert seen == {
        ("predict_log", "serving_default"),
        ("predict_log", "serving_pairs"),
        ("predict_log", "from_ids"),
        ("classify_log", "classify"),
        ("classify_log", "classify_pairs"),
    }


def batching_message():
    """TF Serving's BatchingParameters, which no Python package carries."""
    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")
    names = {"max_batch_size": 1, "batch_timeout_micros": 2, "max_enqueued_batches": 3, "num_batch_threads": 4}
    for name, number in names.items():
        message.field.add(name=name, number=number, type=11, label=1, type_name=".google.protobuf.Int64Value")
    message.field.add(name="allowed_batch_sizes", number=6, type=3, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("BatchingParameters"))()


def test_batching_file_is_a_text_proto(artifact):
    text = (artifact.path.parent / "batching.config").read_text(encoding="utf-8")
    parameters = text_format.Parse(text, batching_message())
    assert list(parameters.allowed_batch_sizes) == [1, 2, 4, 8, 16, 32]
    assert parameters.max_batch_size.value == 32  # must be the last of them


def test_version_appears_whole(artifact, syncs):
    assert syncs["needed"] and syncs["needed"] <= syncs["done"]
    assert sorted(path.name for path in artifact.path.parent.iterdir()) == ["7", "batching.config"]
    assert artifact.path.stat().st_mode & 0o777 == 0o777 & ~_umask()  # readable for a server of another user


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_artifact_prints_what_it_takes_and_gives(artifact):
    first, *lines = str(artifact).splitlines()
    assert first.startswith(f"{artifact.path}  ") and "10 warm-up requests" in first
    assert lines[0] == "serving_default  text → label, probabilities, probability, truncated"
    assert len(lines) == len(artifact.signatures) == 5
    assert artifact.max_error < TOLERANCE
    assert artifact.num_bytes == sum(path.stat().st_size for path in artifact.path.rglob("*") if path.is_file())
    page = (artifact.path / "README.md").read_text(encoding="utf-8")
    assert all(line in page for line in lines) and "-e MODEL_NAME=reviews tensorflow/serving:" in page
    assert f"-v {artifact.path.parent}:/models/reviews:ro" in artifact.docker_command
    labels = (artifact.path / "assets.extra/labels.txt").read_text(encoding="utf-8")
    assert labels.splitlines() == LABELS


# === Clients ===


def load_client(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples/serving" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "server"), [("client_rest", rest_server), ("client_grpc", grpc_server)])
def test_example_client_prints_the_answers_of_keras(task, served, capsys, name, server):
    client, texts = load_client(name), ["中文电影很好看 😀", "the film was very bad", ""]

    def printed(*arguments):
        client.main(["--server", address, "--model", "reviews", *arguments])
        return capsys.readouterr().out.splitlines()

    def formatted(row):
        return [f"{label.name} ({label.probability:.0%})" for label in task.predict([row])[0]]

    with server(served) as address:
        assert [line.split("  ")[-1].strip() for line in printed(*texts)] == [formatted(text)[0] for text in texts]
        assert printed("--ranked", texts[0])[0].endswith(", ".join(formatted(texts[0])))
        pair = printed("--pair", texts[0], "--pair", texts[1])[0]
        assert pair == f"{texts[0]} | {texts[1]}  {formatted((texts[0], texts[1]))[0]}"
        assert printed("--ranked", "--pair", texts[0], "--pair", texts[1])[0].count("%") == 3
        assert printed("very " * 40)[0].endswith("(the text was cut)")


def test_rest_client_shows_the_servers_complaint(served):
    with rest_server(served) as address, pytest.raises(SystemExit, match="answered 400.*Servable not found"):
        load_client("client_rest").main(["--server", address, "--model", "nothing", "a text"])


# === Verification ===


@pytest.mark.filterwarnings("ignore:.* texts were cut")
def test_verification_compares_rows_and_strings(task, artifact, expected):
    labels = expected["serving_default"][0]
    report = verify(task, artifact, TEXTS[1:61], labels[1:61]).check()
    assert report.recipe == "saved_model" and report.examples == sum(map(bool, map(str.strip, TEXTS[1:61])))
    assert report.max_error < TOLERANCE and report.agreement == 1.0 and report.tokens_differ == 0
    assert report.keras_score == report.file_score == 1.0  # Keras's own labels
    assert set(report.ops.ops) >= TEXT_OPS and "XNNPACK" not in str(report)
    pairs = verify(task, artifact.path.parent, PAIRS[:20]).check()  # the highest version
    assert pairs.path == artifact.path and pairs.metric is None


@pytest.mark.filterwarnings("ignore:.* texts were cut")
def test_verification_sees_other_weights_other_tokens_and_other_labels(task, artifact):
    other = make_task()
    other.model.get_layer("classifier").kernel.assign(-task.model.get_layer("classifier").kernel.numpy())
    with pytest.raises(VerificationError, match="saved_model.*outputs differ"):
        verify(other, artifact, TEXTS[1:20]).check()
    cased = TextClassifier(task.model, BertTokenizer(task.tokenizer.vocabulary, lowercase=False), labels=LABELS)
    report = verify(cased, artifact, ["the GOOD film", "the good film"])
    assert report.tokens_differ == 1 and report.relative_error < TOLERANCE
    with pytest.raises(VerificationError, match="1 texts are split into other tokens"):
        report.check()
    with pytest.raises(ValueError, match="has other labels than the task"):
        verify(make_task(labels=["x", "y", "z"]), artifact, TEXTS[:5])


@pytest.mark.slow
def test_the_commands_write_and_verify_a_saved_model(task, tmp_path, capsys):
    task.save(tmp_path / "task")
    (tmp_path / "texts.txt").write_text("the film was good\n中文 电影\n", encoding="utf-8")
    data, model = ["--data", str(tmp_path / "texts.txt"), "--json"], str(tmp_path / "task")
    assert main(["export", model, str(tmp_path / "out"), "--format", "saved_model", "--version", "3", *data]) == 0
    assert json.loads(capsys.readouterr().out) == {"saved_model": str(tmp_path / "out" / "serving" / "3")}
    report = json.loads((tmp_path / "out" / "serving" / "report_3.json").read_text(encoding="utf-8"))
    assert report["examples"] == 2 and report["agreement"] == 1.0
    assert main(["verify", model, str(tmp_path / "out" / "serving"), *data]) == 0
    assert json.loads(capsys.readouterr().out) == report


# === Other tasks and options ===


@pytest.mark.slow
def test_several_labels_are_independent(tmp_path):
    task = make_task("multi_label")
    artifact = save_serving(task, tmp_path / "topics", inputs="texts")
    assert [signature.name for signature in artifact.signatures] == ["serving_default", "classify", "from_ids"]
    served = ServedModel("topics", artifact.path)
    answers = served.predict("topics", "serving_default", {"text": tf.constant(TEXTS[:50])})
    labels, probabilities = keras_answers(task, TEXTS[:50])
    assert np.abs(probabilities.sum(-1) - 1).max() > 0.1  # a sigmoid, not a softmax
    check_answers({**answers, "label": [label.decode() for label in answers["label"]]}, (labels, probabilities))


@pytest.mark.slow
def test_regression_gives_numbers_and_takes_pairs_alone_where_asked(tmp_path):
    task = make_task("regression", labels=None)
    (tmp_path / "similarity").mkdir()
    (tmp_path / "similarity" / "batching.config").write_text("# tuned by hand", encoding="utf-8")
    artifact = save_serving(task, tmp_path / "similarity", inputs="pairs", name="sts")
    names = {signature.name: signature for signature in artifact.signatures}
    assert list(names) == ["serving_default", "regress", "from_ids"]
    assert names["serving_default"].inputs == ("text", "pair") and names["regress"].outputs == ("outputs",)
    definition = signature_definitions(artifact.path)["regress"]
    assert definition.method_name == "tensorflow/serving/regress" and list(definition.inputs) == ["inputs"]
    served = ServedModel("sts", artifact.path)
    inputs = {"text": tf.constant([text for text, _ in PAIRS]), "pair": tf.constant([pair for _, pair in PAIRS])}
    with pytest.warns(UserWarning, match="were cut"):
        expected = task.predict(PAIRS)
    np.testing.assert_allclose(
        served.predict("sts", "serving_default", inputs)["value"], expected, atol=TOLERANCE, rtol=TOLERANCE
    )
    assert (tmp_path / "similarity" / "batching.config").read_text(encoding="utf-8") == "# tuned by hand"
    assert '{"text": "some text", "pair": "another"}' in (artifact.path / "README.md").read_text(encoding="utf-8")


# === Bad input ===


def test_existing_version_is_kept(task, artifact):
    before = sorted(artifact.path.rglob("*"))
    with pytest.raises(FileExistsError, match="reviews/7 exists, and a server may be using it.*version=8"):
        save_serving(task, artifact.path.parent, version=7)
    assert sorted(artifact.path.rglob("*")) == before


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, 2**63])
def test_version_is_a_positive_integer(task, tmp_path, version):
    with pytest.raises(ValueError, match="version=.*; expected a positive integer"):
        save_serving(task, tmp_path, version=version)


def test_what_cannot_be_served_is_named(task, tmp_path):
    with pytest.raises(TypeError, match="Expected a task model such as TextClassifier; got Functional"):
        save_serving(task.model, tmp_path / "x")
    with pytest.raises(ValueError, match="reads long texts in windows.*first 16 tokens.*long_texts='cut'"):
        save_serving(make_task(long_texts="windows"), tmp_path / "x")
    with pytest.raises(ValueError, match="inputs='both'; the task 'classification' takes 'texts' or 'pairs'"):
        save_serving(task, tmp_path / "x", inputs="both")
    with pytest.raises(ValueError, match="name would be 'my model'; pass name="):
        save_serving(task, tmp_path / "my model")
    with pytest.raises(ValueError, match="expected a list of at least one text"):
        save_serving(task, tmp_path / "x", warmup_texts=[])
    with pytest.raises(ValueError, match="in warmup_texts"):
        save_serving(task, tmp_path / "x", warmup_texts=[("a", "b", "c")])
    with pytest.raises(ValueError, match="pass at most 6,400"):
        save_serving(task, tmp_path / "x", warmup_texts=["a"] * 6_401)
    with pytest.raises(ValueError, match="expected increasing positive integers"):
        save_serving(task, tmp_path / "x", batch_sizes=(8, 4))
    assert list(tmp_path.iterdir()) == []


def test_place_that_cannot_be_written(task, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file/reviews cannot be written.*choose a directory"):
        save_serving(task, tmp_path / "file" / "reviews")


def test_a_full_disk_is_told_in_words(task, tmp_path, monkeypatch):
    def fail(archive, directory, **options):
        raise tf.errors.ResourceExhaustedError(None, None, f"{directory}/variables; No space left on device")

    monkeypatch.setattr(type(keras.export.ExportArchive()), "write_out", fail)  # a class for each backend
    with pytest.raises(OSError, match="written to .*reviews .*No space left on device.*Free some space"):
        save_serving(task, tmp_path / "reviews")
    assert list((tmp_path / "reviews").iterdir()) == []


def test_failure_leaves_nothing_behind(task, tmp_path, monkeypatch):
    def fail(signatures, directory):
        (directory / "saved_model.pb").write_bytes(b"half")
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(export.serving.saving, "_write_graph", fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        save_serving(task, tmp_path / "reviews")
    assert list((tmp_path / "reviews").iterdir()) == []


def test_graph_that_differs_is_not_published(tmp_path, monkeypatch):
    """One weight is another while the graph is written, as a converter with a mistake would do it."""
    task = make_task(long_texts="windows")
    bias, write = task.model.get_layer("classifier").bias, export.serving.saving._write_graph

    def write_another(signatures, directory):
        bias.assign_add([0.01, 0.0, 0.0])
        write(signatures, directory)
        bias.assign_sub([0.01, 0.0, 0.0])

    monkeypatch.setattr(export.serving.saving, "_write_graph", write_another)
    with pytest.raises(RuntimeError, match=r"differs from the Keras model by \d\.\de-03 on the warm-up texts"):
        save_serving(task, tmp_path / "reviews", inputs="texts", long_texts="cut")
    assert list((tmp_path / "reviews").iterdir()) == []
