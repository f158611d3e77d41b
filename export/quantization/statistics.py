"""Collect statistics of each layer of a file on the user's data: the range of every channel, and products of inputs.

Runs the float file on rows of data and reads the inputs and outputs of its matrix products. Padding is left out.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.file.contents import describe, parse
from export.file.editor import GraphEditor, editors
from export.file.interpreter import open_interpreter
from export.file.parsed import Operator
from keras_bert.text.tokenized_texts import TokenizedTexts

MAX_ROWS = 256  # more rows change little, and a dataset may be endless
_INPUTS = ("token_ids", "segment_ids", "padding_mask")


@dataclass
class LayerStatistics:
    """The statistics of a matrix product: the range of each channel, and the sum of `x xᵀ` over its inputs."""

    input_low: np.ndarray
    input_high: np.ndarray
    output_low: np.ndarray
    output_high: np.ndarray
    moments: np.ndarray
    tokens: int
    source: Hashable  # the tensor it reads: products of one source are scaled together

    def add(self, inputs: np.ndarray, outputs: np.ndarray, moments: np.ndarray) -> None:
        """Add the values of one more row, `[tokens, channels]`."""
        self.input_low = np.minimum(self.input_low, inputs.min(axis=0))
        self.input_high = np.maximum(self.input_high, inputs.max(axis=0))
        self.output_low = np.minimum(self.output_low, outputs.min(axis=0))
        self.output_high = np.maximum(self.output_high, outputs.max(axis=0))
        self.moments = self.moments + moments
        self.tokens += len(inputs)


def new_statistics(inputs: int, outputs: int, source: Hashable) -> LayerStatistics:
    """Empty statistics of a matrix product, by its number of channels."""
    before, after = np.full(inputs, np.inf), np.full(outputs, np.inf)
    return LayerStatistics(before, -before, after, -after, np.zeros((inputs, inputs)), 0, source)


def rows_of(data: Iterable[Any]) -> Iterator[dict[str, np.ndarray]]:
    """Give single rows `[1, T]` without padding from batches or rows of model inputs, with labels or without."""
    if isinstance(data, dict):
        data = [data]
    count = 0
    for item in data:
        inputs = item[0] if isinstance(item, tuple) else item
        if not isinstance(inputs, dict) or not set(_INPUTS) <= set(inputs):
            raise ValueError(
                f"The calibration data has {_describe(inputs)}; expected model inputs, dictionaries with "
                f"{', '.join(_INPUTS)}, or texts together with a task model."
            )
        batch = {name: np.atleast_2d(np.asarray(inputs[name])).astype(np.int32) for name in _INPUTS}
        for index, mask in enumerate(batch["padding_mask"]):
            if not (length := int(np.sum(mask > 0))):
                continue
            yield {name: values[index : index + 1, :length] for name, values in batch.items()}
            if (count := count + 1) == MAX_ROWS:
                return
    if not count:
        raise ValueError("The calibration data has no rows; expected texts like those of the model's users.")


def token_rows(tokenized: TokenizedTexts) -> list[dict[str, np.ndarray]]:
    """Turn texts into single rows `[1, T]` of model inputs."""
    ids, splits, second_begins = tokenized.packed()
    rows = []
    for begin, end, second in zip(splits[:-1], splits[1:], second_begins, strict=True):
        token_ids = ids[begin:end][None]
        segment_ids = (np.arange(end - begin) >= second)[None].astype(np.int32)
        rows.append({"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": np.ones_like(token_ids)})
    return rows


def collect_statistics(content: bytes, data: Iterable[Any]) -> dict[int, LayerStatistics]:
    """Run rows through the float file; give statistics by the buffer of the weights, which signatures share."""
    interpreter = open_interpreter(content, keep_tensors=True)
    signature = max(describe(content).signatures, key=lambda one: _length(one) or np.inf)
    editor = editors(parse(content))[signature.subgraph]
    layers = [operator for operator in editor.graph.operators if matrix_of(editor, operator) is not None]
    run, length = interpreter.get_signature_runner(signature.name), _length(signature)
    statistics: dict[int, LayerStatistics] = {}
    for row in rows_of(data):
        tokens = min(row["padding_mask"].shape[1], length or np.inf)
        run(**{name: _fit(values, length) for name, values in row.items()})
        moments: dict[int, np.ndarray] = {}
        for operator in layers:
            source, weights = int(operator.inputs[0]), int(operator.inputs[1])
            inputs, outputs = (
                _tokens(interpreter.get_tensor(index, signature.subgraph), tokens)
                for index in (source, int(operator.outputs[0]))
            )
            if source not in moments:
                moments[source] = inputs.T.astype(np.float64) @ inputs
            _add(statistics, editor.tensor(weights).buffer, inputs, outputs, moments[source], source)
    return statistics


def matrix_of(editor: GraphEditor, operator: Operator) -> np.ndarray | None:
    """The float weights `[outputs, inputs]` of a FULLY_CONNECTED op; `None` for any other op."""
    return editor.value(int(operator.inputs[1])) if editor.is_op(operator, "FULLY_CONNECTED") else None


def _add(
    statistics: dict[int, LayerStatistics],
    buffer: int,
    inputs: np.ndarray,
    outputs: np.ndarray,
    moments: np.ndarray,
    source: int,
) -> None:
    if buffer not in statistics:
        statistics[buffer] = new_statistics(inputs.shape[1], outputs.shape[1], source)
    statistics[buffer].add(inputs, outputs, moments)


def _length(signature: Any) -> int | None:
    """The fixed length of a signature; `None` if it is dynamic."""
    length = signature.inputs["token_ids"].shape[1]
    return None if length < 0 else length


def _fit(values: np.ndarray, length: int | None) -> np.ndarray:
    """Cut or pad a row `[1, T]` to a length; `None` leaves it as it is."""
    return values if length is None else np.pad(values[:, :length], [(0, 0), (0, max(0, length - values.shape[1]))])


def _tokens(values: np.ndarray, tokens: Any) -> np.ndarray:
    """Values `[1, T, channels]` or `[T, channels]` without padding; a single vector as it is."""
    return values.reshape(-1, values.shape[-1])[:tokens]


def _describe(value: Any) -> str:
    return f"a dictionary with {', '.join(map(str, value))}" if isinstance(value, dict) else type(value).__name__
