"""What every results file says of a run: commit, date, command, machine and versions."""

import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def provenance(*packages: str) -> dict[str, Any]:
    """Return what a reader needs to repeat a measurement; `packages` are those whose versions matter."""
    return {
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "command": shlex.join(["python", *sys.argv]),
        "machine": machine(),
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in packages},
    }


def commit() -> str | None:
    """Return the commit of the code, with a plus sign where files differ from it; `None` outside a repository."""

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    found = ask("rev-parse", "--short=10", "HEAD")
    changed = ask("status", "--porcelain", "--untracked-files=no", "--", "keras_bert", "export", "benchmarks/*.py")
    return found + "+" * bool(changed) or None


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
