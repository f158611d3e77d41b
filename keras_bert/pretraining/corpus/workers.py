"""Workers: takes units of the corpus, gives the reports of their shards, from as many processes as there are cores.

A room of its own because processes are the part that can die. Each loads TensorFlow once, on one thread and without a
GPU; memory is bounded by how many units are under way; a worker whose parent is gone goes too, and a parent whose
worker is gone says so.
"""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from keras_bert.pretraining.corpus.documents import CorpusError
from keras_bert.pretraining.corpus.manifest import Settings
from keras_bert.pretraining.corpus.units import Unit
from keras_bert.system.quiet_tensorflow import quiet_tensorflow

_maker = None  # of this process, when it is a worker


def make_shards(
    units: Iterable[Unit], tokenizer, settings: Settings, directory: str, workers: int
) -> Iterator[tuple[Unit, dict[str, Any]]]:
    """Make the shard of every unit; yield each unit with its report as they come, in order.

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
        pending: deque = deque()
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


def _finish(unit, future):
    try:
        return unit, future.result()
    except BrokenProcessPool as error:
        raise CorpusError(
            "A worker process ended without a word. If memory ran out, use fewer workers or smaller shard_bytes; in a "
            "script, write_examples has to be called under `if __name__ == '__main__':`, as always with processes. "
            "Started again, the work goes on where it stopped."
        ) from error


def _start(tokenizer_config, settings, directory):
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


def _follow_parent():
    # The queue's pipe stays open as long as any worker lives: without this, orphans would wait for ever.
    multiprocessing.parent_process().join()
    os._exit(1)


def _make(unit):
    return _maker.make(unit)
