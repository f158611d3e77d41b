"""Read the bodies of requests: limits, JSON, rows of strings. What is wrong becomes a `RequestError`."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from export.server.extra import ClientDisconnect, Request, orjson
from export.server.limits import Limits, RequestError
from export.tasks.base.settings import Setting

# === Bytes ===


async def read_json(request: Request, limits: Limits) -> dict[str, Any]:
    """Read the body of a request as a JSON object.

    Args:
        request: The request. `protocol.py` ends it if it does not come in time.
        limits: The most bytes.
    """
    body = await _read_body(request, limits.max_body)
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(
            400, f"The body is not JSON in UTF-8 (line {error.lineno}, column {error.colno}): {error.msg}."
        ) from None
    if not isinstance(found, dict):
        raise RequestError(400, f"The body is {_kind(found)}; expected a JSON object.")
    return found


async def _read_body(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise RequestError(413, f"The body has {int(declared):,} bytes; expected at most {most:,}.")
    parts, size, goes_on = [], 0, True
    while goes_on:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, goes_on = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > most:
            raise RequestError(413, f"The body has more than {most:,} bytes, which is the most that is read.")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


# === Values ===


def read_rows(values: Any, names: Sequence[str], limits: Limits, *, what: str = "instances") -> list[tuple[str, ...]]:
    """Read a list of rows: each an object with a string for each name; or a string, where there is one name.

    Args:
        values: The list.
        names: The names of the strings of a row.
        limits: The most texts and characters.
        what: How the list is called in the request.

    Example:
        >>> read_rows(["a film", {"text": "another"}], ["text"], Limits())
        [('a film',), ('another',)]
    """
    check_count(values, limits, what=what)
    return [_read_row(value, names, limits, f"{what}[{index}]") for index, value in enumerate(values)]


def _read_row(value: Any, names: Sequence[str], limits: Limits, place: str) -> tuple[str, ...]:
    if isinstance(value, dict) and set(value) != {"b64"}:
        if set(value) != set(names):
            raise RequestError(
                400, f"{place} is an object with {len(value)} names; expected an object with {', '.join(names)}."
            )
        return tuple(read_text(value[name], limits, f"{place}.{name}") for name in names)
    if len(names) > 1:
        raise RequestError(400, f"{place} is {_kind(value)}; expected an object with {', '.join(names)}.")
    return (read_text(value, limits, place),)


def read_columns(values: Any, names: Sequence[str], limits: Limits) -> list[tuple[str, ...]]:
    """Read columns: an object with a list of strings for each name; or a list, where there is one name.

    Example:
        >>> read_columns({"text": ["a"], "pair": ["b"]}, ["text", "pair"], Limits())
        [('a', 'b')]
    """
    if len(names) == 1 and not (isinstance(values, dict) and set(values) == set(names)):
        values = {names[0]: values}
    if not isinstance(values, dict) or set(values) != set(names):
        raise RequestError(400, f"inputs is not an object with a list for each of {', '.join(names)}.")
    columns = []
    for name in names:
        column = values[name]
        column = [column] if isinstance(column, str) else column
        check_count(column, limits, what=f"inputs.{name}")
        columns.append([read_text(text, limits, f"inputs.{name}[{row}]") for row, text in enumerate(column)])
    if len(set(map(len, columns))) > 1:
        raise RequestError(400, f"inputs has lists of {' and '.join(str(len(column)) for column in columns)} texts.")
    return list(zip(*columns, strict=True))


def check_count(values: Any, limits: Limits, *, what: str) -> None:
    """Raise an error if something is no list, an empty one, or too long."""
    if not isinstance(values, list):
        raise RequestError(400, f"{what} is {_kind(values)}; expected a list.")
    if not values:
        raise RequestError(400, f"{what} is empty; expected at least one.")
    if len(values) > limits.max_texts:
        raise RequestError(400, f"{what} has {len(values):,} entries; expected at most {limits.max_texts:,}.")


def read_text(value: Any, limits: Limits, place: str) -> str:
    """Read a string, or bytes as `{"b64": …}`, in which U+FFFD stands for what is not UTF-8."""
    if isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str):
        try:
            value = base64.b64decode(value["b64"], validate=True).decode("utf-8", errors="replace")
        except (binascii.Error, ValueError):
            raise RequestError(400, f"{place} has b64 that is not base64.") from None
    if not isinstance(value, str):
        raise RequestError(400, f"{place} is {_kind(value)}; expected a string.")
    check_length(value, limits, place)
    return value


def check_length(text: str, limits: Limits, place: str) -> None:
    """Raise an error if a text has too many characters."""
    if len(text) > limits.max_characters:
        raise RequestError(
            400, f"{place} has {len(text):,} characters; expected at most {limits.max_characters:,}. Divide the text."
        )


def read_options(values: Any, allowed: Mapping[str, Setting]) -> dict[str, Any]:
    """Read the options of a request.

    Example:
        >>> read_options(None, {})
        {}
    """
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise RequestError(400, f"options is {_kind(values)}; expected an object.")
    if not set(values) <= set(allowed):
        known = f"only {', '.join(allowed)} are known" if allowed else "this model has none"
        raise RequestError(400, f"options has names that are not known; {known}.")
    for name, value in values.items():
        if not allowed[name].allows(value):
            raise RequestError(400, f"options.{name} is not {allowed[name].words}.")
    return values


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
