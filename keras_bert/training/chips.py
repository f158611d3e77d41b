"""The accelerators that a training step can be compiled for without having them: their memory, speed and topology.

Names are those of `--compile-for`: `v5e:2x4` is eight TPU chips in two rows of four, `a100:4` four GPUs, `t4` one.
"""

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """An accelerator.

    Args:
        name: As in `--compile-for`.
        title: As in a report.
        kind: `"TPU"` or `"GPU"`.
        memory: Bytes that a program can use.
        tflops: The peak of dense products in half precision, in TFLOP/s.
        precision: The dtype policy that suits it.
        clock: GHz of a TPU, which turns the compiler's cycles into seconds.
        target: What XLA has to know of a GPU, beside what all have.
    """

    name: str
    title: str
    kind: str
    memory: float
    tflops: float
    precision: str = "mixed_bfloat16"
    clock: float = 0.0
    target: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Target:
    """Some chips of one kind that train together; `topology` is the arrangement of TPUs, such as `2x4`."""

    chip: Chip
    count: int
    topology: str = ""

    def __str__(self) -> str:
        return f"{self.count} × {self.chip.title}" + (f" ({self.topology})" if self.topology else "")


# What a process that compiles needs before it imports JAX: it looks for no TPU, computes on the CPU, and may share the
# compiler with another process, because it holds no TPU.
ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
_GIB = 2**30


def _gpu(
    cores: int,
    fpus: int,
    threads: int,
    shared: int,
    largest: int,
    bandwidth: int,
    cache: int,
    clock: str,
    memory: int,
    capability: tuple[int, int],
) -> tuple[tuple[str, str], ...]:
    major, minor = capability
    return (
        ("threads_per_core_limit", str(threads)),
        ("shared_memory_per_core", str(shared)),
        ("shared_memory_per_block_optin", str(largest)),
        ("core_count", str(cores)),
        ("fpus_per_core", str(fpus)),
        ("memory_bandwidth", str(bandwidth)),
        ("l2_cache_size", str(cache)),
        ("clock_rate_ghz", clock),
        ("device_memory_size", str(memory)),
        ("cuda_compute_capability", f"{{ major: {major} minor: {minor} }}"),
    )


# Memory and peaks are the vendors' (cloud.google.com/tpu/docs, NVIDIA's data sheets, without sparsity). The clock of a
# TPU is its peak divided by what its matrix units do in a cycle.
CHIPS = {
    chip.name: chip
    for chip in (
        Chip("v4", "TPU v4", "TPU", 32 * _GIB, 275, clock=1.05),
        Chip("v5e", "TPU v5e", "TPU", 16 * _GIB, 197, clock=1.5),
        Chip("v5p", "TPU v5p", "TPU", 95 * _GIB, 459, clock=1.75),
        Chip("v6e", "TPU v6e", "TPU", 32 * _GIB, 918, clock=1.75),
        Chip(
            "a100",
            "A100 40 GB",
            "GPU",
            42_331_013_120,
            312,
            target=_gpu(108, 64, 2048, 167936, 166912, 1_555_200_000_000, 41943040, "1.41", 42331013120, (8, 0)),
        ),
        Chip(
            "h100",
            "H100 80 GB",
            "GPU",
            84_942_979_072,
            989,
            target=_gpu(132, 128, 2048, 233472, 232448, 3_352_320_000_000, 52428800, "1.98", 84942979072, (9, 0)),
        ),
        Chip(
            "t4",
            "T4",
            "GPU",
            15_634_661_376,
            65,
            precision="mixed_float16",
            target=_gpu(40, 64, 1024, 65536, 65536, 320_064_000_000, 4194304, "1.59", 15634661376, (7, 5)),
        ),
    )
}
_GPU_LIMITS = (
    ("threads_per_block_limit", "1024"),
    ("threads_per_warp", "32"),
    ("shared_memory_per_block", "49152"),
    ("block_dim_limit_x", "2147483647"),
    ("block_dim_limit_y", "65535"),
    ("block_dim_limit_z", "65535"),
    ("registers_per_core_limit", "65536"),
    ("registers_per_block_limit", "65536"),
)


def read_target(text: str) -> Target:
    """Read chips from their name: `v5e:2x4`, `v5e` (one chip), `a100:4`, `t4`.

    Example:
        >>> print(read_target("v5e:2x4"))
        8 × TPU v5e (2x4)
    """
    name, _, size = text.lower().partition(":")
    expected = f"expected one of {', '.join(CHIPS)}, for TPUs with a topology such as v5e:2x4, for GPUs with a number"
    if name not in CHIPS:
        raise ValueError(f"{text!r} is no accelerator that a step can be compiled for; {expected} such as a100:4.")
    chip = CHIPS[name]
    if chip.kind == "GPU":
        if not re.fullmatch(r"([1-9]\d*)?", size):
            raise ValueError(f"{text!r}: {size!r} is no number of GPUs; {expected} such as a100:4.")
        return Target(chip, int(size or 1))
    flat = "1x1" if name in ("v5e", "v6e") else "1x1x1"
    if not re.fullmatch("x".join([r"[1-9]\d*"] * len(flat.split("x"))), size or flat):
        raise ValueError(
            f"{text!r}: {size!r} is no topology; {expected} such as a100:4. For {name}, {name}:{flat} is one."
        )
    return Target(chip, math.prod(map(int, (size or flat).split("x"))), size or flat)


def gpu_description(chip: Chip) -> str:
    """Describe a GPU as XLA reads it (`GpuTargetConfigProto` as text).

    Example:
        >>> "core_count: 40" in gpu_description(CHIPS["t4"])
        True
    """
    fields = "".join(f"  {name}{':' if value[0] != '{' else ''} {value}\n" for name, value in _GPU_LIMITS + chip.target)
    return (
        f'gpu_device_info {{\n{fields}}}\nplatform_name: "CUDA"\ndnn_version_info {{ major: 9 minor: 10 patch: 0 }}\n'
        f'device_description_str: "NVIDIA {chip.title}"\n'
    )
