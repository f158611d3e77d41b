"""What trains is what runs: the model in training gives the outputs of its file, and what it learned is kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_models import assert_same_weights
from tiny_quantized import agreement, classifier, names, tagger, texts

import export
import keras_bert
from export.file.contents import parse, type_name
from export.file.editor import editors
from export.file.ops import audit_ops
from export.quantization.fake_quantizers import (
    LearnedRange,
    LearnedScales,
    attach,
    last_value,
    of_each_row,
    of_each_token,
)
from export.quantization.learned_scales import pack_numbers
from export.quantization.plan import learned_plan, plan_quantization
from export.quantization.rounding import SMALLEST_TABLE, round_rows, round_weights, row_scales
from export.quantization.statistics import token_rows
from export.quantization.training import QuantizedTraining, _round_weights, keep_learned, train_quantized
from export.recipes import Recipe, find_recipe
from export.runtime import load
from export.tflite.conversion import convert
from keras_bert.decoding import softmax
from keras_bert.model.weights import copy_weights, to_numpy

MIXED = Recipe(
    "mixed",
    weights="int4",
    activations="dynamic",
    tables="int8",
    exceptions={"block_0/output": "dynamic_int8", "pooler/dense": "float32"},
)
QUICK = {"batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}


def as_if_trained(task, recipe):
    """The task as training leaves it, with the numbers that training begins with."""
    recipe = find_recipe(recipe)
    plain = task.build_from_config(task.config)
    copy_weights(task.model, plain)
    plan = plan_quantization(plain, recipe, token_rows(task.tokenize(texts(24, seed=1))[0]))
    keep_learned(task, QuantizedTraining(task, plan).model, recipe)
    return task


def product_types(path):
    """The types of inputs, weights and outputs of every matrix product of a file."""
    found = []
    for editor in editors(parse(path)):
        for operator in editor.graph.operators:
            if editor.is_op(operator, "FULLY_CONNECTED"):
                tensors = (operator.inputs[0], operator.inputs[1], operator.outputs[0])
                found.append(tuple(type_name(editor.tensor(int(index)).type) for index in tensors))
    return found


def assert_same_outputs(task, path, sentences, recipe=None):
    """The file gives what the model in training gives, and not what the plain model gives."""
    inputs = {
        name: value.numpy() for name, value in keras_bert.pack(task.tokenizer, sentences, sequence_length=16).items()
    }
    found = load(path).outputs(task.tokenize(sentences)[0])
    frozen = recipe is not None and recipe.tables == "int4"
    twin = QuantizedTraining(task, learned_plan(task, recipe), frozen_table=frozen)
    simulated, plain = (model(inputs, training=False) for model in (twin.model, task.model))
    if "probabilities" in found:
        simulated, plain = (np.log(softmax(part["class_logits"].numpy())) for part in (simulated, plain))
        found = np.log(found["probabilities"])
    else:
        is_token = inputs["padding_mask"] > 0
        simulated, plain = (part["token_logits"].numpy()[is_token] for part in (simulated, plain))
        found = found["token_logits"]
    size = plain.std()
    difference = np.abs(found - simulated) / size
    # In float32 a value next to the middle of two integers may go to the other one: few do, and by one step.
    assert np.mean(difference < 1e-4) > 0.95 and difference.max() < 0.05
    assert np.abs(found - plain).mean() / size > 10 * difference.mean()  # and rounding is really there


# === The file computes what was trained ===


@pytest.mark.parametrize(
    ("make", "recipe", "lengths"),
    [
        (classifier, "static_int8", (8, 16)),
        pytest.param(tagger, "static_int8", "dynamic", marks=pytest.mark.slow),
        pytest.param(classifier, "weight_int4", "dynamic", marks=pytest.mark.slow),
        (classifier, "all_int4", (8, 16)),
        (classifier, MIXED, 16),
    ],
)
def test_the_file_gives_the_outputs_of_the_model_in_training(make, recipe, lengths, tmp_path):
    task = as_if_trained(make(), recipe)
    path = convert(task, tmp_path / "model.tflite", recipe=recipe, lengths=lengths, check=False).path
    assert_same_outputs(task, path, texts(60, seed=2), find_recipe(recipe))
    assert set(audit_ops(path, count_partitions=True).partitions.values()) == {1}
    if recipe == "static_int8":  # pooler and classifier too
        assert set(product_types(path)) == {("INT8", "INT8", "INT8")}
    elif recipe is MIXED:
        assert sorted(weights for _, weights, _ in product_types(path)) == ["FLOAT32"] + 5 * ["INT4"] + 2 * ["INT8"]


def test_the_weights_of_the_task_are_those_of_the_file():
    task = as_if_trained(classifier(), "weight_int4")
    before = {weight.path: to_numpy(weight) for weight in task.model.weights}
    layer = task.model.get_layer("block_0").intermediate
    scales = task.quantization.arrays["block_0/intermediate/weight_scales"]
    integers = before["block_0/intermediate/kernel"] / scales
    np.testing.assert_allclose(integers, np.round(integers), atol=1e-4)
    assert np.abs(integers).max() < 7.001 and layer.kernel.shape == (32, 48)
    keep_learned(task, QuantizedTraining(task, learned_plan(task)).model, find_recipe("weight_int4"))
    for weight in task.model.weights:  # what is rounded twice stays
        np.testing.assert_allclose(to_numpy(weight), before[weight.path], rtol=1e-5, atol=1e-7, err_msg=weight.path)


@pytest.mark.slow
def test_a_table_of_four_bits_is_rounded_once_and_stays(tmp_path):
    task = classifier()
    values = to_numpy(task.model.get_layer("token_embedding").embeddings)
    assert values.size >= SMALLEST_TABLE
    labels = names(task.predict(texts(32, seed=3)))
    train_quantized(task, texts(32, seed=3), labels, quantization="all_int4", learning_rate=1e-3, epochs=2, **QUICK)
    stored = to_numpy(task.model.get_layer("token_embedding").embeddings)
    scales = row_scales(values, 4)
    np.testing.assert_allclose(stored, round_rows(values, scales, 4), atol=1e-6)  # training has not moved it
    np.testing.assert_allclose(row_scales(stored, 4), scales, rtol=1e-5)  # and the file will store it as it is
    path = convert(task, tmp_path / "model.tflite", recipe="all_int4", lengths=16, check=False).path
    assert_same_outputs(task, path, texts(40, seed=2), find_recipe("all_int4"))


# === Training ===


@pytest.mark.slow
def test_training_recovers_what_four_bits_have_ruined(tmp_path):
    """With a teacher: the float model itself."""
    teacher, task = classifier(), classifier()
    train, held_out = texts(512, seed=3), texts(200, seed=4)
    truth = teacher.predict(held_out)
    ruined = convert(task, tmp_path / "ptq.tflite", recipe="weight_int4", lengths=16, calibration=train, check=False)
    assert agreement(load(ruined.path)(held_out), truth) < 0.75
    labels = names(teacher.predict(train))
    options = {"teacher": teacher, "label_weight": 0.0, "learning_rate": 1e-3, "epochs": 8, **QUICK}
    report = train_quantized(task, train, labels, quantization="weight_int4", **options)
    path = convert(task, tmp_path / "qat.tflite", recipe="weight_int4", lengths=16, check=False).path
    assert agreement(load(path)(held_out), truth) > 0.83
    assert report.best.score > 0.88  # of the rounded model
    assert_same_outputs(task, path, held_out)


@pytest.mark.slow
def test_a_tagger_trains_and_keeps_its_ranges(tmp_path):
    task, random = tagger(), np.random.default_rng(0)
    sentences = [text.split() for text in texts(32, seed=5)]
    tags = [[str(random.choice(["O", "B-PER", "B-LOC"])) for _ in words] for words in sentences]
    untrained = as_if_trained(tagger(), "static_int8").quantization
    train_quantized(task, sentences, tags, quantization="static_int8", learning_rate=1e-3, epochs=2, **QUICK)
    scales = {name: float(array[0]) for name, array in task.quantization.arrays.items() if name.endswith("scale")}
    assert len(scales) == 2 * 7 and all(scale > 0 for scale in scales.values())
    assert {name: scales[name] for name in scales} != {name: float(untrained.arrays[name][0]) for name in scales}
    assert len({scales[f"block_0/attention/{part}/input_scale"] for part in ("query", "key", "value")}) == 1
    task.save(tmp_path / "task")
    opened = keras_bert.load_task(tmp_path / "task")
    assert_same_weights(opened.model, task.model)
    files = [convert(one, tmp_path / "model.tflite", recipe="static_int8", lengths=16) for one in (task, opened)]
    assert len({one.path.read_bytes() for one in files}) == 1
    assert_same_outputs(opened, files[0].path, texts(40, seed=2))


# === Quantizers ===


def reference_rounding(values, scale, zero_point):
    """The same by TensorFlow's own gradients, with the rounding left out of them."""
    places = values / scale
    integers = tf.clip_by_value(places + tf.stop_gradient(tf.round(places) - places) + zero_point, -128.0, 127.0)
    return (integers - zero_point) * scale


