"""Disturbs every long job at random moments, starts it again, and compares with a run that nobody disturbed.

    python tests/faults/run.py                               # every job, 5 kills each
    python tests/faults/run.py --times 25 --jobs pretrain finetune --output faults.json
    python tests/faults/run.py --fault term                  # SIGTERM instead of SIGKILL
    python tests/faults/run.py --fault full-disk             # full at a random moment; as root
    python tests/faults/run.py --fault read-only             # a directory that cannot be written; as root
    python tests/faults/run.py --fault clock                 # killed, and a clock that jumps back a day
    python tests/faults/run.py --fault two-processes         # started twice on one directory
    python tests/faults/run.py --fault term clock --times 2  # one fault after the other, with one undisturbed run

A round starts a job in an empty directory, kills it, checks what it left, starts it again, and so on until it ends by
itself; then its directory must equal that of the undisturbed run: the same bytes where bytes are promised, weights to
1e-5 elsewhere, no half file under its final name, and no temporary file beside the others. `--output` is written after
each round; the same command goes on from it, and `--times` counts what it has already.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "helpers"), str(HERE.parents[1]), str(HERE.parents[1] / "benchmarks")]
# Before 3.13 the process that jobs are forked from has no other way to find the modules that it imports beforehand.
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:4], os.environ.get("PYTHONPATH", "")])
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import record  # noqa: E402
from jobs import JOBS, difference, prepare  # noqa: E402

MOST_STARTS = 40  # of a round; the last one is not disturbed
MOST_KILLS = 8  # of a round; then it runs to its end and is compared
REFUSED = 3  # the status of a job that ended with an error


def main() -> None:
    """Run what is asked for; the exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    parser.add_argument("--fault", nargs="+", choices=ROUNDS, default=["kill"], metavar="FAULT")
    parser.add_argument("--times", type=int, default=5, help="that each job is disturbed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="keep everything here (default: a temporary directory)")
    parser.add_argument("--output", type=Path, help="a file for the counts, as JSON")
    arguments = parser.parse_args()
    counts = {fault: Counts(arguments.output, fault) for fault in arguments.fault}
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        made = work / "made"
        # Jobs are forked from a process that has imported everything, and so start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["jobs", "preloaded"])
        if not made.exists():
            finish(context, prepare, made)
        for name in arguments.jobs:
            disturb(name, made, work, context, arguments, counts)
    sys.exit(any(kind.of(name)["faults"] for kind in counts.values() for name in arguments.jobs))


class Counts:
    """What was found, by job; kept in a results file that a later start goes on from."""

    def __init__(self, path: Path | None, fault: str):
        self.path, self.fault, self.told = path, fault, []
        runs = json.loads(path.read_text("utf-8"))["runs"] if path is not None and path.exists() else []
        rows = next((run["results"] for run in runs if run["part"] == fault), [])
        self.rows = {row["job"]: row for row in rows}

    def of(self, job: str) -> dict:
        """The counts of a job."""
        return self.rows.setdefault(job, {"job": job, "disturbed": 0, "rounds": 0, "faults": 0, "commits": ""})

    def save(self, job: str, fault: str | None) -> None:
        """Write all counts, with the commits at which this job was disturbed."""
        row, commit = self.of(job), str(record.commit())
        row["faults"] += fault is not None
        self.told += [f"{job}: {fault}"] if fault is not None else []
        row["commits"] = " ".join(dict.fromkeys([*row["commits"].split(), commit]))
        if self.path is not None:
            facts = {"disturbed": sum(one["disturbed"] for one in self.rows.values())}
            rows = list(self.rows.values())
            record.write_run(self.path, rows, packages=("tensorflow", "keras"), part=self.fault, **facts)


def finish(context, function, *arguments) -> float:
    """Run a function in a child to its end; the seconds of processor time it took."""
    child = context.Process(target=function, args=arguments)
    child.start()
    seconds = wait(child)
    child.join()
    if child.exitcode:
        raise RuntimeError(f"{getattr(function, '__name__', function)} ended with status {child.exitcode}; see above.")
    return seconds


def wait(child, most: float = float("inf")) -> float:
    """Wait until a child has ended, or has used this much processor time; gives what it has used.

    By the clock, others on the machine would move all moments to the beginning of a job, or behind its end.
    """
    used = 0.0
    while child.exitcode is None and used < most:
        with contextlib.suppress(OSError, IndexError):  # it ends just now
            fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        time.sleep(0.02)
    return used


def disturb(name: str, made: Path, work: Path, context, arguments, counts: dict[str, Counts]) -> None:
    """All rounds of a job: for each fault as many as are left."""
    left = {fault: kind for fault, kind in counts.items() if kind.of(name)["disturbed"] < arguments.times}
    if not left:
        return
    reference = work / "references" / name
    shutil.rmtree(reference, ignore_errors=True)
    reference.mkdir(parents=True)
    seconds = finish(context, run_job, name, made, reference)
    (made / "reference").unlink(missing_ok=True)
    (made / "reference").symlink_to(reference.resolve(), target_is_directory=True)
    for fault, kind in left.items():
        count = kind.of(name)
        while count["disturbed"] < arguments.times:
            found = one_round(name, made, work, context, arguments, fault, seconds, count)
            if found is not None:
                print(f"{name}: {found}", flush=True)
                kept = work / f"fault-{name}-{fault}-{count['rounds']}"
                shutil.copytree(work / "place", kept, dirs_exist_ok=True, symlinks=True)
            kind.save(name, found)
        words = f"{count['disturbed']:>4} disturbed, {count['rounds']:>3} rounds, {count['faults']} faults"
        print(f"{name:<18}{fault:<15}{words}, {seconds:.1f} s undisturbed", flush=True)


def one_round(name: str, made: Path, work: Path, context, arguments, fault: str, seconds: float, count) -> str | None:
    """A round in an empty directory; what was wrong, if anything was."""
    chance = random.Random(f"{arguments.seed} {name} {count['rounds']}")
    place = work / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    left = min(MOST_KILLS, arguments.times - count["disturbed"])
    done, found = ROUNDS[fault](name, made, place, context, chance, seconds, left)
    count["rounds"] += 1
    count["disturbed"] += done
    return found or difference(JOBS[name], work / "references" / name, place)


# === Rounds ===
# Each gives how often the job was disturbed, and what was wrong, if anything was.


def killed_round(
    name, made, place, context, chance, seconds, left, number=signal.SIGKILL, target=None
) -> tuple[int, str | None]:
    """Starts until one comes to its end."""
    done = 0
    for start in range(MOST_STARTS):
        child = context.Process(target=target or run_job, args=(name, made, place))
        child.start()
        if start < MOST_STARTS - 1 and done < left:
            wait(child, chance.uniform(0.02, 1.0) * seconds)
        else:
            child.join()
        if child.exitcode is not None:
            return done, None if child.exitcode == 0 else f"ended with status {child.exitcode} after {done} kills"
        os.kill(child.pid, number)
        child.join(60)
        if child.exitcode is None:
            child.kill()
            return done, f"went on for a minute after {signal.Signals(number).name}"
        if child.exitcode not in (0, -number, 128 + number):
            return done, f"ended with status {child.exitcode} after {signal.Signals(number).name}"
        done += 1
        if fault := checked(context, name, made, place):
            return done, f"after a kill: {fault}"
    return done, f"did not end after {MOST_STARTS} starts"


def terminated_round(*arguments) -> tuple[int, str | None]:
    """Starts that are asked to stop, until one comes to its end; training saves its state before."""
    return killed_round(*arguments, number=signal.SIGTERM)


def clock_round(name, made, place, context, chance, seconds, left) -> tuple[int, str | None]:
    """Kills, after each of which the clock is a day behind what the files say, and jumps back by a day once more."""
    return killed_round(name, made, place, context, chance, seconds, left, target=run_with_an_old_clock)


def two_processes_round(name, made, place, context, chance, seconds, left) -> tuple[int, str | None]:
    """Two at once on one directory: each ends well or is refused, and what is there in the end is right."""
    children = [context.Process(target=_quietly, args=(name, made, place)) for _ in range(2)]
    for child in children:
        child.start()
        wait(child, chance.uniform(0.0, 0.5) * seconds)
    for child in children:
        child.join()
    ends = [child.exitcode for child in children]
    if any(status not in (0, REFUSED) for status in ends):
        return 1, f"two at once ended with status {ends}"
    if fault := checked(context, name, made, place):
        return 1, f"after two at once: {fault}"
    if 0 not in ends:
        return 1, "two at once refused each other, and nobody did the work"
    return 1, None


def read_only_round(name, made, place, context, chance, seconds, left) -> tuple[int, str | None]:
    """A directory that cannot be written: the job is refused with an error and comes to its end once it can."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(place)], check=True)
    with unmounted_at_the_end(place):
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        child = context.Process(target=_quietly, args=(name, made, place))
        child.start()
        child.join()
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        fault = None if child.exitcode == REFUSED else f"ended with status {child.exitcode} in a read-only directory"
        if fault is None:
            fault = run_to_the_end(context, name, made, place)
    return 1, fault


def full_disk_round(name, made, place, context, chance, seconds, left) -> tuple[int, str | None]:
    """A small disk: the job fails there with an error, and comes to its end once there is room."""
    need = max(64, sum(path.stat().st_size for path in (made / "reference").resolve().rglob("*") if path.is_file()))
    size = int(need * chance.uniform(0.05, 1.3)) // 4096 * 4096 + 8192
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    with unmounted_at_the_end(place):
        child = context.Process(target=_quietly, args=(name, made, place))
        child.start()
        child.join(600)
        if child.exitcode is None or child.exitcode < 0:
            child.kill()
            return 1, f"ended by signal or not at all on a disk of {size:,} bytes ({child.exitcode})"
        fault = checked(context, name, made, place)
        subprocess.run(["mount", "-o", "remount,size=2g", str(place)], check=True)
        if fault is None and child.exitcode != 0:
            fault = run_to_the_end(context, name, made, place)
    return 1, fault


ROUNDS = {
    "kill": killed_round,
    "term": terminated_round,
    "full-disk": full_disk_round,
    "read-only": read_only_round,
    "clock": clock_round,
    "two-processes": two_processes_round,
}


@contextlib.contextmanager
def unmounted_at_the_end(place: Path) -> Iterator[None]:
    """Keep what is on the small disk that is mounted there, without the disk."""
    kept = place.with_name("kept")
    try:
        yield
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(place, kept, symlinks=True)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    shutil.rmtree(place)
    kept.rename(place)


# === In children ===


def run_to_the_end(context, name, made, place) -> str | None:
    """Start a job once more, now that nothing is in its way."""
    child = context.Process(target=run_job, args=(name, made, place))
    child.start()
    child.join()
    return f"ended with status {child.exitcode} once nothing was in its way" if child.exitcode else None


def run_job(name: str, made: Path, place: Path) -> None:
    """Run a job, in a child."""
    JOBS[name].run(made, place)


def run_with_an_old_clock(name: str, made: Path, place: Path) -> None:
    """Run a job when all files are a day from now, as if the clock had been set back, and set it back in between."""
    now, began, tell = time.time(), time.monotonic(), time.time
    for path in place.rglob("*"):
        os.utime(path, (now + 86400, now + 86400))
    jump = random.uniform(0.0, 5.0)
    time.time = lambda: tell() - 86400 * (time.monotonic() - began > jump)
    run_job(name, made, place)


def _quietly(name, made, place) -> None:
    """An error is expected; only its traceback is left out."""
    try:
        run_job(name, made, place)
    except Exception as error:
        print(f"  {name}: {type(error).__name__}: {' '.join(str(error).split())[:160]}", flush=True)
        sys.exit(REFUSED)


def checked(context, name, made, place) -> str | None:
    """What the job's own check says, in a child, for it opens models."""
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_check, args=(name, made, place, send))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return "what is there cannot be opened"
    finally:
        child.join()


def _check(name, made, place, send) -> None:
    send.send(JOBS[name].check(made, place))


if __name__ == "__main__":
    main()
