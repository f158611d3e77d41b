"""Reads examples through a tf.data service, so that each one arrives exactly once per pass.

Takes splits of a dataset (for example file names) and a function that reads one; gives a `tf.data.Dataset` of batches
that the workers of the service make. With dynamic sharding, which divides the work among the workers, the service loses
the splits of a worker that dies, and the reader waits for that worker forever. Therefore each chunk of examples has the
number of its split and its position in it. The reader keeps a list of what has arrived. When nothing more arrives, it
asks for the missing splits again and drops what comes twice.

In one pass each example is delivered once, as long as the reading process and at least one worker are alive, and if
`read_split` always gives the same examples in the same order. Splits arrive in any order. A reading process that is
started again starts a new pass.

TensorFlow can start such a service: `tf.data.experimental.service.DispatchServer` on one machine, and a `WorkerServer`
on each machine that makes examples.
"""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.corpus.reading import check_shards, parse_examples
from keras_bert.training.devices import Devices

_LOG = logging.getLogger(__name__)
_PARSED_AT_ONCE = 256


def read_through_service(
    splits: Sequence[str] | Sequence[int],
    read_split: Callable[[tf.Tensor], tf.data.Dataset],
    *,
    service: str,
    batch_size: int,
    devices: Devices | None = None,
    drop_remainder: bool = False,
    patience: float = 30.0,
) -> tf.data.Dataset:
    """Read batches that tf.data service workers make; no example is lost if a worker dies.

    Args:
        splits: The parts of the work, file names or numbers. Many small ones are divided most evenly.
        read_split: Takes a split, gives a `tf.data.Dataset` of examples (dense tensors of one shape), always in the
            same order. It runs on the workers, so it must consist of TensorFlow operations.
        service: The address of the dispatcher, `"grpc://host:port"`.
        batch_size: The global batch size.
        devices: The training processes that share the splits; `fit` takes `devices.distribute(dataset, shard="none")`.
            `None`: this process reads all splits.
        drop_remainder: Whether to drop a last batch that is not full.
        patience: Seconds without a chunk after which the missing splits are asked for again. It doubles each time
            nothing came; after three such times in a row an error is raised.

    Example:
        >>> dataset = read_through_service(files, tf.data.TFRecordDataset, service=dispatcher.target, batch_size=32)
    """
    mine = list(splits) if devices is None else list(splits)[devices.worker_index :: devices.num_workers]
    if not mine:
        raise ValueError(
            f"{len(splits)} splits for {1 if devices is None else devices.num_workers} training processes leave none "
            "for this one; make at least as many splits as processes."
        )
    chunk_spec = read_split(_tensor(mine)[0]).batch(batch_size).element_spec

    def deliver() -> Iterator[Any]:
        ledger = Ledger(len(mine))
        waited, fruitless, before = patience, 0, None
        while ledger.missing():
            if before is not None:
                _LOG.warning(
                    "Nothing came from the tf.data service at %s for %.1f s: asking again for %d of %d splits.",
                    *(service, waited, len(ledger.missing()), len(mine)),
                )
            before = ledger.chunks
            yield from ledger.take(_ask(mine, ledger.missing(), read_split, service, batch_size), waited)
            fruitless = fruitless + 1 if ledger.chunks == before else 0
            waited = patience * 2**fruitless
            if fruitless == 3:
                raise RuntimeError(
                    f"The tf.data service at {service} sent nothing, three times in a row; {len(ledger.missing())} of "
                    f"{len(mine)} splits are missing, {mine[ledger.missing()[0]]!r} among them. Start workers, or "
                    "raise patience if a chunk takes longer to make."
                )

    dataset = tf.data.Dataset.from_generator(deliver, output_signature=chunk_spec)
    return dataset.rebatch(batch_size, drop_remainder=drop_remainder).prefetch(tf.data.AUTOTUNE)


