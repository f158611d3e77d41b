"""Times as people write them, such as `1h30m` → seconds."""

import re

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text: str) -> float:
    """The seconds of `90s`, `45m`, `1h`, `1h30m` or `2d`.

    Example:
        >>> parse_duration("1h30m")
        5400.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([dhms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; expected a number with d, h, m or s, such as 45m, 1h or 1h30m.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not seconds:
        raise ValueError(f"{text!r} is no time at all; give more than 0.")
    return seconds
