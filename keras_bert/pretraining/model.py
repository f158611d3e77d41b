"""Builds the pretraining model: an encoder with the MLM and the NSP head, their losses and metrics.

Takes the batches of `masking.py`, gives a functional Keras model with the loss L = L_MLM + L_NSP. The MLM head is
applied at the masked positions only: at all positions, its product with the vocabulary would cost more than the
encoder.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_bert.model.attention_bias import PackedBias
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config, pool_examples
from keras_bert.model.heads import masked_lm_logits, next_sentence_logits
from keras_bert.model.neighbour_heads import NeighbourHeads
from keras_bert.model.token_scores import token_cross_entropy, token_hits
from keras_bert.model.weights import copy_weights
from keras_bert.pretraining.plan import PretrainingPlan, pretraining_rate
from keras_bert.pretraining.rows.layout import MAX_EXAMPLES
from keras_bert.pretraining.rows.masking import mask_rows
from keras_bert.pretraining.sampled_softmax import (
    SampledAccuracy,
    SampledCrossEntropy,
    SampledPerplexity,
    sampled_masked_lm_logits,
)
from keras_bert.training.devices import Devices
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.training_model import TrainingModel

if TYPE_CHECKING:
    from keras_bert.pretraining.masking import Masking

# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class GatherPositions(keras.layers.Layer):
    """Takes vectors `[B, T, H]` and positions `[B, M]`, gives the vectors there, `[B, M, H]`."""

    def call(self, vectors: Any, positions: Any) -> Any:
        return ops.take_along_axis(vectors, positions[:, :, None], axis=1)

    def compute_output_shape(
        self, vectors_shape: tuple[int | None, ...], positions_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        return (*positions_shape, vectors_shape[-1])


# === Functional Model ===


def pretraining_model(
    config: BertConfig | None,
    *,
    max_predictions: int = 20,
    next_sentence: bool = True,
    packed: bool = False,
    max_examples: int = MAX_EXAMPLES,
    negatives: int | None = None,
    token_counts: Sequence[int] | np.ndarray | None = None,
    encoder: keras.Model | None = None,
    initial: str | NeighbourHeads = "random",
    seed: int | None = None,
    model_class: type[keras.Model] = keras.Model,
) -> keras.Model:
    """Build a BERT for pretraining: takes a masked batch, gives `mlm_logits [B, M, V]` and `nsp_logits [B, 2]`.

    Args:
        config: The sizes of the model. Ignored if `encoder` is given.
        max_predictions: M, as in the masking.
        next_sentence: Whether there is an NSP head; without it the model is a masked LM as in RoBERTa.
        packed: Whether a row holds several examples (`pretraining/shared_rows.py`); `nsp_logits` are `[B, E, 2]` then.
        max_examples: E, as for `pack_rows`.
        negatives: K: in training, compare each masked token with K sampled ones instead of the whole vocabulary; useful
            for vocabularies of 100,000 and more. The model then also takes `masked_ids`; see `sampled_softmax.py`.
            `None`: full softmax.
        token_counts: How often each id occurs in the text (`count_tokens`). The MLM bias then starts with the logarithm
            of their shares, which it would otherwise have to learn first. Negatives are sampled by these counts, or
            by Zipf's law without them.
        encoder: An encoder to train further, made with the same `packed`; `None` makes a new one.
        initial: The weights of a new encoder, as for `bert_encoder`.
        seed: Seed of the initial weights and of dropout.
        model_class: The class of the model, for a custom training step.

    Example:
        >>> model = pretraining_model(BertConfig.preset("tiny", vocabulary_size=100), max_predictions=4)
        >>> sorted((name, tuple(tensor.shape)) for name, tensor in model.output.items())
        [('mlm_logits', (None, 4, 100)), ('nsp_logits', (None, 2))]
    """
    if encoder is None:
        if config is None:
            raise ValueError("config=None; expected a BertConfig, or an existing encoder as encoder=….")
        encoder = bert_encoder(config, packed=packed, initial=initial, seed=seed)
    if isinstance(encoder.get_layer("padding_bias"), PackedBias) != packed:
        raise ValueError(f"The encoder was not made with packed={packed}; use bert_encoder(…, packed={packed}).")
    inputs = dict(encoder.input)
    positions = keras.Input((max_predictions,), dtype="int32", name="masked_positions")
    vectors = GatherPositions(name="masked_vectors")(encoder.output["sequence_output"], positions)
    if negatives is None:
        outputs = {"mlm_logits": masked_lm_logits(encoder, vectors, seed=seed)}
    else:
        ids = inputs["masked_ids"] = keras.Input((max_predictions,), dtype="int32", name="masked_ids")
        logits = sampled_masked_lm_logits(encoder, vectors, ids, negatives, token_counts=token_counts, seed=seed)
        outputs = {"mlm_logits": logits}
    if next_sentence:
        pooled = None
        if packed:
            inputs["example_starts"] = keras.Input((max_examples,), dtype="int32", name="example_starts")
            pooled = pool_examples(encoder, inputs["example_starts"])
        outputs["nsp_logits"] = next_sentence_logits(encoder, pooled, seed=seed)
    model = model_class({**inputs, "masked_positions": positions}, outputs, name="pretraining")
    if token_counts is not None:
        counts = np.asarray(token_counts, "float64") + 1  # a token that never occurs is rare, not impossible
        model.get_layer("mlm_bias").bias.assign(np.log(counts / counts.sum()))
    return model


def losses_and_metrics(model: keras.Model) -> dict[str, Any]:
    """The arguments of `compile`: the loss of each head, and accuracy and perplexity of the masked tokens.

    Example:
        ```python
        model.compile("adamw", **losses_and_metrics(model))
        ```
    """
    losses = {"mlm_logits": TokenCrossEntropy(name="mlm_loss")}
    metrics = {"mlm_logits": [TokenAccuracy(name="accuracy"), Perplexity(name="perplexity")]}
    if "masked_ids" in model.input:  # sampled softmax: the classes in training are not those in evaluation
        size = encoder_config(model).vocabulary_size
        losses["mlm_logits"] = SampledCrossEntropy(size, name="mlm_loss")
        metrics["mlm_logits"] = [SampledAccuracy(size, name="accuracy"), SampledPerplexity(size, name="perplexity")]
    if "nsp_logits" in model.output:
        losses["nsp_logits"] = _cross_entropy("nsp_loss")
        metrics["nsp_logits"] = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    return {"loss": losses, "weighted_metrics": metrics}


def _cross_entropy(name: str) -> keras.losses.Loss:
    # Divided by the sum of the weights, as in BERT, so that every masked token counts the same.
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight", name=name)


@keras.saving.register_keras_serializable("keras_bert")
class TokenCrossEntropy(keras.losses.Loss):
    """The cross-entropy of ids, divided by the sum of the weights."""

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "mlm_loss", dtype: Any = None) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def call(self, ids: Any, logits: Any) -> Any:
        return token_cross_entropy(ids, logits)


@keras.saving.register_keras_serializable("keras_bert")
class TokenAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of ids that have the greatest score."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(token_hits, name=name, dtype=dtype)
        self._direction = "up"  # as Keras' accuracies say to callbacks

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("keras_bert")
class Perplexity(keras.metrics.MeanMetricWrapper):
    """The exponential of the mean cross-entropy of all weighted tokens so far."""

    def __init__(self, name: str = "perplexity", dtype: Any = None) -> None:
        super().__init__(token_cross_entropy, name=name, dtype=dtype)

    def result(self) -> Any:
        return ops.exp(super().result())

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


def features_and_labels(
    batch: dict[str, Any], *, next_sentence: bool = True, sampled: bool = False
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split a masked batch into `(inputs, labels, sample_weights)` for `fit`.

    Args:
        batch: A batch of `mask_batches`.
        next_sentence: As for the model.
        sampled: Whether the model was built with `negatives` and takes `masked_ids`.

    Example:
        ```python
        data = mask_batches(batches, masking, seed=1).map(features_and_labels)
        ```
    """
    names = ["token_ids", "segment_ids", "padding_mask", "masked_positions"]
    names += ["masked_ids"] if sampled else []
    labels, weights = {"mlm_logits": batch["masked_ids"]}, {"mlm_logits": batch["masked_weights"]}
    if next_sentence:
        labels["nsp_logits"] = batch["next_sentence_label"]
        names += ["example_starts"] if "example_starts" in batch else []  # shared rows
        if "next_sentence_weight" in batch:
            weights["nsp_logits"] = batch["next_sentence_weight"]
        else:
            import tensorflow as tf  # here, because the model itself runs on JAX without TensorFlow

            weights["nsp_logits"] = tf.ones_like(batch["next_sentence_label"], tf.float32)
    return {name: batch[name] for name in names}, labels, weights


