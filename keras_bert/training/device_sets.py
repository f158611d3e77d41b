"""Finds the devices of each backend, and shares input among them; `devices.choose_devices` uses it.

TensorFlow and JAX are imported only when they are needed.
"""

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.system.accelerators import find_accelerator, unused_accelerator
from keras_bert.training.cluster import Cluster, read_cluster

if TYPE_CHECKING:
    from keras_bert.training.devices import Devices

SHARD_POLICIES = ("data", "files", "none")

# === TensorFlow ===


def find_tensorflow_devices(wanted: str) -> dict[str, Any]:
    """Return the fields of a `Devices` on the TensorFlow backend."""
    import tensorflow as tf

    cluster = read_cluster()
    gpus = len(tf.config.list_physical_devices("GPU"))
    if wanted == "data_parallel":
        raise ValueError("strategy='data_parallel' needs JAX; set KERAS_BACKEND=jax, or use 'mirrored'.")
    if wanted == "tpu" or (wanted == "auto" and _tpu_address() is not None):
        return _tpu(tf, wanted)
    if wanted == "multi_worker" or (wanted == "auto" and cluster is not None and len(cluster.addresses) > 1):
        return _multi_worker(tf, cluster, gpus)
    if wanted == "mirrored" or (wanted == "auto" and gpus > 1):
        return _mirrored(tf, wanted)
    kind = "GPU" if gpus else "CPU"
    tell_unused_accelerator("tensorflow", kind, wanted)
    why = "asked for" if wanted == "one" else f"TensorFlow sees {gpus} GPUs, no TPU, and no workers in TF_CONFIG"
    return {"name": "one", "reason": why, "device_type": kind}


def _tpu_address() -> str | None:
    """Return the address of a TPU from the variables that Cloud TPU machines and notebooks set."""
    return os.environ.get("TPU_NAME") or os.environ.get("COLAB_TPU_ADDR")


