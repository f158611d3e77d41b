"""A server under full load with everything that goes wrong: reloads, killed and slow clients, garbage, bad versions.

    python benchmarks/serving_soak.py --data DIR --files built/ --minutes 30
    python benchmarks/serving_soak.py --data DIR --files built/ --minutes 1   # a first look

`built/` is that of `serving.py`, with `all_int4/` and `dynamic_int8/`. Two versions alternate; every answer is compared
with that of either version before the load, so that a wrong one is counted. At the end: no request of a well-behaved
client was lost, no answer was wrong, and memory did not grow: the median of the server's own memory, without the mapped
files of however many versions are open just then, is the same in the second and in the last quarter.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from record import provenance
from serving import PREDICT, fetch, free_port, memory_mb, start_ours
from serving_load import HOST, Load, ask, post_bytes

GARBAGE = (
    b"\x16\x03\x01\x02\x00" * 40,
    b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    post_bytes(PREDICT, {"instances": "x" * 3_000_000}),
    post_bytes(PREDICT, {"instances": ["x" * 30_000]}),
    post_bytes(PREDICT, {"instances": ["a"] * 10_000}),
    post_bytes(PREDICT, [1, 2]),
    post_bytes("/v1/models/other:predict", {"instances": ["a"]}),
    post_bytes("/../../etc/passwd", {}),
    b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 100_000 + b"\r\n\r\n",
)


async def well_behaved(port, requests, check, stop, load, seed):
    """Ask without a pause, over a connection that is opened anew now and then; every answer must come and be right."""
    order, connection = random.Random(seed), None
    while time.monotonic() < stop:
        connection = connection or await asyncio.open_connection(HOST, port)
        index, start = order.randrange(len(requests)), time.monotonic()
        try:
            status, body = await asyncio.wait_for(ask(*connection, requests[index]), 60)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            load.lost += 1
            connection = None
            continue
        if status == 200:
            load.seconds.append(time.monotonic() - start)
            load.wrong += not check(index, body)
        else:
            load.refused[status] = load.refused.get(status, 0) + 1
        if order.random() < 0.02:
            connection[1].close()
            connection = None


async def killed(port, requests, stop, seed):
    """Send a request, or a part of it, and go away."""
    order = random.Random(seed)
    while time.monotonic() < stop:
        _, writer = await asyncio.open_connection(HOST, port)
        request = order.choice(requests)
        writer.write(request[: order.randrange(1, len(request) + 1)])
        await asyncio.sleep(order.random() * 0.02)
        writer.transport.abort()
        await asyncio.sleep(0.01)


async def slow(port, requests, stop, seed):
    """Send a request byte by byte, or never take the answer."""
    order = random.Random(seed)
    while time.monotonic() < stop:
        _, writer = await asyncio.open_connection(HOST, port)
        try:
            for byte in order.choice(requests)[: order.randrange(20, 400)]:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.05)
                if time.monotonic() > stop:
                    break
        except OSError:
            pass
        writer.close()


async def garbage(port, stop, seed):
    """Send what is no request, or a wrong one; the answer is never 200."""
    order, good = random.Random(seed), 0
    while time.monotonic() < stop:
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(order.choice(GARBAGE))
            good += b" 200 " in await asyncio.wait_for(reader.read(64), 5)
        except (OSError, asyncio.TimeoutError):
            pass
        writer.transport.abort()
        await asyncio.sleep(0.02)
    return good


async def reload(place, files, stop):
    """Put a new version beside the last every few seconds: each third one is damaged; old ones are removed."""
    number, loads = 1, 0
    while time.monotonic() < stop:
        await asyncio.sleep(3)
        number += 1
        target = place / str(number)
        target.mkdir()
        if number % 3 == 0:
            (target / "model.tflite").write_bytes(
                files[0].read_bytes()[: random.Random(number).randrange(1, 2_000_000)]
            )
        else:
            shutil.copy(files[number % 2], target / "model.tflite")
            loads += 1
        shutil.rmtree(place / str(number - 4), ignore_errors=True)
    return loads


async def watch(process, stop, memory):
    """Write down the memory every two seconds."""
    while time.monotonic() < stop:
        memory.append(memory_mb(process)["own_mb"])
        await asyncio.sleep(2)


async def soak(arguments, process, port, place, files, texts, known):
    """All of it at once."""
    requests = [post_bytes(PREDICT, {"instances": [text]}) for text in texts]
    load, memory, stop = Load(), [], time.monotonic() + arguments.minutes * 60

    def check(index, body):
        answer = json.loads(body)["predictions"][0]
        return any(answer["label"] == one["label"] and abs(answer["probability"] - one["probability"]) < 1e-3
                   for one in known[index])  # fmt: skip

    start = time.monotonic()
    *_, good, loads, _ = await asyncio.gather(
        *(well_behaved(port, requests, check, stop, load, seed) for seed in range(arguments.clients)),
        *(killed(port, requests, stop, seed) for seed in range(3)),
        *(slow(port, requests, stop, seed) for seed in range(5)),
        garbage(port, stop, 1),
        reload(place, files, stop),
        watch(process, stop, memory),
    )
    load.elapsed = time.monotonic() - start
    return load, memory, good, loads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--files", type=Path, required=True, help="those of serving.py")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=32, help="well-behaved ones (default: %(default)s)")
    parser.add_argument("--texts", type=int, default=200, help="of the dev set (default: %(default)s)")
    output = Path(__file__).resolve().parent / "results" / "serving_soak.json"
    parser.add_argument("--output", type=Path, default=output)
    arguments = parser.parse_args()
    if arguments.minutes > 60:
        raise SystemExit("At most 60 minutes.")
    files = [(arguments.files / name / "model.tflite").resolve() for name in ("all_int4", "dynamic_int8")]
    sys.path.append(sys.path.pop(0))
    from keras_bert.data.glue import read_glue

    texts = list(read_glue("SST-2", arguments.data / "glue", "dev").texts)[: arguments.texts]
    known = [[] for _ in texts]
    for file in files:
        with start_ours(file, free_port()) as (_, port):
            for row, answer in zip(known, fetch(port, texts), strict=True):
                row.append(answer)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "sst"
        (place / "1").mkdir(parents=True)
        shutil.copy(files[0], place / "1" / "model.tflite")
        with start_ours(place, free_port(), "--refresh", "0.5") as (process, port):
            load, memory, good, loads = asyncio.run(soak(arguments, process, port, place, files, texts, known))
            after, end = fetch(port, texts[:5]), memory_mb(process)
            threads = len(os.listdir(f"/proc/{process.pid}/task"))
            descriptors = len(os.listdir(f"/proc/{process.pid}/fd"))
        assert len(after) == 5
    quarter = max(1, len(memory) // 4)
    # The first quarter warms up: versions of both sizes have been open by its end.
    early, late = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
    minute = max(1, len(memory) // max(1, round(arguments.minutes)))
    found = {
        **load.summary(),
        "versions": loads,
        "garbage_taken_for_good": good,
        "early_mb": early,
        "late_mb": late,
        "mb_by_minute": [statistics.median(memory[first : first + minute]) for first in range(0, len(memory), minute)],
        "end": end,
    }
    found |= {
        "threads": threads,
        "descriptors": descriptors,
        "minutes": arguments.minutes,
        "clients": arguments.clients,
    }
    print(json.dumps(found, indent=1))
    record = {**provenance("keras-bert-edge", "ai-edge-litert", "uvicorn"), "data": "SST-2 dev", "results": found}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    is_good = not (load.wrong or load.lost or good) and late < early * 1.05
    raise SystemExit(0 if is_good else "Something was lost, wrong, or grew: see above.")


if __name__ == "__main__":
    main()
