"""Masks the tokens of rows by a key that each row brings along, with the same bits in NumPy and inside a training step.

A key is made of the seed, the step and the number of the row, so a row has the same masks wherever it is masked: by
`tf.data` on the host, or by the devices, each its own rows. All random choices are comparisons of integers, so there is
nothing that backends could round differently. The rule is that of `pretraining/masking.py`, BERT's.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_bert.model.hashing import random_bits, scramble

if TYPE_CHECKING:
    from keras_bert.pretraining.masking import Masking

KEYS, RATES = "mask_keys", "mask_rates"
_ONE = 1 << 16  # shares and rates are counted in parts of it
_LARGEST = (1 << 31) - 1
_ROUNDING, _SCORES, _SHARES, _TOKENS, _SPANS = range(5)  # what random bits are for


def row_keys(seed: int, step: int, rows: int) -> np.ndarray:
    """Return the keys of the rows of a step, two numbers for each: int32 `[B, 2]`.

    Example:
        >>> row_keys(1, 0, 2).tolist() == row_keys(1, 0, 4)[:2].tolist() != row_keys(1, 1, 2).tolist()
        True
    """
    numbers = step * rows + np.arange(rows, dtype=np.uint64)
    low, high = numbers.astype(np.uint32), (numbers >> np.uint64(32)).astype(np.uint32)
    seeds = np.array([seed & 0xFFFFFFFF, (seed & 0xFFFFFFFF) ^ 0x9E3779B9], np.uint32)
    keys = scramble(scramble(low[:, None] ^ scramble(seeds)) ^ high[:, None] ^ scramble(seeds ^ seeds[::-1]))
    return (keys >> np.uint32(1)).astype(np.int32)  # without the sign, which frameworks cast in several ways


def with_keys(batch: dict[str, np.ndarray], *, seed: int, step: int, rate: float) -> dict[str, np.ndarray]:
    """Return a batch with what its rows need to be masked anywhere: their keys, and the share of tokens to predict."""
    rows = len(batch["token_ids"])
    rates = np.full(rows, round(rate * _ONE), np.int32)
    return {**batch, KEYS: row_keys(seed, step, rows), RATES: rates}


def mask_rows(batch: dict[str, Any], masking: "Masking") -> dict[str, Any]:
    """Mask a batch of `with_keys`: NumPy arrays give NumPy arrays, tensors of the backend tensors.

    Adds `masked_positions`, `masked_ids` and `masked_weights [B, M]`, as `Masking` does, and takes the keys away.

    Example:
        ```python
        batch = mask_rows(with_keys(next(rows.batches(32, seed=1)), seed=1, step=0, rate=0.15), masking)
        ```
    """
    batch = dict(batch)
    ids, keys, rates = batch["token_ids"], batch.pop(KEYS), batch.pop(RATES)
    arrays: Any = np if isinstance(ids, np.ndarray) else ops
    bits = _RowBits(arrays, keys, ids.shape[1])
    most = masking.max_predictions
    candidate = batch["padding_mask"] > 0
    for special in masking.special_ids:
        candidate = arrays.logical_and(candidate, ids != special)
    chosen = _choose(arrays, ids, candidate, rates, bits, masking)
    rank = arrays.cumsum(_cast(chosen, "int32"), axis=1)  # [B, T]
    wanted = arrays.arange(1, most + 1)[None, :, None]
    here = _cast(arrays.logical_and(rank[:, None, :] == wanted, chosen[:, None, :]), "int32")  # [B, M, T], one place
    place = _cast(arrays.arange(ids.shape[1]), "int32")
    hidden = arrays.arange(1, most + 1)[None, :] <= rank[:, -1:]
    return {
        **batch,
        "token_ids": arrays.where(chosen, _replace(arrays, ids, bits, masking), ids),
        "masked_positions": _cast(arrays.sum(here * place, axis=2), "int32"),
        "masked_ids": _cast(arrays.sum(here * ids[:, None, :], axis=2), "int32"),
        "masked_weights": _cast(hidden, "float32"),
    }


class _RowBits:
    """Random bits of each place of each row, from the rows' keys."""

    def __init__(self, arrays: Any, keys: Any, length: int) -> None:
        self.arrays, self.length = arrays, length
        keys = _cast(keys, "uint32")
        self.first, self.second = keys[:, :1], keys[:, 1:]

    def __call__(self, purpose: int, width: int | None = None) -> Any:
        """Return int32 from 0 to 2³¹ − 1, `[B, T]` or `[B, width]`."""
        width = self.length if width is None else width
        counter = _cast(self.arrays.arange(purpose * self.length, purpose * self.length + width), "uint32")[None, :]
        bits = random_bits(counter, self.first, self.second)
        return _cast(self.arrays.right_shift(bits, _cast(self.arrays.ones_like(bits), "uint32")), "int32")

    def parts(self, purpose: int, width: int | None = None) -> Any:
        """Return numbers from 0 to 65,535."""
        return self(purpose, width) // (1 << 15)


