"""Choosing tokens without Keras gives what `sampling.restrict` and keras-hub's samplers give."""

import numpy as np
import pytest
from keras import ops

from keras_bert.decoding.token_choice import TextTokens, TokenChoice, restrict_scores, write_beams, write_stepwise
from keras_bert.tasks.generation.sampling import Decoding, restrict
from keras_bert.text.tokenizer import BertTokenizer

SIZE = 12
TOKENS = TextTokens(start_id=3, end_id=3, pad_id=0, never=(0, 1, 2, 11), size=SIZE)
CHOICES = (
    {},
    {"min_length": 4},
    {"no_repeat_ngram": 1},
    {"no_repeat_ngram": 2, "min_length": 6},
    {"no_repeat_ngram": 3, "length_penalty": 0.0},
    {"temperature": 0.5, "length_penalty": 2.0},
)


class Chain:
    """Scores by the last two tokens, so that beams must be told apart; the model that both sides ask."""

    def __init__(self, seed, rows=1):
        self.table = np.random.default_rng(seed).normal(0, 2, (SIZE, SIZE, SIZE)).astype("float32")
        self.before = np.zeros(rows, int)

    def __call__(self, last, live=None):
        scores, self.before = self.table[self.before, last], last
        return scores

    def keep(self, parents):
        self.before = self.before[parents]


def keras_text(chain, decoding):
    """By keras-hub's sampler, as `TokenWriter` calls it."""
    sampler = decoding.make_sampler()

    def go_on(written, cache, index):
        ids = ops.convert_to_numpy(written)
        before = ids[:, int(index) - 2] if index > 1 else np.zeros(len(ids), int)
        scores = chain.table[before, ids[:, int(index) - 1]]
        return restrict(scores, written, index, TOKENS, decoding), None, cache

    written = np.full((1, 1 + decoding.max_length), TOKENS.pad_id, "int32")
    written[0, 0] = TOKENS.start_id
    is_start = np.arange(1 + decoding.max_length)[None] < 1
    return sampler(go_on, ops.convert_to_tensor(written), index=1, mask=is_start, stop_token_ids=[TOKENS.end_id])


def without_end(row):
    ids = np.asarray(row)[1:].tolist()
    return ids[: ids.index(TOKENS.end_id)] if TOKENS.end_id in ids else ids


@pytest.mark.parametrize("choice", CHOICES)
def test_rules_are_those_of_the_graph(choice):
    random, decoding = np.random.default_rng(1), Decoding(max_length=8, **choice)
    for index in (1, 2, 3, 6, 8):
        written = np.full((40, 9), TOKENS.pad_id, np.int32)
        written[:, :index] = random.integers(3, 7, (40, index))
        scores = random.normal(0, 3, (40, SIZE)).astype("float32")
        ours = restrict_scores(scores, written, index, TOKENS, TokenChoice(max_length=8, **choice))
        np.testing.assert_array_equal(ours, ops.convert_to_numpy(restrict(scores, written, index, TOKENS, decoding)))


@pytest.mark.parametrize("choice", CHOICES)
def test_texts_are_those_of_keras_hubs_samplers(choice):
    lengths = set()
    for seed in range(4):
        chain, greedy = Chain(seed), {"max_length": 8, **choice}
        text = list(write_stepwise(chain, TOKENS, TokenChoice(**greedy)))
        assert text == without_end(keras_text(chain, Decoding(**greedy))[0])
        chain, beam = Chain(seed, rows=3), {"sampler": "beam", "num_beams": 3, **greedy}
        beams, scores = (ops.convert_to_numpy(part)[0] for part in keras_text(chain, Decoding(**beam)))
        counts = np.sum(beams[:, 1:] != TOKENS.pad_id, axis=1)
        best = np.argmax(scores / counts ** choice.get("length_penalty", 1.0))
        text = write_beams(chain, TOKENS, TokenChoice(**beam))
        assert text == without_end(beams[best])
        lengths.add(len(text))
    assert len(lengths) > 1 or choice.get("min_length", 0) > 4  # texts of one length would test little


def test_what_is_no_text_is_never_written():
    tokenizer = BertTokenizer(["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])
    assert TextTokens.of(tokenizer, 10) == TextTokens(4, 4, 0, never=(0, 1, 2, 3, 5, 8, 9), size=10)


def test_chance_keeps_to_what_it_may_choose_from():
    scores = np.full((1, SIZE), -9.0, np.float32)
    scores[0, 4:9] = np.log([0.4, 0.3, 0.15, 0.1, 0.05])

    def drawn(count=2000, **choice):
        settings = TokenChoice(max_length=count, seed=7, **choice)
        return np.bincount(list(write_stepwise(lambda last: scores, TOKENS, settings)), minlength=SIZE) / count

    np.testing.assert_allclose(drawn(sampler="random", min_length=2000)[4:9], [0.4, 0.3, 0.15, 0.1, 0.05], atol=0.04)
    np.testing.assert_allclose(drawn(sampler="top_k", k=2)[4:7], [4 / 7, 3 / 7, 0], atol=0.04)
    np.testing.assert_allclose(drawn(sampler="top_p", p=0.8)[4:8], [8 / 17, 6 / 17, 3 / 17, 0], atol=0.04)
    assert drawn(sampler="random", temperature=0.01)[4] == 1
    assert np.array_equal(drawn(sampler="random"), drawn(sampler="random"))  # by the seed
