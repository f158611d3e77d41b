"""`TF_CONFIG` → who this process is among several; a room of its own because both backends read it, TensorFlow or not.

`TF_CONFIG` is what launchers (Vertex AI, Kubeflow, a shell script) put into the environment of each worker:

    {"cluster": {"worker": ["host0:1234", "host1:1234"]}, "task": {"type": "worker", "index": 0}}
"""

import json
import os
from dataclasses import dataclass

_EXAMPLE = '{"cluster": {"worker": ["host0:1234", "host1:1234"]}, "task": {"type": "worker", "index": 0}}'


@dataclass(frozen=True)
class Cluster:
    """The training processes of a job, and which of them this one is. Process 0 is the chief."""

    addresses: tuple[str, ...]
    index: int


def read_cluster() -> Cluster | None:
    """The cluster in `TF_CONFIG`, or `None` where the variable is not set.

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
        raise _bad(text, f"names jobs that synchronous training has no use for: {', '.join(other)}")
    return Cluster(addresses=_addresses(text, cluster), index=_index(text, cluster, task))


def _addresses(text, cluster):
    addresses = []
    for job in ("chief", "worker"):
        hosts = cluster.get(job, [])
        if not isinstance(hosts, list) or not all(isinstance(host, str) and ":" in host for host in hosts):
            raise _bad(text, f'has {hosts!r} as "{job}", which is no list of host:port')
        addresses += hosts
    if not addresses:
        raise _bad(text, "names no worker")
    return tuple(addresses)


def _index(text, cluster, task):
    job, index = task.get("type"), task.get("index")
    hosts = cluster.get(job, []) if isinstance(job, str) else []
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(hosts):
        raise _bad(text, f"has the task {job!r} {index!r}, which is not in its cluster")
    return index + (len(cluster.get("chief", [])) if job == "worker" else 0)


def _bad(text, what):
    return ValueError(f"TF_CONFIG={text!r} {what}; expected for each worker something like {_EXAMPLE}.")
