"""The training step of JAX, with gradient accumulation.

Keras' JAX trainer takes a step of the whole batch on all devices. With accumulation, a step works through the batch in
parts, one after the other in a loop, and updates once. Part i has the rows i, i + n, i + 2n, …, so that each device
works on its own rows. Losses are scaled as on TensorFlow (`whole_batch_loss.py`): the step is that of the whole batch.
"""

from typing import Any

import jax
import keras
from keras import ops

from keras_bert.training.whole_batch_loss import batch_totals, scaled_losses, warn_of_masks


class JaxSteps(keras.Model):
    """A `keras.Model` on JAX whose steps may accumulate gradients. See `TrainingModel`."""

    gradient_accumulation_steps = 1
    _totals: Any = None  # of the batch whose part is traced

    def train_step(self, state: Any, data: Any) -> Any:
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return super().train_step(state, data)
        trainable, non_trainable, optimizer, metrics = state
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        by_part = keras.tree.map_structure(lambda rows: _divided(rows, parts), (x, y, sample_weight))
        totals = batch_totals(self._compile_loss, x, sample_weight)
        gradients_of = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)

        def add_part(carried: Any, part: Any) -> Any:
            gradients, non_trainable, metrics = carried
            given = (trainable, non_trainable, metrics, *part)
            (_, found), more = gradients_of(*given, training=True, optimizer_variables=optimizer)
            loss, y_pred, non_trainable, metrics = found
            x, y, sample_weight = part
            _, metrics = self._update_metrics_variables(metrics, loss, x, y, y_pred, sample_weight)
            return (keras.tree.map_structure(ops.add, gradients, more), non_trainable, metrics), None

        self._totals = totals
        try:
            nothing = keras.tree.map_structure(ops.zeros_like, list(trainable))
            (gradients, non_trainable, metrics), _ = jax.lax.scan(
                add_part, (nothing, list(non_trainable), list(metrics)), by_part
            )
        finally:
            self._totals = None
        gradients = [gradient / parts for gradient in gradients]
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)
        return self._logs_of(metrics), (trainable, non_trainable, optimizer, metrics)

    def _logs_of(self, metrics: list[Any]) -> dict[str, Any]:
        with keras.StatelessScope(state_mapping=list(zip(self.metrics_variables, metrics, strict=True))):
            return self.get_metrics_result()

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        if self._totals is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        warn_of_masks(y_pred)
        with scaled_losses(self._compile_loss, x, sample_weight, self._totals):
            return super().compute_loss(x, y, y_pred, sample_weight, training)


def _divided(rows: Any, parts: int) -> Any:
    """Return rows `[B, …]` as parts `[parts, B / parts, …]`; part i has every row that is i modulo the parts."""
    if rows is None:
        return None
    if rows.shape[0] % parts:
        raise ValueError(
            f"gradient_accumulation_steps={parts} does not divide the {rows.shape[0]} examples of a batch; choose a "
            "batch size that devices × gradient_accumulation_steps divides, and batch(..., drop_remainder=True)."
        )
    return ops.swapaxes(ops.reshape(rows, (rows.shape[0] // parts, parts, *rows.shape[1:])), 0, 1)
