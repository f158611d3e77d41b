"""Files that somebody damaged, by accident or on purpose: always a `ValueError`, never the end of the process.

Each file is opened in a process of its own, for a crash of LiteRT would take the tests along.
"""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import export
from export.file_check import CALLS, OPS_BY_INPUTS, check_file
from export.flatbuffer_tables import ModelTable
from export.metadata_archive import append_files, read_files
from export.op_audit import audit_ops
from export.tflite_file import parse, schema, serialize
from tests.test_runtime import new_classifier

FILES = ("keras_bert_task.json", "vocab.txt", "labels.txt")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "model.tflite"
    return export.convert(new_classifier(), path, recipe="dynamic_int8", lengths=None).path


@pytest.fixture(scope="module")
def content(path):
    return path.read_bytes()


@pytest.fixture(scope="module")
def reader():
    """A process that opens files in processes of their own."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, str(Path(__file__).with_name("hostile_reader.py"))]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def ask(reader, tmp_path):
    """What a process that opens a file says: an error, or `answer`; a crash fails the test."""

    def open_file(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        print(path, file=reader.stdin, flush=True)
        said = json.loads(reader.stdout.readline())
        assert said == "answer" or said.startswith("ValueError: "), said
        assert said == "answer" or name in said, said
        return said

    return open_file


def with_graph(content, change):
    """The same file with a change of its graph, and the files behind it."""
    model = parse(content)
    change(model)
    return append_files(serialize(model), read_files(content, dict.fromkeys(FILES, 1 << 20)))


def test_an_undamaged_file_answers(content, ask):
    assert ask("same.tflite", content) == "answer"
    assert ask("again.tflite", with_graph(content, lambda model: None)) == "answer"


def test_files_cut_short_anywhere(content, ask):
    for part in range(50):
        assert ask("cut.tflite", content[: len(content) * part // 50]) != "answer"


def graph_places(content):
    """The bytes of a file that are no weights: where damage does not only change numbers."""
    weights = np.zeros(content.index(b"PK\3\4"), bool)
    for buffer in ModelTable(content).buffers:
        data = buffer.vector(0, item_size=1)
        if len(data) > 256:
            weights[data.start : data.stop] = True
    return np.flatnonzero(~weights)


def test_damage_in_the_graph_is_an_error_or_harmless(content, ask):
    random, places, errors = np.random.default_rng(3), graph_places(content), 0
    for _ in range(200):
        damaged = bytearray(content)
        for place in random.choice(places, random.integers(1, 4)):
            if random.random() < 0.5:
                damaged[place] ^= 1 << random.integers(8)
            else:
                value = random.choice([0, 1, 100, 65_536, 2**31 - 1, 2**32 - 1])
                damaged[place & ~3 : (place & ~3) + 4] = int(value).to_bytes(4, "little")
        said = ask("damaged.tflite", bytes(damaged))
        errors += said != "answer"
    assert errors > 50


def test_damage_in_the_files_behind_the_graph(content, ask):
    random, begin, errors = np.random.default_rng(4), content.index(b"PK\3\4"), 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[random.integers(begin, len(content))] = random.integers(256)
        said = ask("damaged.tflite", bytes(damaged))
        errors += said != "answer"
    assert errors > 20


# === On purpose ===


def leave_out_an_input(model):
    """LiteRT takes −1 for an input that may be missing, and reads it all the same."""
    for operator in model.subgraphs[0].operators:
        code = model.operatorCodes[operator.opcodeIndex]
        if code.builtinCode == schema().BuiltinOperator.RESHAPE:
            operator.inputs = np.array([-1, *operator.inputs[1:]], np.int32)


def call_itself(model):
    code = schema().OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema().BuiltinOperator.WHILE
    model.operatorCodes.append(code)
    operator, options = schema().OperatorT(), schema().WhileOptionsT()
    operator.opcodeIndex, operator.builtinOptionsType = (
        len(model.operatorCodes) - 1,
        schema().BuiltinOptions.WhileOptions,
    )
    operator.inputs = operator.outputs = np.array(model.subgraphs[0].inputs, np.int32)
    operator.builtinOptions = options  # condition and body are graph 0, in which it stands
    model.subgraphs[0].operators.insert(0, operator)


def take_another_op(model):
    """A STRIDED_SLICE reads its fourth input without asking whether there is one."""
    builtins = [code.builtinCode for code in model.operatorCodes]
    slices = builtins.index(schema().BuiltinOperator.STRIDED_SLICE)
    products = builtins.index(schema().BuiltinOperator.BATCH_MATMUL)
    next(one for one in model.subgraphs[0].operators if one.opcodeIndex == products).opcodeIndex = slices


def write_to_a_constant(model):
    """Constants are the file's own pages, which nobody may write to."""
    graph = model.subgraphs[0]
    table = max(graph.tensors, key=lambda one: 0 if one.shape is None else np.prod(one.shape))
    graph.tensors[graph.operators[20].outputs[0]].buffer = table.buffer


