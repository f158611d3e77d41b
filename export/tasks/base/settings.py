"""What the settings in a file may be: checks with their words, for a file may come from anywhere.

Takes settings by name and what each of them must be, gives nothing or an error that names the first that is wrong.
Every reader lists its settings in these terms.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 1 << 16  # tokens; far beyond every BERT


@dataclass(frozen=True)
class Setting:
    """What a setting may be: a check, and the same in words."""

    allows: Callable[[Any], bool]
    words: str


FLAG = Setting(lambda value: isinstance(value, bool), "true or false")
COUNT = Setting(lambda value: type(value) is int and 1 <= value <= _MOST, f"a whole number from 1 to {_MOST}")
NUMBER = Setting(lambda value: type(value) in (int, float) and math.isfinite(value), "a number")


def one_of(*values: Any) -> Setting:
    """One of some values.

    Example:
        >>> one_of("cut", "windows").allows("cut")
        True
    """
    return Setting(
        lambda value: isinstance(value, str | None) and value in values, f"one of {', '.join(map(repr, values))}"
    )


def list_of(what: Setting, length: int | None = None) -> Setting:
    """A list whose members are all the same kind of thing, perhaps that many.

    Example:
        >>> list_of(NUMBER, 2).allows([0.5, float("nan")])
        False
    """

    def allows(value):
        return isinstance(value, list) and length in (None, len(value)) and all(map(what.allows, value))

    return Setting(allows, f"a list of {'any length' if length is None else length}, each member {what.words}")


def check_settings(settings: Mapping[str, Any], expected: Mapping[str, Setting]) -> None:
    """An error that names the first setting which is not what it must be, or is not there.

    Example:
        >>> check_settings({"stride": 64}, {"stride": COUNT})
    """
    for name, setting in expected.items():
        value = settings.get(name)
        if not setting.allows(value):
            raise ValueError(f"{name}={repr(value)[:60]}; expected {setting.words}.")
