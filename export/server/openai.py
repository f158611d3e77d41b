"""OpenAI's interface for vectors: `/v1/embeddings`, and the list of models.

Clients of OpenAI's API ask for base64, which is float32 in little-endian order; others get lists of numbers.
"""

import base64
from typing import Any

import numpy as np

from export.server.answering import run_rows
from export.server.limits import Limits, RequestError
from export.server.requests import check_count, read_text
from export.server.tf_serving import Asked, kind_of
from export.server.versions import Version
from export.tasks.base.served_file import Columns
from keras_bert.decoding.similarity import shorten_vectors


def read_embeddings(version: Version, body: dict[str, Any], limits: Limits, name: str) -> Asked:
    """Read a request for vectors.

    Args:
        version: The version to run.
        body: `input`, a string or a list of strings; `encoding_format`, `"float"` or `"base64"`; `dimensions`, how many
            of the first numbers of a vector to give, scaled to length 1 where whole vectors are; `model`.
        limits: The most texts and characters.
        name: The name of the model.
    """
    column = version.served.vector
    if column is None:
        raise RequestError(400, f"This model is for {version.metadata.task} and gives no vectors; use :predict.")
    if body.get("model", name) != name:
        raise RequestError(404, f"There is no model of that name; this server has {name}.")
    encoding = body.get("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise RequestError(400, "encoding_format is neither float nor base64.")
    width = len(version.sample[column][0])
    dimensions = body.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or not 1 <= dimensions <= width):
        raise RequestError(400, f"dimensions is not a number from 1 to {width}, which this model has; leave it out.")
    texts = _read_input(body.get("input"), limits)

    def answer(columns: Columns, tokens: int) -> dict[str, Any]:
        vectors = columns[column]
        if dimensions is not None:
            is_unit = bool(version.metadata.settings.get("normalize"))
            vectors = list(shorten_vectors(np.stack(vectors), dimensions, normalize=is_unit))
        vectors = [_encode(vector) if encoding == "base64" else vector for vector in vectors]
        data = [{"object": "embedding", "index": row, "embedding": vector} for row, vector in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": name, "usage": usage}

    return Asked(
        texts,
        lambda runtime, part: run_rows(runtime, version.served, part, {}),
        answer,
        counts_tokens=True,
        kind=kind_of(version, "predict", 1),
    )


def _read_input(given: Any, limits: Limits) -> list[tuple[str, ...]]:
    given = [given] if isinstance(given, str) else given
    check_count(given, limits, what="input")
    if all(isinstance(one, int | list) for one in given):
        raise RequestError(400, "input is token ids, which belong to another vocabulary; expected strings.")
    return [(read_text(text, limits, f"input[{row}]"),) for row, text in enumerate(given)]


def _encode(vector: np.ndarray) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode("ascii")


def describe_as_openai(name: str, started: int) -> dict[str, Any]:
    """A model as OpenAI's list of models describes it.

    Example:
        >>> describe_as_openai("sentiment", 0)["id"]
        'sentiment'
    """
    return {"id": name, "object": "model", "created": started, "owned_by": "keras-bert-edge"}


def as_openai_error(status: int, sentence: str) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