def _choose(arrays: Any, ids: Any, candidate: Any, rates: Any, bits: _RowBits, masking: "Masking") -> Any:
    """Booleans `[B, T]`: units chosen in random order until a row has its share of tokens."""
    counts = arrays.sum(_cast(candidate, "int32"), axis=1)
    # Rounded at random, so that the rate holds on average in short rows too.
    share = (_cast(rates, "int32") * counts + bits.parts(_ROUNDING, 1)[:, 0]) // _ONE
    budget = arrays.clip(share, 1, masking.max_predictions)[:, None]
    scores = bits(_SCORES)
    if masking.unit != "token":  # one score for all tokens of a unit
        scores = arrays.take_along_axis(scores, _units(arrays, ids, bits, masking), axis=1)
    rivals = arrays.where(candidate, scores, _LARGEST)[:, None, :]
    before = arrays.sum(_cast(rivals < scores[:, :, None], "int32"), axis=2)
    size = arrays.sum(_cast(rivals == scores[:, :, None], "int32"), axis=2)
    # The unit that crosses the budget is chosen if half of it fits, so that the average is right.
    fits = arrays.logical_and(2 * before + size <= 2 * budget, before + size <= masking.max_predictions)
    return arrays.logical_and(candidate, fits)


def _units(arrays: Any, ids: Any, bits: _RowBits, masking: "Masking") -> Any:
    """The number of each token's word or span, `[B, T]`."""
    begins = arrays.take(_cast(np.logical_not(masking.continuations), "int32"), ids, axis=0)
    words = arrays.maximum(arrays.cumsum(begins, axis=1) - 1, 0)
    if masking.unit == "word":
        return words
    shares = np.cumsum(1 / np.arange(1, masking.max_span + 1))
    shares = np.round(_ONE * shares[:-1] / shares[-1]).astype("int32")
    drawn = bits.parts(_SPANS)
    lengths = 1 + sum((_cast(drawn >= int(share), "int32") for share in shares), start=0 * drawn)
    ends = arrays.cumsum(lengths, axis=1)
    return arrays.sum(_cast(ends[:, None, :] <= words[:, :, None], "int32"), axis=2)


def _replace(arrays: Any, ids: Any, bits: _RowBits, masking: "Masking") -> Any:
    """`[MASK]`, a random token or the token itself, for every place; `[B, T]`."""
    token = bits(_TOKENS) % (len(masking.continuations) - len(masking.special_ids))
    for special in sorted(masking.special_ids):  # the ordinary token with that number
        token = token + _cast(token >= special, "int32")
    share = bits.parts(_SHARES)
    random_until = round((masking.mask_share + masking.random_share) * _ONE)
    kept = arrays.where(share < random_until, token, ids)
    return _cast(arrays.where(share < round(masking.mask_share * _ONE), masking.mask_id, kept), "int32")


def _cast(values: Any, dtype: str) -> Any:
    return values.astype(dtype) if isinstance(values, np.ndarray) else ops.cast(values, dtype)
