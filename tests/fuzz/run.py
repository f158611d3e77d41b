"""Opens thousands of broken files of every format, and reports crashes, hangs, memory and errors that nobody can read.

    python tests/fuzz/run.py                                     # every format, 200 files each
    python tests/fuzz/run.py --targets tflite config --files 10000
    python tests/fuzz/run.py --seconds 3600 --files 10000 --output fuzz.json    # again: goes on with the next files

Files are opened in a child process, which an audit hook watches: a file that makes it start a program, open a socket
or write outside of its directory is a finding. So is a crash, an opening that takes more than ten seconds or a
gigabyte, and an error of another kind than the target allows. Findings are kept in `--keep`, with the target and the
number that names the file; the files in `tests/fuzz/found/` once broke something and are opened first. `--output` is
written after each format; the same command goes on after the files that it counts.
"""

import argparse
import contextlib
import gc
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[1] / "benchmarks")]
# Before 3.13 the process that others are forked from has no other way to find the modules that it imports beforehand.
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:3], os.environ.get("PYTHONPATH", "")])

import numpy as np  # noqa: E402
import record  # noqa: E402
from mutations import mutate  # noqa: E402
from targets import TARGETS, compile_vocabularies_once  # noqa: E402

FOUND = HERE / "found"
SECONDS = 10
BYTES = 2**30
_FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "socket.connect",
    "ctypes.dlopen",
)


