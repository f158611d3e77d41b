"""Compiles a training step for accelerators that are not there, and says what it would need; nothing runs.

Takes a compiled Keras model on JAX and the shapes of a batch. XLA's compiler for TPUs (in libtpu) and for NVIDIA GPUs
(in JAX's CUDA plugin) works without a device, and gives the memory, the operations and, for TPUs, its own estimate of
the cycles. The estimate leaves out communication between chips and waiting for input: it is what a step takes at least.
"""

import importlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.training.chips import Target, gpu_description

_USABLE = 0.95  # of the memory: the rest is the runtime's


@dataclass(frozen=True)
class CompiledStep:
    """A training step that was compiled for some chips. Memory is for each chip, all else for all together.

    Args:
        target: The chips, in words.
        memory_limit: Bytes of a chip.
        arguments: Bytes of weights, optimizer and a batch.
        temporary: Bytes of activations and gradients, at their most.
        code: Bytes of the program.
        flops: Operations of a step, as the compiler counts them; `None` where it does not.
        matmul_flops: Those of matrix products, counted in the traced step.
        peak: TFLOP/s of all chips.
        seconds: The compiler's estimate of a step; `None` for GPUs, whose compiler has none.
        attention: The share of the estimate that is attention's; `None` for GPUs.
        rows: Rows of a batch.
        tokens: Places of a batch.
        compile_seconds: How long the compiler took.
    """

    target: str
    memory_limit: float
    arguments: int
    temporary: int
    code: int
    flops: float | None
    matmul_flops: float
    peak: float
    seconds: float | None
    attention: float | None
    rows: int
    tokens: int
    compile_seconds: float

    @property
    def memory(self) -> int:
        """Bytes that a chip needs."""
        return self.arguments + self.temporary + self.code

    @property
    def fits(self) -> bool:
        """Whether the step fits into a chip's memory."""
        return self.memory <= _USABLE * self.memory_limit

    @property
    def fastest(self) -> float:
        """The seconds of a step if all matrix products ran at the chips' peak, and all else took no time."""
        return self.matmul_flops / (self.peak * 1e12)

    @property
    def largest_batch(self) -> int:
        """About how many rows fit: activations grow with the rows, the rest does not."""
        room = _USABLE * self.memory_limit - self.arguments - self.code
        return max(0, int(self.rows * room / max(self.temporary, 1)) // 8 * 8)

    def describe(self, steps: int) -> str:
        """Return a table, with the time of a run of so many steps."""
        gib = {name: value / 2**30 for name, value in (("args", self.arguments), ("temp", self.temporary))}
        words = [
            ("compiled for", self.target),
            ("fits", f"{'yes' if self.fits else 'NO'}: {self.memory / 2**30:.2f} of {self.memory_limit / 2**30:.0f} GiB"
                     f" a chip ({gib['args']:.2f} weights and optimizer, {gib['temp']:.2f} activations)"),
            ("operations", self._operations()),
            ("step", self._step()),
            ("run", self._run(steps)),
            ("largest batch", f"about {self.largest_batch:,} rows, by proportion (compiled: {self.rows:,})"),
            ("not measured", f"nothing ran; compiled in {self.compile_seconds:.0f} s"),
        ]  # fmt: skip
        return "\n".join(f"{name:<16} {value}" for name, value in words)

    def _operations(self) -> str:
        products = f"{self.matmul_flops / 1e12:.3g} TFLOP of matrix products a step"
        return products if not self.flops else f"{products}, {min(1.0, self.matmul_flops / self.flops):.0%} of all"

    def _step(self) -> str:
        least = f"{self.fastest * 1e3:.1f} ms at the chips' peak"
        if self.seconds is None:
            return f"at least {least}; the compiler estimates none for GPUs"
        share = "" if self.attention is None else f", attention {self.attention:.0%}"
        at_peak = f"{self.fastest / self.seconds:.0%} of peak"
        return f"about {self.seconds * 1e3:.1f} ms, the compiler's estimate: {at_peak}{share}"

    def _run(self, steps: int) -> str:
        seconds, word = (self.fastest, "at least") if self.seconds is None else (self.seconds, "about")
        rate = f"{'at most' if self.seconds is None else 'about'} {self.tokens / seconds:,.0f} tokens/s"
        return f"{word} {steps * seconds / 3600:.2f} hours for {steps:,} steps, {rate}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        derived = {name: getattr(self, name) for name in ("memory", "fits", "fastest", "largest_batch")}
        return {**asdict(self), **derived}


def compile_step(model: keras.Model, data: Any, target: Target) -> CompiledStep:
    """Compile the training step of a model for some chips, as a run on them would: the rows of a batch are divided.

    Args:
        model: A compiled model, on the JAX backend.
        data: A batch of arrays, `(inputs, labels, weights)` or, for a step that masks, the inputs alone, with
            `token_ids` among them; only shapes matter.
        target: The chips.

    Example:
        ```python
        print(compile_step(model, batch, read_target("v5e:2x4")).describe(steps=10_000))
        ```
    """
    import time

    import jax

    rows, width = (data if isinstance(data, dict) else data[0])["token_ids"].shape
    if rows % target.count:
        raise ValueError(f"A batch of {rows} rows does not divide among {target.count} chips; use a multiple.")
    traced = trace_step(model, data, sharding=target_shardings(target))
    began = time.perf_counter()
    program = traced.lower().compile()
    seconds = time.perf_counter() - began
    memory, costs = program.memory_analysis(), program.cost_analysis()
    costs = (costs[0] if isinstance(costs, list) else costs) or {}
    parts = getattr(model, "gradient_accumulation_steps", 1)
    cycles, attention = estimated_cycles(program.as_text(), repeats=parts)
    output = max(0, memory.output_size_in_bytes - memory.alias_size_in_bytes)
    jax.clear_caches()  # type: ignore[no-untyped-call]
    return CompiledStep(
        target=str(target),
        memory_limit=float(target.chip.memory),
        arguments=memory.argument_size_in_bytes + output,
        temporary=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        flops=costs["flops"] * target.count if costs.get("flops", 0) > 0 else None,
        matmul_flops=float(matmul_flops(traced.jaxpr.jaxpr)),
        peak=target.chip.tflops * target.count,
        seconds=cycles / (target.chip.clock * 1e9) if target.chip.clock and cycles else None,
        attention=attention / cycles if target.chip.clock and cycles else None,
        rows=rows,
        tokens=rows * width,
        compile_seconds=seconds,
    )


def trace_step(model: keras.Model, data: Any, *, sharding: Any = (None, None)) -> Any:
    """Trace a model's training step as `fit` would, with the state on all devices and the batch divided among them."""
    import jax
    import jax.numpy as jnp

    whole, divided = sharding
    model._symbolic_build(data_batch=keras.tree.map_structure(lambda value: np.zeros(value.shape, value.dtype), data))
    model.optimizer.build(model.trainable_variables)

    def shape(value: Any, where: Any) -> Any:
        kind = jnp.dtype(str(value.dtype))
        return jax.ShapeDtypeStruct(tuple(value.shape), kind, sharding=where)  # type: ignore[no-untyped-call]

    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables)
    state = tuple([shape(value, whole) for value in group] for group in (*groups, model.metrics_variables))
    options: dict[str, Any] = {}
    if whole is not None:
        options["out_shardings"] = (None, tuple([whole] * len(group) for group in state))
    step = jax.jit(model.train_step, donate_argnums=0, **options)
    return step.trace(state, keras.tree.map_structure(lambda value: shape(value, divided), data))