def config_of_run(config: BertConfig | None, source: keras.Model | None, tokenizer: Any) -> BertConfig:
    """Return the sizes of the model of a run: those asked for, or those of the model to start from.

    Args:
        config: The sizes; `None` takes those of `source`.
        source: The model to start from, or `None`. Its sizes must be those of `config`.
        tokenizer: The tokenizer of the examples.
    """
    if config is None and source is None:
        raise ValueError("config=None: expected a BertConfig, or a model to start_from.")
    config = encoder_config(source) if config is None else config
    if config.vocabulary_size != tokenizer.vocabulary_size:
        raise ValueError(
            f"config.vocabulary_size={config.vocabulary_size}, but the tokenizer has {tokenizer.vocabulary_size} "
            "tokens; use config.replace(vocabulary_size=tokenizer.vocabulary_size)."
        )
    if source is not None:
        there, wanted = asdict(encoder_config(source)), asdict(config)
        free = ("dropout", "attention_dropout")
        wrong = [f"{name}={there[name]}" for name in there if there[name] != wanted[name] and name not in free]
        if wrong:
            raise ValueError(f"start_from has {', '.join(wrong)}, other than the config; pass config=None to take its.")
    return config


def compile_for_run(
    model: keras.Model, config: BertConfig, plan: PretrainingPlan, devices: Devices, **losses_and_metrics: Any
) -> None:
    """Compile a model with the optimizer, the schedule and the devices of a plan; in the scope of the devices."""
    peak = pretraining_rate(config) if plan.learning_rate is None else plan.learning_rate
    optimizer = bert_optimizer(peak, plan.steps, name=plan.optimizer, warmup=plan.warmup, beta_2=plan.beta_2)
    options = devices.compile_options(
        steps_per_execution=plan.steps_at_once, gradient_accumulation_steps=plan.accumulation
    )
    model.compile(optimizer, **losses_and_metrics, **options)


