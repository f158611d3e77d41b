"""BERT's optimizers: AdamW and LAMB with warm-up, linear decay, clipping, and no weight decay on biases and norms."""

from typing import Any

import keras
from keras import ops

# Biases, and scale and shift of layer norms: weight decay only harms them.
UNDECAYED = ("bias", "gamma", "beta")


@keras.saving.register_keras_serializable("keras_bert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises linearly from 0 to its peak, then falls linearly.

    Args:
        peak: The highest rate, reached after `warmup_steps`.
        total_steps: The number of steps of the run, after which the rate is `final`.
        warmup_steps: The number of steps in which the rate rises.
        final: The rate at the end.

    Example:
        >>> schedule = WarmupLinearDecay(1e-4, total_steps=100, warmup_steps=10)
        >>> [round(float(schedule(step)) * 1e4, 2) for step in (0, 5, 10, 55, 100)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int = 0, final: float = 0.0):
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                f"warmup_steps={warmup_steps} and total_steps={total_steps}: expected fewer warm-up steps than steps."
            )
        self.peak, self.total_steps, self.warmup_steps, self.final = peak, total_steps, warmup_steps, final

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        climb = self.peak * step / max(self.warmup_steps, 1)
        done = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        fall = self.peak + (self.final - self.peak) * ops.clip(done, 0.0, 1.0)
        return ops.where(step < self.warmup_steps, climb, fall)

    def get_config(self) -> dict[str, Any]:
        names = ("peak", "total_steps", "warmup_steps", "final")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("keras_bert")
class Lamb(keras.optimizers.Lamb):
    """LAMB as in its paper (You et al. 2019, algorithm 2): the trust ratio also scales the weight decay.

    Keras' LAMB applies the decay after the scaling, so a layer with a small trust ratio still decays at full strength.
    """

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        """Do nothing: `update_step` applies the decay."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        step = ops.cast(self.iterations + 1, variable.dtype)
        gradient, rate = ops.cast(gradient, variable.dtype), ops.cast(learning_rate, variable.dtype)
        momentum, velocity = self._momentums[index], self._velocities[index]
        self.assign_add(momentum, (gradient - momentum) * (1 - self.beta_1))
        self.assign_add(velocity, (ops.square(gradient) - velocity) * (1 - self.beta_2))
        corrected = momentum / (1 - ops.power(self.beta_1, step))
        spread = ops.sqrt(velocity / (1 - ops.power(self.beta_2, step)))
        update = corrected / (spread + self.epsilon)
        if self.weight_decay and self._use_weight_decay(variable):
            update = update + self.weight_decay * variable
        weight_norm, update_norm = (ops.sqrt(ops.sum(ops.square(x))) for x in (variable, update))
        usable = ops.logical_and(weight_norm > 0, update_norm > 0)
        ratio = ops.where(usable, weight_norm / ops.where(usable, update_norm, 1.0), 1.0)
        self.assign_sub(variable, ratio * rate * update)


def bert_optimizer(
    learning_rate: float,
    total_steps: int,
    *,
    name: str = "adamw",
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float | None = 1.0,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    accumulate: int | None = None,
) -> keras.optimizers.Optimizer:
    """Create the optimizer of BERT: `"adamw"`, or `"lamb"` for batches of thousands.

    Args:
        learning_rate: The peak of the schedule.
        total_steps: The number of steps of the run, for the decay.
        name: `"adamw"` or `"lamb"`.
        warmup: The fraction of the steps in which the rate rises.
        weight_decay: The decoupled decay of kernels and tables; biases and norms have none.
        clip_norm: The largest global norm of the gradients; `None` does not clip.
        beta_2: How slowly the mean of squared gradients changes; below 1.
        epsilon: Added to the denominator.
        accumulate: How many batches to accumulate before an update; `None` updates after each batch.

    Example:
        >>> bert_optimizer(1e-4, 1000).name
        'adamw'
    """
    if name not in ("adamw", "lamb"):
        raise ValueError(f"name={name!r} is unknown; choose 'adamw' or 'lamb'.")
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup={warmup!r}: expected a fraction of the steps, from 0 to below 1.")
    if not 0 < beta_2 < 1:
        raise ValueError(f"beta_2={beta_2!r}: expected a number between 0 and 1, such as 0.98.")
    schedule = WarmupLinearDecay(learning_rate, total_steps, int(warmup * total_steps))
    kind = keras.optimizers.AdamW if name == "adamw" else Lamb
    optimizer = kind(
        schedule,
        weight_decay=weight_decay,
        global_clipnorm=clip_norm,
        beta_2=beta_2,
        epsilon=epsilon,
        gradient_accumulation_steps=accumulate,
    )
    optimizer.exclude_from_weight_decay(var_names=list(UNDECAYED))
    return optimizer
