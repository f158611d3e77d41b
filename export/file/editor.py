"""Change the graph of a `.tflite` file: new constants, tensors and ops.

Buffers belong to the file, tensors to a subgraph. Signatures share buffers, so a buffer that is stored once must be
rewritten once.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from export.file.contents import schema
from export.file.parsed import Operator, Quantization, Subgraph, Tensor, TFLiteFile

NUMPY_TYPES = {"FLOAT32": np.float32, "INT32": np.int32}
Scale = float | np.ndarray  # one for the whole tensor, or one for each row


class GraphEditor:
    """An editor of one subgraph of a parsed file."""

    def __init__(self, file: TFLiteFile, graph: Subgraph):
        self.file, self.graph = file, graph
        self.schema = schema()

    # === Reading ===

    def is_op(self, operator: Operator, name: str) -> bool:
        """Whether an operator is the built-in op of that name."""
        code = self.file.operatorCodes[operator.opcodeIndex]
        return max(code.builtinCode, code.deprecatedBuiltinCode) == getattr(self.schema.BuiltinOperator, name)

    def tensor(self, index: int) -> Tensor:
        """A tensor by its index."""
        return self.graph.tensors[index]

    def value(self, index: int, dtype: str = "FLOAT32") -> np.ndarray | None:
        """A constant of that type; `None` for any other tensor."""
        tensor = self.tensor(index)
        data = self.file.buffers[tensor.buffer].data
        if data is None or len(data) == 0 or tensor.type != getattr(self.schema.TensorType, dtype):
            return None
        return np.frombuffer(np.asarray(data, np.uint8).tobytes(), NUMPY_TYPES[dtype]).reshape(self.shape(index))

    def shape(self, index: int) -> list[int]:
        """The shape of a tensor as it is stored; 1 for sizes that are known only at run time."""
        shape = self.tensor(index).shape
        return [] if shape is None else [int(size) for size in shape]

    def extents(self, index: int) -> list[int]:
        """The shape of a tensor; −1 for sizes that are known only at run time."""
        signature = self.tensor(index).shapeSignature
        return self.shape(index) if signature is None or not len(signature) else [int(size) for size in signature]

    def uses(self, index: int) -> list[Operator]:
        """The operators that read a tensor."""
        return [operator for operator in self.graph.operators if index in operator.inputs]

    # === Writing ===

    def constant(self, name: str, array: np.ndarray, dtype: str, scale: Scale | None = None) -> int:
        """Add a constant; give its tensor."""
        return self.add_tensor(name, array.shape, dtype, self.buffer(array), scale=scale)

    def buffer(self, array: np.ndarray) -> int:
        """Add bytes to the file; give their number."""
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.file.buffers.append(buffer)
        return len(self.file.buffers) - 1

    def like(
        self,
        index: int,
        name: str,
        dtype: str,
        *,
        last: int | None = None,
        scale: Scale | None = None,
        zero_point: int = 0,
    ) -> int:
        """A new tensor with the shape of another, the last dimension replaced by `last` where given."""
        other = self.tensor(index)
        shape, signature = self.shape(index), None if other.shapeSignature is None else list(other.shapeSignature)
        if last is not None:
            shape[-1] = last
            signature = None if signature is None else [*signature[:-1], last]
        return self.add_tensor(f"{_text(other.name)}{name}", shape, dtype, 0, signature, scale, zero_point)

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], *, version: int = 1, options: Any = None
    ) -> Operator:
        """Make an operator, to be put into `graph.operators`. Its options are the schema's defaults unless given."""
        operator: Operator = self.schema.OperatorT()
        operator.opcodeIndex = self.opcode(name, version)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        kind = f"{''.join(part.capitalize() for part in name.split('_'))}Options"
        if hasattr(self.schema.BuiltinOptions, kind):  # some ops, such as ROUND, have none
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, kind)
            operator.builtinOptions = getattr(self.schema, f"{kind}T")() if options is None else copy.deepcopy(options)
        return operator

    def opcode(self, name: str, version: int) -> int:
        """The number of an op and version in the file's list; it is added if it is not there."""
        builtin = getattr(self.schema.BuiltinOperator, name)
        for index, code in enumerate(self.file.operatorCodes):
            if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin and code.version == version:
                return index
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), version
        self.file.operatorCodes.append(code)
        return len(self.file.operatorCodes) - 1

    def retype(self, index: int, dtype: str, scale: Scale, *, buffer: int | None = None) -> None:
        """Change the type of a constant; the scale is for all of it, or there is one for each row."""
        tensor = self.tensor(index)
        tensor.type = getattr(self.schema.TensorType, dtype)
        tensor.quantization = self._quantization(scale, 0)
        tensor.buffer = tensor.buffer if buffer is None else buffer

    def add_tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        buffer: int = 0,
        signature: Sequence[int] | None = None,
        scale: Scale | None = None,
        zero_point: int = 0,
    ) -> int:
        """Add a tensor; one with a buffer is a constant. `signature` is the shape with −1 for unknown sizes."""
        tensor: Tensor = self.schema.TensorT()
        tensor.name = f"{name}_{len(self.graph.tensors)}"  # names must differ, because calibrators and viewers use them
        tensor.shape = np.array(shape, np.int32)
        tensor.shapeSignature = None if signature is None else np.array(signature, np.int32)
        tensor.type, tensor.buffer = getattr(self.schema.TensorType, dtype), buffer
        tensor.quantization = None if scale is None else self._quantization(scale, zero_point)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _quantization(self, scale: Scale, zero_point: int) -> Quantization:
        parameters: Quantization = self.schema.QuantizationParametersT()
        parameters.scale = np.asarray(scale, np.float32).reshape(-1)
        parameters.zeroPoint = np.full(parameters.scale.shape, zero_point, np.int64)
        parameters.quantizedDimension = 0
        return parameters


def editors(file: TFLiteFile) -> list[GraphEditor]:
    """An editor for each subgraph."""
    return [GraphEditor(file, graph) for graph in file.subgraphs]


def drop_unused(file: TFLiteFile) -> None:
    """Empty the buffers that nothing uses any more."""
    used = {tensor.buffer for graph in file.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in file.metadata or ()}
    for index, buffer in enumerate(file.buffers):
        if index not in used:
            buffer.data = None


def share_equal_buffers(file: TFLiteFile) -> None:
    """Store equal constants once, such as a table that is both looked up and multiplied with."""
    first: dict[bytes, int] = {}
    same = {
        index: first.setdefault(np.asarray(buffer.data, np.uint8).tobytes(), index)
        for index, buffer in enumerate(file.buffers)
        if buffer.data is not None and len(buffer.data)
    }
    for graph in file.subgraphs:
        for tensor in graph.tensors:
            tensor.buffer = same.get(tensor.buffer, tensor.buffer)
    drop_unused(file)


def _text(name: bytes | str | None) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
