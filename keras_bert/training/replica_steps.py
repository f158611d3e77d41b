"""One training step as each replica of a `tf.distribute` strategy runs it.

Takes what Keras' TensorFlow trainer takes, gives what it gives; a room of its own because Keras 3 leaves four gaps
there, each closed by an override of `keras.Model`:

- XLA: Keras compiles the whole distributed step, which fails. Here XLA compiles what one replica computes (forward
  pass, loss, metrics, gradients), and the exchange between replicas stays outside.
- Several machines: Keras builds the model from a batch that lies on all of them, and reduces logs over an axis that
  scalars do not have. Here it builds from the batch at hand, and logs have shape `[1]`.
- Clipping: the optimizer clips what one replica computed, and by a norm that counts a token's embedding once for each
  time it occurs. Here it clips the gradients of the global batch, so that all sets of devices take the same step.
- Gradient accumulation: the optimizer's own fails under a strategy. Here a replica works through its batch in parts and
  adds up their gradients, so a step is a step to optimizer, schedule and callbacks.

A replica that got fewer examples than the others (the last batch of an epoch) counts by its examples, and a loss that
is divided by the sum of its weights is divided by that of the global batch (`whole_batch_loss.py`), so the step equals
that of one device. Replicas draw their own dropout masks.
"""

import contextlib

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
    """`keras.Model` on TensorFlow, with steps that are the same on one device and on many. See `TrainingModel`."""

    gradient_accumulation_steps = 1
    _inner_jit = False

    # === Steps ===

    def train_step(self, data):
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

    def test_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)

        def evaluate(x, y, sample_weight, totals, values):
            with self._state_of(values) as new_values:
                self._measure(x, y, sample_weight, totals, training=False)
            return new_values()

        totals = batch_totals(self._compile_loss, x, sample_weight)
        with self._replica_state() as (values, keep):
            keep(self._compiled(evaluate)(x, y, sample_weight, totals, values))
        return self._replica_logs()

    def _accumulate(self, x, y, sample_weight, totals, values):
        """The mean gradients over the parts of a batch, and the state after them."""
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return self._gradients(x, y, sample_weight, totals, values)

        def part(index):
            return keras.tree.map_structure(lambda rows: _part(rows, index, parts), (x, y, sample_weight))

        # The first part goes before the loop: it shows which weights have a gradient.
        gradients, values = self._gradients(*part(0), totals, values)
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]

        def add_part(index, total, values):
            more, values = self._gradients(*part(index), totals, values)
            return index + 1, [old + more[at] for old, at in zip(total, used, strict=True)], values

        start = (tf.constant(1), [gradients[at] for at in used], values)
        _, total, values = tf.while_loop(lambda index, *_: index < parts, add_part, start)
        for at, gradient in zip(used, total, strict=True):
            gradients[at] = gradient / parts
        return gradients, values

    def _gradients(self, x, y, sample_weight, totals, values):
        with self._state_of(values) as new_values:
            with tf.GradientTape() as tape:
                loss = self.optimizer.scale_loss(self._measure(x, y, sample_weight, totals, training=True))
            gradients = tape.gradient(loss, self.trainable_weights)
        return [g if g is None else tf.convert_to_tensor(g) for g in gradients], new_values()

    def _measure(self, x, y, sample_weight, totals, training):
        """The loss of this replica's rows, as their part of the global batch, noted in the metrics."""
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

    def _replica_logs(self):
        """The metrics over all replicas; Keras' mean of their means is wrong where rows or weights are unequal."""
        summed = [variable for variable in self.metrics_variables if variable.aggregation == "sum"]
        # A copy lies on this replica's device, which several machines ask for; what a variable gives may lie on none.
        values = _sum_over_replicas([tf.identity(variable.value) for variable in summed])
        with _ReplicaScope(state_mapping=list(zip(summed, values, strict=True))):
            logs = self.get_metrics_result()
        if isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return {name: tf.reshape(value, [1]) for name, value in logs.items()}
        return logs

    # === State ===

    def _changing_variables(self):
        """What a forward pass changes beside the gradients: seeds, metrics, moving averages."""
        return [*self.non_trainable_variables, *self.metrics_variables]

    @contextlib.contextmanager
    def _replica_state(self):
        """This replica's values of those variables, and a function that stores new ones.

        Variables cannot be assigned inside a compiled function: the replicas have to meet for it.
        """
        variables = self._changing_variables()
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        shifts = [_seed_shift(variable, replica) for variable in variables]

        def keep(values):
            for variable, value, shift in zip(variables, values, shifts, strict=True):
                variable.assign(value if shift is None else value - shift)

        values = [tf.convert_to_tensor(variable.value) for variable in variables]
        yield [v if shift is None else v + shift for v, shift in zip(values, shifts, strict=True)], keep

    @contextlib.contextmanager
    def _state_of(self, values):
        """Compute with these values instead of the variables'; the function that it gives returns the new ones."""
        variables = self._changing_variables()
        with _ReplicaScope(state_mapping=list(zip(variables, values, strict=True))) as scope:
            yield lambda: [tf.convert_to_tensor(scope.get_current_value(variable)) for variable in variables]

    # === How Keras runs the steps ===

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if self.optimizer is not None:
            # The optimizer clips gradients and sums them over the replicas, in this order, so that the clipped norm is
            # a replica's. Steps here sum first, as one device would, and the optimizer must not do it again.
            self.optimizer._all_reduce_sum_gradients = list

    def _compiles_inside(self):
        return self.jit_compile and (
            self.distribute_strategy.num_replicas_in_sync > 1 or self.gradient_accumulation_steps > 1
        )

    def _compiled(self, function):
        # A new function at every tracing: a shared one could serve a replica with the variables of another.
        return tf.function(function, jit_compile=True, autograph=False) if self._inner_jit else function

    def make_train_function(self, force=False):
        with self._graph_around_steps():
            return super().make_train_function(force)

    def make_test_function(self, force=False):
        with self._graph_around_steps():
            return super().make_test_function(force)

    @contextlib.contextmanager
    def _graph_around_steps(self):
        """Where steps compile what they can, the function that Keras wraps around them must stay a plain graph."""
        wanted, self._inner_jit = self.jit_compile, self._compiles_inside()
        self.jit_compile = wanted and not self._inner_jit
        try:
            yield
        finally:
            self.jit_compile = wanted

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync == 1:
            data_batch = iterator._distributed_dataset.element_spec  # costs no batch
        elif iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = next(batches)

        def local(value):
            absent = isinstance(value, (tf.OptionalSpec, tf.experimental.Optional))
            return None if absent else strategy.experimental_local_results(value)[0]

        with strategy.scope():
            return self._symbolic_build(data_batch=keras.tree.map_structure(local, data_batch))


