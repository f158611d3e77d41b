"""Files that somebody damaged, by accident or on purpose: always a `ValueError`, never the end of the process.

Each file is opened in a process of its own, for a crash of LiteRT would take the tests along.
"""

import io
import json
import os
import subprocess
import sys
import zipfile

import flatbuffers
import numpy as np
import pytest
from places import HELPERS, ROOT
from tiny_tasks import reviews

import export
from export.file.archive import append_files, read_files
from export.file.check import CALLS, INTEGER_OPS, OPS_BY_INPUTS, TYPES, check_file
from export.file.contents import parse, schema, serialize
from export.file.ops import audit_ops
from export.file.tables import FileTable
from export.tflite.float_graph import trace_float_graph
from tests.export.runtime.test_runtime import new_classifier

FILES = ("keras_bert_task.json", "vocab.txt", "labels.txt")


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """A file with scales that are found while it runs, and one whose scales stand in it."""
    task, directory, files = new_classifier(), tmp_path_factory.mktemp("hostile"), {}
    options = {"graph": trace_float_graph(task, None), "calibration": reviews(30, seed=1)[0], "check": False}
    for recipe in ("dynamic_int8", "static_int8"):
        files[recipe] = export.convert(task, directory / f"{recipe}.tflite", recipe=recipe, **options).path.read_bytes()
    return files


@pytest.fixture(scope="module")
def content(contents):
    return contents["dynamic_int8"]


@pytest.fixture(scope="module")
def static(contents):
    return contents["static_int8"]


