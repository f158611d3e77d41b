"""Make the files beside a served graph: warm-up requests, the batching file, and a README on how to start the server.

Requests are written in protobuf's wire format directly, which saves a dependency on `tensorflow-serving-api`; a test
reads them with it.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from export.serving.artifact import docker_command
from export.serving.signatures import Signature
from export.serving.tasks import find_served
from export.tasks.base.definition import CLASSIFY, PREDICT, REGRESS
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack

_TEXTS_PER_REQUEST = 32
_MOST_REQUESTS = 1000  # TF Serving refuses a model with more

# Field numbers of PredictionLog, by the method of the request.
_LOG_FIELDS = {CLASSIFY: 2, REGRESS: 3, PREDICT: 6}


# === Warm-up ===


def warmup_requests(task: Task, signatures: dict[str, Signature], rows: Sequence[tuple[str, str]]) -> list[bytes]:
    """Make serialized `PredictionLog` messages with all rows, for every signature.

    Args:
        task: The task that is served.
        signatures: From `build_signatures`.
        rows: Texts, each with a second text for the signatures that take pairs.
    """
    requests = []
    for start in range(0, len(rows), _TEXTS_PER_REQUEST):
        part = rows[start : start + _TEXTS_PER_REQUEST]
        for key, signature in signatures.items():
            texts = [row[: len(signature.texts)] for row in part]
            if signature.method != PREDICT:
                body = _examples_input(signature.texts, texts)
            elif signature.texts:
                columns = zip(*texts, strict=True)
                body = _tensor_inputs(dict(zip(signature.texts, map(list, columns), strict=True)))
            else:
                texts = [text for text, _ in part]
                body = _tensor_inputs(pack(task.tokenizer, texts, sequence_length=task.sequence_length))
            requests.append(_prediction_log(key, signature.method, body))
    if len(requests) > _MOST_REQUESTS:
        most = _MOST_REQUESTS // len(signatures) * _TEXTS_PER_REQUEST
        raise ValueError(
            f"Got {len(rows):,} warmup_texts, which make {len(requests):,} requests; pass at most {most:,} texts."
        )
    return requests


def write_records(path: Path, records: Iterable[bytes]) -> None:
    """Write a TFRecord file."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def _prediction_log(signature_name: str, method: str, body: bytes) -> bytes:
    """PredictionLog { predict_log { request { model_spec { signature_name } … } } }; the same for the other methods."""
    model_spec = _field(3, signature_name.encode())
    request = _field(1, model_spec) + body
    return _field(_LOG_FIELDS[method], _field(1, request))


def _tensor_inputs(tensors: dict[str, Any]) -> bytes:
    """The map `inputs` of a PredictRequest: entries with a key and a TensorProto."""
    protos = {name: tf.make_tensor_proto(value).SerializeToString() for name, value in tensors.items()}
    return b"".join(_field(2, _field(1, name.encode()) + _field(2, proto)) for name, proto in protos.items())


def _examples_input(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> bytes:
    """The `input` of a ClassificationRequest or RegressionRequest: Input { example_list { examples … } }."""
    return _field(2, _field(1, b"".join(_field(1, _example(names, row)) for row in rows)))


def _example(names: Sequence[str], row: tuple[str, ...]) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in zip(names, row, strict=True)
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _field(number: int, payload: bytes) -> bytes:
    """One length-delimited field: number and wire type 2 in a byte, then the length as a varint, then the bytes."""
    size, length = bytearray(), len(payload)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + payload


# === Pages ===


def batching_file(batch_sizes: Sequence[int]) -> str:
    """Make a text proto for TF Serving's `--batching_parameters_file`."""
    sizes = "\n".join(f"allowed_batch_sizes: {size}" for size in batch_sizes)
    return f"""# Waiting requests are answered together. Start the server with
#   --enable_batching --batching_parameters_file=…/batching.config
max_batch_size {{ value: {batch_sizes[-1]} }}
# How long the first request waits for others.
batch_timeout_micros {{ value: 2000 }}
# Beyond this many batches, new requests are refused (UNAVAILABLE) instead of waiting.
max_enqueued_batches {{ value: 100 }}
# Set it to the number of cores.
num_batch_threads {{ value: 4 }}
# Batches are filled up to one of these sizes, which keeps the number of shapes small, mainly for GPUs.
# On CPUs the filling costs time; remove these lines to leave batches as they are.
{sizes}
# Leave pad_variable_length_inputs off: it pads with the first element, which in padding_mask is a 1.
"""


def readme(task: Task, name: str, signatures: dict[str, Signature], table: str) -> str:
    """Write the page beside the graph: how to start a server, how to send requests, and what the answers are.

    Args:
        task: The task that is served.
        name: The model's name in requests.
        signatures: From `build_signatures`.
        table: Their inputs and outputs, as text.
    """
    names = signatures["serving_default"].texts
    texts = dict(zip(names, ("some text", "another"), strict=False))
    if not names:
        texts = dict(zip(INPUT_NAMES, ([task.tokenizer.cls_id, task.tokenizer.sep_id], [0, 0], [1, 1]), strict=True))
    instance = json.dumps(texts[names[0]] if len(names) == 1 else texts)
    labels = ", ".join(f"`{label}`" for label in task.labels or ())
    served = find_served(task)
    notes = "".join(f"- {note}\n" for note in served.notes)
    return f"""# {name}: a {task.name} model for TF Serving

Start the server in the directory that holds the version directories and `batching.config`:

```bash
{docker_command(name, '"$PWD"')}
```

Send a request:

```bash
curl -d '{{"instances": [{instance}]}}' http://localhost:8501/v1/models/{name}:predict
```

Signatures:

```text
{table}
```
{f"{chr(10)}Labels, in the order of `{served.labelled}`: {labels}.{chr(10)}" if labels else ""}
- Texts are UTF-8 strings. Invalid bytes become U+FFFD, which the tokenizer drops.
- A text is cut to {served.longest(task)} tokens; `truncated` says which texts were.
- An empty text is `[CLS] [SEP]` and gets the model's answer to that.
- `from_ids` takes `token_ids`, `segment_ids` and `padding_mask`, int32 `[B, T]`. With batching on, requests to it are
  joined only if they have the same T, so pad them to the same length.
- The graph needs the ops of tensorflow-text, which TF Serving includes. In Python, `import tensorflow_text` before
  `tf.saved_model.load`.
{notes}"""
