"""Initial weights by which attention heads look at neighbouring tokens from the first step on.

A BERT with random weights has to find out first that positions matter, and until then predicts words by their
frequency alone. Here it starts with that knowledge: positions are sines and cosines in columns of their own, in which
tokens and segments are 0, and a head's query turns them by its offset while the key does not, so that their product is
largest at the token so many places away. Initial values are all that differs: every weight is trained, and the model is
saved and loaded like any other.
"""

import math
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.model.weights import to_numpy

INITIAL = ("random", "neighbours")

_ROW = 128  # tokens of the row on which a head has its share of attention
_HIGHEST_LOGIT = 24.0  # what few frequencies need to tell neighbours apart; higher ones would hardly learn any more
_POSITION_SCALE = 1.5 * math.sqrt(2)  # amplitude of sines, in standard deviations of the other initial weights
_SPREAD_AFTER_THE_CUT = 0.8796  # the deviation of a normal distribution that is cut at two of its own
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class NeighbourHeads:
    """Which heads begin by looking at a neighbour, and how closely.

    Args:
        blocks: The encoder blocks with such heads; `None`: all.
        free: The share of a block's heads that begin at random, rounded down.
        share: How much of its attention a head gives to its neighbour in the middle of a row of 128 tokens.
        offsets: Where the heads look, in their order: −1 is the token before. More heads than offsets begin again.

    Example:
        >>> encoder = bert_encoder(BertConfig.preset("mini"), initial=NeighbourHeads(blocks=(0, 1), free=0.25))
    """

    blocks: tuple[int, ...] | None = None
    free: float = 0.0
    share: float = 0.9
    offsets: tuple[int, ...] = (-1, 1, -2, 2, -3, 3, -4, 4)

    def __post_init__(self) -> None:
        if not 0 <= self.free <= 1:
            raise ValueError(f"free={self.free!r} is not a share of the heads; expected a number from 0 to 1.")
        if not 0 < self.share < 1:
            raise ValueError(f"share={self.share!r} is not a share of attention; expected a number between 0 and 1.")
        if not self.offsets or not all(isinstance(offset, int) for offset in self.offsets):
            raise ValueError(f"offsets={self.offsets!r}: expected at least one whole number, such as (-1, 1).")


def initial_heads(initial: "str | NeighbourHeads") -> NeighbourHeads | None:
    """What `initial` of `bert_encoder` stands for; `None` for random weights.

    Example:
        >>> initial_heads("neighbours") == NeighbourHeads()
        True
    """
    if isinstance(initial, NeighbourHeads):
        return initial
    if initial not in INITIAL:
        raise ValueError(
            f"initial={initial!r} is unknown; choose one of {', '.join(map(repr, INITIAL))}, or a NeighbourHeads."
        )
    return NeighbourHeads() if initial == "neighbours" else None


def look_at_neighbours(encoder: keras.Model, config: BertConfig, heads: NeighbourHeads | None = None) -> None:
    """Give an encoder with fresh random weights heads that look at neighbours.

    Args:
        encoder: What `bert_encoder` made; its weights are changed in place.
        config: Its sizes.
        heads: Which heads, and how closely; `None` takes the defaults.

    Example:
        >>> config = BertConfig.preset("tiny")
        >>> look_at_neighbours(bert_encoder(config, seed=1), config)
    """
    heads = NeighbourHeads() if heads is None else heads
    blocks = range(config.num_layers) if heads.blocks is None else heads.blocks
    if wrong := [block for block in blocks if not 0 <= block < config.num_layers]:
        raise ValueError(f"blocks={heads.blocks}: there is no block {wrong[0]}; they are 0 to {config.num_layers - 1}.")
    if config.head_dim < 2 or config.table_dim < 4:
        raise ValueError(
            f"head_dim={config.head_dim}, embedding_dim={config.table_dim}: heads that look at neighbours need at "
            "least 2 numbers a head and 4 columns; take fewer heads, or initial='random'."
        )
    waves = _learned_waves(config, heads) if config.position == "learned" else _fixed_waves(config, heads)
    _write_positions(encoder.get_layer("embeddings"), encoder.get_layer("token_embedding"), waves, config)
    for block in blocks:
        _turn_heads(encoder.get_layer(f"block_{block}").attention, waves, config, heads)


# === Positions ===


@dataclass(frozen=True)
class _Waves:
    """The sines and cosines by which heads know positions."""

    turns: np.ndarray  # [P], radians from one position to the next
    table: np.ndarray  # [P, 2], the columns of sine and cosine in the position table
    hidden: np.ndarray  # [P, 2], the same in what the first block reads
    amplitude: float  # there
    logit: float  # of the neighbour, for the share of attention
    own_columns: bool  # whether tokens and segments are 0 in these columns


