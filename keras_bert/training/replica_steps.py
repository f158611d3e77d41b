"""The training step of one replica of a `tf.distribute` strategy.

It replaces the step of Keras' TensorFlow trainer, which has four problems with strategies in Keras 3:

- XLA: Keras compiles the whole distributed step, which fails. Here XLA compiles what one replica computes (forward
  pass, loss, metrics, gradients), and the communication between replicas stays outside.
- Several machines: Keras builds the model from a batch that is spread over all of them, and reduces logs over an axis
  that scalars do not have. Here the model is built from the local batch, and logs have shape `[1]`.
- Clipping: the optimizer clips the gradients of one replica, by a norm that counts a token's embedding as often as it
  occurs. Here it clips the gradients of the global batch, so that the step does not depend on the devices.
- Gradient accumulation: the optimizer's fails under a strategy. Here a replica splits its batch into parts and adds up
  their gradients, so that optimizer, schedule and callbacks see one step.

A replica with fewer examples than the others (in the last batch of an epoch) is weighted by its examples, and a loss
that is divided by the sum of its weights is divided by that of the global batch (`whole_batch_loss.py`), so the step
equals that of one device. Each replica has different dropout masks.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_bert.training.whole_batch_loss import (
    batch_totals,
    row_count,
    scaled_losses,
    share_of_batch,
    warn_of_masks,
)


class ReplicaSteps(keras.Model):
    """A `keras.Model` on TensorFlow whose steps are the same on one device and on many. See `TrainingModel`."""

    gradient_accumulation_steps = 1
    _inner_jit = False
    jit_compile: bool  # a property of Keras' trainer

    # === Steps ===

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        check_parts = _check_parts(row_count(x), self.gradient_accumulation_steps)
        totals = batch_totals(self._compile_loss, x, sample_weight)
        with tf.control_dependencies(check_parts), self._replica_state() as (values, keep):
            gradients, values = self._compiled(self._accumulate)(x, y, sample_weight, totals, values)
            keep(values)
        share = share_of_batch(x, totals)
        gradients = _sum_over_replicas([g if g is None else g * tf.cast(share, g.dtype) for g in gradients])
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        return self._replica_logs()

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)

        def evaluate(x: Any, y: Any, sample_weight: Any, totals: Any, values: list[Any]) -> list[Any]:
            with self._state_of(values) as new_values:
                self._measure(x, y, sample_weight, totals, training=False)
            return new_values()

        totals = batch_totals(self._compile_loss, x, sample_weight)
        with self._replica_state() as (values, keep):
            keep(self._compiled(evaluate)(x, y, sample_weight, totals, values))
        return self._replica_logs()

    def _accumulate(
        self, x: Any, y: Any, sample_weight: Any, totals: Any, values: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the mean gradients over the parts of a batch, and the state after them."""
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return self._gradients(x, y, sample_weight, totals, values)

        def part(index: Any) -> tuple[Any, Any, Any]:
            return keras.tree.map_structure(lambda rows: _part(rows, index, parts), (x, y, sample_weight))

        # The first part is computed before the loop: it shows which weights have a gradient.
        gradients, values = self._gradients(*part(0), totals, values)
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]

        def add_part(index: Any, total: list[Any], values: list[Any]) -> tuple[Any, list[Any], list[Any]]:
            more, values = self._gradients(*part(index), totals, values)
            return index + 1, [old + more[at] for old, at in zip(total, used, strict=True)], values

        start = (tf.constant(1), [gradients[at] for at in used], values)
        _, total, values = tf.while_loop(lambda index, *_: index < parts, add_part, start)
        for at, gradient in zip(used, total, strict=True):
            gradients[at] = gradient / parts
        return gradients, values

    def _gradients(
        self, x: Any, y: Any, sample_weight: Any, totals: Any, values: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        with self._state_of(values) as new_values:
            with tf.GradientTape() as tape:
                loss = self.optimizer.scale_loss(self._measure(x, y, sample_weight, totals, training=True))
            gradients = tape.gradient(loss, self.trainable_weights)
        return [g if g is None else tf.convert_to_tensor(g) for g in gradients], new_values()

    def _measure(self, x: Any, y: Any, sample_weight: Any, totals: Any, training: bool) -> Any:
        """Return the loss of this replica's rows as a part of the global batch, and update the metrics."""
        y_pred = self(x, training=training)
        # Keras divides a replica's loss by the number of replicas, because their gradients are summed.
        replicas = self.distribute_strategy.num_replicas_in_sync
        if replicas > 1 or self.gradient_accumulation_steps > 1:
            warn_of_masks(y_pred)
        with scaled_losses(self._compile_loss, x, sample_weight, totals):
            loss = self._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        self._loss_tracker.update_state(loss * tf.cast(replicas, loss.dtype), sample_weight=row_count(x))
        self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return loss

    def _replica_logs(self) -> dict[str, Any]:
        """Return the metrics over all replicas; Keras' mean of their means is wrong for unequal rows or weights."""
        summed = [variable for variable in self.metrics_variables if variable.aggregation == "sum"]
        # A copy is on this replica's device, which several machines need; a variable's value may be on none.
        values = _sum_over_replicas([tf.identity(variable.value) for variable in summed])
        with _ReplicaScope(state_mapping=list(zip(summed, values, strict=True))):
            logs = self.get_metrics_result()
        if isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return {name: tf.reshape(value, [1]) for name, value in logs.items()}
        return logs

    # === State ===

    def _changing_variables(self) -> list[Any]:
        """Return the variables that a forward pass changes: seeds, metrics, moving averages."""
        return [*self.non_trainable_variables, *self.metrics_variables]

    @contextlib.contextmanager
    def _replica_state(self) -> Iterator[tuple[list[Any], Callable[[list[Any]], None]]]:
        """Give this replica's values of those variables, and a function that stores new ones.

        Variables cannot be assigned inside a compiled function, because the assignment synchronizes the replicas.
        """
        variables = self._changing_variables()
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shifts = [_seed_shift(variable, replica) for variable in variables]

        def keep(values: list[Any]) -> None:
            for variable, value, shift in zip(variables, values, shifts, strict=True):
                variable.assign(value if shift is None else value - shift)

        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        yield [v if shift is None else v + shift for v, shift in zip(values, shifts, strict=True)], keep

    @contextlib.contextmanager
    def _state_of(self, values: list[Any]) -> Iterator[Callable[[], list[Any]]]:
        """Compute with these values instead of the variables'; gives a function that returns the new values."""
        variables = self._changing_variables()
        with _ReplicaScope(state_mapping=list(zip(variables, values, strict=True))) as scope:
            yield lambda: [tf.convert_to_tensor(scope.get_current_value(variable)) for variable in variables]

    # === How Keras runs the steps ===

    def compile(self, *args: Any, **kwargs: Any) -> None:
        super().compile(*args, **kwargs)
        if self.optimizer is not None:
            # The optimizer first clips gradients and then sums them over the replicas, so that it clips by the norm of
            # one replica. Steps here sum first, as one device would, and the optimizer must not sum again.
            self.optimizer._all_reduce_sum_gradients = list

    def _compiles_inside(self) -> bool:
        return self.jit_compile and (
            self.distribute_strategy.num_replicas_in_sync > 1 or self.gradient_accumulation_steps > 1
        )

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # A new function at every tracing: a shared one could use the variables of another replica.
        return tf.function(function, jit_compile=True, autograph=False) if self._inner_jit else function

    def make_train_function(self, force: bool = False) -> Callable[..., Any]:
        with self._graph_around_steps():
            return super().make_train_function(force)

    def make_test_function(self, force: bool = False) -> Callable[..., Any]:
        with self._graph_around_steps():
            return super().make_test_function(force)

    @contextlib.contextmanager
    def _graph_around_steps(self) -> Iterator[None]:
        """Keep the function that Keras wraps around the steps a plain graph, if the steps use XLA themselves."""
        wanted, self._inner_jit = self.jit_compile, self._compiles_inside()
        self.jit_compile = wanted and not self._inner_jit
        try:
            yield
        finally:
            self.jit_compile = wanted

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync == 1:
            data_batch = iterator._distributed_dataset.element_spec  # costs no batch
        elif iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = next(batches)

        def local(value: Any) -> Any:
            absent = isinstance(value, (tf.OptionalSpec, tf.experimental.Optional))
            return None if absent else strategy.experimental_local_results(value)[0]

        with strategy.scope():
            return self._symbolic_build(data_batch=keras.tree.map_structure(local, data_batch))


class _ReplicaScope(keras.StatelessScope):
    """A scope in which weights without a given value keep their own; Keras' regularizers read all of them."""

    def get_current_value(self, variable: Any) -> Any:
        value = super().get_current_value(variable)
        return variable._value if value is None else value


def _sum_over_replicas(values: list[Any]) -> list[Any]:
    """Return each value summed over all replicas; `None` stays `None`."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    summed = iter(context.all_reduce("SUM", [value for value in values if value is not None]))
    return [value if value is None else next(summed) for value in values]


def _part(rows: Any, index: Any, parts: int) -> Any:
    """Return every `parts`-th row, beginning at `index`."""
    if rows is None:
        return None
    shape = tf.shape(rows)
    split = tf.reshape(rows, tf.concat([[shape[0] // parts, parts], shape[1:]], axis=0))
    part = tf.gather(split, index, axis=1)
    part.set_shape([None, *rows.shape[1:]])
    return part


def _check_parts(rows: Any, parts: int) -> list[Any]:
    message = (
        f"gradient_accumulation_steps={parts} does not divide the examples of a replica; choose a batch size "
        "that replicas × gradient_accumulation_steps divides, and batch(..., drop_remainder=True)."
    )
    return [tf.debugging.assert_equal(rows % parts, 0, message=message)] if parts > 1 else []


def _seed_shift(variable: Any, replica: Any) -> Any:
    """Return what to add to a seed, so that replicas have different random numbers; `None` for other variables."""
    if not variable.path.endswith("seed_generator_state"):
        return None
    return tf.stack([tf.cast(replica, variable.dtype), tf.zeros((), variable.dtype)])
