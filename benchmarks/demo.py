"""python benchmarks/demo.py [--from demo_output]

Runs `examples/assistant_demo.py`, as `make demo` does, and writes the files that it tried to
benchmarks/results/demo.json. About two minutes on two cores. With `--from` it takes the output of a run that has ended.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from record import ROOT, provenance

RESULTS = Path(__file__).parent / "results" / "demo.json"
KEPT = ("name", "recipe", "status", "note", "score", "num_bytes", "milliseconds", "parameters")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("--from", dest="output", type=Path, help="the output directory of a demo that has run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        output = arguments.output or Path(temporary) / "demo_output"
        if arguments.output is None:
            demo = ROOT / "examples" / "assistant_demo.py"
            subprocess.run([sys.executable, demo, "--output", output, "--text", "wake me at seven"], check=True)
        manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
    found = {
        **provenance("tensorflow", "keras", "ai-edge-litert"),
        "data": "bundled assistant commands: 743 for training, 144 for validation",
        "metric": manifest["metric"],
        "budget": manifest["accuracy_budget"],
        "chosen": manifest["chosen"]["name"],
        "files": [{key: trial[key] for key in KEPT} for trial in manifest["candidates"]],
    }
    if arguments.output is not None:
        found["command"] = "make demo"
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(RESULTS)


if __name__ == "__main__":
    main()
