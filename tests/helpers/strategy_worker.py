"""One training process of the strategy tests: 20 steps of a tiny BERT, and what came of them as an `.npz` file.

    python tests/helpers/strategy_worker.py STRATEGY OUT.npz [--logical-cpus 2] [--steps-per-execution 4]

Data and initial weights come from NumPy, so that every backend and every strategy starts from the same place.
"""

import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

STEPS, BATCH, LENGTH, VOCABULARY = 20, 8, 12, 40


def make_dataset():
    """Deterministic batches of token ids with labels and weights for both heads.

    The halves of a batch have very unequal weights, so that a device that divides by its own would show.
    """
    import numpy as np
    import tensorflow as tf

    random, examples = np.random.default_rng(5), STEPS * BATCH
    ids = random.integers(1, VOCABULARY, (examples, LENGTH)).astype("int32")
    mask = (np.arange(LENGTH) < random.integers(4, LENGTH + 1, (examples, 1))).astype("int32")
    x = {"token_ids": ids * mask, "segment_ids": mask * 0, "padding_mask": mask}
    y = {"mlm_logits": (ids + 1) % VOCABULARY, "nsp_logits": ids[:, 0] % 2}
    few = np.where(np.arange(examples)[:, None] % BATCH < BATCH // 2, 0.8, 0.05)
    weights = {
        "mlm_logits": (random.random((examples, LENGTH)) < few).astype("float32"),
        "nsp_logits": random.uniform(0, 2, examples).astype("float32"),
    }
    return tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(BATCH, drop_remainder=True)


def make_model():
    """A tiny BERT with two heads and weights from NumPy. Call it in the scope of the devices."""
    import numpy as np

    from keras_bert.model.config import BertConfig
    from keras_bert.model.heads import bert_model
    from keras_bert.training.training_model import TrainingModel

    small = {"num_layers": 1, "hidden_dim": 32, "intermediate_dim": 64, "max_sequence_length": LENGTH}
    config = BertConfig.preset("tiny", vocabulary_size=VOCABULARY, dropout=0.0, attention_dropout=0.0, **small)
    model = TrainingModel.from_model(bert_model(config, ("masked_lm", "next_sentence"), seed=1))
    random = np.random.default_rng(6)
    for weight in model.trainable_weights:
        middle = 1.0 if "gamma" in weight.path else 0.0
        weight.assign(random.normal(middle, 0.05, weight.shape).astype("float32"))
    return model


def compile_model(model, **options):
    """AdamW and both losses, with the options that are under test."""
    import keras

    by_weight = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    by_rows = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.AdamW(1e-3, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0),
        loss={"mlm_logits": by_weight, "nsp_logits": by_rows},
        loss_weights={"mlm_logits": 1.0, "nsp_logits": 0.5},
        weighted_metrics={"mlm_logits": "sparse_categorical_accuracy"},
        **options,
    )
    return model


def record_losses():
    """A callback that keeps the running mean of the loss by step."""
    import keras

    class RecordLosses(keras.callbacks.Callback):
        losses: dict = {}

        def on_train_batch_end(self, batch, logs=None):
            self.losses[batch] = float(logs["loss"])

    return RecordLosses()


def predict(model, dataset, devices):
    """The NSP logits of all examples; several JAX processes cannot give them, and must say so."""
    if devices.name == "data_parallel" and devices.num_workers > 1:
        try:
            model.predict(dataset, verbose=0)
        except RuntimeError as error:
            return str(error)
    return model.predict(dataset, verbose=0)["nsp_logits"]


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("strategy")
    parser.add_argument("out")
    parser.add_argument("--logical-cpus", type=int, default=1)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    import numpy as np

    if arguments.logical_cpus > 1:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * arguments.logical_cpus
        tf.config.set_logical_device_configuration(cpu, parts)

    from keras_bert.training.devices import choose_devices

    devices = choose_devices(arguments.strategy)
    print(devices, flush=True)
    recorder = record_losses()
    with devices.scope():
        options = devices.compile_options(steps_per_execution=arguments.steps_per_execution)
        model = compile_model(make_model(), **options)
        dataset = devices.distribute(make_dataset(), batch_size=BATCH)
        history = model.fit(dataset, verbose=0, shuffle=False, callbacks=[recorder]).history
        evaluated = model.evaluate(dataset, verbose=0, return_dict=True)
        predicted = predict(model, dataset, devices)
        if devices.is_chief:
            model.save(arguments.out.replace(".npz", ".keras"))
    weights = {f"weight_{weight.path}": np.asarray(weight) for weight in model.trainable_weights}
    np.savez(
        arguments.out,
        name=devices.name,
        replicas=devices.num_replicas,
        steps=sorted(recorder.losses),
        losses=[recorder.losses[step] for step in sorted(recorder.losses)],
        epoch_losses=[history[name][0] for name in sorted(history)],
        evaluated=[evaluated[name] for name in sorted(evaluated)],
        predicted=predicted,
        **weights,
    )


if __name__ == "__main__":
    main()
