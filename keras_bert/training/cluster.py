"""Reads `TF_CONFIG`, which names the processes of a training job; both backends use it.

Launchers (Vertex AI, Kubeflow, a shell script) set it in the environment of each worker:

    {"cluster": {"worker": ["host0:1234", "host1:1234"]}, "task": {"type": "worker", "index": 0}}
"""

import json
import os
from dataclasses import dataclass
from typing import Any

_EXAMPLE = '{"cluster": {"worker": ["host0:1234", "host1:1234"]}, "task": {"type": "worker", "index": 0}}'


@dataclass(frozen=True)
class Cluster:
    """The training processes of a job, and the index of this one. Process 0 is the chief."""

    addresses: tuple[str, ...]
    index: int


def read_cluster() -> Cluster | None:
    """Return the cluster in `TF_CONFIG`, or `None` if the variable is not set.

    Example:
        >>> os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
        >>> read_cluster()
        Cluster(addresses=('a:1', 'b:1'), index=1)
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text or text == "{}":
        return None
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise _bad(text, f"is not JSON ({error})") from error
    cluster = config.get("cluster") if isinstance(config, dict) else None
    task = config.get("task") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        raise _bad(text, 'lacks "cluster" or "task"')
    other = sorted(set(cluster) - {"chief", "worker"})
    if other:
        raise _bad(text, f"names jobs that synchronous training does not use: {', '.join(other)}")
    return Cluster(addresses=_addresses(text, cluster), index=_index(text, cluster, task))


def _addresses(text: str, cluster: dict[str, Any]) -> tuple[str, ...]:
    addresses: list[str] = []
    for job in ("chief", "worker"):
        hosts = cluster.get(job, [])
        if not isinstance(hosts, list) or not all(isinstance(host, str) and ":" in host for host in hosts):
            raise _bad(text, f'has {hosts!r} as "{job}", which is not a list of host:port')
        addresses += hosts
    if not addresses:
        raise _bad(text, "names no worker")
    return tuple(addresses)


def _index(text: str, cluster: dict[str, Any], task: dict[str, Any]) -> int:
    job, index = task.get("type"), task.get("index")
    hosts = cluster.get(job, []) if isinstance(job, str) else []
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(hosts):
        raise _bad(text, f"has the task {job!r} {index!r}, which is not in its cluster")
    return index + (len(cluster.get("chief", [])) if job == "worker" else 0)


def _bad(text: str, what: str) -> ValueError:
    return ValueError(f"TF_CONFIG={text!r} {what}; set it for each worker to a value like {_EXAMPLE}.")
