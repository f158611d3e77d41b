"""What every results file says of a run: commit, date, command, machine and versions; and how a run gets into its file.

A script calls `write_run` at its end. Where the results are of another form, it takes `provenance` and writes the file
by itself. `results_files.py` has the schema.
"""

import argparse
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def provenance(*packages: str) -> dict[str, Any]:
    """Return what a reader needs to repeat a measurement; `packages` are those whose versions matter, if installed."""
    return {
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "command": command(sys.argv),
        "machine": machine(),
        "versions": {"python": platform.python_version()}
        | {name: found for name in packages if (found := _version(name)) is not None},
    }


def write_run(
    path: Path, results: Any, *, packages: Sequence[str] = (), part: str | None = None, **facts: Any
) -> dict[str, Any]:
    """Put a run into a results file and return it.

    Args:
        path: The file. It holds `{"runs": [...]}`; a run of the same part is replaced, the others stay.
        results: Rows of a table, or tables by caption. A list of numbers is the repetitions of a measurement.
        packages: Whose versions matter.
        part: Which of the script's measurements this is, where it has several.
        facts: What else belongs to the run, such as `seeds`, `contenders`, `settings`.
    """
    about = {} if part is None else {"part": part}
    run = _plain({**about, **provenance(*packages), **facts, "results": results})
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    others = [one for one in found.get("runs", [found]) if one.get("part") != part]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"runs": [*others, run]}, indent=1, ensure_ascii=False, allow_nan=False)
    text = re.sub(r"\[[\s\d.,e+-]+\]", lambda found: " ".join(found[0].split()), text)  # repetitions in one line
    path.write_text(text + "\n", encoding="utf-8")
    return run


def add_output(parser: argparse.ArgumentParser, name: str) -> None:
    """Give a script the option `--output`; its results go to `results/NAME.json` otherwise."""
    parser.add_argument("--output", type=Path, default=RESULTS / f"{name}.json", help="the results file")


def command(words: Sequence[str]) -> str:
    """Return a command as others would type it: no absolute paths.

    Example:
        >>> command(["/project/benchmarks/x.py", "--data", "/home/me/data", "--peer-python", "/venv/bin/python"])
        'python benchmarks/x.py --data DIR --peer-python PEER_PYTHON'
    """
    script, *rest = words
    place = Path(script).resolve()
    place = place.relative_to(ROOT) if place.is_relative_to(ROOT) else Path("benchmarks") / place.name
    shown, flag = [place.as_posix() if place.suffix == ".py" else script], ""
    for word in _without_output(rest):
        name, _, value = word.partition("=")
        if Path(word).is_absolute():
            word = "DIR" if flag in ("", "data") else flag.upper().replace("-", "_")
        elif Path(value).is_absolute():
            word = f"{name}={Path(value).name}"
        flag = word.removeprefix("--") if word.startswith("--") else flag
        shown.append(word)
    return shlex.join(["python", *shown])


@functools.cache
def commit() -> str | None:
    """Return the commit of the code, with a plus sign where files differ from it; `None` outside a repository."""

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    found = ask("rev-parse", "--short=10", "HEAD")
    changed = ask("status", "--porcelain", "--untracked-files=no", "--", "keras_bert", "export", "benchmarks/*.py")
    return found + "+" * bool(changed) or None


commit()  # when the script begins: files may change while it runs


def machine() -> dict[str, Any]:
    """Return the processor, its features that matter to matrix products, cores and memory."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lines = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
    return {
        "cpu": lines.get("model name", platform.processor()),
        "features": [name for name in wanted if name in lines.get("flags", "").split()],
        "cores": os.cpu_count(),
        "used": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def _without_output(words: Sequence[str]) -> list[str]:
    """A command's words without `--output` and its file, which change no result."""
    pairs = zip(("", *words), words, strict=False)
    return [word for before, word in pairs if "--output" not in (before, word)]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, six digits of each; tuples as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
