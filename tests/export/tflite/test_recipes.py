"""Every recipe gives a file that answers as the Keras model does, by name, and as one XNNPACK partition."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import export
from export.file.contents import describe
from export.file.ops import audit_ops
from export.quantization.rounding import pack_int4, round_weights, round_with_data
from export.quantization.static_plan import plan_static
from export.quantization.statistics import new_statistics
from export.recipes import RECIPES, Recipe, find_recipe
from export.tflite.conversion import rewrite
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model

CONFIG = BertConfig(
    vocabulary_size=200,
    num_layers=2,
    num_heads=2,
    hidden_dim=64,
    intermediate_dim=128,
    max_sequence_length=32,
    initializer_range=0.1,
)
MATRICES = 2 * (4 * 64 * 64 + 2 * 64 * 128) + 64 * 64 + 6 * 64  # blocks, pooler, two heads
TABLE = 200 * 64

# Root mean square of the difference over that of the Keras outputs: about twice what was measured.
LARGEST_ERROR = {
    "float32": 1e-5,
    "float16": 1e-3,
    "dynamic_int8": 0.03,
    "static_int8": 0.06,
    "static_int16x8": 0.03,
    "weight_int4": 0.2,
    "all_int4": 0.3,
}
BYTES = {
    "float32": {"FLOAT32": 4 * (MATRICES + TABLE)},
    "float16": {"FLOAT16": 2 * MATRICES, "INT16": 2 * TABLE},
    "dynamic_int8": {"INT8": MATRICES + TABLE},
    "static_int8": {"INT8": MATRICES + TABLE},
    "static_int16x8": {"INT8": MATRICES + TABLE},
    "weight_int4": {"INT4": (MATRICES - 6 * 64) // 2, "INT8": TABLE + 6 * 64},  # the heads keep 8 bits
    "all_int4": {"INT4": (MATRICES - 6 * 64) // 2, "INT8": TABLE // 2 + 6 * 64},  # two of 4 bits in a byte
}


def rows(count, *, seed, length=16):
    """Padded rows of random tokens in two segments."""
    random = np.random.default_rng(seed)
    sizes = random.integers(4, length + 1, (count, 1))
    mask = (np.arange(length) < sizes).astype(np.int32)
    return {
        "token_ids": random.integers(1, 200, mask.shape).astype(np.int32) * mask,
        "segment_ids": (np.arange(length) >= sizes // 2).astype(np.int32) * mask,
        "padding_mask": mask,
    }


@pytest.fixture(scope="module")
def model():
    model = bert_model(CONFIG, ("classification", "token_classification"), num_classes=3, seed=0)
    random = np.random.default_rng(5)
    for weight in model.weights:
        if weight.path.endswith("gamma"):  # a few channels are loud, as in trained models
            loud = np.where(random.random(weight.shape) < 0.05, 6.0, 1.0)
            weight.assign(loud * random.uniform(0.7, 1.3, weight.shape))
        elif weight.path.endswith(("bias", "beta")):
            weight.assign(random.normal(0, 0.1, weight.shape))
    return model


@pytest.fixture(scope="module")
def float_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("float32") / "model.tflite"
    return export.convert(model, path, recipe="float32", lengths=(16, 8))


@pytest.fixture(scope="module", params=list(RECIPES))
def converted(request, float_file, tmp_path_factory):
    """The float file, rewritten by the recipe: what `convert` does, without graph the graph for each recipe again."""
    if request.param == "float32":
        return float_file
    path = tmp_path_factory.mktemp(request.param) / "model.tflite"
    data = tf.data.Dataset.from_tensor_slices((rows(64, seed=1), np.zeros(64))).batch(16)
    path.write_bytes(rewrite(float_file.path.read_bytes(), find_recipe(request.param), data))
    return dataclasses.replace(float_file, path=path, recipe=request.param)


def relative_error(outputs, expected):
    return np.sqrt(np.square(outputs - expected).mean() / np.square(expected).mean())


@pytest.mark.parametrize("length", [8, 16])
def test_outputs_equal_keras(model, converted, length):
    inputs = rows(12, seed=2, length=length)
    expected = {name: value.numpy() for name, value in model(inputs, training=False).items()}
    runner = Interpreter(str(converted.path)).get_signature_runner(f"length_{length}")
    answers = [runner(**{name: value[i : i + 1] for name, value in inputs.items()}) for i in range(12)]
    assert all(set(answer) == set(expected) for answer in answers)
    is_token = inputs["padding_mask"].astype(bool)
    tokens = np.concatenate([answer["token_logits"] for answer in answers])
    assert relative_error(tokens[is_token], expected["token_logits"][is_token]) < LARGEST_ERROR[converted.recipe]
    classes = np.concatenate([answer["class_logits"] for answer in answers])
    assert relative_error(classes, expected["class_logits"]) < LARGEST_ERROR[converted.recipe]


def test_one_partition(converted):
    partitions = audit_ops(converted.path, count_partitions=True).partitions
    if converted.recipe == "static_int16x8":
        assert partitions["length_8"] == partitions["length_16"] > 1  # XNNPACK has no kernels for it
    else:
        assert partitions == {"length_8": 1, "length_16": 1}


def test_weights_are_stored_once_and_small(converted):
    summary = describe(converted.path)
    rest = 8 * CONFIG.hidden_dim * 40 * 4  # biases, norms, factors, positions
    for dtype, size in BYTES[converted.recipe].items():
        assert size <= summary.bytes_by_type[dtype] <= size + (rest if dtype == "FLOAT32" else 0), dtype
    if converted.recipe != "float32":
        assert summary.bytes_by_type["FLOAT32"] < rest
    assert summary.custom_ops == () and summary.num_subgraphs == 2
    assert {one.name for one in summary.signatures} == {"length_8", "length_16"}
    for signature in summary.signatures:
        assert set(signature.inputs) == {"token_ids", "segment_ids", "padding_mask"}
        assert {info.dtype for info in signature.inputs.values()} == {"INT32"}
        assert set(signature.outputs) == {"class_logits", "token_logits"}


def test_a_table_that_is_also_a_matrix(tmp_path):
    """The MLM head multiplies by the token table: what one becomes must not change the other."""
    model = bert_model(CONFIG, "masked_lm", seed=0)
    plain = export.convert(model, tmp_path / "model.tflite", recipe="float32", lengths=16).path.read_bytes()
    inputs = rows(1, seed=2)
    is_token = inputs["padding_mask"].astype(bool)
    expected = model(inputs, training=False)["mlm_logits"].numpy()[is_token]
    for name, recipe in RECIPES.items():
        content = rewrite(plain, recipe, [rows(32, seed=1)])
        answer = Interpreter(model_content=content).get_signature_runner("length_16")(**inputs)["mlm_logits"]
        assert relative_error(answer[is_token], expected) < LARGEST_ERROR[name], name


def test_float16_takes_numbers_that_are_too_large_for_it(tmp_path):
    model = bert_model(CONFIG, "classification", num_classes=2, seed=0)
    kernel = next(weight for weight in model.weights if weight.path == "block_0/intermediate/kernel")
    values = kernel.numpy()
    values[0, 0], values[1, 1] = 1e6, -1e6
    kernel.assign(values)
    file = export.convert(model, tmp_path / "model.tflite", recipe="float16", lengths=16)
    answer = Interpreter(str(file.path)).get_signature_runner("length_16")(**rows(1, seed=2))["class_logits"]
    assert np.isfinite(answer).all()


def test_recipes_are_values():
    assert list(RECIPES) == list(LARGEST_ERROR)
    assert find_recipe("weight_int4") is RECIPES["weight_int4"]
    assert find_recipe(Recipe("mine")) == Recipe("mine")
    assert all(LARGEST_ERROR[name] < recipe.tolerance for name, recipe in RECIPES.items())
    with pytest.raises(ValueError, match="recipe='int3'; expected one of float32, float16"):
        find_recipe("int3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": "int3"}, "weights='int3' with activations='float32'; expected float32 with float32;"),
        ({"weights": "int4"}, "weights='int4' with activations='float32'"),
        ({"tables": "int3"}, "tables='int3'"),
        ({"calibration": "maybe"}, "calibration='maybe'"),
        ({"weights": "int8", "activations": "int8"}, "pass calibration='needed'"),
    ],
)
def test_a_recipe_that_means_nothing_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Recipe("mine", **changes)


def test_rounding_with_data_loses_less():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(500, 96)) @ random.normal(size=(96, 96)) * random.uniform(0.1, 3, 96)
    weights = random.normal(size=(40, 96))

    def lost(integers, scales):
        assert integers.dtype == np.int8 and np.abs(integers).max() <= 7
        return np.linalg.norm(inputs @ (integers * scales[:, None] - weights).T) / np.linalg.norm(inputs @ weights.T)

    nearest = np.abs(weights).max(axis=1) / 7
    plain = lost(np.round(weights / nearest[:, None]).astype(np.int8), nearest)
    clipped = lost(*round_weights(weights, 4))
    informed = lost(*round_with_data(weights, 4, inputs.T @ inputs))
    assert clipped < plain and informed < 0.7 * clipped


def test_sixteen_bits_have_headroom():
    random = np.random.default_rng(0)
    weights, inputs = random.normal(size=(3, 4)), random.normal(size=(100, 4))
    outputs, seen = inputs @ weights.T, new_statistics(4, 3, "x")
    seen.add(inputs, outputs, inputs.T @ inputs)
    layer = plan_static({"one": weights}, {"one": seen}, activation_bits=16)["one"]
    for (scale, zero), values in ((layer.input_scale, inputs), (layer.output_scale, outputs)):
        assert zero == 0 and 1.9 < 32767 * scale / np.abs(values).max() < 2.1
    assert plan_static({"one": weights}, {"one": seen})["one"].activation_bits == 8


def test_int4_is_packed_low_half_first():
    integers = np.array([[1, -1, 7], [-8, 0, 2]], np.int8)
    packed = pack_int4(integers).view(np.uint8)
    low, high = (((half ^ 8).astype(np.int8) - 8) for half in (packed & 15, packed >> 4))
    np.testing.assert_array_equal(np.stack([low, high], 1).reshape(2, 3), integers)
