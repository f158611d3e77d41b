"""Writing token by token over a cache gives what running the whole row again gives, by every sampler and rule."""

import itertools

import numpy as np
import pytest
from keras import ops
from tiny_writers import random_writer, recomputed_scores, source_batch

from keras_bert.tasks.generation import token_writer
from keras_bert.tasks.generation.sampling import NEVER, Decoding, TextTokens, restrict
from keras_bert.tasks.generation.token_writer import TokenWriter

# Of the tiny vocabulary: [SEP] is 3; padding, [UNK], [CLS], [MASK] and three rows without a token are no text.
TOKENS = TextTokens(start_id=3, end_id=3, pad_id=0, never=(0, 1, 2, 4, 13, 14, 15), size=16)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Loops run as they are written: tracing a graph takes longer than all its steps. Gives what makes graphs."""
    compiled = token_writer.compiled
    monkeypatch.setattr(token_writer, "compiled", lambda function, variables: function)
    return compiled


def sources():
    """The sources of the batch, without padding."""
    ids, mask = source_batch()
    return [tuple(row[:length].tolist()) for row, length in zip(ids, mask.sum(axis=1), strict=True)]


def writer(seed=9, layers=1, **decoding):
    """A writer; most of what is tested here is the same with one layer."""
    return TokenWriter(random_writer(seed, num_layers=layers), TOKENS, Decoding(**{"max_length": 6, **decoding}))


def write(seed=9, layers=1, **decoding):
    """What it writes behind the sources."""
    return writer(seed, layers, **decoding).write(*source_batch())


def log_probabilities(source, written, decoding, seed=9):
    """Of every token to come next, by the whole row and the rules."""
    padded = np.array([[3, *written, *[0] * (decoding.max_length - len(written))]], "int32")
    scores = recomputed_scores(random_writer(seed, num_layers=1), source, tuple(written))[None]
    return ops.convert_to_numpy(ops.log_softmax(restrict(scores, padded, len(written) + 1, TOKENS, decoding)))[0]


def without_end(written):
    return written[: written.index(3)] if 3 in written else written


# === Greedy and beams ===


@pytest.mark.parametrize("rules", [{}, {"no_repeat_ngram": 2, "min_length": 6}])
def test_greedy_writing_equals_running_the_whole_row_each_time(rules):
    decoding, expected = Decoding(max_length=6, **rules), []
    for source in sources():
        written = []
        while len(written) < 6 and (not written or written[-1] != 3):
            written.append(int(np.argmax(log_probabilities(source, written, decoding))))
        expected.append(without_end(written))
    assert write(**rules) == expected
    if rules.get("no_repeat_ngram"):
        assert all(len(set(itertools.pairwise(row))) == len(row) - 1 for row in expected)


@pytest.mark.parametrize("seed", [9, 11])
def test_beams_equal_a_search_over_whole_rows(seed):
    decoding, expected = Decoding(max_length=5), {0.0: [], 1.0: []}
    for source in sources():
        beams = [([], 0.0)]
        for _ in range(5):
            grown = [(written, score) for written, score in beams if 3 in written]
            for written, score in (beam for beam in beams if 3 not in beam[0]):
                steps = log_probabilities(source, written, decoding, seed)
                grown += [([*written, token], score + float(value)) for token, value in enumerate(steps)]
            beams = sorted(grown, key=lambda beam: -beam[1])[:3]
        for penalty, answers in expected.items():
            best = max(beams, key=lambda beam: beam[1] / len(beam[0]) ** penalty)
            answers.append(without_end(best[0]))
    for penalty, answers in expected.items():
        assert write(seed, sampler="beam", num_beams=3, length_penalty=penalty, max_length=5) == answers


def test_a_graph_writes_the_same(monkeypatch, compiled):
    plain = write(layers=2, max_length=4)
    monkeypatch.setattr(token_writer, "compiled", compiled)
    assert plain == write(layers=2, max_length=4)


def test_a_sampler_object_of_keras_hub():
    from keras_hub import samplers

    assert write(sampler=samplers.GreedySampler(), max_length=3) == write(max_length=3)
    beams = write(sampler=samplers.BeamSampler(num_beams=3), max_length=3)
    assert beams == write(sampler="beam", num_beams=3, max_length=3)
    with pytest.raises(TypeError, match="needs only scores"):
        write(sampler=samplers.ContrastiveSampler())
    with pytest.raises(TypeError, match="expected one of 'greedy'"):
        write(sampler=lambda scores: scores)


# === Chance ===


@pytest.mark.parametrize("sampler", ["top_k", "top_p", "random"])
def test_chance_by_seed(sampler):
    by_chance, drawn = writer(sampler=sampler, temperature=4.0, k=9, p=1.0), []
    for seed in (1, 1, 2):
        by_chance.reseed(seed)
        drawn.append(by_chance.write(*source_batch()))
    assert drawn[0] == drawn[1] != drawn[2]
    assert not {token for row in drawn[0] for token in row} & {*TOKENS.never, 3}


def test_one_token_to_choose_from_is_greedy():
    assert write(sampler="top_k", k=1) == write(sampler="top_p", p=1e-6) == write()


# === Streams ===


def test_a_stream_is_what_is_written():
    ids, mask = source_batch()
    greedy = writer()
    streamed = [list(greedy.stream(ids[row : row + 1], mask[row : row + 1])) for row in range(3)]
    assert streamed == greedy.write(ids, mask)
    with pytest.raises(ValueError, match="cannot be streamed"):
        next(writer(sampler="beam").stream(ids, mask))


# === Rules ===


def test_rules_by_hand():
    written = np.array([[3, 5, 6, 5, 0, 0, 0], [3, 7, 3, 0, 0, 0, 0]], "int32")
    decoding = Decoding(max_length=6, min_length=4, no_repeat_ngram=2)
    scores = ops.convert_to_numpy(restrict(np.zeros((2, 16), "float32"), written, 4, TOKENS, decoding))
    # Of the first row: no [SEP] before four tokens, and no 6, because "5 6" is written already.
    assert [index for index in range(16) if scores[0, index] == 0] == [5, 7, 8, 9, 10, 11, 12]
    assert scores[1].argmax() == 0 and np.all(np.delete(scores[1], 0) == NEVER)  # ended: padding, with certainty
    free = restrict(np.zeros((2, 16), "float32"), written, 4, TOKENS, Decoding(max_length=6))
    assert np.flatnonzero(ops.convert_to_numpy(free)[0] == 0).tolist() == [3, 5, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "gready"}, "expected one of 'greedy'"),
        ({"max_length": 0}, "at least 1"),
        ({"min_length": 9, "max_length": 8}, "exceeds max_length=8"),
        ({"p": 0.0}, "up to 1"),
        ({"temperature": 0}, "over 0"),
        ({"num_beams": 2.5}, "whole number"),
    ],
)
def test_bad_settings(options, words):
    with pytest.raises(ValueError, match=words):
        Decoding(**options)