def test_learned_ranges_round_and_learn_by_the_book():
    dense = keras.layers.Dense(4)
    dense.build((None, 3))
    quantize = attach(LearnedRange(-1.0, 3.0), dense, "input")
    assert [weight.name for weight in dense.trainable_weights] == ["kernel", "bias", "input_range"]
    values = tf.constant(np.random.default_rng(0).normal(0.5, 1.5, (50, 3)), "float32")
    expected = tf.quantization.fake_quant_with_min_max_vars(values, -1.0, 3.0)
    np.testing.assert_allclose(quantize(values), expected, atol=1e-6)
    (variable,) = quantize.weights.values()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        ours = tf.reduce_sum(quantize(values) ** 2)
        scale, zero_point = quantize.quantizer.scale(quantize.weights)
        theirs = tf.reduce_sum(reference_rounding(values, scale, zero_point) ** 2)
    ours, theirs = (tape.gradient(loss, [values, variable.value]) for loss in (ours, theirs))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours[1], theirs[1] / np.sqrt(150 * 127), rtol=1e-3)


def test_matrices_and_vectors_round_as_files_do():
    random = np.random.default_rng(1)
    weights = random.normal(size=(20, 6)).astype("float32")
    integers, scales = round_weights(weights.T, 8)
    np.testing.assert_allclose(last_value(8)(weights), (integers * scales[:, None]).T, atol=1e-6)
    dense = keras.layers.Dense(6)
    dense.build((None, 20))
    integers, scales = round_weights(weights.T, 4)
    four = attach(LearnedScales(scales, 4), dense, "matrix")
    np.testing.assert_allclose(four(weights), (integers * scales[:, None]).T, atol=1e-6)
    for quantize in (of_each_token(), of_each_row()):
        rounded = quantize(weights).numpy()
        assert 0 < np.abs(rounded - weights).max() <= np.ptp(weights, axis=1).max() / 127
        assert all(len(np.unique(np.round(row / np.diff(np.unique(row)).min()))) <= 20 for row in rounded)
        np.testing.assert_array_equal(quantize(np.zeros((2, 4), "float32")), 0)


