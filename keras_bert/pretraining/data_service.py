"""tf.data service as input: examples are made on other machines, and every one arrives exactly once.

Takes splits of a dataset (file names, say) and how to read one; gives a `tf.data.Dataset` of batches that the workers
of a tf.data service make. A room of its own because of what the service does not promise: under dynamic sharding (the
mode that divides work among its workers) the splits that a dying worker had in hand are lost, and the reader waits for
that worker for ever. So each chunk of examples travels with its split's number and its place in it, the reader keeps a
ledger, and what is missing when nothing more arrives is asked for again; what then comes twice is left out.

What is guaranteed: in one pass each example is delivered once, as long as the reading process lives and at least one
worker does, and if `read_split` gives the same examples in the same order each time. Splits arrive in any order. A
reading process that is started again begins its pass anew.

A service is started with TensorFlow alone: `tf.data.experimental.service.DispatchServer` on one machine, a
`WorkerServer` on each that makes examples.
"""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
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
    """Batches of examples that tf.data service workers make; no example is lost when one of them dies.

    Args:
        splits: What the work is divided by: file names or numbers. Many small ones divide it best.
        read_split: Split → `tf.data.Dataset` of examples (dense tensors of one shape), always in the same order. It
            runs on the workers, so it must be TensorFlow alone.
        service: The dispatcher's address, `"grpc://host:port"`.
        batch_size: The global batch size.
        devices: Training processes among which the splits are dealt out; `fit` takes the result from
            `devices.distribute(dataset, shard="none")`. `None`: this process reads them all.
        drop_remainder: Leave out the last batch where it is not full.
        patience: Seconds without a chunk after which the missing splits are asked for again. Doubles each time nothing
            came; after three such times in a row it is an error.

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
    directory: str | os.PathLike,
    *,
    service: str,
    batch_size: int,
    tokenizer: Any = None,
    devices: Devices | None = None,
    shuffle_buffer: int = 1 << 14,
    seed: int = 0,
    patience: float = 30.0,
) -> tf.data.Dataset:
    """Endless batches of what `write_examples` wrote, read and parsed by a tf.data service; each example once a pass.

    The batches are those of `read_examples`, in an order that depends on who is faster: a run that is started again
    begins a new pass. Every worker of the service must see the directory under the same name.

    Args:
        directory: Where the shards and their manifest are.
        service, batch_size, devices, patience: As for `read_through_service`.
        tokenizer: Whose vocabulary the examples must have.
        shuffle_buffer: How many examples to choose among.
        seed: Of that choice.

    Example:
        ```python
        data = read_examples_through_service("gs://…/examples", service="grpc://host:5000", batch_size=256)
        ```
    """
    paths = check_shards(directory, tokenizer=tokenizer)
    length = load_manifest(os.fspath(directory)).settings.sequence_length
    # Fewer shards than training processes are read in several parts.
    parts = -(-(1 if devices is None else devices.num_workers) // len(paths))

    def read_part(number):
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


def _pad(batch, length):
    """Ragged rows as dense ones, with their lengths: the ledger's chunks are dense."""
    ragged = {name: batch[name].to_tensor(shape=[None, length]) for name in ("token_ids", "segment_ids")}
    return {**batch, **ragged, "length": batch["token_ids"].row_lengths()}


def _unpad(batch):
    length = batch.pop("length")
    ragged = ("token_ids", "segment_ids")
    return {**batch, **{name: tf.RaggedTensor.from_tensor(batch[name], lengths=length) for name in ragged}}


class Ledger:
    """Which chunks of which splits have arrived.

    Example:
        >>> ledger = Ledger(2)
        >>> list(ledger.take([(0, 0, False, "chunk"), (0, 1, True, None), (0, 0, False, "chunk")], patience=1))
        ['chunk']
        >>> ledger.missing()
        [1]
    """

    def __init__(self, num_splits: int):
        self.chunks = 0
        self._arrived: list[set[int]] = [set() for _ in range(num_splits)]
        self._expected: list[int | None] = [None] * num_splits
        self._missing = set(range(num_splits))

    def missing(self) -> list[int]:
        """The splits that have not arrived in full."""
        return sorted(self._missing)

    def take(self, numbered_chunks, patience: float) -> Iterator[Any]:
        """The new ones among chunks `(split, place, is_end, chunk)`, until all are there or none came for a while."""
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


def _ask(splits, indices, read_split, service, chunk_size):
    """The chunks of some splits, numbered, from the workers; the last of a split is empty and tells their number."""

    def number(index, split):
        chunks = read_split(split).batch(chunk_size)
        end = tf.data.Dataset.from_tensors(tf.nest.map_structure(_no_rows, chunks.element_spec))
        marked = chunks.map(lambda *c: (False, _one(c))).concatenate(end.map(lambda *c: (True, _one(c))))
        return marked.enumerate().map(lambda place, rest: (index, place, *rest))

    wanted = tf.data.Dataset.from_tensor_slices((indices, tf.gather(_tensor(splits), indices)))
    policy = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return wanted.flat_map(number).apply(
        tf.data.experimental.service.distribute(processing_mode=policy, service=service)
    )


def _tensor(splits):
    return tf.constant(splits, tf.string if isinstance(splits[0], str) else tf.int64)


def _no_rows(spec):
    return tf.zeros([0, *(extent or 0 for extent in spec.shape[1:])], spec.dtype)


def _one(components):
    """What `map` spread over its arguments, as the one element that it was."""
    return components[0] if len(components) == 1 else components


def _until_silence(elements, patience):
    """Elements as they come, until they end or none comes for `patience` seconds.

    They are read in a thread, because a reader that waits for a dead worker cannot be called back; that thread is left
    behind then, one for each pass. It costs next to nothing and does not keep the process from ending.
    """
    arrived: queue.Queue = queue.Queue(maxsize=8)
    stopped = threading.Event()

    def put(item):
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                arrived.put(item, timeout=0.1)
                return

    def read():
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
