"""Words are replaced by what a model is known to propose, where they may be, by seed; and nothing else changes."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from tiny_models import TINY

from keras_bert.data.augmentation import MaskedLMProposals, NearestWords, augment
from keras_bert.data.word_proposals import Blank
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.text.tokenizer import BertTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PLACES = [f"place{letter}" for letter in "abcdefghijklmnop"]  # the word that the model proposes at position 0, 1, …
OTHERS = ["red", "green", "blue", "good", "not", "very", "##er", "x", "3", "!", "[", "]", "'", "cls", "don", "t", "中"]
VOCABULARY = [*SPECIAL, *PLACES, *OTHERS]
TOKENIZER = BertTokenizer(VOCABULARY)
CONFIG = TINY.replace(vocabulary_size=TOKENIZER.vocabulary_size, max_sequence_length=16)


class Colours:
    """A proposer with a list of its own, that remembers what it was asked."""

    tokenizer = TOKENIZER

    def __init__(self, **words):
        self.words = words
        self.blanks = []

    def __call__(self, blanks):
        self.blanks += blanks
        words = [[VOCABULARY[index] for index in blank.ids[blank.begin : blank.end]] for blank in blanks]
        return [self.words.get("".join(pieces).replace("##", ""), []) for pieces in words]


def replace_all(texts, pairs=None, *, words=("white",), **options):
    proposer = Colours(
        **{word: list(words) for word in ("red", "green", "blue", "reder", "good", "not", "cls", "don", "中")}
    )
    settings = {"per_text": 1, "replace_rate": 1.0, "seed": 1, "include_originals": False, "progress": False}
    return augment(texts, pairs, proposer=proposer, **settings | options)


# === Copies ===


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Red,  green!", "  white,  white!"),  # case, spaces and punctuation around words stay
        ("reder red 3 x", "white white 3 x"),  # a word of several pieces is one word
        ("[CLS] cls red [cls]", "[CLS] white white [cls]"),  # special tokens are no words
        ("don't red", "don't white"),
        ("中red中", "whitewhitewhite"),  # three words to the tokenizer
        ("rèd ¿ green", "white ¿ white"),  # accents are the tokenizer's matter, the unknown stays
    ],
)
def test_words_are_replaced_where_they_stand(text, expected):
    assert replace_all([text]).texts == [expected]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ((), "white white white white"),
        (["green"], "white GREEN white white"),
        (["not good"], "white white not good"),
        (["Not", "green not"], "white GREEN not white"),
        (["red green blue"], "white white white white"),
    ],
)
def test_kept_words_and_phrases_stay(keep, expected):
    assert replace_all(["red GREEN not good"], keep=keep).texts == [expected]


def test_a_kept_word_is_a_whole_word():
    assert replace_all(["reder red"], keep=["red"]).texts == ["white red"]  # "reder" is "red" and "##er"


def test_copies_follow_their_text_with_its_label():
    made = replace_all(["red", "3", "green red"], words=("white", "black"), per_text=40, include_originals=True)
    assert made.texts[0] == "red" and set(made.texts[1:3]) == {"white", "black"}
    assert made.texts[3:5] == ["3", "green red"]
    assert len(made.texts) == len(set(made.texts)) == 3 + 2 + 4
    assert made.rows.tolist() == [0] * 3 + [1] + [2] * 5
    assert made.spread(["a", "b", "c"]).tolist() == ["a"] * 3 + ["b"] + ["c"] * 5
    assert made.without_copy == 1
    assert made.pairs is None


def test_both_texts_of_a_pair_change():
    made = replace_all(["red 3", "blue"], ["3 green", "!"])
    assert (made.texts, made.pairs) == (["white 3", "white"], ["3 white", "!"])


def test_proposers_see_the_other_text_of_a_pair():
    proposer = Colours()
    augment(["red x"], ["green"], proposer=proposer, replace_rate=1.0, seed=1, progress=False)
    red, x, green = TOKENIZER("red x green").numpy().tolist()
    assert proposer.blanks == [Blank([red, x], 0, 1, [green]), Blank([green], 0, 1, [red, x])]


def test_copies_are_a_function_of_seed_and_row():
    texts = ["red green blue good not"] * 300  # more than go to the proposer at a time
    words = ("white", "black", "grey")
    made = replace_all(texts, words=words, per_text=2, replace_rate=0.5)
    again = replace_all(texts[:7], words=words, per_text=2, replace_rate=0.5)
    assert made.texts[: len(again.texts)] == again.texts
    assert replace_all(texts, words=words, per_text=2, replace_rate=0.5, seed=2).texts != made.texts
    assert len(set(made.texts)) > 100


def test_share_of_replaced_words():
    made = replace_all(["red green blue good not"] * 2000, replace_rate=0.3)
    share = np.mean([text.split().count("white") / 5 for text in made.texts])
    # Copies in which no word was drawn have one: 0.3 + 0.7 ** 5 / 5 = 0.334, and 0.0037 is the standard error.
    assert share == pytest.approx(0.3 + 0.7**5 / 5, abs=0.015)
    assert len(made.texts) == 2000


def test_progress_bar(capsys):
    replace_all(["red"], progress=True)
    assert "1/1" in capsys.readouterr().err


# === Masked language model ===


@pytest.fixture(scope="module")
def model():
    """A masked LM by hand: position p gives the direction p, and `PLACES[p]` is the word in that direction."""
    model = bert_model(CONFIG, "masked_lm")
    for weight in model.weights:
        is_scale = weight.path.endswith("gamma")
        weight.assign(np.full(weight.shape, float(is_scale)))  # blocks add nothing, norms do no more than norm
    table = np.zeros((CONFIG.vocabulary_size, 16))
    table[len(SPECIAL) : len(SPECIAL) + 16] = np.eye(16)
    model.get_layer("token_embedding").embeddings.assign(table)
    model.get_layer("embeddings").position.assign(np.eye(16) * 5)
    model.get_layer("mlm_transform").dense.kernel.assign(np.eye(16))
    # Nothing but words of letters may be proposed, however likely the rest is.
    bias = [9.0 if token in ("[SEP]", "##er", "!", "3", "x") else 0.0 for token in TOKENIZER.vocabulary]
    model.get_layer("mlm_bias").bias.assign(bias)
    return model


@pytest.mark.parametrize("show_original", [True, False])
def test_masked_lm_fills_the_place_of_each_word(model, show_original):
    proposer = MaskedLMProposals(model, TOKENIZER, top_k=1, show_original=show_original, batch_size=4)
    made = augment(
        ["red green reder blue", "3 good"], proposer=proposer, replace_rate=1.0, per_text=1, seed=1, progress=False
    )
    # [CLS] is position 0; "reder" has two pieces, so "blue" is the fifth token.
    assert made.texts[1::2] == ["placeb placec placed placef", "3 placec"]


def test_masked_lm_never_proposes_the_word_itself(model):
    proposer = MaskedLMProposals(model, TOKENIZER, top_k=40)
    ids = TOKENIZER("placeb placeb").numpy().tolist()
    first, second = proposer([Blank(ids, 0, 1), Blank(ids, 1, 2)])
    assert second[0] == "placec"
    words = {*PLACES, "red", "green", "blue", "good", "not", "very", "cls", "don", "中"}
    assert set(first) == set(second) == words - {"placeb"}


@pytest.mark.parametrize("show_original", [True, False])
def test_masked_lm_reads_a_window_of_long_texts(model, show_original):
    proposer = MaskedLMProposals(model, TOKENIZER, top_k=1, show_original=show_original, sequence_length=16)
    ids = TOKENIZER("red " * 30).numpy().tolist()
    size = 6 if show_original else 14
    positions = [1 + place - min(max(place - size // 2, 0), 30 - size) for place in range(30)]
    got = proposer([Blank(ids, place, place + 1) for place in range(30)])
    assert got == [[PLACES[position]] for position in positions]


# === Nearest words ===


def test_nearest_words_are_those_of_scipy():
    encoder = bert_encoder(CONFIG, seed=3)
    table = np.random.default_rng(1).normal(size=(CONFIG.vocabulary_size, 16)).astype("float32")
    encoder.get_layer("token_embedding").embeddings.assign(table)
    nearest = NearestWords(encoder, TOKENIZER, top_k=4, min_similarity=-1.0)
    words = [word for word in TOKENIZER.vocabulary if word == "中" or (word.isalpha() and len(word) > 1)]
    vectors = table[[TOKENIZER.token_to_id(word) for word in words]]
    distances = cdist(vectors, vectors, "cosine")
    for word, row in zip(words, distances, strict=True):
        assert nearest.of(word) == [words[place] for place in np.argsort(row)[1:5]]  # the first is the word itself
    close = NearestWords(encoder, TOKENIZER, top_k=40, min_similarity=0.3)
    assert [len(close.of(word)) for word in words] == ((distances < 0.7).sum(1) - 1).tolist()


def test_words_of_several_pieces_have_neighbours_on_request():
    encoder = bert_encoder(CONFIG, seed=3)
    assert NearestWords(encoder, TOKENIZER, min_similarity=-1.0).of("reder") == []
    found = NearestWords(encoder, TOKENIZER, min_similarity=-1.0, several_pieces=True).of("reder")
    assert len(found) == 5 and found[0] == "red"  # half of what it is made of


# === Bad input ===


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replace_all("red"), "texts is one string"),
        (lambda: replace_all(["red"], ["green", "blue"]), "There are 1 texts and 2 pairs"),
        (lambda: replace_all(["red"], keep="red"), "keep='red' is one string"),
        (lambda: replace_all(["red"], per_text=0), "per_text=0"),
        (lambda: replace_all(["red"], replace_rate=0.0), "replace_rate=0.0"),
        (lambda: MaskedLMProposals(bert_encoder(CONFIG), TOKENIZER), "has no MLM head .* NearestWords"),
        (lambda: NearestWords(bert_encoder(CONFIG), TOKENIZER, top_k=0), "top_k=0"),
        (lambda: NearestWords(bert_encoder(TINY.replace(vocabulary_size=8)), TOKENIZER), "The model has 8 tokens"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
