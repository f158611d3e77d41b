"""Reads results files, and says what is wrong with one.

A file `benchmarks/results/NAME.json` is a run, `{"runs": [run, ...]}`, or `{part: run, ...}`. A run has

    commit      the code that was measured, with a plus sign where files differed from it
    date        the day, as 2026-11-19
    command     what to type, with data directories called DIR
    machine     `cpu`, `features`, `cores`, `used` cores, `memory_gb`; of transcribed runs what is known
    versions    of the packages that matter

and may have

    part            which of the script's measurements this is
    contenders      what was compared
    seeds           of the repetitions
    settings        what the command leaves to defaults and a reader must know
    note            what was special about this run
    transcribed     true where the numbers were copied from a text that stood for them before
    not_repeated    why the run is not repeated on newer code: a reason ends the check of its age

Everything else is its data, as a rule under `results`: rows of a table, or tables by caption. A list of numbers is the
repetitions of one measurement; where only their mean is known it is `{"mean": ..., "deviation": ..., "runs": ...}`.
`result_tables.py` turns any such data into tables.
"""

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
ABOUT = {"commit": str, "date": str, "command": str, "machine": dict, "versions": dict}
OPTIONAL = {
    "part": str,
    "contenders": list,
    "seeds": list,
    "settings": dict,
    "note": str,
    "transcribed": bool,
    "not_repeated": str,
}
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")

Run = dict[str, Any]


def read_all(directory: Path = RESULTS) -> dict[str, list[Run]]:
    """The runs of every file, by the file's name."""
    return {path.stem: read_runs(path) for path in sorted(directory.glob("*.json"))}


def read_runs(path: Path) -> list[Run]:
    """The runs of a file; a file that does not follow the schema is an error."""
    found = json.loads(path.read_text(encoding="utf-8"))
    by_part = "runs" not in found and not ABOUT.keys() & found.keys()
    runs = [{"part": name, **run} for name, run in found.items()] if by_part else found.get("runs", [found])
    wrong = [f"run {place}: {problem}" for place, run in enumerate(runs) for problem in problems(run)]
    if wrong or not runs:
        raise ValueError(f"{path.name} does not follow the schema: {'; '.join(wrong) or 'it has no runs'}.")
    return list(runs)


def data(run: Run) -> dict[str, Any]:
    """What was measured, without what is said about the run."""
    return {name: value for name, value in run.items() if name not in ABOUT and name not in OPTIONAL}


def part(runs: list[Run], name: str | None) -> Run:
    """The run of that part."""
    found = [run for run in runs if run.get("part") == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} runs have the part {name!r}; expected one.")
    return found[0]


def problems(run: Any) -> list[str]:
    """What does not follow the schema; nothing of a good run.

    Example:
        >>> problems({"commit": "abcdef0", "date": "today", "command": "python benchmarks/x.py", "machine": {}})
        ["no 'versions'", "the date is 'today', not a day as 2026-11-19", "machine has no 'cpu'", "machine has no \
'cores'", 'there are no data']
    """
    if not isinstance(run, dict):
        return [f"it is a {type(run).__name__}, not an object"]
    found = [f"no {name!r}" for name in ABOUT if name not in run]
    kinds = {name: kind for name, kind in (ABOUT | OPTIONAL).items() if name in run}
    wrong = [name for name, kind in kinds.items() if not isinstance(run[name], kind)]
    found += [f"{name!r} is {run[name]!r}; expected {kinds[name].__name__}" for name in wrong]
    checks: dict[str, Callable[[Any], list[str]]] = {
        "commit": _commit,
        "date": _date,
        "command": _command,
        "machine": _machine,
        "versions": _versions,
    }
    for name, check in checks.items():
        if name in run and name not in wrong:
            found += check(run[name])
    if not data(run):
        found.append("there are no data")
    found += [f"{where} is {value}" for where, value in leaves(data(run)) if not _is_plain(value)]
    return found


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, text and nothing of some data, with its place."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{where}.{name}" if where else str(name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{where}[{place}]")
    else:
        yield where, value


def _commit(value: str) -> list[str]:
    return [] if re.fullmatch(r"[0-9a-f]{7,40}\+?", value) else [f"the commit is {value!r}, not a hash"]


def _date(value: str) -> list[str]:
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return [f"the date is {value!r}, not a day as 2026-11-19"]
    return []


def _command(value: str) -> list[str]:
    found = [] if re.match(r"(python|keras-bert|make) ", value) else [f"the command is {value!r}"]
    words = re.findall(r"(?:^|[\s='])(/[^\s']*)", value)
    return found + [f"the command names {word}, a path of one machine; call data directories DIR" for word in words]


def _machine(value: dict[str, Any]) -> list[str]:
    found = [f"machine has no {name!r}" for name in ("cpu", "cores") if name not in value]
    return found + [f"machine has the feature {name!r}" for name in value.get("features", []) if name not in FEATURES]


def _versions(value: dict[str, Any]) -> list[str]:
    wrong = {name: version for name, version in value.items() if not re.match(r"\d", str(version))}
    return [f"the version of {name} is {version!r}" for name, version in wrong.items()]


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))