def pretrained_encoder(model: keras.Model, *, return_attentions: bool = False) -> keras.Model:
    """Make a plain encoder with the weights of a pretraining model, for `save_pretrained` or a task.

    Example:
        ```python
        keras_bert.save_pretrained(pretrained_encoder(model), "my-bert", tokenizer=tokenizer)
        ```
    """
    config = encoder_config(model)
    encoder = bert_encoder(config, return_attentions=return_attentions)
    copy_weights(model, encoder, allow_missing=True)  # a model without NSP has no pooler
    return encoder


@keras.saving.register_keras_serializable("keras_bert")
class TokenCountingModel(TrainingModel):
    """A `TrainingModel` whose logs have `tokens`, the number of tokens read in the epoch so far.

    With `masks_batches`, it masks the batches that it trains on inside of its step.

    Example:
        ```python
        model = pretraining_model(config, model_class=TokenCountingModel)
        ```
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.token_count = keras.metrics.Sum(name="tokens")
        self._masked: Callable[[dict[str, Any]], Any] | None = None

    def masks_batches(self, masking: "Masking", batch: dict[str, np.ndarray], **features: Any) -> None:
        """Train on batches of rows and keys from now on (`pretraining/rows/masking.py`); call it after `compile`.

        Args:
            masking: How to mask.
            batch: A batch of such rows; only its shapes matter.
            **features: Options of `features_and_labels`.
        """

        def masked(batch: dict[str, Any]) -> Any:
            return features_and_labels(mask_rows(batch, masking), **features)

        # Losses and metrics are built from labels, which a batch has only when it is masked.
        self._symbolic_build(data_batch=masked({name: np.asarray(rows) for name, rows in batch.items()}))
        self._masked = masked

    def train_step(self, *arguments: Any) -> Any:
        *state, data = arguments  # JAX brings the state along
        step: Any = super().train_step
        return step(*state, data if self._masked is None else self._masked(data))

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Do what `keras.Model.compute_metrics` does, and count tokens."""
        self.token_count.update_state(ops.cast(x["padding_mask"] > 0, "float32"))
        return super().compute_metrics(x, y, y_pred, sample_weight)
