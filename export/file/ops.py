"""List the ops of a `.tflite` file, and count its XNNPACK partitions.

Every LiteRT runs the built-in ops. A Flex op needs TensorFlow on the device, a custom op needs another library. A graph
that XNNPACK takes as one partition runs without handing tensors back and forth.
"""

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from export.file.contents import describe, parse, serialize
from export.file.interpreter import open_interpreter
from export.file.parsed import TFLiteFile


@dataclass(frozen=True)
class OpAudit:
    """The ops of a file.

    Args:
        ops: The number of each op, over all signatures.
        custom_ops: The names of ops that are not built in, including Flex ops.
        partitions: The XNNPACK partitions of each signature; empty if they were not counted.
    """

    ops: Mapping[str, int]
    custom_ops: tuple[str, ...]
    partitions: Mapping[str, int]

    def check(self, *, allowed: Collection[str] = ()) -> None:
        """Raise an error that names the ops which a stock runtime lacks, except the `allowed` ones."""
        if foreign := [name for name in self.custom_ops if name not in allowed]:
            raise ValueError(
                f"The file needs {', '.join(foreign)}, which LiteRT does not build in; "
                "replace the layer that uses it with one of built-in ops."
            )

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.ops.items())
        partitions = ", ".join(f"{name} {count}" for name, count in self.partitions.items())
        return f"{counts}\nXNNPACK partitions: {partitions or 'not counted'}"


def audit_ops(source: str | Path | bytes, *, count_partitions: bool = False) -> OpAudit:
    """List the ops of a file.

    Args:
        source: The file, or its bytes.
        count_partitions: Whether to count XNNPACK's partitions with an interpreter for each signature; needs LiteRT.

    Example:
        >>> audit = audit_ops("model.tflite", count_partitions=True)  # doctest: +SKIP
        >>> audit.check()  # doctest: +SKIP
        >>> audit.partitions  # doctest: +SKIP
        {'length_128': 1}
    """
    summary = describe(source)
    partitions = {}
    if count_partitions:
        file = parse(source)
        for signature in summary.signatures:
            partitions[signature.name] = _count_partitions(file, signature.subgraph)
    return OpAudit(summary.ops, summary.custom_ops, partitions)


def _count_partitions(file: TFLiteFile, subgraph: int) -> int:
    # The interpreter lists only the nodes of its first subgraph.
    alone = copy.copy(file)
    alone.subgraphs, alone.signatureDefs = [file.subgraphs[subgraph]], []
    interpreter = open_interpreter(serialize(alone))
    interpreter.allocate_tensors()
    return sum(node["op_name"] == "DELEGATE" for node in interpreter._get_ops_details())
