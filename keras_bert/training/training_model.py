"""The model that trains anywhere: `keras.Model` with what `tf.distribute` and Keras 3 need from each other.

`TrainingModel` takes inputs and outputs like any functional model. On one device and on JAX it is an ordinary model; a
room of its own because it chooses, per backend, what stands behind it, and JAX machines have no TensorFlow to import.
"""

from concurrent.futures import ThreadPoolExecutor

import keras

import keras_bert.model.heads  # noqa: F401  registers all layers, so that a saved TrainingModel loads

if keras.backend.backend() == "tensorflow":
    from keras_bert.training.replica_steps import ReplicaSteps as _Steps
else:
    _Steps = keras.Model  # type: ignore[misc]


@keras.saving.register_keras_serializable("keras_bert")
class TrainingModel(_Steps):
    """A functional model whose `fit`, `evaluate`, `predict` and `save` work on every set of devices.

    Made like `keras.Model(inputs, outputs)`, or from a finished model with `TrainingModel.from_model`. Build, compile
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
        """The same layers and weights as a `TrainingModel`.

        Example:
            >>> TrainingModel.from_model(bert_encoder(BertConfig.preset("tiny"))).name
            'bert'
        """
        return cls(model.input, model.output, name=model.name)

    def compile(self, *args, gradient_accumulation_steps: int = 1, **kwargs):
        """As `keras.Model.compile`, and with `gradient_accumulation_steps`.

        Args:
            gradient_accumulation_steps: Each replica works through its batch in that many parts, one after the other,
                and updates once: the memory of a small batch, the step of the whole one. TensorFlow alone; on JAX give
                the number to the optimizer.
        """
        steps = gradient_accumulation_steps
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"gradient_accumulation_steps={steps!r}: expected an integer of at least 1.")
        if steps > 1 and keras.backend.backend() != "tensorflow":
            raise ValueError(
                f"gradient_accumulation_steps={steps} works on the TensorFlow backend; on "
                f"{keras.backend.backend()} give it to the optimizer, e.g. AdamW(gradient_accumulation_steps={steps}), "
                "and make the batches smaller."
            )
        self.gradient_accumulation_steps = steps
        super().compile(*args, **kwargs)
        self._refuse_optimizers_own_accumulation()

    def save(self, *args, **kwargs):
        """As `keras.Model.save`; one of several processes can call it alone."""
        return _outside_scopes(super().save, *args, **kwargs)

    def save_weights(self, *args, **kwargs):
        """As `keras.Model.save_weights`; one of several processes can call it alone."""
        return _outside_scopes(super().save_weights, *args, **kwargs)

    def predict(self, *args, **kwargs):
        """As `keras.Model.predict`. On several JAX processes Keras cannot collect the outputs: an error says so."""
        if keras.backend.backend() == "jax":
            import jax

            if jax.process_count() > 1:
                raise RuntimeError(
                    f"predict() cannot collect outputs from {jax.process_count()} JAX processes; save the model and "
                    "predict in one process, or use evaluate()."
                )
        return super().predict(*args, **kwargs)

    def _refuse_optimizers_own_accumulation(self):
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        steps = getattr(inner, "gradient_accumulation_steps", None)
        strategy = getattr(self, "_distribute_strategy", None)
        if steps and strategy is not None and strategy.num_replicas_in_sync > 1:
            raise ValueError(
                f"The optimizer has gradient_accumulation_steps={steps}, which Keras cannot run under "
                f"{type(strategy).__name__}; give it to TrainingModel.compile(gradient_accumulation_steps={steps}) "
                "instead, with batches that are as many times larger."
            )

    def get_compile_config(self):
        config = super().get_compile_config()
        return {**config, "gradient_accumulation_steps": self.gradient_accumulation_steps} if config else config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)


def _outside_scopes(function, *args, **kwargs):
    """Call in a thread, which no scope of devices reaches.

    While saving, Keras makes an optimizer to look at. In the scope of several processes its variables are theirs all,
    and a chief that saves alone would wait for the others for ever.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args, **kwargs).result()