def main() -> None:
    """Fuzz what is asked for; the exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="NAME")
    parser.add_argument("--files", type=int, default=200, help="of each format")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all formats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--output", type=Path, help="a file for the counts, as JSON")
    arguments = parser.parse_args()
    end, results = time.monotonic() + arguments.seconds, Results(arguments.output)
    found = 0
    for place, name in enumerate(arguments.targets):
        share = (end - time.monotonic()) / (len(arguments.targets) - place)
        counts = fuzz(name, arguments, results.of(name), time.monotonic() + share)
        found += counts["found"]
        results.save(name, counts)
        print(f"{name:<20}" + "  ".join(f"{count:>6,} {what}" for what, count in counts.items()), flush=True)
    sys.exit(found > 0)


class Results:
    """Counts by format, kept in a results file that a later start goes on from."""

    def __init__(self, path: Path | None):
        self.path = path
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path is not None and path.exists() else []
        self.rows = {row["format"]: row for run in runs for row in run["results"]}

    def of(self, name: str) -> dict:
        """The counts of a format."""
        return self.rows.get(name, {})

    def save(self, name: str, counts: dict[str, int]) -> None:
        """Add what was counted now."""
        before = self.of(name)
        commits = dict.fromkeys([*before.get("commits", "").split(), str(record.commit())])
        kept = {what: before.get(what, 0) + count for what, count in counts.items()}
        self.rows[name] = {"format": name, **kept, "commits": " ".join(commits)}
        if self.path is None:
            return
        rows = [self.rows[one] for one in TARGETS if one in self.rows]
        files = sum(row["opened"] + row["refused"] + row["found"] for row in rows)
        facts = {"files": files, "limits": {"seconds": SECONDS, "megabytes": BYTES >> 20}}
        record.write_run(self.path, rows, packages=("tensorflow", "keras", "h5py", "ai-edge-litert"), **facts)


def fuzz(name: str, arguments: argparse.Namespace, before: dict, end: float) -> dict[str, int]:
    """Open the files of a target in children, each of which goes on after the file that ended the one before."""
    counts = {"opened": 0, "refused": 0, "found": 0}
    done = sum(before.get(what, 0) for what in counts)
    numbers: list[int | str] = list(range(done, arguments.files))
    if numbers or not done:
        numbers = [*_known(name), *numbers]
    place, context = 0, multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["targets", "imported"])
    while place < len(numbers) and time.monotonic() < end:
        receive, send = context.Pipe(duplex=False)
        passed, opened, refused = (context.RawValue("q", 0) for _ in range(3))
        child = context.Process(
            target=_work, args=(name, numbers[place:], arguments.seed, send, passed, opened, refused)
        )
        child.start()
        send.close()
        findings: list[tuple[int, str]] = []
        fault = _watch_child(name, child, receive, passed, end, findings)
        child.kill()
        child.join()
        for at, detail in findings:
            counts["found"] += 1
            _keep(arguments, name, numbers[place + at], detail)
        counts["opened"] += opened.value
        counts["refused"] += refused.value
        place += passed.value
        if fault is not None:
            counts["found"] += 1
            _keep(arguments, name, numbers[place], fault)
            place += 1
    return counts


def _watch_child(name: str, child, receive, passed, end: float, findings: list[tuple[int, str]]) -> str | None:
    """Wait until a child is through, or time is over; what a file did to it, if that ended it.

    Time is that of the processor, which others may keep busy; or that in which all threads wait for something else.
    """
    ready, at, used, asleep = False, -1, 0.0, 0.0
    while time.monotonic() < end:
        if receive.poll(0.1):
            try:
                message = receive.recv()
            except EOFError:
                child.join()
                if not ready:
                    sys.exit(f"{name}: the good file does not open; see above.")
                return f"ended the process ({_signal(child.exitcode)})"
            if message == "end":
                return None
            if message != "ready":
                findings.append(message)
            ready = True
        if passed.value != at:
            at, used, asleep = passed.value, _processor_time(child.pid), 0.0
            continue
        most = SECONDS if ready else 300
        asleep = asleep + 0.1 if _waits(child.pid) else 0.0
        if _processor_time(child.pid) - used > most or asleep > 6 * most:
            return f"took more than {SECONDS} seconds"
    return None


def _processor_time(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()  # no such files here: by the clock
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _waits(process: int) -> bool:
    """Whether no thread wants the processor."""
    states = set()
    for path in Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it ends just now
            states.add(path.read_text().rpartition(")")[2].split()[0])
    return "R" not in states


def _known(name: str) -> list[str]:
    return sorted(str(path) for path in FOUND.glob(f"{name}-*"))


def _signal(status: int | None) -> str:
    return signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"


def broken_file(name: str, number: int, seed: int, good: bytes) -> bytes:
    """The bytes that a number stands for."""
    rng = np.random.default_rng([seed, number, sum(map(ord, name))])
    return mutate(good, TARGETS[name].kind, rng)


def _keep(arguments: argparse.Namespace, name: str, number: int | str, fault: str) -> None:
    print(f"{name}, {number}: {fault}", flush=True)
    if isinstance(number, str):
        return
    with tempfile.TemporaryDirectory() as place:
        good = TARGETS[name].make(Path(place)).read_bytes()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    (arguments.keep / f"{name}-{arguments.seed}-{number}").write_bytes(broken_file(name, number, arguments.seed, good))
    with open(arguments.keep / "findings.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"target": name, "number": number, "seed": arguments.seed, "fault": fault}) + "\n")


# === In the child ===


def _work(name: str, numbers: list[int | str], seed: int, send, passed, opened, refused) -> None:
    """Open files one after the other; `passed` and the other counters are seen by the parent, too."""
    compile_vocabularies_once()
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        path = target.make(place)
        good, around = path.read_bytes(), _listing(place)
        template = place.with_name(f"{place.name}-good")
        shutil.copytree(place, template)
        with contextlib.suppress(*target.errors if target.always_refused else ()):
            target.open(path)  # the good file: imports, compilation, memory that is there to stay
        gc.freeze()  # Keras collects garbage often, and looks at all modules each time
        events = _watch(place)
        before = _peak()
        send.send("ready")
        for number in numbers:
            data = Path(number).read_bytes() if isinstance(number, str) else broken_file(name, number, seed, good)
            if _listing(place) != around:  # what a reader left behind, or took away
                shutil.rmtree(place)
                shutil.copytree(template, place)
            path.write_bytes(data)
            events.clear()
            began = time.process_time()
            what, detail = _open(target, path)
            if time.process_time() - began > SECONDS:
                what, detail = "found", f"took {time.process_time() - began:.1f} seconds"
            if events:
                what, detail = "found", f"did {events[0]}"
            if _peak() - before > BYTES:
                what, detail = "found", f"took {(_peak() - before) / 2**30:.1f} GB"
                before = _peak()
            if what == "found":
                send.send((passed.value, detail))
            elif not isinstance(number, str):
                opened.value += what == "opened"
                refused.value += what == "refused"
            passed.value += 1
        send.send("end")
        shutil.rmtree(template)


def _listing(place: Path) -> list[str]:
    return sorted(os.fspath(path) for path in place.rglob("*"))


def _open(target, path: Path) -> tuple[str, str]:
    try:
        target.open(path)
    except target.errors as error:
        if _says_too_little(error):
            return "found", f"says too little: {type(error).__name__}: {error}"
        return "refused", ""
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "found", f"{type(error).__name__}: {str(error)[:300]} ({Path(last.filename).name}:{last.lineno})"
    return "opened", ""


def _says_too_little(error: BaseException) -> bool:
    """Whether nobody knows what to do; what the system says alone, such as "Invalid argument", names no file."""
    number = getattr(error, "errno", None)
    return len(str(error)) < 10 or (number is not None and str(error) == str(OSError(number, os.strerror(number))))


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _watch(place: Path) -> list[str]:
    """A list to which everything is added that no reader of data may do."""
    events: list[str] = []
    allowed = (str(place), tempfile.gettempdir(), "/dev/", "/proc/")

    def hook(event: str, arguments: tuple) -> None:
        if event in _FORBIDDEN:
            events.append(f"{event} {arguments[:1]}")
        elif event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            name = os.fsdecode(arguments[0])
            if not os.path.abspath(name).startswith(allowed):
                events.append(f"open {name} for writing")
        elif event == "exec" and getattr(arguments[0], "co_filename", "").startswith(str(place)):
            events.append(f"exec {arguments[0]}")

    sys.addaudithook(hook)
    return events


if __name__ == "__main__":
    main()