@pytest.fixture(scope="module")
def reader():
    """A process that opens files in processes of their own."""
    command = [sys.executable, str(HELPERS / "hostile_reader.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
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
    file = parse(content)
    change(file)
    return append_files(serialize(file), read_files(content, dict.fromkeys(FILES, 1 << 20)))


def test_an_undamaged_file_answers(contents, ask):
    for content in contents.values():
        assert ask("same.tflite", content) == "answer"
        assert ask("again.tflite", with_graph(content, lambda file: None)) == "answer"


def test_files_cut_short_anywhere(content, ask):
    for part in range(50):
        assert ask("cut.tflite", content[: len(content) * part // 50]) != "answer"


def graph_places(content):
    """The bytes of a file that are no weights: where damage does not only change numbers."""
    weights = np.zeros(content.index(b"PK\3\4"), bool)
    for buffer in FileTable(content).buffers:
        data = buffer.vector(0, item_size=1)
        if len(data) > 256:
            weights[data.start : data.stop] = True
    return np.flatnonzero(~weights)


@pytest.mark.parametrize("recipe", ["dynamic_int8", "static_int8"])
def test_damage_in_the_graph_is_an_error_or_harmless(contents, ask, recipe):
    content = contents[recipe]
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


def leave_out_an_input(file):
    """LiteRT takes −1 for an input that may be missing, and reads it all the same."""
    for operator in file.subgraphs[0].operators:
        code = file.operatorCodes[operator.opcodeIndex]
        if code.builtinCode == schema().BuiltinOperator.RESHAPE:
            operator.inputs = np.array([-1, *operator.inputs[1:]], np.int32)


def call_itself(file):
    code = schema().OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema().BuiltinOperator.WHILE
    file.operatorCodes.append(code)
    operator, options = schema().OperatorT(), schema().WhileOptionsT()
    operator.opcodeIndex, operator.builtinOptionsType = (
        len(file.operatorCodes) - 1,
        schema().BuiltinOptions.WhileOptions,
    )
    operator.inputs = operator.outputs = np.array(file.subgraphs[0].inputs, np.int32)
    operator.builtinOptions = options  # condition and body are graph 0, in which it stands
    file.subgraphs[0].operators.insert(0, operator)


def take_another_op(file):
    """A STRIDED_SLICE reads its fourth input without asking whether there is one."""
    builtins = [code.builtinCode for code in file.operatorCodes]
    slices = builtins.index(schema().BuiltinOperator.STRIDED_SLICE)
    products = builtins.index(schema().BuiltinOperator.BATCH_MATMUL)
    next(one for one in file.subgraphs[0].operators if one.opcodeIndex == products).opcodeIndex = slices


def write_to_a_constant(file):
    """Constants are the file's own pages, which nobody may write to."""
    graph = file.subgraphs[0]
    table = max(graph.tensors, key=lambda one: 0 if one.shape is None else np.prod(one.shape))
    graph.tensors[graph.operators[20].outputs[0]].buffer = table.buffer


def lead_a_signature_out(file):
    file.signatureDefs[0].subgraphIndex = 25


def lead_an_input_out(file):
    file.signatureDefs[0].inputs[0].tensorIndex = 2**32 - 1


def lose_a_tensor(file):
    file.subgraphs[0].outputs = np.array([9999], np.int32)


def lose_an_op(file):
    file.subgraphs[0].operators[3].opcodeIndex = 77


def lose_a_buffer(file):
    file.subgraphs[0].tensors[5].buffer = 9999


def claim_memory(file):
    """A table of 2³¹ rows, of which the file has 21."""
    tensor = max(file.subgraphs[0].tensors, key=lambda one: 0 if one.shape is None else np.prod(one.shape))
    tensor.shape = np.array([2**31 - 1, 2**20], np.int32)


def claim_memory_for_a_result(file):
    """3.6 GB, which LiteRT takes before it looks at what an op gives."""
    graph = file.subgraphs[0]
    graph.tensors[graph.operators[20].outputs[0]].shape = np.array([1, 904_839_917, 1], np.int32)


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
        (claim_memory_for_a_result, r"has the shape \(1, 904839917, 1\), but no values"),
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
    for ops in (*OPS_BY_INPUTS.values(), CALLS, INTEGER_OPS):
        for name, number in ops.items():
            assert getattr(schema().BuiltinOperator, name) == number
    for name, number in TYPES.items():
        assert getattr(schema().TensorType, name) == number


# === Scales and zero points ===


def integer_product(file):
    """The tensors of the first product of integers: what goes in, the weights, what comes out."""
    tensors = file.subgraphs[0].tensors
    for operator in file.subgraphs[0].operators:
        found = [tensors[index] for index in (*operator.inputs[:2], operator.outputs[0])]
        if operator_name(file, operator) == "FULLY_CONNECTED" and found[0].type == schema().TensorType.INT8:
            return found
    raise AssertionError("no product of integers")


def operator_name(file, operator):
    names = {number: name for name, number in vars(schema().BuiltinOperator).items()}
    return names[file.operatorCodes[operator.opcodeIndex].builtinCode]


def set_numbers(place, field, values):
    """Gives a tensor of the product other scales, zero points or another dimension; `None` leaves them out."""

    def change(file):
        setattr(integer_product(file)[place].quantization, field, values)

    return change


def set_type(place, name):
    def change(file):
        tensor = integer_product(file)[place]
        tensor.type, tensor.quantization.zeroPoint = getattr(schema().TensorType, name), np.array([0])

    return change


def set_one(place, field, value):
    """The last of the numbers alone."""

    def change(file):
        quantization = integer_product(file)[place].quantization
        numbers = getattr(quantization, field).copy()
        numbers[-1] = value
        setattr(quantization, field, numbers)

    return change


def tell_of_blocks(file):
    quantization = integer_product(file)[1].quantization
    quantization.detailsType = schema().QuantizationDetails.BlockwiseQuantization
    quantization.details = schema().BlockwiseQuantizationT()
    quantization.details.scales = 100_000


def add_integers(file):
    """LiteRT ends the process where the scale of a sum is too small for its parts."""
    result = integer_product(file)[2]
    graph = file.subgraphs[0]
    product = next(one for one in graph.operators if graph.tensors[one.outputs[0]] is result)
    addition = next(one for one in graph.operators if operator_name(file, one) == "ADD")
    product.opcodeIndex, product.inputs = addition.opcodeIndex, product.inputs[[0, 0]]
    product.builtinOptionsType, product.builtinOptions = addition.builtinOptionsType, addition.builtinOptions
    result.quantization.scale = np.array([1e-20], np.float32)


NAMED = r"Tensor \d+, '.+': It has "  # which tensor, and what is wrong


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *((set_one(0, "scale", value), NAMED + "the scale ") for value in (0, np.nan, np.inf, -np.inf, -1, 1e-40)),
        (set_one(1, "scale", 0), NAMED + "the scale 0"),
        (set_one(1, "scale", -np.nan), NAMED + "the scale nan"),
        (set_one(2, "scale", np.inf), NAMED + "the scale inf"),
        (set_numbers(1, "scale", np.ones(3, np.float32)), NAMED + "3 scales along dimension 0"),
        (set_numbers(0, "quantizedDimension", 3), NAMED + "scales along dimension 3"),
        (set_numbers(0, "quantizedDimension", -1), NAMED + "scales along dimension -1"),
        (set_one(0, "zeroPoint", 1000), NAMED + "the zero point 1000; INT8 has -128 to 127"),
        (set_one(2, "zeroPoint", -129), NAMED + "the zero point -129; INT8"),
        (set_one(1, "zeroPoint", 1), NAMED + "the zero point 1 for a channel"),
        (set_numbers(1, "zeroPoint", np.zeros(3, np.int64)), NAMED + "3 zero points"),
        (tell_of_blocks, NAMED + "scales of another kind"),
        (set_type(0, "UINT8"), "product of UINT8 with INT8"),
        (set_type(0, "INT16"), "product of INT16 with INT8 that gives INT8"),
        (set_type(2, "FLOAT32"), "gives FLOAT32"),
        (set_numbers(0, "scale", None), "has no scale"),
        (set_one(0, "scale", 1e9), r"steps of .*e\+"),
        (set_one(2, "scale", 1e-20), r"steps of .*e\+"),
        (add_integers, "computes with integers"),
    ],
)
def test_numbers_that_no_integers_have(static, ask, change, words):
    harmful = with_graph(static, change)
    with pytest.raises(ValueError, match=words):
        check_file(harmful)
    assert ask("harmful.tflite", harmful) != "answer"


def test_scales_for_the_inputs_of_a_square_matrix(static, ask):
    """As many as its outputs, and in their place."""

    def change(file):
        square = next(one for one in file.subgraphs[0].tensors if one.type == TYPES["INT8"] and is_square(one))
        square.quantization.quantizedDimension = 1

    def is_square(tensor):
        return len(tensor.shape) == 2 and tensor.shape[0] == tensor.shape[1] == len(tensor.quantization.scale)

    with pytest.raises(ValueError, match="scales for the inputs"):
        check_file(with_graph(static, change))


# === Bombs ===


def bomb(*, graphs=1, tensors=1, name=0, scales=0):
    """A small file whose entries all point at the same graph, tensor, name and scales."""
    builder = flatbuffers.Builder(1 << 20)

    def table(size, fields):
        builder.StartObject(size)
        for slot, offset in fields.items():
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return builder.EndObject()

    def vector(offsets):
        builder.StartVector(4, len(offsets), 4)
        for offset in offsets:
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    shape = builder.CreateNumpyVector(np.array([scales], np.int32))
    quantization = table(7, {2: builder.CreateNumpyVector(np.ones(scales, np.float32))})
    tensor = table(8, {0: shape, 3: builder.CreateString("x" * name), 4: quantization})
    shared = vector([tensor] * tensors)
    subgraphs = vector([table(6, {0: shared}) for _ in range(graphs)])
    builder.Finish(table(8, {2: subgraphs, 4: vector([table(1, {})])}), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"tensors": 300, "name": 1 << 20}, "A name has 1,048,576 bytes"),
        ({"tensors": 50_000, "name": 4000}, "points at some of them often"),
        ({"tensors": 40, "scales": 1 << 19}, "points at some of them often"),
        ({"tensors": 5_000, "graphs": 200}, "points at some of them often"),
    ],
)
def test_small_files_that_are_large_to_read(tmp_path, parts, words):
    path = tmp_path / "bomb.tflite"
    path.write_bytes(bomb(**parts))
    assert path.stat().st_size < 3 << 20
    assert words in check_in_little_memory(path)


