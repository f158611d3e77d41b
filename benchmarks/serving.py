"""Servers beside each other: requests per second, latency, memory, start, and processor time of 1,000 texts.

    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --learning-rate 1e-4 --pooling cls --save trained/
    python benchmarks/serving.py --data DIR --model trained/SST-2 --files built/   # about 10 minutes on 2 quiet cores
    python benchmarks/serving.py --data DIR --model trained/SST-2 --files built/ --seconds 3 --clients 1 8

DIR holds `glue/SST-2/`. Contenders: `keras-bert serve` with `all_int4` and `dynamic_int8` files for any length, and the
peers of `serving_peers.py` (`ort_int8`, `ort_int8_fused`, `saved_model`) behind the same web framework. `--peer-python`
is the Python that has torch, transformers, onnx and onnxruntime, if it is not this one. Every request is a text of
SST-2's dev set; every answer is compared with the one that the same server gave before the load. Clients run on the
same machine and take processor time from the servers, so `cpu_s_per_1000` (the server's own processor seconds for 1,000
texts) is the number that a busy machine disturbs least. `at_80` is at 80 % of the highest rate with requests that come
at random times, `at_80_evenly` with the same time between them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from record import provenance
from serving_load import HOST, closed_loop, open_loop, post_bytes

HERE = Path(__file__).resolve().parent
OURS, PEERS = ("all_int4", "dynamic_int8"), ("ort_int8", "ort_int8_fused", "saved_model")
PREDICT = "/v1/models/sst:predict"
_SERVE = "from argparse import ArgumentParser; from export.cli import serve; p = ArgumentParser(); "
_SERVE += "p.add_argument('--import', dest='imports'); serve.add(p.add_subparsers()); a = p.parse_args(); a.run(a)"


# === Files ===


def build(arguments, name):
    """Build a contender's files, unless they are there; in a process of its own."""
    place = arguments.files / name
    if (place / "built").is_file():
        return
    if name in OURS:
        code = (
            "import sys, export, keras_bert; from keras_bert.data.glue import read_glue; "
            "model, data, target, recipe = sys.argv[1:]; "
            "some = read_glue('SST-2', data + '/glue', 'train').texts[:256]; "
            "export.convert(keras_bert.load_task(model), target, recipe=recipe, lengths='dynamic', calibration=some)"
        )
        place.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", code, arguments.model, arguments.data, place / "model.tflite", name]
    else:
        command = [python_of(arguments, name), HERE / "serving_peers.py", "build", name, arguments.model, place]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (place / "built").touch()


def python_of(arguments, name):
    """The Python of a contender."""
    return arguments.peer_python if name.startswith("ort") else sys.executable


# === A server ===


def free_port():
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def running(arguments, name, first):
    """Start a contender; give its process, its port, and the seconds to its first answer."""
    port, place, start = free_port(), arguments.files / name, time.perf_counter()
    peer = [python_of(arguments, name), HERE / "serving_peers.py", "serve", name, place, port]
    is_here = not name.startswith("ort")
    with start_ours(place / "model.tflite", port) if name in OURS else start_process(peer, port, is_here) as started:
        fetch(port, first)
        yield *started, time.perf_counter() - start


def start_ours(model, port, *words):
    """Start `keras-bert serve` on a file or a directory of versions."""
    command = [sys.executable, "-c", _SERVE, "serve", model, "--name", "sst", "--port", port, "--no-request-log"]
    return start_process([*command, *words], port, True)


@contextlib.contextmanager
def start_process(command, port, is_here):
    """Start a server; give its process and its port as soon as it listens. `is_here`: whether it imports this tree."""
    process = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, "PYTHONPATH": str(HERE.parent)} if is_here else None,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.perf_counter() + 120
        while True:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.perf_counter() > deadline:
                    raise SystemExit(f"{command[1:4]} does not start: {process.poll()}") from None
                time.sleep(0.01)
        yield process, port
    finally:
        process.terminate()
        process.wait(60)


def fetch(port, texts):
    """The predictions of a server for texts."""
    body = json.dumps({"instances": texts}).encode()
    with urllib.request.urlopen(f"http://{HOST}:{port}{PREDICT}", body, timeout=60) as answer:
        return json.load(answer)["predictions"]


def processor_seconds(process):
    """The processor time of a process so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().split(")")[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process):
    """The resident memory of a process, and the part of it that it shares with no file or process."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
    return {"rss_mb": round(found["Rss"], 1), "own_mb": round(found["Private_Dirty"] + found["Private_Clean"], 1)}