class _ReplicaScope(keras.StatelessScope):
    """Where weights that nobody gave a value keep their own: Keras' regularizers ask the scope for all of them."""

    def get_current_value(self, variable):
        value = super().get_current_value(variable)
        return variable._value if value is None else value


def _sum_over_replicas(values):
    """Each value added up over all replicas; `None` stays `None`."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    summed = iter(context.all_reduce("SUM", [value for value in values if value is not None]))
    return [value if value is None else next(summed) for value in values]


def _part(rows, index, parts):
    """Every `parts`-th row from `index` on."""
    if rows is None:
        return None
    shape = tf.shape(rows)
    split = tf.reshape(rows, tf.concat([[shape[0] // parts, parts], shape[1:]], axis=0))
    part = tf.gather(split, index, axis=1)
    part.set_shape([None, *rows.shape[1:]])
    return part


def _check_parts(rows, parts):
    message = (
        f"gradient_accumulation_steps={parts} does not divide the examples that a replica got; choose a batch size "
        "that replicas × gradient_accumulation_steps divides, and batch(..., drop_remainder=True)."
    )
    return [tf.debugging.assert_equal(rows % parts, 0, message=message)] if parts > 1 else []


def _seed_shift(variable, replica):
    """What is added to a seed so that each replica draws its own numbers; `None` for what is no seed."""
    if not variable.path.endswith("seed_generator_state"):
        return None
    return tf.stack([tf.cast(replica, variable.dtype), tf.zeros((), variable.dtype)])
