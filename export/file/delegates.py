"""List which ops of a `.tflite` file an accelerator's delegate takes, and which stay on the CPU.

`audit_delegate` compares the ops, their types and their shapes with what the delegate's documentation lists. It needs
no accelerator. A delegate may still refuse an op for other reasons, such as a size that it does not like.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.file.contents import parse, schema, type_name
from export.file.parsed import Operator, Subgraph, TFLiteFile


@dataclass(frozen=True)
class Delegate:
    """What a delegate's documentation says.

    Args:
        title: Its name for people.
        ops: The ops that it takes.
        fixed: Whether it takes only fixed lengths.
        integers: Whether it is made for integers: float tensors cost it time, or are refused.
        notes: What else its documentation says of the ops of a BERT.
    """

    title: str
    ops: frozenset[str]
    fixed: bool = True
    integers: bool = False
    notes: tuple[str, ...] = ()


# From LiteRT's repository: `litert/vendors/qualcomm/compiler/Qualcomm_QNN_Compiler.md`,
# `litert/vendors/mediatek/compiler/MediaTek_Neuro_Compiler.md`, and the parsers of
# `tflite/delegates/gpu/common/model_builder.cc`.
_QUALCOMM = """
    ABS ADD ARG_MAX ARG_MIN AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_TO CAST CEIL
    CONCATENATION CONV_2D CONV_3D COS CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV
    DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
    GATHER_ND GELU GREATER GREATER_EQUAL HARD_SWISH L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL
    LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG
    NOT_EQUAL ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN RELU
    RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT
    SELECT SELECT_V2 SIGN SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE
    SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TILE TOPK_V2 TRANSPOSE TRANSPOSE_CONV UNPACK
"""
_MEDIATEK = """
    ABS ADD AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE DIV
    FULLY_CONNECTED GELU GREATER HARD_SWISH L2_NORMALIZATION LEAKY_RELU LESS LOGISTIC MAXIMUM MAX_POOL_2D
    MEAN MINIMUM MUL PAD PADV2 PRELU QUANTIZE REDUCE_MAX RELU RESHAPE RESIZE_BILINEAR
    RESIZE_NEAREST_NEIGHBOR RSQRT SLICE SOFTMAX SPLIT SQRT SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH
    TRANSPOSE TRANSPOSE_CONV
"""
_GPU = """
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D COS CUMSUM DENSIFY
    DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED
    GATHER GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGISTIC LSTM
    MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE
    REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR
    RESIZE_NEAREST_NEIGHBOR RSQRT SELECT SELECT_V2 SIGN SIN SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V SQRT
    SQUARE SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TILE TRANSPOSE TRANSPOSE_CONV UNPACK
"""

DELEGATES: Mapping[str, Delegate] = {
    "qualcomm": Delegate(
        "Qualcomm AI Engine Direct (QNN)",
        frozenset(_QUALCOMM.split()),
        integers=True,
        notes=("Weights with a scale for each block are refused; those with a scale for each channel are taken.",),
    ),
    "mediatek": Delegate(
        "MediaTek NeuroPilot",
        frozenset(_MEDIATEK.split()),
        integers=True,
        notes=(
            "GELU runs in its tanh approximation.",
            "16-bit tensors need one scale; weights with a scale for each block are refused.",
        ),
    ),
    "gpu": Delegate(
        "LiteRT's GPU delegate",
        frozenset(_GPU.split()),
        notes=("It computes in float16; integer weights are turned into floats when the model is loaded.",),
    ),
}


@dataclass(frozen=True)
class DelegateAudit:
    """What a delegate takes of a file. Prints as a few lines.

    Args:
        delegate: A key of `DELEGATES`.
        taken: The number of each op that it takes.
        left: The number of each op that stays on the CPU.
        types: How many of the taken ops give each type.
        problems: What else keeps the delegate from the file, in sentences.
    """

    delegate: str
    taken: Mapping[str, int]
    left: Mapping[str, int]
    types: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of ops that the delegate takes."""
        count = sum(self.taken.values())
        return count / max(1, count + sum(self.left.values()))

    def __str__(self) -> str:
        total = sum(self.taken.values()) + sum(self.left.values())
        types = ", ".join(f"{name} {count}" for name, count in self.types.items())
        left = ", ".join(f"{name} {count}" for name, count in self.left.items()) or "none"
        known = DELEGATES[self.delegate]
        lines = [f"{known.title}: {sum(self.taken.values())} of {total} ops ({types}); left to the CPU: {left}"]
        return "\n".join([*lines, *self.problems, *known.notes])

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain values, for JSON."""
        return {
            "delegate": self.delegate,
            "taken": dict(self.taken),
            "left": dict(self.left),
            "types": dict(self.types),
            "problems": list(self.problems),
        }


def audit_delegate(source: str | Path | bytes, delegate: str) -> DelegateAudit:
    """Compare the ops of a file with what a delegate takes.

    Args:
        source: The file, or its bytes.
        delegate: A key of `DELEGATES`: `"qualcomm"`, `"mediatek"` or `"gpu"`.

    Example:
        >>> print(audit_delegate("model.tflite", "gpu"))  # doctest: +SKIP
        LiteRT's GPU delegate: 247 of 247 ops (FLOAT32 247); left to the CPU: none
    """
    if delegate not in DELEGATES:
        raise ValueError(f"Got delegate={delegate!r}; expected one of {', '.join(map(repr, DELEGATES))}.")
    known, file = DELEGATES[delegate], parse(source)
    names = _names(file)
    taken: Counter[str] = Counter()
    left: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for graph in file.subgraphs:
        for operator in graph.operators:
            name = names[operator.opcodeIndex]
            if name in known.ops:
                taken[name] += 1
                types[_output_type(graph, operator)] += 1
            else:
                left[name] += 1
    problems = _problems(known, file, types)
    counts = [dict(count.most_common()) for count in (taken, left, types)]
    return DelegateAudit(delegate, counts[0], counts[1], counts[2], problems)


def _problems(known: Delegate, file: TFLiteFile, types: Counter[str]) -> tuple[str, ...]:
    problems = []
    if known.fixed and any(_is_dynamic(graph) for graph in file.subgraphs):
        problems.append("The file takes any length, and delegates want fixed ones: export it with lengths=128.")
    floats = sum(types[name] for name in ("FLOAT32", "FLOAT16"))
    if known.integers and floats:
        problems.append(
            f"{floats} of its ops compute in float, which an NPU does in float16 if at all, and slower than integers."
        )
    return tuple(problems)


def _is_dynamic(graph: Subgraph) -> bool:
    signatures = (graph.tensors[index].shapeSignature for index in graph.inputs)
    return any(shape is not None and -1 in shape for shape in signatures)


def _output_type(graph: Subgraph, operator: Operator) -> str:
    return type_name(graph.tensors[operator.outputs[0]].type)


def _names(file: TFLiteFile) -> list[str]:
    known = {value: name for name, value in vars(schema().BuiltinOperator).items() if isinstance(value, int)}
    return [known.get(max(code.builtinCode, code.deprecatedBuiltinCode), "UNKNOWN") for code in file.operatorCodes]
