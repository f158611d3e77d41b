"""Logits in, substrings out: windows, max context and n-best against brute force over all spans."""

import numpy as np
import pytest

from keras_bert.decoding.spans import Answer, Candidates, Passage, context_windows, find_answers, max_context


def passage_of(words, *, room=100, stride=50, first=4):
    """A context of words, each a token, in windows."""
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    starts = ends - [len(word) for word in words]
    return Passage(" ".join(words), starts, ends, context_windows(len(words), room, stride), first)


def random_logits(passage, seed, width=None):
    """Logits of all rows; what no answer may come from is tempting."""
    width = width or passage.first + int(passage.windows[:, 1].max()) + 3
    logits = np.full((len(passage.windows), width, 2), 50.0)
    random = np.random.default_rng(seed)
    logits[:, 0] = random.normal(size=(len(logits), 2))
    for row, (_, length) in zip(logits, passage.windows, strict=True):
        row[passage.first : passage.first + length] = random.normal(0, 3, (length, 2))
    return logits


def brute_force(logits, passage, max_length):
    """All spans with their scores, by the definition: each in the window where its first token has most context."""
    found = []
    for first in range(len(passage.starts)):
        best, home = None, None
        for number, (begin, length) in enumerate(passage.windows):
            end = begin + length - 1
            if not begin <= first <= end:
                continue
            merit = min(first - begin, end - first) + 0.01 * length
            if best is None or merit > best:
                best, home = merit, number
        begin, length = passage.windows[home]
        for last in range(first, min(first + max_length, begin + length)):
            row = logits[home]
            score = row[passage.first + first - begin, 0] + row[passage.first + last - begin, 1]
            found.append((score, first, last))
    return sorted(found, key=lambda span: -span[0])


# === Windows ===


@pytest.mark.parametrize("seed", range(30))
def test_windows_cover_every_token(seed):
    random = np.random.default_rng(seed)
    tokens, room, stride = int(random.integers(1, 60)), int(random.integers(1, 20)), int(random.integers(1, 30))
    windows = context_windows(tokens, room, stride)
    covered = {place for begin, length in windows for place in range(begin, begin + length)}
    assert covered == set(range(tokens))
    assert windows[:, 1].max() <= room and windows[:, 1].min() >= 1
    assert set(np.diff(windows[:, 0])) <= {min(stride, room)}
    assert len(windows) == 1 or windows[-2].sum() < tokens  # the last one was needed


def test_short_and_empty_contexts_have_one_window():
    assert context_windows(5, 5, 2).tolist() == [[0, 5]]
    assert context_windows(0, 5, 2).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="room=0"):
        context_windows(5, 0, 2)


def test_max_context_is_that_of_the_original():
    # Three windows of ten tokens; token 4 has 4 before it in the first window and nothing in the second.
    windows = context_windows(18, 10, 4)
    assert windows.tolist() == [[0, 10], [4, 10], [8, 10]]
    assert max_context(windows, 18).tolist() == [0] * 7 + [1] * 4 + [2] * 7


# === Spans ===


@pytest.mark.parametrize("seed", range(12))
def test_n_best_equals_brute_force(seed):
    random = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(int(random.integers(1, 40)))]
    passage = passage_of(words, room=int(random.integers(3, 20)), stride=int(random.integers(1, 9)))
    logits, max_length = random_logits(passage, seed), int(random.integers(1, 8))
    expected = brute_force(logits, passage, max_length)
    found = find_answers(logits, passage, n_best=20, max_answer_length=max_length)
    assert len(found.spans) == min(20, len(expected))
    for answer, (score, first, last) in zip(found.spans, expected, strict=False):
        assert answer.text == " ".join(words[first : last + 1]) == passage.context[answer.start : answer.end]
        assert answer.score == pytest.approx(score)
    null = min(row[0].sum() for row in logits)
    assert found.nothing.score == pytest.approx(null) and not found.nothing
    assert found.margin == pytest.approx(null - expected[0][0])


def test_probabilities_are_over_all_spans_and_no_answer():
    passage = passage_of(list("abcdefgh"), room=5, stride=2)
    found = find_answers(random_logits(passage, 1), passage, n_best=1000, max_answer_length=4)
    total = sum(answer.probability for answer in found.spans) + found.nothing.probability
    assert total == pytest.approx(1.0)
    ratio = found.spans[0].probability / found.spans[1].probability
    assert ratio == pytest.approx(np.exp(found.spans[0].score - found.spans[1].score))


def test_an_answer_is_the_longest_that_is_allowed():
    passage = passage_of(["a", "b", "c", "d"])
    logits = np.zeros((1, 9, 2))
    logits[0, 4, 0], logits[0, 7, 1] = 9.0, 9.0
    assert find_answers(logits, passage).spans[0].text == "a b c d"
    assert find_answers(logits, passage, max_answer_length=3).spans[0].score == 9.0
    with pytest.raises(ValueError, match="n_best=0"):
        find_answers(logits, passage, n_best=0)


def test_a_context_without_tokens_has_no_answer():
    none = np.zeros(0, int)
    found = find_answers(np.zeros((1, 6, 2)), Passage("\u200b", none, none, context_windows(0, 9, 3), first=3))
    assert found.spans == () and found.ranked(None) == [found.nothing] and found.ranked(0.0) == [found.nothing]
    assert found.margin > 100


def test_marks_and_shared_characters():
    # The accents that the tokenizer strips belong to the answer; the letters of 한 are three tokens of one character.
    context = "cafe\u0301s a\u0308 한"
    starts, ends = np.array([0, 5, 7, 10, 10, 10]), np.array([4, 6, 8, 11, 11, 11])
    passage = Passage(context, starts, ends, context_windows(6, 9, 3), 2)
    answers = find_answers(random_logits(passage, 3), passage, n_best=100).spans
    texts = [answer.text for answer in answers]
    assert {"cafe\u0301", "a\u0308", "한", "s a\u0308"} <= set(texts)
    assert len({(answer.start, answer.end) for answer in answers}) == len(answers)
    assert all(answer.text == context[answer.start : answer.end] for answer in answers)
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)


# === No answer ===


def test_the_threshold_decides_between_the_best_span_and_none():
    span, other = Answer("a", 0, 1, 0.5, 4.0), Answer("b", 2, 3, 0.2, 3.0)
    found = Candidates((span, other), Answer("", 0, 0, 0.3, 3.5))
    assert found.margin == -0.5
    assert found.ranked(None) == [span, other]
    assert found.ranked(0.0) == [span, found.nothing, other]
    assert found.ranked(-0.5)[0] is span  # not over the threshold
    assert found.ranked(-0.6)[0] is found.nothing
    assert found.ranked(5.0)[-1] is found.nothing
    assert str(span) == "a (50%)" and str(found.nothing) == "no answer (30%)" and span and not found.nothing
