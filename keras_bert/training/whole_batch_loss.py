"""Losses of the parts of a batch that add up to the loss of the whole one.

Takes Keras' compiled losses and what one replica got of a batch; gives the losses scaled so that the mean over all
parts, each counted by its rows, is what one device computes on the whole batch. A room of its own because Keras divides
a loss by what it finds in a part: a loss that is divided by the sum of its weights (masked tokens, say) would count a
token more where there are few. What a loss is divided by is known from the weights alone, before the forward pass, so
the replicas can add it up first:

| reduction | divided by | a part's loss is scaled by |
|---|---|---|
| mean over the examples | the rows | 1: parts are counted by their rows already |
| `mean_with_sample_weight` | the sum of the weights | mean weight in the part / mean weight in the batch |
| `sum` | nothing | rows of the batch / (rows of the part × replicas) |
"""

import contextlib
import warnings

import keras
import tensorflow as tf


def row_count(x):
    """The number of examples in the inputs of a step, as a tensor."""
    return tf.shape(next(leaf for leaf in keras.tree.flatten(x) if leaf is not None))[0]


def batch_totals(compile_loss, x, sample_weight):
    """What the losses of the global batch are divided by: its rows, then the sum of the weights for each loss."""
    sums = [_weight_sum(loss, sample_weight) for loss in _losses(compile_loss)]
    totals = tf.stack([tf.cast(row_count(x), "float32"), *(tf.constant(0.0) if w is None else w for w in sums)])
    context = tf.distribute.get_replica_context()
    return totals if context.num_replicas_in_sync == 1 else context.all_reduce("SUM", totals)


def share_of_batch(x, totals):
    """How much this replica's mean counts: 1 where all have the same number of examples."""
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync
    return tf.math.divide_no_nan(tf.cast(row_count(x), "float32") * replicas, totals[0])


@contextlib.contextmanager
def scaled_losses(compile_loss, x, sample_weight, totals):
    """Within it Keras computes the scaled losses of a part of a batch; at its end their metrics know them."""
    if compile_loss is None or not compile_loss.built:
        yield
        return
    losses, metrics, noted = compile_loss._flat_losses, compile_loss._metrics, []
    factors = _factors(losses, x, sample_weight, totals)
    compile_loss._flat_losses = [
        entry._replace(loss=_scaled(entry.loss, factor, noted)) for entry, factor in zip(losses, factors, strict=True)
    ]
    # Keras would count every part once, whatever its rows.
    compile_loss._metrics = [None] * len(metrics)
    try:
        yield
    finally:
        compile_loss._flat_losses, compile_loss._metrics = losses, metrics
    for metric, value in zip(metrics, noted if metrics else [], strict=True):
        metric.update_state(value * _replicas(value.dtype), sample_weight=row_count(x))


def warn_of_masks(y_pred):
    """A mask that a layer left on an output comes with the forward pass, too late to be added up."""
    if any(getattr(leaf, "_keras_mask", None) is not None for leaf in keras.tree.flatten(y_pred)):
        warnings.warn(
            "An output carries a Keras mask, and its loss is divided by what the mask leaves in each part of the batch "
            "instead of the whole, so the step differs from one device's. Give sample weights instead of the mask.",
            stacklevel=2,
        )


def _losses(compile_loss):
    return compile_loss._flat_losses if compile_loss is not None and compile_loss.built else []


def _weight_sum(entry, sample_weight):
    """The sum that Keras divides this loss by, or `None` where it divides by the rows or not at all."""
    if entry.loss.reduction != "mean_with_sample_weight":
        return None
    if keras.tree.is_nested(sample_weight):
        for key in entry.path:
            sample_weight = sample_weight[key]
    return None if sample_weight is None else tf.reduce_sum(tf.cast(sample_weight, "float32"))


def _factors(losses, x, sample_weight, totals):
    less_rows = tf.math.divide_no_nan(totals[0], tf.cast(row_count(x), "float32"))
    factors = []
    for place, entry in enumerate(losses, start=1):
        weights = _weight_sum(entry, sample_weight)
        if weights is not None:
            factors.append(tf.math.divide_no_nan(weights, totals[place]) * less_rows)
        elif entry.loss.reduction == "sum":
            factors.append(less_rows / _replicas("float32"))
        else:
            factors.append(None)
    return factors


def _scaled(loss, factor, noted):
    def scaled_loss(y_true, y_pred, sample_weight=None):
        value = loss(y_true, y_pred, sample_weight)
        noted.append(value if factor is None else value * tf.cast(factor, value.dtype))
        return noted[-1]

    return scaled_loss


def _replicas(dtype):
    """Keras divides a replica's mean loss by this number, because gradients are summed."""
    return tf.cast(tf.distribute.get_strategy().num_replicas_in_sync, dtype)
