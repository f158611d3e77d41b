"""Open LiteRT's interpreter for a `.tflite` file or its bytes.

LiteRT is an extra and is imported only here, when it is needed. No TensorFlow.
"""

import os
import warnings
from collections.abc import Sequence
from typing import Any

from export.file.check import check_file


def open_interpreter(
    source: str | os.PathLike[str] | bytes,
    *,
    num_threads: int = 1,
    keep_tensors: bool = False,
    custom_ops: Sequence[Any] = (),
) -> Any:
    """Open LiteRT's `Interpreter` for a file, which may come from anywhere. Nothing is run or allocated yet.

    Args:
        source: The file, which is read in place, or its bytes.
        num_threads: The number of threads.
        keep_tensors: Whether all tensors can be read after a run, for calibration.
        custom_ops: Registerers of ops that LiteRT does not build in.

    Example:
        >>> open_interpreter("model.tflite").get_signature_list()  # doctest: +SKIP
        {'length_128': {'inputs': ['padding_mask', 'segment_ids', 'token_ids'], 'outputs': ['probabilities']}}
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps
    except ImportError as error:
        raise ImportError("Running a .tflite file needs LiteRT: pip install 'keras-bert-edge[export]'") from error
    check_file(source)
    where = {"model_content": source} if isinstance(source, bytes) else {"model_path": str(source)}
    try:
        with warnings.catch_warnings():
            # It warns that keeping all tensors is for debugging; calibration needs them.
            warnings.filterwarnings("ignore", message=".*experimental_preserve_all_tensors", category=UserWarning)
            options = {**where, "num_threads": num_threads, "experimental_preserve_all_tensors": keep_tensors}
            if custom_ops:
                return InterpreterWithCustomOps(custom_op_registerers=list(custom_ops), **options)
            return Interpreter(**options)
    except (ValueError, RuntimeError) as error:
        name = f"The file of {len(source):,} bytes" if isinstance(source, bytes) else source
        raise ValueError(f"{name} is not a TFLite model, or is cut short: {error}") from None
