"""Check the settings in a file, which may come from anywhere.

Each reader lists its settings with a `Setting`: a check, and a description for the error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 1 << 16  # tokens; more than any BERT takes
_LARGEST = 3.4e38  # in float32


@dataclass(frozen=True)
class Setting:
    """What a setting of a reader may be. A file may come from anywhere, so a reader checks what it says.

    Args:
        allows: Takes the value, says whether it is allowed.
        words: The same in words, which end the sentence "expected …".

    Example:
        >>> Setting(lambda value: type(value) is float and 0 < value < 1, "a number between 0 and 1").allows(0.5)
        True
    """

    allows: Callable[[Any], bool]
    words: str


FLAG = Setting(lambda value: isinstance(value, bool), "true or false")
COUNT = Setting(lambda value: type(value) is int and 1 <= value <= _MOST, f"a whole number from 1 to {_MOST}")
SHARE = Setting(lambda value: type(value) in (int, float) and 0 <= value <= 1, "a number from 0 to 1")
NUMBER = Setting(lambda value: type(value) in (int, float) and abs(value) <= _LARGEST, "a number that float32 holds")


def one_of(*values: Any) -> Setting:
    """Allow one of some values.

    Example:
        >>> one_of("cut", "windows").allows("cut")
        True
    """
    return Setting(
        lambda value: isinstance(value, str | None) and value in values, f"one of {', '.join(map(repr, values))}"
    )


def list_of(what: Setting, length: int | None = None) -> Setting:
    """Allow a list, of a given length or of any, whose items are all allowed by one setting.

    Example:
        >>> list_of(NUMBER, 2).allows([0.5, float("nan")])
        False
    """

    def allows(value: Any) -> bool:
        return isinstance(value, list) and length in (None, len(value)) and all(map(what.allows, value))

    return Setting(allows, f"a list of {'any length' if length is None else length}, each member {what.words}")


def check_settings(settings: Mapping[str, Any], expected: Mapping[str, Setting]) -> None:
    """Raise an error that names the first setting with a value that is missing or not allowed.

    Example:
        >>> check_settings({"stride": 64}, {"stride": COUNT})
    """
    for name, setting in expected.items():
        value = settings.get(name)
        if not setting.allows(value):
            raise ValueError(f"Got {name}={repr(value)[:60]}; expected {setting.words}.")
