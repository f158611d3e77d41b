"""Exported files on an emulated ARM processor: the same answers as here, through LiteRT's aarch64 wheel.

    make test-arm                       # about a minute, after 130 MB of downloads; Debian, or a Linux with its apt
    python tests/arm/run.py --work .arm --recipes float32 dynamic_int8

Fetches qemu-user 10 and an arm64 Python from Debian trixie (qemu 7.2, Debian bookworm's, computes wrong answers) and
the arm64 wheels of NumPy, LiteRT, tokenizers and flatbuffers, all into a directory of its own; nothing is installed.
Then it makes a small classifier, exports it by every recipe, and runs `export.runtime` on the emulated processor.
Prints the largest difference of a probability for each recipe, and fails where it is over the recipe's bound.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE, KEYRING = "trixie", "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "libc6 zlib1g libexpat1 libffi8 libssl3t64 libbz2-1.0 liblzma5 libgcc-s1 libstdc++6 libuuid1 libzstd1"
PYTHON = "python3.13-minimal libpython3.13-minimal libpython3.13-stdlib"
WHEELS = ("numpy", "ai-edge-litert", "tokenizers", "flatbuffers")
PLATFORMS = [f"manylinux_{version}_aarch64" for version in ("2_17", "2_27", "2_28")] + ["manylinux2014_aarch64"]
TEXTS = ["the film was great", "a dull plot", "", "very fine and good, it was not", "é 中 👍 unknownword", "bad " * 60]

# Kernels differ between processors: int8 products are exact on both, the float sums around them are not, and where
# activations are rounded again a small difference can become a step. Differences of 1e-6 and less were seen.
BOUNDS = {"float32": 1e-5, "float16": 1e-5}
BOUNDS |= dict.fromkeys(("dynamic_int8", "static_int8", "weight_int4", "all_int4"), 1e-3)

# === The emulated machine ===


def fetch_machine(work: Path) -> list[str]:
    """An emulator and an arm64 Python under `work`; gives the command that runs that Python."""
    root = work / "root"
    if not (root / "usr/bin/qemu-aarch64").exists():
        debs = work / "debs"
        for place in (debs, work / "apt/lists/partial", work / "apt/cache/archives/partial", root):
            place.mkdir(parents=True, exist_ok=True)
        (work / "apt/status").touch()
        source = f"deb [arch=amd64,arm64 signed-by={KEYRING}] {find_mirror()} {SUITE} main\n"
        (work / "apt/sources.list").write_text(source)
        names = ["qemu-user:amd64", *(f"{name}:arm64" for name in f"{PYTHON} {LIBRARIES}".split())]
        apt = ["apt-get", "-qq", *_apt_options(work)]
        subprocess.run([*apt, "update"], check=True)
        subprocess.run([*apt, "download", *names], cwd=debs, check=True)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    return [str(root / "usr/bin/qemu-aarch64"), "-L", str(root), str(root / "usr/bin/python3.13")]


def find_mirror() -> str:
    """Where this machine's apt has Debian from."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    mirrors = [line.split()[1] for line in lines if line.startswith("Debian ") and "security" not in line]
    if not mirrors:
        raise SystemExit("apt-get knows no Debian mirror here; run this on Debian, after apt-get update.")
    return mirrors[0]


def _apt_options(work):
    """An apt of its own, which neither reads nor changes that of the machine."""
    apt = work / "apt"
    settings = {
        "Dir::State": apt,
        "Dir::State::status": apt / "status",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    return [*options, "-o", "APT::Architectures::=amd64", "-o", "APT::Architectures::=arm64"]


def fetch_wheels(work: Path) -> Path:
    """The arm64 packages that the runtime needs, unpacked."""
    packages = work / "packages"
    if not packages.exists():
        platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
        which = ["--only-binary=:all:", "--no-deps", "--python-version", "3.13", "--implementation", "cp", *platforms]
        partial = work / "packages.partial"
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", partial, *which, *WHEELS]
        subprocess.run(list(map(str, command)), check=True)
        partial.rename(packages)
    return packages


# === Files ===


def export_files(place: Path, recipes) -> None:
    """A small classifier by each recipe, and the Keras model's answers."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.path.insert(0, str(ROOT))
    from tiny_tasks import reviews

    import export
    from tests.export.runtime.test_runtime import new_classifier

    task = new_classifier()
    for recipe in recipes:
        path = place / f"{recipe}.tflite"
        export.convert(task, path, recipe=recipe, lengths=(8, 32), calibration=reviews(60, seed=2)[0])


def answers_here(place: Path, recipes) -> dict:
    """The answers of each file on this machine; run by both processors."""
    from export.runtime import load

    found = {}
    for recipe in recipes:
        answer = load(place / f"{recipe}.tflite")
        found[recipe] = [{label.name: label.probability for label in labels} for labels in answer(TEXTS)]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / ".arm", help="where everything is kept (default: .arm)")
    parser.add_argument("--recipes", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    parser.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    work, place = arguments.work.resolve(), arguments.work.resolve() / "files"
    if arguments.answers:  # also on the emulated processor
        print(json.dumps(answers_here(place, arguments.recipes)))
        return
    place.mkdir(parents=True, exist_ok=True)
    python, packages = fetch_machine(work), fetch_wheels(work)
    export_files(place, arguments.recipes)
    here = answers_here(place, arguments.recipes)
    environment = {**os.environ, "PYTHONPATH": f"{packages}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*python, __file__, "--answers", "--work", str(work), "--recipes", *arguments.recipes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The emulated processor failed:\n{done.stderr[-3000:]}")
    sys.exit(compare(here, json.loads(done.stdout.splitlines()[-1])))


def compare(here, there):
    """Print the differences; gives the exit code."""
    failed = False
    for recipe, answers in here.items():
        pairs = zip(answers, there[recipe], strict=True)
        worst = max(abs(ours[name] - theirs[name]) for ours, theirs in pairs for name in ours)
        failed |= not worst <= BOUNDS[recipe]
        print(f"{recipe:<16} largest difference {worst:.2e}, bound {BOUNDS[recipe]:.0e}")
    return int(failed)


if __name__ == "__main__":
    main()