def _tpu(tf: Any, wanted: str) -> dict[str, Any]:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=_tpu_address() or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise RuntimeError(
            f"TensorFlow finds no TPU ({error}); expected a TPU VM with tensorflow-tpu. On other TPU "
            "runtimes set KERAS_BACKEND=jax."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    why = "asked for" if wanted == "tpu" else f"the environment names a TPU, {_tpu_address()}"
    replicas = strategy.num_replicas_in_sync
    return {"name": "tpu", "reason": why, "device_type": "TPU", "num_replicas": replicas, "strategy": strategy}


def _multi_worker(tf: Any, cluster: Cluster | None, gpus: int) -> dict[str, Any]:
    if cluster is None or len(cluster.addresses) < 2:
        count = 0 if cluster is None else len(cluster.addresses)
        raise ValueError(
            f"strategy='multi_worker' needs several workers, but TF_CONFIG names {count}; set it for each worker, or "
            "use strategy='auto'."
        )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise RuntimeError(
            f"TensorFlow was used before the workers were connected ({error}); call choose_devices() first."
        ) from error
    return {
        "name": "multi_worker",
        "reason": f"TF_CONFIG names {len(cluster.addresses)} workers",
        "device_type": "GPU" if gpus else "CPU",
        "num_replicas": strategy.num_replicas_in_sync,
        "num_workers": len(cluster.addresses),
        "worker_index": cluster.index,
        "strategy": strategy,
    }


def _mirrored(tf: Any, wanted: str) -> dict[str, Any]:
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = [f"{kind}:{index}" for index, _ in enumerate(tf.config.list_logical_devices(kind))]
    if len(devices) < 2:
        raise ValueError(
            f"strategy='mirrored' needs several devices, but TensorFlow sees {', '.join(devices)}; use "
            "strategy='one', or split a CPU with tf.config.set_logical_device_configuration."
        )
    return {
        "name": "mirrored",
        "reason": "asked for" if wanted == "mirrored" else f"TensorFlow sees {len(devices)} GPUs",
        "device_type": kind,
        "num_replicas": len(devices),
        "strategy": tf.distribute.MirroredStrategy(devices),
    }


def share_among_workers(dataset: Any, shard: str) -> Any:
    """Return the dataset with the option that tells `tf.distribute` how workers share it."""
    import tensorflow as tf

    policy = tf.data.experimental.AutoShardPolicy
    options = tf.data.Options()
    policies = {"data": policy.DATA, "files": policy.FILE, "none": policy.OFF}
    options.experimental_distribute.auto_shard_policy = policies[shard]
    return dataset.with_options(options)


def batch_size_of(dataset: Any) -> int | None:
    """Return the size of every batch if the dataset's shapes have it, else `None`."""
    shapes = [getattr(spec, "shape", None) for spec in keras.tree.flatten(getattr(dataset, "element_spec", ()))]
    return next((shape[0] for shape in shapes if shape is not None and shape.rank), None)


# === JAX ===


def find_jax_devices(wanted: str) -> dict[str, Any]:
    """Return the fields of a `Devices` on the JAX backend."""
    if wanted in ("mirrored", "multi_worker", "tpu"):
        raise ValueError(
            f"strategy={wanted!r} needs TensorFlow; on JAX use 'data_parallel', which covers several devices, several "
            "processes and TPUs, or 'one'."
        )
    _join_jax_processes()
    import jax

    devices, processes = keras.distribution.list_devices(), jax.process_count()
    kind = devices[0].split(":")[0].upper()
    tell_unused_accelerator("jax", kind, wanted)
    if wanted == "one" or (wanted == "auto" and len(devices) == 1):
        if processes > 1:
            raise ValueError(f"strategy='one', but this is one of {processes} JAX processes; use 'data_parallel'.")
        why = "asked for" if wanted == "one" else f"JAX sees one {kind}"
        return {"name": "one", "reason": why, "device_type": kind}
    if len(devices) < 2:
        raise ValueError(f"strategy='data_parallel' needs several devices, but JAX sees {devices[0]}; use 'one'.")
    return {
        "name": "data_parallel",
        "reason": f"JAX sees {len(devices)} × {kind} in {processes} process{'es' if processes > 1 else ''}",
        "device_type": kind,
        "num_replicas": len(devices),
        "num_workers": processes,
        "worker_index": jax.process_index(),
        "strategy": keras.distribution.DataParallel(devices=devices),
    }


def _join_jax_processes() -> None:
    import jax

    cluster = read_cluster()
    named = any(os.environ.get(f"KERAS_DISTRIBUTION_{name}") for name in ("JOB_ADDRESSES", "NUM_PROCESSES"))
    if jax.distributed.is_initialized():
        return
    try:
        if named:
            keras.distribution.initialize()
        elif cluster is not None and len(cluster.addresses) > 1:
            keras.distribution.initialize(cluster.addresses[0], len(cluster.addresses), cluster.index)
    except RuntimeError as error:
        raise RuntimeError(
            f"The JAX processes did not connect ({error}); call choose_devices() before anything else uses "
            "JAX, and check that all processes run and can reach the address of the first one."
        ) from error


def share_among_processes(dataset: Any, batch_size: int | None, shard: str, devices: "Devices") -> Any:
    """Return the dataset as `DataParallel` needs it: batches of equal size, and each process's own share."""
    if batch_size is None:
        raise ValueError(
            "The dataset's batches may differ in size, but JAX divides each evenly among its "
            f"{devices.num_replicas} devices; use .repeat() (so that nothing is lost) and "
            ".batch(batch_size, drop_remainder=True)."
        )
    if shard == "files" and devices.num_workers > 1:
        raise ValueError(
            "shard='files' needs TensorFlow; on JAX use 'data', or read different files in each process ('none')."
        )
    if shard == "none" and devices.num_workers > 1:
        if not dataset.cardinality() == -1:
            raise ValueError("shard='none' on several JAX processes needs an endless dataset; add .repeat().")
        devices.strategy.auto_shard_dataset = False
        return dataset.rebatch(batch_size // devices.num_workers, drop_remainder=True)
    return dataset


# === Both ===


def warn_of_unused_accelerator() -> None:
    """Warn if the backend does not see the accelerator of the machine, for what trains without `choose_devices`."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        tell_unused_accelerator(backend, jax.devices()[0].platform.upper())
    elif backend == "tensorflow" and find_accelerator() is not None:
        import tensorflow as tf

        tell_unused_accelerator(backend, "GPU" if tf.config.list_physical_devices("GPU") else "CPU")


def tell_unused_accelerator(backend: str, seen: str, wanted: str = "one") -> None:
    """Warn of an accelerator that the backend does not see; raise an error if it is a TPU and devices were to be found.

    Args:
        backend: `"tensorflow"` or `"jax"`.
        seen: The kind of the devices that it sees.
        wanted: The strategy that was asked for.
    """
    accelerator = find_accelerator()
    sentence = unused_accelerator(backend, seen, accelerator)
    if sentence is None or accelerator is None:
        return
    # Who names the platform has chosen it.
    chosen = wanted != "auto" or (backend == "jax" and "cpu" in os.environ.get("JAX_PLATFORMS", ""))
    if accelerator.kind == "TPU" and not chosen:
        raise RuntimeError(f"{sentence} To use the CPU, pass strategy='one'.")
    warnings.warn(sentence, stacklevel=3)


FINDERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "tensorflow": find_tensorflow_devices,
    "jax": find_jax_devices,
}


def choose_precision(wanted: str, found: dict[str, Any]) -> str:
    """Return the dtype policy for a set of devices."""
    several = found.get("num_replicas", 1) > 1
    if wanted == "auto" and keras.config.dtype_policy().name != "float32":
        wanted = keras.config.dtype_policy().name  # the user has already chosen one
    if wanted == "mixed_float16" and several:
        raise ValueError(
            "precision='mixed_float16' gives NaN with several replicas in Keras 3, after the first overflow; use "
            "'mixed_bfloat16' or 'float32'."
        )
    if wanted != "auto":
        return keras.dtype_policies.get(wanted).name
    if found["device_type"] == "TPU":
        return "mixed_bfloat16"
    if found["device_type"] == "GPU":
        return "mixed_bfloat16" if _gpus_know_bfloat16() else ("float32" if several else "mixed_float16")
    return "float32"


def _gpus_know_bfloat16() -> bool:
    """Return whether the first GPU has bfloat16 tensor cores: NVIDIA's Ampere (compute capability 8.0) and later."""
    if keras.backend.backend() == "jax":
        import jax

        capability = getattr(jax.devices()[0], "compute_capability", "0")
        return float(capability) >= 8.0
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
    return details.get("compute_capability", (0, 0)) >= (8, 0)
