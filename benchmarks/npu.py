"""What the recipes for NPUs keep of a model, and which of its ops each delegate takes by its documentation.

    python benchmarks/npu.py --data DIR --sst2 TASK --wnut17 TASK              # about 40 minutes on 2 cores
    python benchmarks/npu.py --data DIR --sst2 TASK --wnut17 TASK --dev 200    # a quick look
    python benchmarks/npu.py --data DIR --sst2 TASK --qnn LIBS                 # and Qualcomm's compiler

DIR holds `glue/SST-2/` and `wnut17/`; the tasks are a saved TextClassifier and EntityTagger. Files for any length are
scored through the device's runtime on SST-2's dev split and WNUT-17's test split, which nothing is chosen by:
calibration sees 256 training texts. `static_int16x8` runs by plain kernels on a CPU, hence the time. The audit is of
files for 128 tokens, as NPUs want them.

With `--qnn`, LiteRT's compiler makes Qualcomm's binaries of those files. LIBS are the directories of Qualcomm's x86
libraries, joined by colons, such as `onnxruntime_qnn` and `onnxruntime_qnn.libs` in the wheel of the package
onnxruntime-qnn. LiteRT's plugin is linked to `libQnnLpai.so`, too, which the wheel has not; an empty library of that
name is enough: `gcc -shared -x c /dev/null -o libQnnLpai.so`. Nothing is run: that needs the phone.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from quantization import CALIBRATION, read
from record import provenance

import export
import keras_bert
from export.file.delegates import DELEGATES, audit_delegate
from export.tflite.float_graph import trace_float_graph

RECIPES, SETS, LENGTH = ("float32", "dynamic_int8", "static_int8", "static_int16x8"), ("sst2", "wnut17"), 128
CHIPS = ("SM8550", "SM8650", "SM8750")  # Snapdragon 8 of three years


def measure(task, train, dev, directory):
    """The score of each recipe's file on a task, and how many answers are those of the Keras model."""
    graph, found = trace_float_graph(task, "dynamic"), {}
    for recipe in RECIPES:
        path, texts = directory / f"{recipe}.tflite", None if recipe == "float32" else train[0][:CALIBRATION]
        size = export.convert(task, path, recipe=recipe, calibration=texts, check=False, graph=graph).num_bytes
        report = export.verify(task, path, *dev, recipe="weight_int4")  # whose tolerance is the widest
        found[recipe] = {
            "score": report.file_score,
            "agreement": report.agreement,
            "relative_error": report.relative_error,
            "bytes": size,
        }
        print(f"{recipe:<16}{report.metric} {report.file_score:.4f}  same {report.agreement:.4f}", flush=True)
    return {"metric": report.metric, "texts": len(dev[0]), "keras": report.keras_score, "recipes": found}


def audit(task, train, directory, qnn):
    """What each delegate takes of the files for one length, and what LiteRT's compiler does with them."""
    graph, found = trace_float_graph(task, LENGTH), {}
    for recipe in RECIPES:
        path, texts = directory / f"{recipe}.tflite", None if recipe == "float32" else train[0][:CALIBRATION]
        export.convert(task, path, recipe=recipe, calibration=texts, check=False, graph=graph)
        found[recipe] = {"delegates": [audit_delegate(path, delegate).to_dict() for delegate in DELEGATES]}
        if qnn:
            found[recipe]["compiled"] = {chip: compile_for(path, chip, qnn) for chip in CHIPS}
            print(f"{recipe}: {found[recipe]['compiled']}", flush=True)
        for delegate in DELEGATES:
            print(f"{recipe}: {audit_delegate(path, delegate)}", flush=True)
    return found


def compile_for(path, chip, qnn):
    """Compile a file for a chip: the ops that the compiler took, of how many, in how many parts, and the bytes."""
    litert, target = Path(importlib.util.find_spec("ai_edge_litert").origin).parent, path.with_suffix(f".{chip}.tflite")
    options = {"cmd": "apply", "model": path, "o": target, "soc_manufacturer": "Qualcomm", "soc_model": chip}
    options |= {"err": "--", "libs": litert / "vendors" / "qualcomm" / "compiler"}
    command = [litert / "tools" / "apply_plugin_main", *(f"--{name}={value}" for name, value in options.items())]
    environment, start = {**os.environ, "LD_LIBRARY_PATH": qnn}, time.perf_counter()
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, check=False)
    log = (done.stdout + done.stderr).decode(errors="replace")
    taken = re.search(r"selected (\d+) ops, from a total of (\d+) ops. resulted in (\d+) partitions", log)
    found = {"status": done.returncode, "seconds": round(time.perf_counter() - start, 1)}
    if taken:
        found |= dict(zip(("ops_taken", "ops", "partitions"), map(int, taken.groups()), strict=True))
    return found | ({"bytes": target.stat().st_size} if target.is_file() else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    for name in SETS:
        parser.add_argument(f"--{name}", help="a saved task")
    parser.add_argument("--dev", type=int, help="examples to score; all unless given")
    parser.add_argument("--qnn", metavar="LIBS", help="directories of Qualcomm's libraries, joined by colons")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "npu.json")
    arguments = parser.parse_args()
    arguments.examples, arguments.seed = None, 0
    results = {}
    with tempfile.TemporaryDirectory() as place:
        for arguments.set in [name for name in SETS if getattr(arguments, name)]:
            task = keras_bert.load_task(getattr(arguments, arguments.set))
            train, dev = read(arguments)
            print(arguments.set, flush=True)
            results[arguments.set] = measure(task, train, dev, Path(place))
            if "audit" not in results:
                results["audit"] = audit(task, train, Path(place), arguments.qnn)
    record = {**provenance("keras-bert-edge", "ai-edge-litert", "tensorflow"), "results": results}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
