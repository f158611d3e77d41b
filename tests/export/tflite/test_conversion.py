"""Lengths, forms, files and errors of the TFLite conversion; what the recipes keep is in test_recipes.py."""

import collections
import dataclasses
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_tasks
from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

import export
from export.file.contents import describe, parse, put_buffers_inline, schema, serialize
from export.file.ops import OpAudit, audit_ops
from export.recipes import RECIPES
from export.tflite.float_graph import trace_float_graph
from export.tflite.string_input import TEXT_OPS, convert_strings
from export.verification.parity import VerificationError
from keras_bert import TextClassifier, pack
from keras_bert.decoding import softmax
from keras_bert.tasks.base.saved_tasks import load_task

TEXTS = ["the film was good", "The PLOT, is dull!", "", "é very fine cast " * 10]


@pytest.fixture(scope="module")
def task():
    directory = tiny_tasks.pretrained_directory()
    return TextClassifier.from_pretrained(directory, labels=["bad", "good"], sequence_length=16)


@pytest.fixture(scope="module")
def dynamic(task, tmp_path_factory):
    texts = [*tiny_tasks.reviews(40, seed=0)[0], *TEXTS]
    own_data = tf.data.Dataset.from_tensor_slices((texts, [0] * len(texts))).batch(8)  # as a user trains with it
    path = tmp_path_factory.mktemp("dynamic") / "model.tflite"
    return export.convert(task, path, recipe="static_int8", lengths="dynamic", calibration=own_data)


# === Forms ===


def test_dynamic_length_computes_each_text_at_its_own(task, dynamic):
    assert str(dynamic).startswith(f"{dynamic.path}  static_int8  any length")
    (signature,) = describe(dynamic.path).signatures
    assert signature.name == "dynamic" and signature.inputs["token_ids"].shape == (1, -1)
    assert audit_ops(dynamic.path, count_partitions=True).partitions == {"dynamic": 1}
    runner = Interpreter(str(dynamic.path)).get_signature_runner("dynamic")
    expected, answers = [], []
    for text in ["good", "the plot was very very dull and it is bad", "a film", *TEXTS]:
        inputs = {name: value.numpy()[:, :16] for name, value in pack(task.tokenizer, [text]).items()}
        answers.append(runner(**inputs)["probabilities"][0])
        expected.append(softmax(task.model(inputs, training=False)["class_logits"].numpy()[0]))
    np.testing.assert_allclose(answers, expected, atol=0.03)


