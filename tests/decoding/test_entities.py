"""From logits to entities: the best legal path of all paths, exact probabilities, exact places in the text."""

import itertools
import random
import subprocess
import sys

import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import get_entities

from keras_bert.decoding.entities import (
    best_path,
    fill_tags,
    find_entities,
    log_partition,
    path_score,
    span_probabilities,
    widest_context,
)
from keras_bert.decoding.tags import SCHEMES, is_legal, span_tags, split_tag, tag_spans, transition_scores
from keras_bert.tasks.tagging.schemes import breaks_scheme, convert_tags, find_scheme, make_tags
from keras_bert.text.words import split_words

# === Tags ===


def random_tags(count, *, parts="BIES", kinds="XY", seed=0, longest=9):
    source = random.Random(seed)
    names = ["O", *(f"{part}-{kind}" for part in parts for kind in kinds)]
    return [[source.choice(names) for _ in range(source.randint(1, longest))] for _ in range(count)]


def test_any_tags_are_read_as_seqeval_reads_them():
    for tags in random_tags(3000):
        assert tag_spans(tags) == [(kind, first, last + 1) for kind, first, last in get_entities(tags)], tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_says_the_same_and_keeps_its_own_rules(scheme):
    for tags in random_tags(500, seed=1):
        spans = tag_spans(tags)
        written = convert_tags(tags, scheme)
        assert tag_spans(written) == spans
        assert not breaks_scheme(written, scheme)
        assert written == span_tags(spans, len(tags), scheme)


def test_schemes_are_recognized():
    whole = [tags for tags in random_tags(200, seed=2) if tag_spans(tags)]
    for scheme in SCHEMES:
        assert find_scheme([convert_tags(tags, scheme) for tags in whole]) == scheme
    broken = [convert_tags(tags, "BIO") for tags in whole] + [["O", "I-X"]]
    assert find_scheme(broken) == "BIO" and breaks_scheme(broken[-1], "BIO")
    assert convert_tags(["B-NAME", "M-NAME", "E-NAME", "S-ORG"]) == ["B-NAME", "I-NAME", "I-NAME", "B-ORG"]  # BMES
    assert convert_tags(["B-a", "L-a", "U-b", "O"], "BIOES") == ["B-a", "E-a", "S-b", "O"]  # BILOU


def test_what_is_no_tag_is_named():
    assert [split_tag(tag) for tag in ("PER", "B", "B-", "X-PER", "")] == [None] * 5
    assert split_tag("B-creative-work") == ("B", "creative-work") and split_tag("B_LOC") == ("B", "LOC")
    with pytest.raises(ValueError, match="at least one kind"):
        make_tags([])
    with pytest.raises(ValueError, match="each kind of entity once"):
        make_tags(["PER", "PER"])
    with pytest.raises(TypeError, match="expected a list"):
        make_tags("PER")
    with pytest.raises(ValueError, match="scheme='BILOU'"):
        make_tags(["PER"], "BILOU")


# === Paths ===


def all_paths(logits, scores):
    paths = itertools.product(range(logits.shape[1]), repeat=len(logits))
    return {path: path_score(logits, scores, np.array(path)) for path in paths}


def is_whole(path, tags, scheme):
    parts = [None, *(split_tag(tags[index]) for index in path), None]
    return all(is_legal(before, now, scheme) for before, now in itertools.pairwise(parts))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_viterbi_finds_the_best_legal_path_of_all(scheme, learned):
    tags = make_tags(["X"], scheme) + ([] if scheme == "BIOES" else ["B-Y", "I-Y"])
    numbers = np.random.default_rng(3)
    for words in (1, 2, 4):
        logits = numbers.normal(0, 2, (words, len(tags)))
        transitions = numbers.normal(0, 2, (len(tags) + 1, len(tags))) if learned else None
        free = transition_scores(tags, scheme=scheme, transitions=transitions, constrained=False)
        bound = transition_scores(tags, scheme=scheme, transitions=transitions)
        scores = all_paths(logits, free)
        assert tuple(best_path(logits, free)) == max(scores, key=scores.get)
        legal = {path: score for path, score in scores.items() if is_whole(path, tags, scheme)}
        assert len(legal) < len(scores)
        best = best_path(logits, bound)
        assert tuple(best) == max(legal, key=legal.get)
        assert path_score(logits, bound, best) == pytest.approx(legal[tuple(best)])
        assert log_partition(logits, bound) == pytest.approx(np.log(sum(np.exp(list(legal.values())))))