def target_shardings(target: Target) -> tuple[Any, Any]:
    """Return how arrays lie on chips that are not there: whole on each, and divided by rows."""
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    chip = target.chip
    try:
        if chip.kind == "GPU":
            _find_plugins()
            options = {"target_config": gpu_description(chip), "topology": f"1x1x{target.count}"}
            found = topologies.get_topology_desc(platform="cuda", **options)
        else:
            importlib.import_module("libtpu")  # JAX looks for it too, and does not say that it is missing
            # libtpu expects whole hosts of four chips, unless it is told otherwise.
            single = {"chips_per_host_bounds": (1, 1, 1)} if target.count == 1 else {}
            name = f"{chip.name}:{target.topology}"
            found = topologies.get_topology_desc(platform="tpu", topology_name=name, **single)
    except Exception as error:
        extra = "aot-gpu" if chip.kind == "GPU" else "aot"
        raise RuntimeError(
            f"The compiler for {target} did not start ({str(error).splitlines()[0]}); pip install "
            f"'keras-bert-edge[{extra}]', and check that such chips are arranged in this way."
        ) from error
    mesh = Mesh(np.array(found.devices), ("batch",))
    whole, divided = PartitionSpec(), PartitionSpec("batch")  # type: ignore[no-untyped-call]
    return NamedSharding(mesh, whole), NamedSharding(mesh, divided)


def _find_plugins() -> None:
    """Let JAX register the CUDA plugin, which it looks for only when it starts all of its backends."""
    from jax._src import xla_bridge

    xla_bridge.discover_pjrt_plugins()


# === What a program costs ===


def matmul_flops(program: Any) -> float:
    """Count the operations of matrix products in a traced program, those in its loops as often as they run."""
    total = 0.0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            extents = equation.invars[0].aval.shape
            product = float(np.prod([extents[axis] for axis in contracted]))
            total += 2 * product * float(np.prod(equation.outvars[0].aval.shape))
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += sum(repeats * matmul_flops(inner) for inner in _inner_programs(equation.params))
    return total


def _inner_programs(parameters: Mapping[str, Any]) -> Iterator[Any]:
    for value in parameters.values():
        for inner in value if isinstance(value, list | tuple) else [value]:
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner


_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_NAME = re.compile(r'op_name="([^"]*)"')
_BODY = re.compile(r"body=%?([\w.\-]+)")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
# The products with queries, keys and values and what is between them; not the dense layers around them.
_ATTENTION = re.compile(r"/attention/(?!query|key|value|output)")


def estimated_cycles(text: str, *, repeats: int = 1) -> tuple[int, int]:
    """Return the compiler's estimate of a program's cycles, and those of attention, from its text.

    Args:
        text: A compiled program.
        repeats: How often loops run: gradient accumulation is the only one.
    """
    bodies, counts, place = set(_BODY.findall(text)), Counter[bool](), ""
    for line in text.splitlines():
        if (begins := _COMPUTATION.match(line)) is not None:
            place = begins.group(1)
        elif (found := _CYCLES.search(line)) is not None:
            name = _NAME.search(line)
            is_attention = name is not None and _ATTENTION.search(name.group(1)) is not None
            counts[is_attention] += int(found.group(1)) * (repeats if place in bodies else 1)
    return counts.total(), counts[True]
