"""Training on JAX on one and two emulated devices, on models that compile quickly; prints JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=2 KERAS_BACKEND=jax python tests/helpers/jax_checks.py
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import jax
import keras
import numpy as np
import tensorflow as tf
from mirrored_checks import ROW_TARGETS, ROW_WEIGHTS, TOKEN_WEIGHTS, TOKENS, difference, weighted_losses, weighted_model
from tiny_models import TINY

from keras_bert.pretraining.masking import UNITS, Masking
from keras_bert.pretraining.model import TokenCountingModel, losses_and_metrics, pretraining_model
from keras_bert.pretraining.rows.layout import MAX_EXAMPLES
from keras_bert.pretraining.rows.masking import mask_rows, with_keys
from keras_bert.training.devices import choose_devices


def train_weighted(devices, *, accumulate=1):
    """Weights and metrics after 19 steps with unequal weights, in batches of 8."""
    labels = {"tokens": TOKENS, **dict.fromkeys(("mean", "weighted", "sum"), ROW_TARGETS)}
    weights = {"tokens": TOKEN_WEIGHTS, **dict.fromkeys(("mean", "weighted", "sum"), ROW_WEIGHTS)}
    dataset = tf.data.Dataset.from_tensor_slices((TOKENS, labels, weights)).batch(8, drop_remainder=True)
    with devices.scope():
        model = weighted_model()
        options = devices.compile_options(steps_per_execution=1, gradient_accumulation_steps=accumulate)
        optimizer = keras.optimizers.SGD(0.3, momentum=0.9, global_clipnorm=1.0)
        model.compile(optimizer, **weighted_losses(), weighted_metrics={"tokens": "accuracy"}, **options)
        logs = model.fit(devices.distribute(dataset), verbose=0, shuffle=False).history
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()] + list(logs.values()))


def error_of(function):
    """The words of the error that a function raises."""
    try:
        function()
    except Exception as error:
        return str(error)
    return "no error"


# === Gradients in half precision ===


def half_sums(precision, *, packed):
    """The shapes of what a training step adds up row by row in half precision."""
    keras.config.set_dtype_policy(precision)
    model = pretraining_model(TINY, max_predictions=3, packed=packed, seed=0, model_class=TokenCountingModel)
    model.compile("adam", **losses_and_metrics(model))
    data = pretraining_batch(packed=packed)
    model._symbolic_build(data_batch=data)
    model.optimizer.build(model.trainable_variables)
    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    state = tuple([variable.value for variable in group] for group in (*groups, model.metrics_variables))
    keras.config.set_dtype_policy("float32")
    return sorted({tuple(shape) for shape in added_rows(jax.make_jaxpr(model.train_step)(state, data).jaxpr)})


def pretraining_batch(*, packed, rows=4, length=10):
    """Zeros in the shapes of a batch."""
    ids, places = np.zeros((rows, length), "int32"), np.zeros((rows, 3), "int32")
    x = {"token_ids": ids, "segment_ids": ids, "padding_mask": ids + 1, "masked_positions": places}
    nsp = np.zeros((rows, MAX_EXAMPLES) if packed else rows, "int32")
    if packed:
        x["example_starts"] = nsp
    labels = {"mlm_logits": places, "nsp_logits": nsp}
    return x, labels, {name: np.ones(value.shape, "float32") for name, value in labels.items()}


def added_rows(jaxpr):
    """The shapes of the tables that a program scatters half-precision numbers into, also in its inner programs."""
    for equation in jaxpr.eqns:
        table = equation.invars[0].aval if equation.invars else None
        if equation.primitive.name == "scatter-add" and table.dtype in ("bfloat16", "float16"):
            yield table.shape
        for value in equation.params.values():
            for inner in value if isinstance(value, list | tuple) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from added_rows(inner)


# === Masks inside the step ===


def unequal_masks():
    """Which arrays of masked rows are other inside a program than in NumPy."""
    numbers = np.random.default_rng(2)
    ids = numbers.integers(0, 60, (24, 40)).astype("int32")
    batch = {"token_ids": ids, "padding_mask": (np.arange(40) < numbers.integers(5, 41, (24, 1))).astype("int32")}
    batch = with_keys(batch, seed=3, step=7, rate=0.2)
    unequal = []
    for unit in UNITS:
        masking = Masking(4, (0, 1, 2, 3, 4), numbers.random(60) < 0.3, max_predictions=9, unit=unit)
        host, inside = mask_rows(batch, masking), jax.jit(lambda rows, m=masking: mask_rows(rows, m))(batch)
        unequal += [(unit, name) for name, value in host.items() if not np.array_equal(value, inside[name])]
        assert host["masked_weights"].sum() > 40
    return unequal


def main():
    one, two = choose_devices("one"), choose_devices("data_parallel")
    whole = train_weighted(one)
    tables = [[TINY.vocabulary_size, TINY.hidden_dim], [TINY.num_segments, TINY.hidden_dim]]
    tables.append([TINY.max_sequence_length, TINY.hidden_dim])
    result = {
        "unequal masks": unequal_masks(),
        "accumulation": difference(train_weighted(one, accumulate=4), whole),
        "devices": difference(train_weighted(two), whole),
        "accumulation on devices": difference(train_weighted(two, accumulate=2), whole),
        "uneven accumulation": error_of(lambda: train_weighted(one, accumulate=3)),
        "tables": tables,
        "half sums": [half_sums("mixed_bfloat16", packed=packed) for packed in (False, True)],
        "sums in bfloat16 alone": half_sums("bfloat16", packed=True),  # the check sees what there is
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
