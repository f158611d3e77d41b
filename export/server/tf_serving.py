"""TF Serving's REST interface: predict, classify, regress, metadata and status.

Requests and answers have the forms that a SavedModel of the same task has in TF Serving, so clients run unchanged.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from export.server.answering import Answered, run_ranked, run_rows
from export.server.limits import Limits, RequestError
from export.server.requests import check_count, read_columns, read_rows
from export.server.versions import Version, Versions
from export.tasks.base.served_file import FORMS, Columns

_METHODS = {"predict": "tensorflow/serving/predict", "classify": "tensorflow/serving/classify"}
_METHODS["regress"] = "tensorflow/serving/regress"
_TYPES = {"f": "DT_FLOAT", "i": "DT_INT32", "u": "DT_INT32", "b": "DT_BOOL", "U": "DT_STRING", "S": "DT_STRING"}

# === Signatures ===


@dataclass(frozen=True)
class Signature:
    """What a name in a request stands for: its type of request, the strings of a row, and options of the file."""

    method: str
    names: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def signatures_of(version: Version) -> dict[str, Signature]:
    """The signatures of a version, `serving_default` first, with the names that `save_serving` gives them.

    Example:
        >>> list(signatures_of(version))  # doctest: +SKIP
        ['serving_default', 'classify']
    """
    served, found = version.served, {}
    for form in served.forms:
        is_default = form == served.forms[0]
        found["serving_default" if is_default else f"serving_{form}"] = Signature("predict", FORMS[form])
        if served.ranks is not None:
            found[served.ranks if is_default else f"{served.ranks}_{form}"] = Signature(served.ranks, FORMS[form])
    for name, options in served.variants.items():
        found[name] = Signature("predict", FORMS[served.forms[0]], options)
    return found


_known: WeakKeyDictionary[Version, dict[str, Signature]] = WeakKeyDictionary()


def _find_signature(version: Version, body: dict[str, Any], method: str) -> Signature:
    default = "serving_default" if method == "predict" else version.served.ranks or method
    if (known := _known.get(version)) is None:
        _known[version] = known = signatures_of(version)
    name = body.get("signature_name") or default
    if not isinstance(name, str) or name not in known:
        raise RequestError(404, f"There is no signature of that name; this model has {', '.join(known)}.")
    if known[name].method != method:
        raise RequestError(400, f"That signature is for {known[name].method} requests, and this is a {method} request.")
    return known[name]


# === Requests ===


@dataclass(frozen=True)
class Asked:
    """A request that was read: rows to run, the function that runs them, and the one that makes its answer."""

    rows: list[Any]
    run: Callable[[Any, Any], Answered]  # takes a runtime and rows
    answer: Callable[..., Any]  # takes columns, and on request tokens; gives the JSON value
    counts_tokens: bool = False
    kind: Hashable | None = None  # equal for requests whose rows may be run together


def kind_of(version: Version, *what: Hashable) -> Hashable | None:
    """What is equal for requests whose rows may be run together; `None` for tasks that write, which take long.

    Example:
        >>> kind_of(version, "predict") == kind_of(version, "predict")  # doctest: +SKIP
        True
    """
    return None if version.served.variants else (version, *what)


def read_predict(version: Version, body: dict[str, Any], limits: Limits) -> Asked:
    """Read a Predict request, by rows (`instances`) or by columns (`inputs`)."""
    signature = _find_signature(version, body, "predict")
    if ("instances" in body) == ("inputs" in body):
        raise RequestError(400, "Expected either instances, a list of rows, or inputs, with a list for each input.")
    by_rows = "instances" in body
    if by_rows:
        rows = read_rows(body["instances"], signature.names, limits)
    else:
        rows = read_columns(body["inputs"], signature.names, limits)
    return Asked(
        rows,
        lambda runtime, part: run_rows(runtime, version.served, part, signature.options),
        _predictions if by_rows else _outputs,
        kind=kind_of(version, "predict", len(signature.names)),
    )


def _predictions(columns: Columns) -> dict[str, Any]:
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def _outputs(columns: Columns) -> dict[str, Any]:
    return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}


def read_ranking(version: Version, body: dict[str, Any], limits: Limits, method: str) -> Asked:
    """Read a Classify or Regress request: `examples`, and a `context` whose strings stand for all of them."""
    signature = _find_signature(version, body, method)
    context, examples = body.get("context", {}), body.get("examples", [])
    if not isinstance(context, dict):
        raise RequestError(400, "context is not an object; expected strings that all examples share.")
    check_count(examples, limits, what="examples")
    if not all(isinstance(one, dict) for one in examples):
        raise RequestError(
            400, f"examples has other values than objects; expected {', '.join(signature.names)} in each."
        )
    examples = [{**context, **one} for one in examples]
    rows = read_rows(examples, signature.names, limits, what="examples")
    return Asked(
        rows,
        lambda runtime, part: run_ranked(runtime, version.served, part),
        dict,
        kind=kind_of(version, "rank", len(signature.names)),
    )


# === Descriptions ===


def describe_status(versions: Versions) -> dict[str, Any]:
    """The status of all versions, as TF Serving says it: the one that answers, and those that were refused."""
    entries = [_status(versions.current.number, "AVAILABLE", "OK", "")]
    for refusal in list(versions.refused.values()):
        message = "The file cannot be served; the log of the server says why."
        entries.append(_status(refusal.number, "END", "INVALID_ARGUMENT", message))
    return {"model_version_status": sorted(entries, key=lambda entry: -int(entry["version"]))}


def _status(number: int, state: str, code: str, message: str) -> dict[str, Any]:
    return {"version": str(number), "state": state, "status": {"error_code": code, "error_message": message}}


def describe_model(version: Version, name: str) -> dict[str, Any]:
    """The metadata of a version: its signatures with their inputs and outputs."""
    definitions = {key: _definition(version, one) for key, one in signatures_of(version).items()}
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(version.number)},
        "metadata": {"signature_def": {"signature_def": definitions}},
    }


def _definition(version: Version, signature: Signature) -> dict[str, Any]:
    names = signature.names if signature.method == "predict" else ("inputs",)
    if signature.method == "classify":
        outputs = {"classes": _tensor("DT_STRING", [-1, -1]), "scores": _tensor("DT_FLOAT", [-1, -1])}
    elif signature.method == "regress":
        outputs = {"outputs": _tensor("DT_FLOAT", [-1])}
    else:
        outputs = {name: _describe_column(version, name, values) for name, values in version.sample.items()}
    inputs = {name: _tensor("DT_STRING", [-1]) for name in names}
    return {"inputs": inputs, "outputs": outputs, "method_name": _METHODS[signature.method], "defaults": {}}


def _describe_column(version: Version, name: str, values: list[Any]) -> dict[str, Any]:
    value = np.asarray(values[0])
    shape = list(value.shape)
    if name in version.served.fillers:
        shape[0] = -1
    return _tensor(_TYPES[value.dtype.kind], [-1, *shape])


def _tensor(kind: str, shape: list[int]) -> dict[str, Any]:
    dimensions = [{"size": str(size), "name": ""} for size in shape]
    return {"dtype": kind, "tensor_shape": {"dim": dimensions, "unknown_rank": False}, "name": ""}
