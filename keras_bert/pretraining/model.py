"""The model that learns from masked batches: an encoder with the MLM and the NSP head, their losses and metrics.

Takes the batches of `masking.py`, gives a functional Keras model, compiled on request: L = L_MLM + L_NSP. A room of its
own because in pretraining the MLM head looks at the masked positions alone; over all tokens, its product with the
vocabulary would cost more than the encoder.
"""

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder import bert_encoder, encoder_config
from keras_bert.heads import masked_lm_logits, next_sentence_logits

# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class GatherPositions(keras.layers.Layer):
    """The vectors at some positions: `[B, T, H]` and `[B, M]` → `[B, M, H]`."""

    def call(self, vectors, positions):
        return ops.take_along_axis(vectors, positions[:, :, None], axis=1)

    def compute_output_shape(self, vectors_shape, positions_shape):
        return (*positions_shape, vectors_shape[-1])


# === Functional Model ===


def pretraining_model(
    config: BertConfig | None,
    *,
    max_predictions: int = 20,
    next_sentence: bool = True,
    encoder: keras.Model | None = None,
    seed: int | None = None,
    model_class: type[keras.Model] = keras.Model,
) -> keras.Model:
    """A BERT to pretrain: takes a masked batch, gives `mlm_logits [B, M, V]` and `nsp_logits [B, 2]`.

    Args:
        config: Sizes. Ignored where `encoder` is given.
        max_predictions: M, as in the masking.
        next_sentence: Whether there is an NSP head; without one it is a RoBERTa-style masked LM.
        encoder: An encoder to go on training; `None` makes a new one.
        seed: Seed of the initial weights and of dropout.
        model_class: The class of the model, for those with a training step of their own.

    Example:
        >>> model = pretraining_model(BertConfig.preset("tiny", vocabulary_size=100), max_predictions=4)
        >>> sorted((name, tuple(tensor.shape)) for name, tensor in model.output.items())
        [('mlm_logits', (None, 4, 100)), ('nsp_logits', (None, 2))]
    """
    encoder = encoder or bert_encoder(config, seed=seed)
    positions = keras.Input((max_predictions,), dtype="int32", name="masked_positions")
    vectors = GatherPositions(name="masked_vectors")(encoder.output["sequence_output"], positions)
    outputs = {"mlm_logits": masked_lm_logits(encoder, vectors, seed=seed)}
    if next_sentence:
        outputs["nsp_logits"] = next_sentence_logits(encoder, seed=seed)
    return model_class({**encoder.input, "masked_positions": positions}, outputs, name="pretraining")


def losses_and_metrics(model: keras.Model) -> dict:
    """What `compile` needs: the loss of each head, and accuracy and perplexity over the masked tokens alone.

    Example:
        ```python
        model.compile("adamw", **losses_and_metrics(model))
        ```
    """
    losses = {"mlm_logits": _cross_entropy("mlm_loss")}
    metrics = {"mlm_logits": [keras.metrics.SparseCategoricalAccuracy(name="accuracy"), Perplexity(name="perplexity")]}
    if "nsp_logits" in model.output:
        losses["nsp_logits"] = _cross_entropy("nsp_loss")
        metrics["nsp_logits"] = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    return {"loss": losses, "weighted_metrics": metrics}


def _cross_entropy(name):
    # Divided by the sum of the weights, as BERT does: a row with few masked tokens counts by those.
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight", name=name)


@keras.saving.register_keras_serializable("keras_bert")
class Perplexity(keras.metrics.MeanMetricWrapper):
    """exp of the mean cross-entropy over all weighted tokens so far."""

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(_token_cross_entropy, name=name, dtype=dtype)

    def result(self):
        return ops.exp(super().result())

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype}


def _token_cross_entropy(ids, logits):
    return keras.losses.sparse_categorical_crossentropy(ids, logits, from_logits=True)


def features_and_labels(batch: dict, *, next_sentence: bool = True):
    """A masked batch as `fit` takes it: `(inputs, labels, sample_weights)`.

    Example:
        ```python
        data = mask_batches(packed, masking, seed=1).map(features_and_labels)
        ```
    """
    import tensorflow as tf  # late: the model alone runs on JAX without TensorFlow

    names = ("token_ids", "segment_ids", "padding_mask", "masked_positions")
    labels, weights = {"mlm_logits": batch["masked_ids"]}, {"mlm_logits": batch["masked_weights"]}
    if next_sentence:
        labels["nsp_logits"] = batch["next_sentence_label"]
        weights["nsp_logits"] = tf.ones_like(batch["next_sentence_label"], tf.float32)
    return {name: batch[name] for name in names}, labels, weights


def pretrained_encoder(model: keras.Model, *, return_attentions: bool = False) -> keras.Model:
    """A plain encoder that shares the weights of a pretraining model, ready for `save_pretrained` or a task.

    Example:
        ```python
        keras_bert.save_pretrained(pretrained_encoder(model), "my-bert", tokenizer=tokenizer)
        ```
    """
    config = encoder_config(model)
    encoder = bert_encoder(config, return_attentions=return_attentions)
    for layer in encoder.layers:
        if layer.weights and layer.name in {ours.name for ours in model.layers}:
            layer.set_weights(model.get_layer(layer.name).get_weights())
    return encoder