def check_in_little_memory(path):
    """The last words of a process that checks a file and may have a quarter of a gigabyte."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))"
    code = f"from export.file.check import check_file; {limit}; check_file({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1]


def test_entries_that_share_a_little_are_fine():
    """As TensorFlow's converter does with its empty buffer."""
    check_file(bomb(tensors=100, name=50, scales=20))


@pytest.mark.parametrize("part", [b"read_source", b"next_token"])
def test_each_graph_of_a_writer_is_refused_when_it_is_first_run(part, ask):
    """LiteRT looks at a graph then, not when the file is opened."""

    def give_two_results(file):
        number = next(one.subgraphIndex for one in file.signatureDefs if one.signatureKey.startswith(part))
        kinds = [code.builtinCode for code in file.operatorCodes]
        operators = file.subgraphs[number].operators
        add = next(one for one in operators if kinds[one.opcodeIndex] == schema().BuiltinOperator.ADD)
        add.outputs = np.repeat(add.outputs, 2)

    content = (ROOT / "tests/compat/0.2.0/tflite/seq2seq.tflite").read_bytes()
    assert ask("writer.tflite", with_graph(content, lambda file: None)) == "answer"
    assert "cannot be run" in ask("writer.tflite", with_graph(content, give_two_results))


# === The files behind the graph ===


def test_a_vocabulary_that_is_longer_than_the_table(content, ask):
    """Its ids lead out of the table."""
    files = read_files(content, dict.fromkeys(FILES, 1 << 20))
    more = "".join(f"more{number}\n" for number in range(5000))
    words = files["vocab.txt"].decode().replace("film\n", "other\n") + more + "film\n"
    assert "cannot be run" in ask("long.tflite", append_files(content, {**files, "vocab.txt": words.encode()}))


@pytest.mark.slow
def test_archives_that_are_too_large_or_lead_elsewhere(content, ask):
    files = read_files(content, dict.fromkeys(FILES, 1 << 20))
    for name, change in {"../vocab.txt": b"x", "vocab.txt": b"a" * (64 << 20)}.items():
        buffer = io.BytesIO(content)
        buffer.seek(0, io.SEEK_END)
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for other, data in {**files, name: change}.items():
                archive.writestr(other, data)
        assert "bomb.tflite cannot be used" in ask("bomb.tflite", buffer.getvalue())
