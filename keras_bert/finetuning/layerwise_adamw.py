"""AdamW for fine-tuning: a learning rate for each layer, and decay towards the pretrained weights.

Lower layers are more general and should change less (Howard & Ruder 2018), and weights should decay towards their
pretrained values rather than towards zero (Lee et al. 2020, section 3).
"""

import re
from typing import Any

import keras
from keras import ops

from keras_bert.training.optimizers import UNDECAYED, WarmupLinearDecay

_BLOCK = re.compile(r"block_(\d+)")

# Keras adds it before the bias correction, which makes it much larger in the first steps, when clipped gradients are
# small: the usual 1e-6 would slow down most weights.
_EPSILON = 1e-8


@keras.saving.register_keras_serializable("keras_bert")
class LayerwiseAdamW(keras.optimizers.AdamW):
    """AdamW with a learning rate that decreases from the heads down to the embeddings.

    Args:
        learning_rate: The rate of the heads and the pooler, a number or a schedule.
        layer_decay: The rate of a layer divided by that of the layer above it; 1 gives all layers the same rate.
        pretrained_decay: The decoupled decay towards the values that variables had when training began. Heads are left
            out, because they have no pretrained values.
        kwargs: As for `keras.optimizers.AdamW`.

    Example:
        >>> optimizer = LayerwiseAdamW(1e-4, layer_decay=0.9)
        >>> optimizer.build(bert_encoder(BertConfig.preset("tiny")).trainable_variables)
        >>> optimizer.rate_factors["token_embedding/embeddings"].__round__(3)  # two blocks and the head above it
        0.729
    """

    def __init__(
        self,
        learning_rate: Any = 2e-5,
        *,
        layer_decay: float = 1.0,
        pretrained_decay: float = 0.0,
        name: str = "layerwise_adamw",
        **kwargs: Any,
    ):
        if not 0 < layer_decay <= 1:
            raise ValueError(f"layer_decay={layer_decay!r}: expected a number over 0 and at most 1 (1 is off).")
        if pretrained_decay < 0:
            raise ValueError(f"pretrained_decay={pretrained_decay!r}: expected 0 (off) or a positive number.")
        super().__init__(learning_rate, name=name, **kwargs)
        self.layer_decay, self.pretrained_decay = layer_decay, pretrained_decay

    def build(self, variables: list[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        depths = [layer_depth(variable.path) for variable in variables]
        blocks = 1 + max((depth for depth in depths if depth is not None), default=0)
        self._factors = [self.layer_decay ** (0 if depth is None else blocks - depth) for depth in depths]
        self._anchors = [None] * len(depths)
        if self.pretrained_decay:
            self._anchors = [
                None if depth is None else self._anchor(variable)
                for variable, depth in zip(variables, depths, strict=True)
            ]

    def _anchor(self, variable: Any) -> Any:
        anchor = self.add_variable_from_reference(variable, name="pretrained")
        anchor.assign(variable)
        return anchor

    @property
    def rate_factors(self) -> dict[str, float]:
        """The factor of the learning rate for each variable, by its path."""
        paths = (variable.path for variable in self._trainable_variables)
        return dict(zip(paths, self._factors, strict=True))

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        """Do nothing: `update_step` applies the decay with the rate of the layer."""

    def _backend_update_step(self, grads: list[Any], trainable_variables: list[Any], learning_rate: Any) -> None:
        # Keras corrects the bias anew for each variable, a third of the ops of a step: here it is done once.
        step = ops.cast(self.iterations + 1, "float32")
        rate = ops.cast(learning_rate, "float32")
        correction = ops.sqrt(1 - ops.power(self.beta_2, step)) / (1 - ops.power(self.beta_1, step))
        super()._backend_update_step(grads, trainable_variables, ops.stack([rate, rate * correction]))

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update a variable; `learning_rate` has two numbers, the rate and the rate with Adam's bias correction."""
        index = self._get_variable_index(variable)
        rates = ops.cast(learning_rate, variable.dtype) * self._factors[index]
        if self.weight_decay and self._use_weight_decay(variable):
            self.assign_sub(variable, rates[0] * self.weight_decay * variable)
        if self._anchors[index] is not None:
            self.assign_sub(variable, rates[0] * self.pretrained_decay * (variable - self._anchors[index]))
        gradient = ops.cast(gradient, variable.dtype)
        mean, square = self._momentums[index], self._velocities[index]
        self.assign_add(mean, (gradient - mean) * (1 - self.beta_1))
        self.assign_add(square, (ops.square(gradient) - square) * (1 - self.beta_2))
        self.assign_sub(variable, rates[1] * mean / (ops.sqrt(square) + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layer_decay": self.layer_decay, "pretrained_decay": self.pretrained_decay}


def layer_depth(path: str) -> int | None:
    """Return the depth of a variable by its path: 0 for embeddings, i + 1 for block i, `None` for pooler and heads.

    Example:
        >>> [layer_depth(path) for path in ("embeddings/position", "block_3/output/kernel", "classifier/bias")]
        [0, 4, None]
    """
    top = path.split("/")[0]
    if top in ("embeddings", "token_embedding"):
        return 0
    block = _BLOCK.fullmatch(top)
    return int(block.group(1)) + 1 if block else None


def finetuning_optimizer(
    learning_rate: float,
    total_steps: int,
    *,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float | None = 1.0,
    layer_decay: float = 1.0,
    pretrained_decay: float = 0.0,
) -> LayerwiseAdamW:
    """Create AdamW with bias correction, warm-up and linear decay, without weight decay on biases and norms.

    Example:
        >>> finetuning_optimizer(2e-5, 1000, layer_decay=0.95).layer_decay
        0.95
    """
    schedule = WarmupLinearDecay(learning_rate, total_steps, int(warmup * total_steps))
    optimizer = LayerwiseAdamW(
        schedule,
        layer_decay=layer_decay,
        pretrained_decay=pretrained_decay,
        weight_decay=weight_decay,
        global_clipnorm=clip_norm,
        epsilon=_EPSILON,
    )
    optimizer.exclude_from_weight_decay(var_names=list(UNDECAYED))
    return optimizer