def count_ops(path):
    """How often each op is in a file, by name."""
    file = parse(path.read_bytes())
    names = {number: name for name, number in vars(schema().BuiltinOperator).items() if isinstance(number, int)}
    codes = [names[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in file.operatorCodes]
    return collections.Counter(codes[one.opcodeIndex] for graph in file.subgraphs for one in graph.operators)


def test_layers_have_the_same_short_form_for_any_length_as_for_one(tmp_path):
    directory, random = tiny_tasks.pretrained_directory(), np.random.default_rng(0)
    task = TextClassifier.from_pretrained(directory, labels=["bad", "good"], sequence_length=16)
    for weight in task.model.trainable_weights:  # a scale of one or a bias of zero would be left out
        weight.assign(weight + 0.1 * random.standard_normal(weight.shape))
    counts = {}
    for lengths in (16, "dynamic"):
        artifact = export.convert(task, tmp_path / f"{lengths}.tflite", recipe="float32", lengths=lengths)  # and checks
        counts[lengths] = count_ops(artifact.path)
    blocks = task.config.num_layers
    for count in counts.values():
        assert count["FULLY_CONNECTED"] == 6 * blocks + 2  # with the pooler and the classifier
        assert count["SUB"] == 2 * blocks + 2  # one for each normalization, one for the mask
        assert not count["NEG"] and not count["SQUARED_DIFFERENCE"] and not count["SELECT_V2"] and not count["SELECT"]
        assert count["MUL"] == 3 * (2 * blocks + 1) + 1  # no factor behind the queries
    assert counts["dynamic"]["RESHAPE"] == counts[16]["RESHAPE"]


@pytest.mark.slow
def test_files_of_one_graph_are_those_of_convert(task, tmp_path):
    graph = trace_float_graph(task, "dynamic")
    for recipe in ("float32", "dynamic_int8"):
        drawn = export.convert(task, tmp_path / "model.tflite", recipe=recipe, graph=graph).path.read_bytes()
        plain = export.convert(task, tmp_path / "model.tflite", recipe=recipe, lengths="dynamic").path.read_bytes()
        assert describe(drawn).bytes_by_type == describe(plain).bytes_by_type
        answers = [
            Interpreter(model_content=content).get_signature_runner("dynamic")(
                **{name: np.ones((1, 9), np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
            )["probabilities"]
            for content in (drawn, plain)
        ]
        np.testing.assert_array_equal(*answers)


@pytest.mark.slow
def test_a_real_table_of_positions_is_stored_once_and_cut(minilm_dir, tmp_path):
    task = TextClassifier.from_pretrained(minilm_dir, labels=["bad", "good"], sequence_length=28)
    size = export.convert(task, tmp_path / "model.tflite", lengths="dynamic", recipe="float32", check=False).num_bytes
    unreached = (task.config.max_sequence_length - 28) * task.config.hidden_dim
    assert size < 4 * (task.model.count_params() - unreached) + 500_000  # the vocabulary and the graph


def test_positions_that_no_text_reaches_are_not_stored(task, tmp_path):
    paths = {}
    for what in (task, task.model):
        paths[what] = tmp_path / f"{len(paths)}.tflite"
        export.convert(what, paths[what], recipe="float32", lengths="dynamic")
    graphs = {what: parse(path.read_bytes()).subgraphs[0] for what, path in paths.items()}
    tables = {what: [tensor.shape.tolist() for tensor in graph.tensors] for what, graph in graphs.items()}
    width = task.config.hidden_dim
    assert [16, width] in tables[task] and [16, width] not in tables[task.model]
    runner = Interpreter(str(paths[task])).get_signature_runner("dynamic")
    row = {name: np.ones((1, 17), np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
    with pytest.raises(RuntimeError):
        runner(**row)


def test_strings_go_in_where_the_tokenizer_ops_are_linked(task, tmp_path):
    from tensorflow_text.core.pybinds import tflite_registrar

    artifact = convert_strings(task, tmp_path / "model.tflite", recipe="float32", length=16)
    audit = audit_ops(artifact.path)
    assert set(audit.custom_ops) == set(TEXT_OPS)
    with pytest.raises(ValueError, match="The file needs FastBertNormalize, FastWordpieceTokenizeWithOffsets, which"):
        audit.check()
    registerers = tflite_registrar.SELECT_TFTEXT_OPS
    interpreter = InterpreterWithCustomOps(custom_op_registerers=registerers, model_path=str(artifact.path))
    runner = interpreter.get_signature_runner("text")
    for text in TEXTS:
        expected = task.model(pack(task.tokenizer, [text], sequence_length=16), training=False)["class_logits"]
        answer = runner(text=np.array([text.encode()], object))["class_logits"]
        np.testing.assert_allclose(answer, expected, atol=1e-6)


def test_strings_that_give_other_outputs_are_not_written(task, tmp_path):
    strict = dataclasses.replace(RECIPES["dynamic_int8"], tolerance=1e-9)
    with pytest.raises(VerificationError, match="would differ too much from its task: class_logits"):
        convert_strings(task, tmp_path / "model.tflite", recipe=strict, length=16)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_slices_from_the_end_are_those_of_keras(task, tmp_path):
    states = task.model.get_layer("pooler").input
    model = keras.Model(task.model.input, {"last": states[:, -1], "before": states[:, -2], "inner": states[:, 1:-1]})
    inputs = {name: value.numpy() for name, value in pack(task.tokenizer, TEXTS[:1], sequence_length=8).items()}
    expected = model(inputs, training=False)
    for lengths, key in ((8, "length_8"), ("dynamic", "dynamic")):
        path = export.convert(model, tmp_path / "model.tflite", recipe="float32", lengths=lengths).path
        answers = Interpreter(str(path)).get_signature_runner(key)(**inputs)
        for name, answer in answers.items():
            np.testing.assert_allclose(answer, expected[name], atol=1e-5)


# === Errors ===


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_model_in_half_precision_becomes_a_file_of_its_weights(policy, tmp_path):
    keras.config.set_dtype_policy(policy)
    try:
        half = TextClassifier.from_pretrained(
            tiny_tasks.pretrained_directory(), labels=["bad", "good"], sequence_length=16
        )
        written = export.convert(half, tmp_path / "half.tflite", recipe="float32", lengths=16)
        assert keras.config.dtype_policy().name == policy
        export.convert(half.model, tmp_path / "model.tflite", recipe="float32", lengths=16)
    finally:
        keras.config.set_dtype_policy("float32")
    assert half.model.get_layer("block_0").compute_dtype == policy.removeprefix("mixed_")
    half.save(tmp_path / "whole")
    readers = export.load(written.path), load_task(tmp_path / "whole").predict
    (found,), (expected,) = (read([TEXTS[0]]) for read in readers)
    assert found[0].probability == pytest.approx(expected[0].probability, abs=1e-5)


@pytest.mark.slow
def test_outputs_far_below_zero_are_compared_too(tmp_path):
    task = TextClassifier.from_pretrained(tiny_tasks.pretrained_directory(), kind="regression", sequence_length=16)
    task.model.get_layer("classifier").bias.assign([-100.0])
    file = export.convert(task, tmp_path / "model.tflite", recipe="float32", lengths=np.int64(16))
    assert export.load(file.path)(["good"])[0] == pytest.approx(task.predict(["good"])[0], rel=1e-4)
    both = export.convert(task, tmp_path / "both.tflite", recipe="float32", lengths=np.array([8, 16]))
    assert both.lengths == (8, 16)


def test_what_cannot_be_converted_is_named(task, tmp_path):
    path = tmp_path / "model.tflite"
    with pytest.raises(ValueError, match="The recipe 'static_int8' needs calibration data; pass calibration"):
        export.convert(task, path, recipe="static_int8", lengths=8)
    with pytest.raises(ValueError, match="a model has no tokenizer; pass the task"):
        export.convert(task.model, path, recipe="static_int8", lengths=8, calibration=["a text"])
    with pytest.raises(ValueError, match="calibration data has a dictionary with ids; expected model inputs"):
        export.convert(task, path, recipe="static_int8", lengths=8, calibration=[{"ids": [[1]]}])
    with pytest.raises(ValueError, match="calibration data has no rows"):
        export.convert(task, path, recipe="static_int8", lengths=8, calibration=[])
    with pytest.raises(ValueError, match=r"lengths=\(16, 33\); expected one or more sequence lengths from 3 to 32"):
        export.convert(task, path, lengths=(16, 33))
    with pytest.raises(ValueError, match="lengths='long'; expected"):
        export.convert(task, path, lengths="long")
    with pytest.raises(ValueError, match="Expected a task or a functional model with outputs by name; got str"):
        export.convert("model", path)
    with pytest.raises(ValueError, match="length=64; expected 4 to 32"):
        convert_strings(task, path, length=64)
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_needs_tensorflow_is_named(task, tmp_path):
    class Inverse(keras.layers.Layer):
        def call(self, x):
            return tf.linalg.inv(x[:, :4, :4])

    model = keras.Model(task.model.input, {"inverse": Inverse()(task.model.get_layer("pooler").input)})
    with pytest.raises(ValueError, match=r"The model needs tf\.MatrixInverse, which LiteRT does not build in"):
        export.convert(model, tmp_path / "model.tflite", lengths=8)


# === Files ===


def test_a_damaged_file_is_an_error_and_no_crash(dynamic):
    content = dynamic.path.read_bytes()
    with pytest.raises(ValueError, match="is not a TFLite file: it lacks the mark TFL3"):
        describe(b"PK\3\4 something else")
    for end in (8, 20, 100, 1000, len(content) // 2):
        with pytest.raises(ValueError, match=f"The file of {end:,} bytes is damaged or cut short"):
            describe(content[:end])
        with pytest.raises(ValueError, match="is damaged or cut short"):
            parse(content[:end])


def test_buffers_behind_the_flatbuffer_are_put_inline(dynamic):
    content = dynamic.path.read_bytes()
    assert put_buffers_inline(content) is content
    file = parse(content)
    largest = max((one for one in file.buffers if one.data is not None), key=lambda one: len(one.data))
    data = bytes(largest.data)
    largest.data, largest.offset, largest.size = None, 2, len(data)
    largest.offset = -(-len(serialize(file)) // 16) * 16
    outside = serialize(file).ljust(largest.offset, b"\0") + data
    assert describe(outside).bytes_by_type == describe(content).bytes_by_type
    inline = put_buffers_inline(outside)
    # A zip that is appended must not move what offsets point at, so none may be left.
    buffers = parse(inline + b"metadata").buffers
    assert any(one.data is not None and bytes(one.data) == data for one in buffers)
    row = {name: np.ones((1, 6), np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
    before, after = (
        Interpreter(model_content=one).get_signature_runner("dynamic")(**row)["probabilities"]
        for one in (content, inline)
    )
    np.testing.assert_array_equal(before, after)
    with pytest.raises(ValueError, match="A buffer ends at byte"):
        parse(outside[:-1])


def test_reading_a_file_needs_no_tensorflow(dynamic):
    code = (
        "import sys; from export.file.ops import audit_ops; from export.recipes import RECIPES;"
        f"print(audit_ops({str(dynamic.path)!r}, count_partitions=True));"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "XNNPACK partitions: dynamic 1" in done.stdout


def test_audit_allows_what_is_asked_for():
    audit = OpAudit({"ADD": 1, "FlexErf": 1}, ("FlexErf",), {})
    audit.check(allowed=["FlexErf"])
    with pytest.raises(ValueError, match="The file needs FlexErf"):
        audit.check()
