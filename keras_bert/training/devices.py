"""Chooses the devices to train on, the strategy, and the fastest settings that work there.

`choose_devices()` looks at the backend, the devices and `TF_CONFIG` and returns a `Devices`. It says what was chosen
and why, and has what Keras needs: a scope, options for `compile`, and a distributed dataset.

| name | what it is | XLA | steps per execution |
|---|---|---|---|
| `one` | one CPU, GPU or (JAX) TPU core | the whole step | several |
| `mirrored` | several GPUs, `tf.distribute.MirroredStrategy` | inside each replica | 1 |
| `multi_worker` | several machines, `MultiWorkerMirroredStrategy` | inside each replica | 1 |
| `tpu` | `TPUStrategy`, with `tensorflow-tpu` installed; not tested with Keras 3 | always | 1 |
| `data_parallel` | JAX, `keras.distribution.DataParallel`, one or several processes | the whole step | several |
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras

from keras_bert.training import device_sets

STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu", "data_parallel")


@dataclass(frozen=True)
class Devices:
    """The choice of `choose_devices`. Prints as a small table.

    Args:
        name: One of `STRATEGIES`, without `auto`.
        reason: Why it was chosen.
        device_type: `"CPU"`, `"GPU"` or `"TPU"`.
        num_replicas: The number of copies of the model on all machines; the global batch is divided among them.
        num_workers: The number of training processes.
        worker_index: The index of this process.
        precision: The dtype policy of models that are built in the scope.
        strategy: The `tf.distribute.Strategy` or `keras.distribution.Distribution`, `None` on one device.
    """

    name: str
    reason: str
    device_type: str
    num_replicas: int = 1
    num_workers: int = 1
    worker_index: int = 0
    precision: str = "float32"
    strategy: Any = field(default=None, repr=False)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return self.worker_index == 0

    @property
    def several_steps(self) -> bool:
        """Whether Keras can run several steps per execution here."""
        return self.name in ("one", "data_parallel")

    @contextlib.contextmanager
    def scope(self) -> Iterator["Devices"]:
        """Enter the context in which a model is built, compiled and trained; it sets the dtype policy meanwhile.

        Example:
            >>> with choose_devices().scope() as devices:
            ...     model = bert_model(BertConfig.preset("tiny"))
        """
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.precision)
        try:
            with self.strategy.scope() if self.strategy is not None else contextlib.nullcontext():
                yield self
        finally:
            keras.config.set_dtype_policy(before)

    def compile_options(self, *, steps_per_execution: int = 16, gradient_accumulation_steps: int = 1) -> dict[str, Any]:
        """Return the fastest options for `compile` that work on these devices.

        Args:
            steps_per_execution: The steps that run in one call, if that works on these devices; otherwise it is 1.
            gradient_accumulation_steps: The number of parts into which a replica's batch is split. More than 1 needs a
                `TrainingModel`.

        Example:
            >>> choose_devices("one").compile_options(steps_per_execution=8)
            {'jit_compile': True, 'steps_per_execution': 8}
        """
        options: dict[str, Any] = {
            "jit_compile": self.name != "tpu",  # TPUStrategy compiles everything by itself
            "steps_per_execution": steps_per_execution if self.several_steps else 1,
        }
        if gradient_accumulation_steps != 1:
            options["gradient_accumulation_steps"] = gradient_accumulation_steps
        return options

    def replica_batch_size(self, batch_size: int) -> int:
        """Return how many examples of a global batch each replica gets.

        Example:
            >>> choose_devices("one").replica_batch_size(32)
            32
        """
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"batch_size={batch_size!r}: expected an integer of at least 1.")
        if batch_size % self.num_replicas:
            lower = batch_size - batch_size % self.num_replicas
            nearest = f"{lower} or {lower + self.num_replicas}" if lower else f"{self.num_replicas}"
            raise ValueError(
                f"batch_size={batch_size} is the batch of all {self.num_replicas} replicas together and does not "
                f"divide among them; use {nearest}."
            )
        return batch_size // self.num_replicas

    def distribute(self, dataset: Any, *, batch_size: int | None = None, shard: str = "data") -> Any:
        """Prepare a `tf.data.Dataset` of global batches for `fit`; every example is used once.

        Keras gives each replica its part of every batch. This sets how machines share the reading.

        Args:
            dataset: A dataset with batches of the global size, the same on every machine (unless `shard="none"`).
            batch_size: That size, which is checked; not needed if the dataset's shapes have it
                (`drop_remainder=True`).
            shard: For several machines. `"data"`: each machine reads everything and keeps its part of each batch, so a
                step equals that of one device. `"files"`: each reads different files, so there must be at least one
                file per machine. `"none"`: the dataset already has only this machine's examples, in batches of the
                global size, as with `pretraining/data_service.py`.

        Example:
            >>> batches = tf.data.Dataset.range(64).batch(32)
            >>> choose_devices("one").distribute(batches, batch_size=32) is batches
            True
        """
        if shard not in device_sets.SHARD_POLICIES:
            raise ValueError(f"shard={shard!r}: expected one of {', '.join(device_sets.SHARD_POLICIES)}.")
        known = device_sets.batch_size_of(dataset)
        if batch_size is not None and known is not None and batch_size != known:
            raise ValueError(
                f"batch_size={batch_size}, but the dataset yields batches of {known}; batch it by the global size."
            )
        size = batch_size or known
        if size is not None:
            self.replica_batch_size(size)
        if self.name == "data_parallel":
            return device_sets.share_among_processes(dataset, known, shard, self)
        return device_sets.share_among_workers(dataset, shard) if self.num_workers > 1 else dataset

    def describe(self) -> str:
        """Return the choice as a small table."""
        workers = f", process {self.worker_index} of {self.num_workers}" if self.num_workers > 1 else ""
        xla = {"tpu": "by TPUStrategy", "mirrored": "inside each replica", "multi_worker": "inside each replica"}
        rows = (
            ("devices", f"{self.name}: {self.num_replicas} × {self.device_type}{workers}"),
            ("because", self.reason),
            ("precision", self.precision),
            ("XLA", xla.get(self.name, "the whole step")),
            ("steps per execution", "several" if self.several_steps else "1, Keras cannot run more here"),
        )
        return "\n".join(f"{name:<20} {value}" for name, value in rows)

    def __str__(self) -> str:
        return self.describe()


def choose_devices(strategy: str = "auto", *, precision: str = "auto") -> Devices:
    """Choose the devices to train on, and the strategy.

    Call it first in a program: several machines must connect before anything else runs. On TensorFlow, `auto` chooses
    the first of these: a TPU, the workers of `TF_CONFIG`, several GPUs, one device. On JAX it uses all devices of all
    processes that `TF_CONFIG` or Keras' `KERAS_DISTRIBUTION_*` variables name.

    Args:
        strategy: One of `STRATEGIES`. A strategy other than `auto` that is not possible raises an error.
        precision: A dtype policy; `auto` is `mixed_bfloat16` if the hardware computes it fast, otherwise `float32`
            (on a single older GPU `mixed_float16`).

    Example:
        >>> print(choose_devices("one"))
        devices              one: 1 × CPU
        because              asked for
        ...
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} is unknown; choose one of {', '.join(STRATEGIES)}.")
    backend = keras.backend.backend()
    if backend not in device_sets.FINDERS:
        raise ValueError(f"Training does not support the {backend} backend; set KERAS_BACKEND to tensorflow or jax.")
    found = device_sets.FINDERS[backend](strategy)
    return Devices(precision=device_sets.choose_precision(precision, found), **found)
