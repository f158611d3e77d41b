"""Clients for `serving.py` and `serving_soak.py`: asyncio on raw sockets, because a client in Python must cost little.

Only this machine's own servers are asked (`127.0.0.1`), with a bounded number of clients for a bounded time.
"""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

import numpy as np

HOST = "127.0.0.1"
MOST_CLIENTS, MOST_SECONDS = 1024, 3600


@dataclass
class Load:
    """What clients saw: seconds of the answers, answers that were wrong, and statuses other than 200."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    lost: int = 0
    elapsed: float = 0.0

    def summary(self):
        """Requests per second and latencies in milliseconds."""
        times = np.array(self.seconds or [np.nan]) * 1e3
        found = {"requests_per_second": len(self.seconds) / self.elapsed, "answers": len(self.seconds)}
        found |= {f"p{share}_ms": float(np.percentile(times, share)) for share in (50, 95, 99)}
        return found | {"wrong": self.wrong, "lost": self.lost, "refused": self.refused}


def post_bytes(path, body):
    """A POST request with a JSON body."""
    content = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
    return "\r\n".join([*head, f"Content-Length: {len(content)}", "", ""]).encode() + content


async def ask(reader, writer, request):
    """Send a request over an open connection; give the status and the body."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return int(head[9:12]), await reader.readexactly(length)


async def _client(port, requests, check, stop, load, seed):
    """One client that asks again as soon as it has an answer."""
    order = random.Random(seed)
    reader, writer = await asyncio.open_connection(HOST, port)
    while time.perf_counter() < stop:
        index, start = order.randrange(len(requests)), time.perf_counter()
        status, body = await ask(reader, writer, requests[index])
        _note(load, status, time.perf_counter() - start, status == 200 and check(index, body))
        if status != 200:
            await asyncio.sleep(0.05)
    writer.close()


def _note(load, status, seconds, is_right):
    if status != 200:
        load.refused[status] = load.refused.get(status, 0) + 1
        return
    load.seconds.append(seconds)
    load.wrong += not is_right


async def closed_loop(port, requests, check, clients, seconds):
    """So many clients, each with one request at a time.

    Args:
        port: Of a server on this machine.
        requests: The bytes of requests, which are asked in random order.
        check: Function of a request's index and the body of its answer; says whether it is right.
        clients: How many.
        seconds: How long.
    """
    if clients > MOST_CLIENTS or seconds > MOST_SECONDS:
        raise SystemExit(f"At most {MOST_CLIENTS} clients and {MOST_SECONDS} seconds.")
    load, start = Load(), time.perf_counter()
    await asyncio.gather(*(_client(port, requests, check, start + seconds, load, seed) for seed in range(clients)))
    load.elapsed = time.perf_counter() - start
    return load


async def open_loop(port, requests, check, rate, seconds, connections=64, *, evenly=False):
    """Requests at random times, or evenly, so many a second on average, whether answers have come or not."""
    load, order, idle = Load(), random.Random(0), []
    for _ in range(connections):
        idle.append(await asyncio.open_connection(HOST, port))

    async def one(index, due):
        connection = idle.pop() if idle else await asyncio.open_connection(HOST, port)
        status, body = await ask(*connection, requests[index])
        _note(load, status, time.perf_counter() - due, status == 200 and check(index, body))
        idle.append(connection)

    start = due = time.perf_counter()
    tasks = []
    while due < start + min(seconds, MOST_SECONDS):
        due += 1 / rate if evenly else order.expovariate(rate)
        await asyncio.sleep(max(0, due - time.perf_counter()))
        tasks.append(asyncio.ensure_future(one(order.randrange(len(requests)), due)))
    await asyncio.gather(*tasks)
    load.elapsed = time.perf_counter() - start
    for _, writer in idle:
        writer.close()
    return load
