"""Vectors in bytes and bits: near the floats, found again, and refused where they do not fit."""

import numpy as np
import pytest

from keras_bert.decoding.similarity import normalize_vectors, search_vectors
from keras_bert.decoding.small_vectors import SmallVectors, _count_ones, quantize_vectors

RANDOM = np.random.default_rng(5)
# Correlated dimensions with means of their own, as embeddings have them.
VECTORS = normalize_vectors(RANDOM.normal(size=(3000, 24)) @ RANDOM.normal(size=(24, 64)) + RANDOM.normal(size=64))
QUERIES = normalize_vectors(VECTORS[:50] + RANDOM.normal(0, 0.03, (50, 64)))


def recall(found, wanted):
    pairs = zip(found, wanted, strict=True)
    return np.mean([len({hit.index for hit in a} & {hit.index for hit in b}) / len(b) for a, b in pairs])


@pytest.mark.parametrize(("kind", "candidates"), [("int8", 1), ("binary", 40)])
def test_a_search_finds_what_floats_find(kind, candidates):
    wanted = search_vectors(QUERIES, VECTORS, top=10)
    small = quantize_vectors(VECTORS, kind)
    assert recall(small.search(QUERIES, top=10, candidates=candidates), wanted) >= 0.95
    longer = quantize_vectors(3 * VECTORS, kind).search(3 * QUERIES, top=10, candidates=candidates)
    assert recall(longer, wanted) >= 0.95  # lengths do not matter to cosines
    assert small.codes.nbytes * 4 == VECTORS.nbytes
    assert (small.bits is None) == (kind == "int8")


def test_bits_alone_choose_and_codes_decide():
    small = quantize_vectors(VECTORS, "binary")
    few, many = (small.search(QUERIES, top=10, candidates=count) for count in (1, 50))
    whole = quantize_vectors(VECTORS).search(QUERIES, top=10)
    assert recall(few, whole) < recall(many, whole)
    by_default, tenth = small.search(QUERIES, top=2), small.search(QUERIES, top=2, candidates=150)
    assert [[hit.index for hit in row] for row in by_default] == [[hit.index for hit in row] for row in tenth]
    all_of_them = small.search(QUERIES, top=10, candidates=300)
    assert [[hit.index for hit in row] for row in all_of_them] == [[hit.index for hit in row] for row in whole]


def test_codes_are_within_half_a_step():
    small = quantize_vectors(VECTORS)
    assert np.all(np.abs(small.to_float() - VECTORS) <= small.step * 0.51)


def test_ranges_come_from_the_user_s_texts():
    small = quantize_vectors(VECTORS, "binary", learn_from=VECTORS[:100] * 0.5)
    np.testing.assert_allclose(small.thresholds, np.median(normalize_vectors(VECTORS[:100]), axis=0))
    assert small.to_float().max() <= (VECTORS[:100] * 0.5).max() + 1e-6  # others are cut
    assert len(small) == len(VECTORS)


def test_texts_and_a_constant_dimension():
    small = quantize_vectors(np.array([[1.0, 2.0], [1.0, -2.0]]))
    assert small.to_float().tolist() == [[1.0, 2.0], [1.0, -2.0]]
    assert small.search(np.array([[0.0, -1.0]]), top=1, texts=["up", "down"])[0][0].text == "down"


@pytest.mark.parametrize("kind", ["int8", "binary"])
def test_saved_vectors_come_back(tmp_path, kind):
    small = quantize_vectors(VECTORS[:, :24], kind)  # 3 bytes of bits
    small.save(tmp_path / "vectors.npz")
    again = SmallVectors.load(tmp_path / "vectors.npz")
    for name in ("codes", "low", "step", "bits", "thresholds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(small, name))
    assert again.search(QUERIES[:2, :24]) == small.search(QUERIES[:2, :24])
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other", "text"):
        with pytest.raises(ValueError, match=f"{name}.npz has no vectors .*SmallVectors.save"):
            SmallVectors.load(tmp_path / f"{name}.npz")


def test_ones_are_counted_in_words_and_in_bytes():
    rows = RANDOM.integers(0, 256, (9, 16)).astype("uint8")
    for width in (16, 8, 3):
        part = np.ascontiguousarray(rows[:, :width])
        assert _count_ones(part).tolist() == np.unpackbits(part, axis=1).sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantize_vectors(VECTORS, "int4"), "kind='int4'; choose one of 'int8', 'binary'"),
        (lambda: quantize_vectors(VECTORS[0]), r"vectors have the shape \[64\]; expected \[n, H\]"),
        (lambda: quantize_vectors(VECTORS, learn_from=VECTORS[:, :3]), r"learn_from of shape \[3000, 3\]"),
        (lambda: quantize_vectors(VECTORS).search(QUERIES[:, :3]), "queries have 3 dimensions, the vectors 64"),
        (lambda: quantize_vectors(VECTORS).search(QUERIES, top=0), "top=0, candidates=None: expected at least 1"),
        (lambda: quantize_vectors(VECTORS).search(QUERIES, texts=["a"]), "Got 1 texts for 3,000 vectors"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
