"""Run a file in threads: a queue of requests, and a thread for each interpreter.

A request is cut into chunks of texts. The threads take a chunk of each waiting request in turn, so that a request with
one text does not wait for all of one with hundreds. Small chunks of several requests of the same kind are run in one
call, because reading texts and writing answers costs less for some texts at once. Interpreters do not hold Python's
lock while they run.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from export.server.limits import RequestError

_CHUNK = 8  # texts; few enough that a short request waits little, many enough to be tokenized together
_MOST = 32  # texts of several requests, where more of them wait than that


class Job:
    """A request in the queue; `future` gets the results of its chunks, in order.

    Args:
        run: Takes the number of a thread and a chunk; gives its result.
        items: The texts or rows.
        chunk: How many of them are run at a time.
        kind: What is equal for requests that may be run in one call; `None` runs this one alone.
    """

    def __init__(
        self, run: Callable[[int, Sequence[Any]], Any], items: Sequence[Any], chunk: int, kind: Hashable | None = None
    ):
        self.run, self.kind, self._items, self._chunk = run, kind, items, chunk
        self._results: list[Any] = [None] * math.ceil(len(items) / chunk)
        self._left, self._next, self._lock = len(self._results), 0, threading.Lock()
        self.future: Future[list[Any]] = Future()
        self.arrived = time.monotonic()
        self.is_dropped = False

    def take(self) -> tuple[int, Sequence[Any]]:
        """The next chunk, with its number. Called by one thread at a time."""
        number, self._next = self._next, self._next + 1
        return number, self._items[number * self._chunk : (number + 1) * self._chunk]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return len(self._results)

    @property
    def waiting(self) -> int:
        """The texts that no thread has taken."""
        return len(self._items) - min(self._next * self._chunk, len(self._items))

    @property
    def next_size(self) -> int:
        """The texts of the next chunk."""
        return min(self._chunk, self.waiting)

    def do(self, thread: int, number: int, items: Sequence[Any]) -> None:
        """Run a chunk; the last one, or the first that fails, completes the future."""
        try:
            result = self.run(thread, items)
        except BaseException as error:
            self.is_dropped = True
            if not self.future.done():
                self.future.set_exception(error)
        else:
            self.put(number, result)

    def put(self, number: int, result: Any) -> None:
        """Take the result of a chunk; the last one completes the future."""
        self._results[number] = result
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last and not self.future.done():
            self.future.set_result(self._results)


Taken = tuple[Job, int, Sequence[Any]]  # a chunk: its request, its number, its texts


class WorkQueue:
    """A bounded queue with its threads.

    Args:
        num_threads: How many chunks run at the same time.
        max_waiting: How many texts may wait.
        watch: Called with the seconds that a request waited for its first thread.

    Example:
        >>> work = WorkQueue(2, max_waiting=8)
        >>> work.submit(lambda thread, items: sum(items), [1, 2, 3]).future.result()
        [3, 3]
        >>> work.close()
    """

    def __init__(self, num_threads: int, *, max_waiting: int, watch: Callable[[float], None] | None = None):
        self.num_threads, self._max_waiting, self._watch = num_threads, max_waiting, watch
        self._jobs: deque[Job] = deque()
        self._lock = threading.Lock()
        # A token for each chunk; those of dropped requests find nothing to do. `None` ends a thread.
        self._tokens: SimpleQueue[bool | None] = SimpleQueue()
        self._waiting, self._is_closed, self._seconds = 0, False, 0.005  # for a text, about
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"interpreter-{number}", daemon=True)
            for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The texts that wait."""
        return self._waiting

    def submit(
        self, run: Callable[[int, Sequence[Any]], Any], items: Sequence[Any], kind: Hashable | None = None
    ) -> Job:
        """Put a request into the queue, or refuse it with 503.

        Args:
            run: Takes the number of a thread and some of the items; gives their result.
            items: The texts or rows; at least one.
            kind: Requests of an equal kind may be run in one call of either's `run`, whose result then has a method
                `part(begin, end)`. `None` runs the request alone.
        """
        job = Job(run, items, max(1, min(_CHUNK, math.ceil(len(items) / self.num_threads))), kind)
        with self._lock:
            if self._is_closed:
                raise RequestError(503, "The server is shutting down.", 1)
            if self._waiting + len(items) > self._max_waiting:
                seconds = max(1, math.ceil(self._waiting * self._seconds / self.num_threads))
                raise RequestError(503, f"{self._waiting} texts are waiting already; try again later.", seconds)
            self._jobs.append(job)
            self._waiting += len(items)
            for _ in range(job.chunks):
                self._tokens.put(True)
        return job

    def drop(self, job: Job) -> None:
        """Take a request out of the queue, because nobody waits for its answer any more."""
        with self._lock:
            job.is_dropped = True
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= job.waiting

    def close(self) -> None:
        """Finish what waits, refuse what comes, and end the threads."""
        with self._lock:
            self._is_closed = True
            for _ in self._threads:
                self._tokens.put(None)  # after the tokens of all that waits
        for thread in self._threads:
            thread.join()

    def _work(self, thread: int) -> None:
        while self._tokens.get() is not None:
            if not (taken := self._take()):
                continue
            start = time.monotonic()
            _do_all(thread, taken)
            # A moving mean, from which Retry-After is made; threads may overwrite each other's.
            count = sum(len(items) for _, _, items in taken)
            self._seconds += 0.05 * ((time.monotonic() - start) / count - self._seconds)

    def _take(self) -> list[Taken]:
        """A chunk of the first request, and those of the next ones that can be run with it; none if all were dropped.

        A request that is not done goes to the end of the queue. The threads share what waits.
        """
        taken: list[Taken] = []
        with self._lock:
            room = self._room()
            while self._jobs and (not taken or self._fits(taken[0][0], self._jobs[0], room)):
                job = self._jobs.popleft()
                number, items = job.take()
                self._waiting -= len(items)
                if job.waiting and not job.is_dropped:
                    self._jobs.append(job)
                elif job.waiting:
                    self._waiting -= job.waiting
                taken.append((job, number, items))
                room -= len(items)
        if self._watch is not None:
            for job, number, _ in taken:
                if number == 0:
                    self._watch(time.monotonic() - job.arrived)
        return taken

    def _room(self) -> int:
        """How many texts to run in one call: the thread's share of what waits; of many, half of it, up to a limit."""
        share = math.ceil(self._waiting / self.num_threads)
        return max(1, min(_CHUNK, share), min(_MOST, share // 2))

    @staticmethod
    def _fits(first: Job, other: Job, room: int) -> bool:
        return first.kind is not None and first.kind == other.kind and first is not other and other.next_size <= room


def _do_all(thread: int, taken: Sequence[Taken]) -> None:
    """Run chunks in one call; one after the other if that fails, so that an error is that of its request alone."""
    if len(taken) > 1:
        try:
            whole = taken[0][0].run(thread, [item for _, _, items in taken for item in items])
        except Exception:
            whole = None
        if whole is not None:
            begin = 0
            for job, number, items in taken:
                job.put(number, whole.part(begin, begin + len(items)))
                begin += len(items)
            return
    for job, number, items in taken:
        job.do(thread, number, items)
