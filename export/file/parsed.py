"""The types of a parsed `.tflite` file, which `parse` gives, rewrites change in place, and `serialize` writes.

The objects are of the schema's generated classes (`ModelT`, `SubGraphT`, …), which have no type hints. These protocols
have the fields that this package uses, with the names of the schema.
"""

from typing import Any, Protocol

import flatbuffers
import numpy as np


class Buffer(Protocol):
    """The bytes of a constant, which tensors share by its number; `offset` is set if they are stored after the file."""

    data: np.ndarray | None
    offset: int
    size: int


class OperatorCode(Protocol):
    """An op and its version. Old writers fill only the 8-bit field, new ones both."""

    builtinCode: int
    deprecatedBuiltinCode: int
    version: int


class Quantization(Protocol):
    """The scales of a tensor: one, or one for each row."""

    scale: np.ndarray
    zeroPoint: np.ndarray
    quantizedDimension: int


class Tensor(Protocol):
    """A tensor of a graph; one with a buffer that has data is a constant.

    For a size that is known only at run time, `shape` has 1 and `shapeSignature` −1. A scalar may have no shape.
    """

    name: bytes | str | None
    shape: np.ndarray | None
    shapeSignature: np.ndarray | None
    type: int
    buffer: int
    quantization: Quantization | None


class Operator(Protocol):
    """A step of a graph. Inputs and outputs are the numbers of tensors; −1 is an input that is left out."""

    opcodeIndex: int
    inputs: np.ndarray
    outputs: np.ndarray
    builtinOptionsType: int
    builtinOptions: Any  # a class for each op


class Subgraph(Protocol):
    """A graph; each signature has one."""

    tensors: list[Tensor]
    inputs: np.ndarray
    outputs: np.ndarray
    operators: list[Operator]


class Metadata(Protocol):
    """A named buffer that no tensor reads."""

    name: bytes | str
    buffer: int


class TFLiteFile(Protocol):
    """A parsed `.tflite` file: graphs, the ops that they use, and the constants that they share."""

    operatorCodes: list[OperatorCode]
    subgraphs: list[Subgraph]
    buffers: list[Buffer]
    metadata: list[Metadata] | None
    signatureDefs: list[Any] | None

    def Pack(self, builder: flatbuffers.Builder) -> int:
        """Write it into a flatbuffer; give its position."""
