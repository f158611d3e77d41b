"""Run rows of tokens through the graph of a `.tflite` file, and give its outputs by name.

Only LiteRT and NumPy are needed. Readers make the rows and read the outputs.
"""

from pathlib import Path
from typing import Any

import numpy as np

from export.file.interpreter import open_interpreter
from export.file.metadata_reader import FileMetadata
from export.tasks.base.reader import Reader
from keras_bert.text.tokenized_texts import TokenizedTexts

_INPUTS = ("token_ids", "segment_ids", "padding_mask")


# Of these, each plain row takes a part.
_ZEROS, _ONES = np.zeros((1, 512), np.int32), np.ones((1, 512), np.int32)


def _inputs(ids: np.ndarray, second_begins: int, length: int, pad_id: int) -> dict[str, np.ndarray]:
    """The inputs of a graph for a row of ids, padded to a length."""
    if length == len(ids) <= second_begins and length <= _ONES.shape[1]:
        return {"token_ids": ids[None], "segment_ids": _ZEROS[:, :length], "padding_mask": _ONES[:, :length]}
    token_ids = np.full((1, length), pad_id, np.int32)
    token_ids[0, : len(ids)] = ids
    places = np.arange(length)[None, :]
    return {
        "token_ids": token_ids,
        "segment_ids": ((places >= second_begins) & (places < len(ids))).astype(np.int32),
        "padding_mask": (places < len(ids)).astype(np.int32),
    }


class RowRunner:
    """The signatures of a file; each row runs through the shortest signature that it fits.

    Args:
        path: The file.
        metadata: The metadata of the file.
        reader: Names the outputs to read, and those with a value for each token.
        num_threads: Threads of the interpreter.
    """

    def __init__(self, path: Path, metadata: FileMetadata, reader: Reader, num_threads: int):
        self._path, self._interpreter = path, open_interpreter(path, num_threads=num_threads)
        if missing := set(metadata.signatures) - set(self._interpreter.get_signature_list()):
            raise ValueError(f"{path} names the signatures {sorted(missing)}, which it does not have; export it again.")
        self._lengths = metadata.signatures
        self._runners: dict[str, Any] = {}
        self._outputs, self._token_outputs = reader.outputs, reader.token_outputs
        for key, length in self._lengths.items():
            self._check_signature(path, key, length)

    def run(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """Run all rows, one at a time, because files have batch 1; give their outputs by name.

        Rows of one length follow each other, because LiteRT plans its memory anew for every other length.
        Outputs with a value for each token have the shape `[tokens, …]`, without padding, row after row.
        """
        ids, splits, second_begins = tokenized.packed()
        rows: list[dict[str, np.ndarray]] = [{}] * len(tokenized)
        for i in np.argsort(np.diff(splits), kind="stable").tolist():
            rows[i] = self._run_row(ids[splits[i] : splits[i + 1]], int(second_begins[i]), tokenized.pad_id)
        return {name: np.concatenate([row[name] for row in rows]) for name in self._outputs}

    def _run_row(self, ids: np.ndarray, second_begins: int, pad_id: int) -> dict[str, np.ndarray]:
        key, length = next((key, n) for key, n in self._lengths.items() if n is None or n >= len(ids))
        inputs = _inputs(ids, second_begins, len(ids) if length is None else length, pad_id)
        try:
            outputs = self._runner(key)(**inputs)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"{self._path} cannot be run: {error}. It is damaged, or needs a newer LiteRT; export it again."
            ) from None
        return {name: self._without_padding(name, outputs[name], len(ids)) for name in self._outputs}

    def _without_padding(self, name: str, values: np.ndarray, tokens: int) -> np.ndarray:
        is_of_tokens = name in self._token_outputs
        if values.ndim < 1 + is_of_tokens or len(values) != 1 or (is_of_tokens and values.shape[1] < tokens):
            raise ValueError(
                f"{self._path} gives {name} of shape {values.shape} for a row of {tokens} tokens; export it again."
            )
        return values[0, :tokens] if is_of_tokens else values

    def _check_signature(self, path: Path, key: str, length: int | None) -> None:
        """Raise a clear error if metadata and graph differ; LiteRT's own names only the number of a node."""
        inputs = self._runner(key).get_input_details()
        shapes = {name: tuple(map(int, details["shape_signature"])) for name, details in inputs.items()}
        expected = dict.fromkeys(_INPUTS, (1, -1 if length is None else length))
        if shapes != expected:
            raise ValueError(
                f"{path}: the signature {key!r} takes {shapes}, not {expected} as the metadata says; export it again."
            )
        outputs = self._runner(key).get_output_details()
        if missing := [name for name in self._outputs if name not in outputs]:
            raise ValueError(
                f"{path}: the signature {key!r} gives {', '.join(outputs)}; its task needs {', '.join(missing)} too. "
                "Export it again."
            )

    def _runner(self, key: str) -> Any:
        """The runner of a signature. Its tensors are allocated when it first runs."""
        if key not in self._runners:
            self._runners[key] = self._interpreter.get_signature_runner(key)
        return self._runners[key]