# === What is refused, and what is forgotten ===


@pytest.mark.parametrize("recipe", ["float32", "float16", "static_int16x8"])
def test_recipes_that_train_nothing(recipe):
    with pytest.raises(ValueError, match=f"'{recipe}' has no products of int8 or int4 matrices.*'static_int8'"):
        export.train_quantized(classifier(), ["a"], ["a"], quantization=recipe)


def test_tasks_that_cannot_be_trained():
    task = classifier()
    with pytest.raises(ValueError, match="Expected a task, such as a TextClassifier; got Functional"):
        train_quantized(task.model, ["a"], ["a"])
    task.fresh_heads = True
    with pytest.raises(ValueError, match="heads of this TextClassifier are untrained.*call fit\\(\\) first"):
        train_quantized(task, ["a"], ["a"])


def with_ranges():
    """A task as if trained, with ranges for none of its layers."""
    task = classifier()
    task.quantization = pack_numbers({}, find_recipe("static_int8"), task.model)
    return task


def test_ranges_of_other_weights_are_refused(tmp_path):
    task = with_ranges()
    with pytest.raises(ValueError, match="static_int8 was learned without block_0/.*train it again"):
        convert(task, tmp_path / "model.tflite", recipe="static_int8", lengths=16)
    kernel = task.model.get_layer("pooler").dense.kernel
    kernel.assign(to_numpy(kernel) * 1.01)
    with pytest.raises(ValueError, match="trained for static_int8, and its weights have changed since.*= None"):
        convert(task, tmp_path / "model.tflite", recipe="static_int8")
    task.quantization = None
    with pytest.raises(ValueError, match="needs calibration data.*train_quantized"):
        convert(task, tmp_path / "model.tflite", recipe="static_int8")
    assert not (tmp_path / "model.tflite").exists()


def test_other_tasks_do_not_inherit_ranges(tmp_path):
    task = with_ranges()
    assert task.on_encoder(task.config).quantization is None
    task.save(tmp_path)
    assert keras_bert.load_task(tmp_path).quantization.recipe == "static_int8"
    path = tmp_path / "quantization.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="quantization.safetensors is damaged.*delete it"):
        keras_bert.load_task(tmp_path)
    task.quantization = None
    task.save(tmp_path)  # those of another model go
    assert keras_bert.load_task(tmp_path).quantization is None


@pytest.mark.parametrize(("recipe", "most"), [("all_int4", 15), ("dynamic_int8", 255)])
def test_a_trained_task_keeps_the_rounded_table_of_its_file(recipe, most):
    config = keras_bert.BertConfig(
        vocabulary_size=300, num_layers=1, num_heads=2, hidden_dim=64, intermediate_dim=64, max_sequence_length=16
    )
    assert config.vocabulary_size * config.hidden_dim >= SMALLEST_TABLE
    model = keras_bert.bert_encoder(config, seed=1)
    _round_weights(model, {}, find_recipe(recipe))
    rows = to_numpy(model.get_layer("token_embedding").embeddings)
    counts = [len(np.unique(row)) for row in rows]
    assert max(counts) <= most and min(counts) > min(most, 60) / 2
