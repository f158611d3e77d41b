"""`TrainingModel`: a functional model that trains on every set of devices.

On one device it is an ordinary model. Its base class depends on the backend, because a machine with JAX may not have
TensorFlow.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras

import keras_bert.model.heads  # noqa: F401  registers all layers, so that a saved TrainingModel loads

if keras.backend.backend() == "tensorflow":
    from keras_bert.training.replica_steps import ReplicaSteps as _Steps
elif keras.backend.backend() == "jax":
    from keras_bert.training.jax_steps import JaxSteps as _Steps
else:
    _Steps = keras.Model  # type: ignore[misc]


@keras.saving.register_keras_serializable("keras_bert")
class TrainingModel(_Steps):
    """A functional model whose `fit`, `evaluate`, `predict` and `save` work on every set of devices.

    Create it like `keras.Model(inputs, outputs)`, or from another model with `TrainingModel.from_model`. Build, compile
    and fit it inside `devices.scope()`, and compile with `**devices.compile_options()`.

    Example:
        >>> devices = choose_devices()
        >>> with devices.scope():
        ...     model = TrainingModel.from_model(bert_model(config, "classification", num_classes=2))
        ...     model.compile("adamw", {"class_logits": loss}, **devices.compile_options())
        ...     model.fit(devices.distribute(dataset))
    """

    gradient_accumulation_steps = 1

    @classmethod
    def from_model(cls, model: keras.Model) -> "TrainingModel":
        """Create a `TrainingModel` with the layers and weights of another model.

        Example:
            >>> TrainingModel.from_model(bert_encoder(BertConfig.preset("tiny"))).name
            'bert'
        """
        return cls(model.input, model.output, name=model.name)

    def compile(self, *args: Any, gradient_accumulation_steps: int = 1, **kwargs: Any) -> None:
        """Compile as `keras.Model.compile` does, optionally with `gradient_accumulation_steps`.

        Args:
            gradient_accumulation_steps: Each replica splits its batch into that many parts, one after the other, and
                updates once: it needs the memory of a part, and takes the step of the whole batch.
        """
        steps = gradient_accumulation_steps
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"gradient_accumulation_steps={steps!r}: expected an integer of at least 1.")
        if steps > 1 and keras.backend.backend() not in ("tensorflow", "jax"):
            raise ValueError(
                f"gradient_accumulation_steps={steps} needs TensorFlow or JAX; on {keras.backend.backend()} pass it to "
                f"the optimizer, e.g. AdamW(gradient_accumulation_steps={steps}), and make the batches smaller."
            )
        self.gradient_accumulation_steps = steps
        super().compile(*args, **kwargs)
        self._refuse_optimizers_own_accumulation()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save as `keras.Model.save` does; one of several processes can call it alone."""
        return _outside_scopes(super().save, *args, **kwargs)

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Save as `keras.Model.save_weights` does; one of several processes can call it alone."""
        return _outside_scopes(super().save_weights, *args, **kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """Predict as `keras.Model.predict` does, but raise an error on several JAX processes."""
        if keras.backend.backend() == "jax":
            import jax

            if jax.process_count() > 1:
                raise RuntimeError(
                    f"Keras cannot collect the outputs of {jax.process_count()} JAX processes in predict(); save the "
                    "model and predict in one process, or use evaluate()."
                )
        return super().predict(*args, **kwargs)

    def _refuse_optimizers_own_accumulation(self) -> None:
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        steps = getattr(inner, "gradient_accumulation_steps", None)
        strategy = getattr(self, "_distribute_strategy", None)
        if steps and strategy is not None and strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"The optimizer has gradient_accumulation_steps={steps}, which Keras cannot run under "
                f"{type(strategy).__name__}; pass it to TrainingModel.compile(gradient_accumulation_steps={steps}) "
                f"instead, with batches {steps} times as large."
            )

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        return {**config, "gradient_accumulation_steps": self.gradient_accumulation_steps} if config else config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)


def _outside_scopes(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread, outside of all device scopes.

    While saving, Keras creates a temporary optimizer. In a scope of several processes its variables belong to all of
    them, and a chief that saves alone would wait for the others forever.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args, **kwargs).result()