# === Measurements ===


def measure(arguments, name, texts, labels):
    """All numbers of a contender."""
    requests = [post_bytes(PREDICT, {"instances": [text]}) for text in texts]
    with running(arguments, name, texts[:1]) as (process, port, first):
        found = {"first_answer_s": round(first, 3), "first_answer_cpu_s": processor_seconds(process)}
        found["start"] = memory_mb(process)
        expected = [fetch(port, [text])[0] for text in texts]
        found["accuracy"] = sum(a["label"] == b for a, b in zip(expected, labels, strict=True)) / len(texts)
        start = processor_seconds(process)
        for begin in range(0, len(texts), 32):
            fetch(port, texts[begin : begin + 32])
        found["cpu_s_per_1000_in_32s"] = (processor_seconds(process) - start) / len(texts) * 1000

        right = {}  # the last right answer to each text, as it came: reading it again would cost the client much

        def check(index, body):
            if body != right.get(index) and json.loads(body)["predictions"][0]["label"] == expected[index]["label"]:
                right[index] = body
            return body == right.get(index)

        found["load"] = []
        for clients in arguments.clients:
            start = processor_seconds(process)
            load = asyncio.run(closed_loop(port, requests, check, clients, arguments.seconds))
            used = (processor_seconds(process) - start) / max(1, len(load.seconds)) * 1000
            found["load"].append({"clients": clients, **load.summary(), "cpu_s_per_1000": used})
        rate = 0.8 * max(row["requests_per_second"] for row in found["load"])
        for name, evenly in (("at_80", False), ("at_80_evenly", True)):
            load = asyncio.run(open_loop(port, requests, check, rate, arguments.seconds, evenly=evenly))
            found[name] = load.summary()
        found["after"] = memory_mb(process)
    return found


def print_rows(name, found):
    print(
        f"{name}: accuracy {found['accuracy']:.4f}, first answer {found['first_answer_s']:.2f} s "
        f"({found['first_answer_cpu_s']:.2f} s of processor), memory {found['start']['rss_mb']:.0f} → "
        f"{found['after']['rss_mb']:.0f} MB (own {found['after']['own_mb']:.0f}), "
        f"{found['cpu_s_per_1000_in_32s']:.2f} processor seconds for 1,000 texts in batches of 32"
    )
    for row in found["load"]:
        print(
            f"  {row['clients']:>4} clients  {row['requests_per_second']:>7.0f}/s  p50 {row['p50_ms']:>7.1f}  "
            f"p99 {row['p99_ms']:>7.1f} ms  {row['cpu_s_per_1000']:>6.2f} s of processor for 1,000  "
            f"wrong {row['wrong']}  refused {row['refused']}"
        )
    for name in ("at_80", "at_80_evenly"):
        row = found[name]
        print(
            f"  {name:<12}{row['requests_per_second']:>8.0f}/s  p50 {row['p50_ms']:>7.1f}  "
            f"p99 {row['p99_ms']:>7.1f} ms",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--model", type=Path, required=True, help="a classifier that was fine-tuned on SST-2")
    parser.add_argument("--files", type=Path, required=True, help="where files are built, and found again")
    parser.add_argument("--contenders", nargs="+", choices=OURS + PEERS, default=OURS + PEERS)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load (default: %(default)s)")
    parser.add_argument("--texts", type=int, help="of the dev set; all by default")
    parser.add_argument("--peer-python", default=sys.executable, help="with onnxruntime, tokenizers and starlette")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "serving.json")
    arguments = parser.parse_args()
    for name in ("data", "model", "files"):
        setattr(arguments, name, getattr(arguments, name).resolve())
    sys.path.append(sys.path.pop(0))
    from keras_bert.data.glue import read_glue

    dev = read_glue("SST-2", arguments.data / "glue", "dev")
    texts, labels = list(dev.texts)[: arguments.texts], list(dev.labels)[: arguments.texts]
    results = {}
    for name in arguments.contenders:
        build(arguments, name)
        results[name] = measure(arguments, name, texts, labels)
        print_rows(name, results[name])
    versions = ("keras-bert-edge", "ai-edge-litert", "tensorflow", "uvicorn", "starlette")
    record = {**provenance(*versions), "data": "SST-2 dev", "texts": len(texts), "results": results}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