def read_examples_through_service(
    directory: str | os.PathLike[str],
    *,
    service: str,
    batch_size: int,
    tokenizer: Any = None,
    devices: Devices | None = None,
    shuffle_buffer: int = 1 << 14,
    seed: int = 0,
    patience: float = 30.0,
) -> tf.data.Dataset:
    """Read what `write_examples` wrote through a tf.data service, without end; each example comes once per pass.

    The batches look like those of `read_examples`. Their order depends on which worker is faster, and a run that is
    started again starts a new pass. Every worker of the service must find the directory under the same name.

    Args:
        directory: The directory with the shards and their manifest.
        service, batch_size, devices, patience: As for `read_through_service`.
        tokenizer: The tokenizer that the examples must have been made with.
        shuffle_buffer: The number of examples to choose from.
        seed: Seed of the shuffling.

    Example:
        ```python
        data = read_examples_through_service("gs://…/examples", service="grpc://host:5000", batch_size=256)
        ```
    """
    paths = check_shards(directory, tokenizer=tokenizer)
    length = load_manifest(os.fspath(directory)).settings.sequence_length
    # Fewer shards than training processes are read in several parts.
    parts = -(-(1 if devices is None else devices.num_workers) // len(paths))

    def read_part(number: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(tf.gather(paths, number // parts)).shard(parts, number % parts)
        return records.batch(_PARSED_AT_ONCE).map(lambda batch: _pad(parse_examples(batch), length)).unbatch()

    rows = read_through_service(
        range(len(paths) * parts),
        read_part,
        service=service,
        batch_size=batch_size,
        devices=devices,
        patience=patience,
    ).unbatch()
    batches = rows.shuffle(shuffle_buffer, seed=seed).repeat().batch(batch_size, drop_remainder=True)
    return batches.map(_unpad, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _pad(batch: dict[str, Any], length: int) -> dict[str, Any]:
    """Make ragged rows dense and add their lengths, because chunks have to be dense."""
    ragged = {name: batch[name].to_tensor(shape=[None, length]) for name in ("token_ids", "segment_ids")}
    return {**batch, **ragged, "length": batch["token_ids"].row_lengths()}


def _unpad(batch: dict[str, Any]) -> dict[str, Any]:
    length = batch.pop("length")
    ragged = ("token_ids", "segment_ids")
    return {**batch, **{name: tf.RaggedTensor.from_tensor(batch[name], lengths=length) for name in ragged}}


class Ledger:
    """Keeps a list of the chunks that have arrived, by split.

    Example:
        >>> ledger = Ledger(2)
        >>> list(ledger.take([(0, 0, False, "chunk"), (0, 1, True, None), (0, 0, False, "chunk")], patience=1))
        ['chunk']
        >>> ledger.missing()
        [1]
    """

    def __init__(self, num_splits: int) -> None:
        self.chunks = 0
        self._arrived: list[set[int]] = [set() for _ in range(num_splits)]
        self._expected: list[int | None] = [None] * num_splits
        self._missing = set(range(num_splits))

    def missing(self) -> list[int]:
        """The splits that have not arrived completely."""
        return sorted(self._missing)

    def take(self, numbered_chunks: Iterable[tuple[Any, Any, Any, Any]], patience: float) -> Iterator[Any]:
        """Yield the new ones of chunks `(split, place, is_end, chunk)`, until all have arrived or none came in time."""
        for split, place, is_end, chunk in _until_silence(numbered_chunks, patience):
            split, place = int(split), int(place)
            if split in self._missing and place not in self._arrived[split]:
                self.chunks += 1
                if is_end:
                    self._expected[split] = place
                else:
                    self._arrived[split].add(place)
                if len(self._arrived[split]) == self._expected[split]:
                    self._missing.discard(split)
                    self._arrived[split] = set()
                if not is_end:
                    yield chunk
            if not self._missing:
                return


def _ask(
    splits: list[Any],
    indices: list[int],
    read_split: Callable[[tf.Tensor], tf.data.Dataset],
    service: str,
    chunk_size: int,
) -> tf.data.Dataset:
    """Ask the workers for some splits, in numbered chunks; the last one of a split is empty and marks its end."""

    def number(index: tf.Tensor, split: tf.Tensor) -> tf.data.Dataset:
        chunks = read_split(split).batch(chunk_size)
        end = tf.data.Dataset.from_tensors(tf.nest.map_structure(_no_rows, chunks.element_spec))
        marked = chunks.map(lambda *c: (False, _one(c))).concatenate(end.map(lambda *c: (True, _one(c))))
        return marked.enumerate().map(lambda place, rest: (index, place, *rest))

    wanted = tf.data.Dataset.from_tensor_slices((indices, tf.gather(_tensor(splits), indices)))
    policy = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return wanted.flat_map(number).apply(
        tf.data.experimental.service.distribute(processing_mode=policy, service=service)
    )


def _tensor(splits: list[Any]) -> tf.Tensor:
    return tf.constant(splits, tf.string if isinstance(splits[0], str) else tf.int64)


def _no_rows(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.zeros([0, *(extent or 0 for extent in spec.shape[1:])], spec.dtype)


def _one(components: tuple[Any, ...]) -> Any:
    """The element whose components `map` passed as arguments."""
    return components[0] if len(components) == 1 else components


def _until_silence(elements: Iterable[Any], patience: float) -> Iterator[Any]:
    """Yield elements as they come, until they end or none comes for `patience` seconds.

    They are read in a thread, because a reader that waits for a dead worker cannot be stopped. Such a thread stays
    behind, at most one per request. It does not keep the process from ending.
    """
    arrived: queue.Queue[Any] = queue.Queue(maxsize=8)
    stopped = threading.Event()

    def put(item: Any) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                arrived.put(item, timeout=0.1)
                return

    def read() -> None:
        try:
            for element in elements:
                put(element)
                if stopped.is_set():
                    return
            put(None)
        except Exception as error:
            put(error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            item = arrived.get(timeout=patience)
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item
    except queue.Empty:
        return
    finally:
        stopped.set()