def lead_a_signature_out(model):
    model.signatureDefs[0].subgraphIndex = 25


def lead_an_input_out(model):
    model.signatureDefs[0].inputs[0].tensorIndex = 2**32 - 1


def lose_a_tensor(model):
    model.subgraphs[0].outputs = np.array([9999], np.int32)


def lose_an_op(model):
    model.subgraphs[0].operators[3].opcodeIndex = 77


def lose_a_buffer(model):
    model.subgraphs[0].tensors[5].buffer = 9999


def claim_memory(model):
    """A table of 2³¹ rows, of which the file has 21."""
    tensor = max(model.subgraphs[0].tensors, key=lambda one: 0 if one.shape is None else np.prod(one.shape))
    tensor.shape = np.array([2**31 - 1, 2**20], np.int32)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (leave_out_an_input, "reads tensor -1"),
        (call_itself, "calls another graph"),
        (take_another_op, "reads 2 tensors"),
        (write_to_a_constant, "or constants"),
        (lead_a_signature_out, "of subgraph 25"),
        (lead_an_input_out, "tensor 4294967295"),
        (lose_a_tensor, r"outputs \(9999,\)"),
        (lose_an_op, "of kind 77"),
        (lose_a_buffer, "buffer 9999"),
        (claim_memory, r"has the shape \(2147483647, 1048576\)"),
    ],
)
def test_a_graph_that_was_made_to_do_harm(content, ask, change, words):
    harmful = with_graph(content, change)
    assert ask("harmful.tflite", harmful) != "answer"
    with pytest.raises(ValueError, match=words):
        check_file(harmful)
    with pytest.raises(ValueError):  # noqa: PT011  some are found by other eyes, with other words
        audit_ops(harmful, count_partitions=True)


def test_numbers_of_ops_are_those_of_the_schema():
    for ops in (*OPS_BY_INPUTS.values(), CALLS):
        for name, number in ops.items():
            assert getattr(schema().BuiltinOperator, name) == number


def test_a_vocabulary_that_is_longer_than_the_table(content, ask):
    """Its ids lead out of the table."""
    files = read_files(content, dict.fromkeys(FILES, 1 << 20))
    more = "".join(f"more{number}\n" for number in range(5000))
    words = files["vocab.txt"].decode().replace("film\n", "other\n") + more + "film\n"
    assert "cannot be run" in ask("long.tflite", append_files(content, {**files, "vocab.txt": words.encode()}))


def test_archives_that_are_too_large_or_lead_elsewhere(content, ask):
    files = read_files(content, dict.fromkeys(FILES, 1 << 20))
    for name, change in {"../vocab.txt": b"x", "vocab.txt": b"a" * (64 << 20)}.items():
        buffer = io.BytesIO(content)
        buffer.seek(0, io.SEEK_END)
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for other, data in {**files, name: change}.items():
                archive.writestr(other, data)
        assert "bomb.tflite cannot be used" in ask("bomb.tflite", buffer.getvalue())