@pytest.mark.parametrize("constrained", [False, True])
def test_probabilities_are_the_share_of_the_paths_that_say_so(constrained):
    tags = make_tags(["X", "Y"])
    numbers = np.random.default_rng(4)
    for _ in range(5):
        logits, transitions = numbers.normal(0, 1, (5, 5)), numbers.normal(0, 1, (6, 5))
        logits[:2, 1:3] += 2.0  # so that there are entities
        scores = transition_scores(tags, transitions=transitions, constrained=constrained)
        path = best_path(logits, scores)
        spans = tag_spans([tags[index] for index in path])
        paths = all_paths(logits, scores)
        total = sum(np.exp(list(paths.values())))
        assert spans
        for (kind, begin, end), found in zip(spans, span_probabilities(logits, scores, path, tags, spans), strict=True):
            same = [
                np.exp(score)
                for other, score in paths.items()
                if other[begin:end] == tuple(path[begin:end]) and (end == 5 or tags[other[end]] != f"I-{kind}")
            ]
            assert found == pytest.approx(sum(same) / total, abs=1e-5)


def test_transitions_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"expected \(4, 3\)"):
        transition_scores(["O", "B-X", "I-X"], transitions=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="scheme='IOB'"):
        transition_scores(["O"], scheme="IOB")


# === Windows, words, entities ===


def test_each_piece_is_taken_where_it_sees_most():
    numbers = np.random.default_rng(5)
    windows, begin = [], 0
    for _ in range(30):
        windows.append(np.arange(begin, begin + numbers.integers(2, 9)))
        begin = min(begin + int(numbers.integers(1, 5)), windows[-1][-1] + 1)
    splits = np.concatenate([[0], np.cumsum([len(window) for window in windows])])
    chosen = widest_context(np.concatenate(windows), splits)
    pieces = np.unique(np.concatenate(windows))
    assert len(chosen) == len(pieces)
    for piece, place in zip(pieces, chosen, strict=True):
        context = {}
        for start, window in zip(splits, windows, strict=False):
            for at in np.flatnonzero(window == piece):
                context[start + at] = min(at, len(window) - 1 - at) + 0.01 * len(window)
        assert context[place] == max(context.values())


TEXT = (
    "Zoe\u0308's U.S. visa 👩\u200d👩\u200d👧 🇸🇪 don't €1,500 @ada http://a.de/x. a.b@c.de 我住在北京 नमस्ते \u200b\x07"
)
CUT = "Zoe\u0308 's U.S. visa 👩\u200d👩\u200d👧 🇸🇪 don't € 1,500 @ada http://a.de/x . a.b@c.de 我 住 在 北 京 नमस्ते"


@pytest.mark.parametrize("splitting", ["words", "characters", "spaces"])
def test_words_cover_the_text_and_stand_where_they_say(splitting):
    words = split_words(TEXT, splitting)
    assert all(TEXT[start:end] == word for word, start, end in words)
    assert "".join(word for word, _, _ in words) == "".join(TEXT.split())
    assert [end for _, _, end in words[:-1]] <= [start for _, start, _ in words[1:]]


def test_words_are_those_of_the_corpora():
    words = [word for word, _, _ in split_words(TEXT)]
    assert words[: len(CUT.split())] == CUT.split()
    assert [word for word, _, _ in split_words("e\u0301 1990", "characters")] == ["e\u0301", "1", "9", "9", "0"]
    assert split_words("  ") == []
    with pytest.raises(ValueError, match="splitting='lines'"):
        split_words("a", "lines")


def test_entities_are_exact_parts_of_the_text():
    text = "in  São Paulo,\u00a0Zoe\u0308 👩\u200d👧 ran"
    words = split_words(text)
    tags, told = make_tags(["LOC", "PER"]), ["O", "B-LOC", "I-LOC", "O", "B-PER", "I-PER", "O"]
    logits = 20.0 * np.eye(len(tags))[[tags.index(tag) for tag in told]]
    entities = find_entities(text, words, logits, tags, transition_scores(tags))
    assert [(entity.text, entity.label) for entity in entities] == [
        ("São Paulo", "LOC"),
        ("Zoe\u0308 👩\u200d👧", "PER"),
    ]
    assert all(text[entity.start : entity.end] == entity.text for entity in entities)
    assert all(entity.probability > 0.99 for entity in entities)
    assert str(entities[0]) == "São Paulo (LOC, 100%)"
    assert find_entities("", [], np.zeros((0, 5)), tags, transition_scores(tags)) == []


def test_a_word_without_pieces_does_not_cut_an_entity():
    present = np.array([True, False, True, True, False, True])
    assert fill_tags(["B-X", "I-X", "B-X", "O"], present) == ["B-X", "I-X", "I-X", "B-X", "O", "O"]
    assert fill_tags(["B-X", "E-X"], np.array([False, True, False, True])) == ["O", "B-X", "I-X", "E-X"]
    assert fill_tags([], np.array([False])) == ["O"]


def test_decoding_needs_no_tensorflow():
    code = "import sys, keras_bert.decoding.entities, keras_bert.text.words; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
