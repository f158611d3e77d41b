"""Scales the losses of the parts of a batch, so that their mean is the loss of the whole batch.

Takes Keras' compiled losses and one replica's part of a batch. The mean of the scaled losses over all parts, weighted
by their rows, is what one device computes on the whole batch. Keras divides a loss by what it finds in a part. A loss
that is divided by the sum of its weights (such as that of masked tokens) would give a token more weight in a part with
few of them. The divisor is known from the weights, before the forward pass, so the replicas can add it up first:

| reduction | divided by | a part's loss is scaled by |
|---|---|---|
| mean over the examples | the rows | 1: parts are already weighted by their rows |
| `mean_with_sample_weight` | the sum of the weights | mean weight in the part / mean weight in the batch |
| `sum` | nothing | rows of the batch / (rows of the part × replicas) |
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops


def row_count(x: Any) -> Any:
    """Return the number of examples in the inputs of a step."""
    return ops.shape(next(leaf for leaf in keras.tree.flatten(x) if leaf is not None))[0]


def batch_totals(compile_loss: Any, x: Any, sample_weight: Any) -> Any:
    """Return the divisors of the losses of the global batch: its rows, then the sum of the weights for each loss."""
    sums = [_weight_sum(loss, sample_weight) for loss in _losses(compile_loss)]
    totals = ops.stack([ops.cast(row_count(x), "float32"), *(ops.zeros(()) if w is None else w for w in sums)])
    if _replica_number() == 1:
        return totals
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce("SUM", totals)


def share_of_batch(x: Any, totals: Any) -> Any:
    """Return the weight of this replica's mean: 1 if all replicas have the same number of examples."""
    return ops.divide_no_nan(ops.cast(row_count(x), "float32") * _replica_number(), totals[0])


@contextlib.contextmanager
def scaled_losses(compile_loss: Any, x: Any, sample_weight: Any, totals: Any) -> Iterator[None]:
    """Make Keras compute the scaled losses of a part of a batch inside the context, then update their metrics."""
    if compile_loss is None or not compile_loss.built:
        yield
        return
    losses, metrics = compile_loss._flat_losses, compile_loss._metrics
    noted: list[Any] = []
    factors = _factors(losses, x, sample_weight, totals)
    compile_loss._flat_losses = [
        entry._replace(loss=_scaled(entry.loss, factor, noted)) for entry, factor in zip(losses, factors, strict=True)
    ]
    # Keras would give every part the same weight, however many rows it has.
    compile_loss._metrics = [None] * len(metrics)
    try:
        yield
    finally:
        compile_loss._flat_losses, compile_loss._metrics = losses, metrics
    for metric, value in zip(metrics, noted if metrics else [], strict=True):
        metric.update_state(value * _replicas(value.dtype), sample_weight=row_count(x))


def warn_of_masks(y_pred: Any) -> None:
    """Warn of a Keras mask on an output: it is known only after the forward pass, too late to be added up."""
    if any(getattr(leaf, "_keras_mask", None) is not None for leaf in keras.tree.flatten(y_pred)):
        warnings.warn(
            "An output has a Keras mask, so its loss is divided by what the mask leaves in each part of the batch "
            "instead of in the whole batch, and the step differs from that of one device. Use sample weights instead "
            "of the mask.",
            stacklevel=2,
        )


def _losses(compile_loss: Any) -> list[Any]:
    return compile_loss._flat_losses if compile_loss is not None and compile_loss.built else []


def _weight_sum(entry: Any, sample_weight: Any) -> Any:
    """Return the sum of weights that Keras divides this loss by, or `None` if it divides by the rows or not at all."""
    if entry.loss.reduction != "mean_with_sample_weight":
        return None
    if keras.tree.is_nested(sample_weight):
        for key in entry.path:
            sample_weight = sample_weight[key]
    return None if sample_weight is None else ops.sum(ops.cast(sample_weight, "float32"))


def _factors(losses: list[Any], x: Any, sample_weight: Any, totals: Any) -> list[Any]:
    less_rows = ops.divide_no_nan(totals[0], ops.cast(row_count(x), "float32"))
    factors = []
    for place, entry in enumerate(losses, start=1):
        weights = _weight_sum(entry, sample_weight)
        if weights is not None:
            factors.append(ops.divide_no_nan(weights, totals[place]) * less_rows)
        elif entry.loss.reduction == "sum":
            factors.append(less_rows / _replicas("float32"))
        else:
            factors.append(None)
    return factors


def _scaled(loss: Callable[..., Any], factor: Any, noted: list[Any]) -> Callable[..., Any]:
    def scaled_loss(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        value = loss(y_true, y_pred, sample_weight)
        noted.append(value if factor is None else value * ops.cast(factor, value.dtype))
        return noted[-1]

    return scaled_loss


def _replicas(dtype: Any) -> Any:
    """Return the number of replicas, by which Keras divides a replica's mean loss, because gradients are summed."""
    return ops.cast(_replica_number(), dtype)


def _replica_number() -> int:
    """Return the number of replicas that compute a part each; JAX's devices compute on the whole batch together."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)
