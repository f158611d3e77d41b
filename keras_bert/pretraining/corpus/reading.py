"""Reads a directory of shards as a `tf.data.Dataset`, in an order that depends only on the seed.

Checks that the shards are complete and were made with the expected vocabulary and length. Examples are parsed in
batches, because parsing them one by one would be the slowest part of the input.
"""

import os
from typing import Any

import tensorflow as tf

from keras_bert.pretraining.corpus.documents import CorpusError
from keras_bert.pretraining.corpus.manifest import Manifest, Settings, hash_vocabulary, load_manifest
from keras_bert.pretraining.corpus.shards import hash_file, join

_FEATURES = {
    "token_ids": tf.io.RaggedFeature(tf.int64),
    "first_length": tf.io.FixedLenFeature([], tf.int64),
    "next_sentence_label": tf.io.FixedLenFeature([], tf.int64),
}
_PARSED_AT_ONCE = 256


def read_examples(
    directory: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    tokenizer: Any = None,
    sequence_length: int | None = None,
    pairs: str | None = None,
    shuffle: bool = True,
    shuffle_buffer: int = 1 << 14,
    seed: int = 0,
    shard_index: int = 0,
    shard_count: int = 1,
    drop_remainder: bool = False,
    verify: bool = False,
) -> tf.data.Dataset:
    """Read what `write_examples` wrote.

    Args:
        directory: Where the shards and their manifest are.
        batch_size: The number of examples in a batch of ragged rows; `None` gives single examples.
        tokenizer, sequence_length, pairs: What the manifest must say; `None` accepts anything.
        shuffle: Whether to shuffle shards and examples in every epoch; otherwise they come in the order of the files.
        shuffle_buffer: The number of examples to choose from. Shards are shuffled when written, and several are read at
            a time.
        seed: Seed of the order.
        shard_index, shard_count: The index of this reader and the number of readers; together they read every example
            once.
        drop_remainder: Whether to drop a last batch that is not full.
        verify: Whether to read all shards first and check their sha256. Sizes are always checked.

    Returns:
        A dataset of `token_ids` and `segment_ids`, int32 `[T]`, and `next_sentence_label`, int32: 1 where the second
        segment is random or swapped, as in the original BERT. In batches: ragged `[B, (T)]`, and `[B]`.

    Example:
        ```python
        for batch in read_examples("examples", batch_size=32, tokenizer=tokenizer):
            batch["token_ids"].to_tensor()
        ```
    """
    paths = check_shards(
        directory, tokenizer=tokenizer, verify=verify, expected={"sequence_length": sequence_length, "pairs": pairs}
    )
    if not 0 <= shard_index < shard_count:
        raise ValueError(f"shard_index={shard_index} of shard_count={shard_count}; pass 0 to {shard_count - 1}.")
    by_file = len(paths) >= shard_count
    records = _read_records(paths[shard_index::shard_count] if by_file else paths, shuffle, seed)
    if not by_file:
        records = records.shard(shard_count, shard_index)
    if shuffle:
        records = records.shuffle(shuffle_buffer, seed=seed)
    records = records.batch(batch_size or _PARSED_AT_ONCE, drop_remainder=drop_remainder and batch_size is not None)
    batches = records.map(parse_examples, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return batches if batch_size else batches.unbatch()


def _read_records(paths: list[str], shuffle: bool, seed: int) -> tf.data.Dataset:
    files = tf.data.Dataset.from_tensor_slices(paths)
    if not shuffle:
        return tf.data.TFRecordDataset(files)
    return files.shuffle(len(paths), seed=seed).interleave(
        tf.data.TFRecordDataset, cycle_length=8, block_length=16, num_parallel_calls=2, deterministic=True
    )


def parse_examples(records: tf.Tensor) -> dict[str, Any]:
    """Parse a batch of serialized examples into ragged rows, as `read_examples` gives them.

    Example:
        ```python
        batches = tf.data.TFRecordDataset(paths).batch(256).map(parse_examples)
        ```
    """
    parsed = tf.io.parse_example(records, _FEATURES)
    token_ids = tf.cast(parsed["token_ids"], tf.int32)
    first = parsed["first_length"]
    lengths = tf.stack([first, tf.cast(token_ids.row_lengths(), tf.int64) - first], axis=1)
    segments = tf.repeat(tf.tile([0, 1], tf.shape(first)), tf.reshape(lengths, [-1]))
    return {
        "token_ids": token_ids,
        "segment_ids": token_ids.with_flat_values(segments),
        "next_sentence_label": tf.cast(parsed["next_sentence_label"], tf.int32),
    }


# === Checks ===


def check_shards(
    directory: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    verify: bool = False,
    expected: dict[str, Any] | None = None,
) -> list[str]:
    """Check that the shards of a directory are complete and made as expected; return their paths.

    Args:
        directory, tokenizer, verify: As for `read_examples`.
        expected: Values that settings of the manifest must have; `None` accepts any. Without a layout it is
            `"examples"`.

    Example:
        ```python
        paths = check_shards("examples", tokenizer=tokenizer)
        ```
    """
    directory = os.fspath(directory)
    manifest = load_manifest(directory)
    expected = {"layout": Settings.layout, **(expected or {})}
    if manifest.settings.layout != expected["layout"]:
        raise CorpusError(
            f"{directory} has layout={manifest.settings.layout!r}, rows for pretrain alone, expected "
            f"{expected['layout']!r}; write the examples again, with layout={expected['layout']!r}."
        )
    _check_expectations(directory, manifest, tokenizer, expected)
    return _check_shards(directory, manifest, verify)


def _check_expectations(directory: str, manifest: Manifest, tokenizer: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        there = getattr(manifest.settings, name)
        if value is not None and value != there:
            raise CorpusError(
                f"{directory} was made with {name}={there!r}, expected {value!r}; pass {name}={there!r}, or write the "
                "examples again."
            )
    if tokenizer is None:
        return
    config = tokenizer.get_config()
    vocabulary = config.pop("vocabulary")
    digest = hash_vocabulary(vocabulary)
    if digest != manifest.vocabulary_sha256:
        raise CorpusError(
            f"{directory} was made with another vocabulary ({manifest.vocabulary_size:,} tokens, sha256 "
            f"{manifest.vocabulary_sha256[:12]}…; expected {len(vocabulary):,} tokens, {digest[:12]}…); pass the "
            "tokenizer it was made with, or write the examples again."
        )
    if config != manifest.tokenizer:
        raise CorpusError(
            f"{directory} was made with the tokenizer settings {manifest.tokenizer}, expected {config}; pass the same "
            "settings, or write the examples again."
        )


def _check_shards(directory: str, manifest: Manifest, verify: bool) -> list[str]:
    paths = []
    for shard in manifest.shards:
        path = join(directory, shard.file)
        size = tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None
        if size != shard.bytes:
            fault = "is missing" if size is None else f"has {size:,} bytes"
            fault += f"; expected {shard.bytes:,}"
        elif verify and hash_file(path)[0] != shard.sha256:
            fault = f"is damaged: its sha256 is not {shard.sha256}"
        else:
            paths.append(path)
            continue
        raise CorpusError(f"{path} {fault}. Copy it again, or delete {directory}/manifest.json and write again.")
    return paths
