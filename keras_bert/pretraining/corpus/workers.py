"""Makes the shards of many units in parallel, in several processes.

Takes units of the corpus, gives the reports of their shards. Each process loads TensorFlow once, on one thread and
without a GPU. The number of units in progress is limited, and with it the memory. If the main process ends, its workers
end too; if a worker ends, the main process raises an error.
"""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from keras_bert.pretraining.corpus.documents import CorpusError
from keras_bert.pretraining.corpus.manifest import Settings
from keras_bert.pretraining.corpus.units import Unit
from keras_bert.system.quiet_tensorflow import quiet_tensorflow

if TYPE_CHECKING:
    from keras_bert.pretraining.corpus.shard_maker import ShardMaker
    from keras_bert.text.tokenizer import BertTokenizer

_maker: "ShardMaker"  # of a worker process; set by _start


def make_shards(
    units: Iterable[Unit], tokenizer: "BertTokenizer", settings: Settings, directory: str, workers: int
) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Make the shard of every unit; yield each unit with its report, in the order of the units.

    With one worker the work is done in this process.
    """
    if workers == 1:
        from keras_bert.pretraining.corpus.shard_maker import ShardMaker

        maker = ShardMaker.build(tokenizer, settings, directory)
        for unit in units:
            yield unit, maker.make(unit)
        return
    context = multiprocessing.get_context("spawn")  # a forked TensorFlow hangs
    arguments = (tokenizer.get_config(), settings, directory)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=arguments) as pool:
        pending: deque[tuple[Unit, Future[dict[str, Any]]]] = deque()
        try:
            for unit in units:
                pending.append((unit, pool.submit(_make, unit)))
                while len(pending) > workers + 2:
                    yield _finish(*pending.popleft())
            while pending:
                yield _finish(*pending.popleft())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _finish(unit: Unit, future: Future[dict[str, Any]]) -> tuple[Unit, dict[str, Any]]:
    try:
        return unit, future.result()
    except BrokenProcessPool as error:
        raise CorpusError(
            "A worker process ended unexpectedly. If memory ran out, use fewer workers or smaller shard_bytes. In a "
            "script, call write_examples under `if __name__ == '__main__':`, since it starts processes. A second run "
            "continues where this one stopped."
        ) from error


def _start(tokenizer_config: dict[str, Any], settings: Settings, directory: str) -> None:
    """Prepare a worker, before it loads TensorFlow."""
    global _maker
    threading.Thread(target=_follow_parent, daemon=True).start()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    quiet_tensorflow()
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from keras_bert.pretraining.corpus.shard_maker import ShardMaker
    from keras_bert.text.tokenizer import BertTokenizer

    _maker = ShardMaker.build(BertTokenizer.from_config(tokenizer_config), settings, directory)


def _follow_parent() -> None:
    """End this process when its parent ends."""
    # The queue's pipe stays open as long as any worker lives: without this, orphaned workers would wait forever.
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("This is not a worker process; call make_shards instead.")
    parent.join()
    os._exit(1)


def _make(unit: Unit) -> dict[str, Any]:
    return _maker.make(unit)