def _learned_waves(config: BertConfig, heads: NeighbourHeads) -> _Waves:
    """Frequencies of our choice, in the last columns of the table."""
    pairs = min(max(min(config.table_dim, config.hidden_dim) // 8, 1), config.head_dim // 2)
    logit, turns = _choose_turns(pairs, heads.share, config)
    columns = _last_columns(config.table_dim, pairs)
    tokens = 2 * (_SPREAD_AFTER_THE_CUT * config.initializer_range) ** 2 * (config.table_dim - 2 * pairs)
    positions = (_POSITION_SCALE * config.initializer_range) ** 2 * pairs
    spread = math.sqrt((tokens + positions) / config.table_dim)
    amplitude = _POSITION_SCALE * config.initializer_range / spread  # after the layer norm
    return _Waves(turns, columns, *_project(config, columns, amplitude), logit, own_columns=True)


def _choose_turns(pairs: int, share: float, config: BertConfig) -> tuple[float, np.ndarray]:
    """The frequencies that need the lowest logit, of some ladders: evenly spread for many, geometric for few."""
    numbers, ratios = np.arange(pairs), (1.2, 1.5, 2.0, 3.0, 4.0)
    # By the golden ratio there are no common periods, so that no other position looks like the neighbour.
    ladders = [math.pi * ((numbers * _GOLDEN + start / 10) % 1.0) for start in range(1, 10)]
    ladders += [fastest / ratio**numbers for fastest in (0.1, 0.5, 1.0, 1.5, 2.0, 2.5) for ratio in ratios]
    *_, logit, best = min((*_find_logit(turns, share, config), number) for number, turns in enumerate(ladders))
    return logit, ladders[best]


def _fixed_waves(config: BertConfig, heads: NeighbourHeads) -> _Waves:
    """Of the frequencies of a sinusoidal table, as many of the fastest as tell neighbours apart best."""
    width = config.table_dim
    turns = 10000.0 ** (-2 * np.arange(width // 2) / width)
    most = min(len(turns), config.head_dim // 2, config.hidden_dim // 2)
    *_, logit, pairs = min((*_find_logit(turns[:count], heads.share, config), count) for count in range(1, most + 1))
    columns = np.arange(2 * pairs).reshape(pairs, 2)
    amplitude = math.sqrt(2)  # the table's sines have 1, which the norm scales to a variance of 1
    return _Waves(turns[:pairs], columns, *_project(config, columns, amplitude), logit, own_columns=False)


def _last_columns(width: int, pairs: int) -> np.ndarray:
    return np.stack([np.arange(width - 2 * pairs, width - pairs), np.arange(width - pairs, width)], axis=1)


def _project(config: BertConfig, columns: np.ndarray, amplitude: float) -> tuple[np.ndarray, float]:
    """Where a projection from narrow tables puts the waves, and how high they are there."""
    if config.table_dim == config.hidden_dim:
        return columns, amplitude
    return _last_columns(config.hidden_dim, len(columns)), amplitude * _projection_gain(config)


def _projection_gain(config: BertConfig) -> float:
    """What a random projection does to the size of a number: positions keep their proportion to tokens."""
    return _SPREAD_AFTER_THE_CUT * config.initializer_range * math.sqrt(config.table_dim)


def _find_logit(turns: np.ndarray, share: float, config: BertConfig) -> tuple[float, float]:
    """What is missing of the neighbour's share of attention, and the logit that gives it."""
    length = min(_ROW, config.max_sequence_length)
    distances = np.arange(1 - length, length)  # of all tokens that share a row with a neighbour
    products = np.cos(distances[:, None] * turns).mean(axis=1)  # 1 at the neighbour

    def missing(logit: float) -> float:
        return share - 1 / np.exp(logit * (products - 1)).sum()

    low, high = 0.0, _HIGHEST_LOGIT
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if missing(middle) > 0 else (low, middle)
    return round(max(0.0, missing(high)), 6), high


def _write_positions(embeddings: Any, token_table: Any, waves: _Waves, config: BertConfig) -> None:
    sines, cosines = waves.table[:, 0], waves.table[:, 1]
    if waves.own_columns:
        # Rows before the first token's are never read.
        angles = np.arange(-config.position_offset, config.max_sequence_length)[:, None] * waves.turns
        table = np.zeros((config.num_positions, config.table_dim))
        table[:, sines], table[:, cosines] = np.sin(angles), np.cos(angles)
        _assign(embeddings.position, table * _POSITION_SCALE * config.initializer_range)
        segments = [] if embeddings.segment is None else [embeddings.segment.embeddings]
        for variable in (token_table.embeddings, *segments):
            values = to_numpy(variable)
            values[:, waves.table.ravel()] = 0
            _assign(variable, values)
    if embeddings.projection is not None:
        kernel = to_numpy(embeddings.projection.kernel)  # [E, H]
        kernel[waves.table.ravel()] = 0
        kernel[:, waves.hidden.ravel()] = 0
        kernel[waves.table.ravel(), waves.hidden.ravel()] = _projection_gain(config)
        _assign(embeddings.projection.kernel, kernel)


# === Heads ===


def _turn_heads(attention: Any, waves: _Waves, config: BertConfig, heads: NeighbourHeads) -> None:
    """Queries that turn positions by an offset, keys that do not: the product is largest at the offset."""
    size, pairs = config.head_dim, len(waves.turns)
    # A logit is scale² · amplitude² · Σ cos(turn · distance) / √D.
    scale = math.sqrt(waves.logit * math.sqrt(size) / (waves.amplitude**2 * pairs))
    sines, cosines = waves.hidden[:, 0], waves.hidden[:, 1]
    even, odd = 2 * np.arange(pairs), 2 * np.arange(pairs) + 1
    key = np.zeros((config.hidden_dim, size))
    key[sines, even], key[cosines, odd] = scale, scale
    queries, keys = to_numpy(attention.query.kernel), to_numpy(attention.key.kernel)
    for head in range(config.num_heads - int(heads.free * config.num_heads)):
        angles = waves.turns * heads.offsets[head % len(heads.offsets)]
        query = np.zeros((config.hidden_dim, size))
        query[sines, even], query[cosines, even] = np.cos(angles) * scale, np.sin(angles) * scale
        query[cosines, odd], query[sines, odd] = np.cos(angles) * scale, -np.sin(angles) * scale
        columns = slice(head * size, (head + 1) * size)
        queries[:, columns], keys[:, columns] = query, key
    _assign(attention.query.kernel, queries)
    _assign(attention.key.kernel, keys)


def _assign(variable: keras.Variable, values: np.ndarray) -> None:
    variable.assign(np.asarray(values, "float32"))
