"""The library's own interface: the answers of `export.load`, for every task, and what the page shows of a model."""

from typing import Any

from export.server.answering import plain, run_answers
from export.server.limits import Limits, RequestError
from export.server.requests import check_count, check_length, read_options
from export.server.tf_serving import Asked
from export.server.versions import Version
from export.tasks.base.served_file import FORMS, Columns


def read_answer(version: Version, body: dict[str, Any], limits: Limits) -> Asked:
    """Read a request for the answers of `export.load`.

    Args:
        version: The version to run.
        body: `inputs`, a list of what the task's `predict` takes, and `options`, such as `{"threshold": 0.5}`.
        limits: The most texts and characters.
    """
    given = body.get("inputs")
    check_count(given, limits, what="inputs")
    options = read_options(body.get("options"), version.served.options)
    inputs = [_read_input(version, one, limits, f"inputs[{index}]") for index, one in enumerate(given or [])]
    if len(set(map(type, inputs))) > 1:
        raise RequestError(400, "inputs mixes strings with lists or objects; expected one of them in a request.")
    return Asked(
        inputs,
        lambda runtime, part: run_answers(runtime, version.served, part, options),
        _answer,
    )


def _answer(columns: Columns) -> dict[str, Any]:
    return {"answers": [plain(answer) for answer in columns["answers"]]}


def _read_input(version: Version, given: Any, limits: Limits, place: str) -> Any:
    try:
        found = version.served.read_input(given)
    except (TypeError, ValueError) as error:
        raise RequestError(400, f"{place}: {error}") from None
    texts = [found] if isinstance(found, str) else [part for part in found if isinstance(part, str)]
    for part in found if isinstance(found, tuple) else ():
        texts += part if isinstance(part, list) else []
    if len(texts) > limits.max_texts:
        raise RequestError(400, f"{place} has {len(texts):,} texts; expected at most {limits.max_texts:,}.")
    for text in texts:
        check_length(text, limits, place)
    return found


def describe_page(version: Version, name: str) -> dict[str, Any]:
    """What the page shows of a model.

    Example:
        >>> describe_page(version, "sentiment")["task"]  # doctest: +SKIP
        'classification'
    """
    served, metadata = version.served, version.metadata
    return {
        "name": name,
        "version": version.number,
        "task": metadata.task,
        "kind": metadata.kind,
        "labels": metadata.labels,
        "forms": {form: FORMS[form] for form in served.forms},
        "options": sorted(served.options),
        "tokens": version.runtimes[0].longest,
    }
