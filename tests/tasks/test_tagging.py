"""Words with tags in, entities of raw texts out: nothing shifts, nothing is lost, and both heads learn."""

import functools
import gzip
import itertools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import seqeval.metrics

import keras_bert
from keras_bert.checkpoint import save_pretrained
from keras_bert.data.assistant import load_assistant
from keras_bert.finetuning.recipes import find_recipe
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.tasks.tagging.files import TaggedExample, as_tagged_rows, read_tagged
from keras_bert.tasks.tagging.metrics import count_entities, entity_report
from keras_bert.tasks.tagging.rows import find_splitting
from keras_bert.tasks.tagging.task import EntityTagger
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.words import locate_words
from tests.decoding.test_entities import random_tags

OTHERS = ["the", "a", "in", "met", "ran", "saw", "lives", "with", "from", ".", "-", "'"]
TOLD = {
    **dict.fromkeys(("ada", "bob", "zoe", "li"), "B-PER"),
    **dict.fromkeys(("smith", "jones"), "I-PER"),
    **dict.fromkeys(("rome", "paris", "sao", "new", "北"), "B-LOC"),
    **dict.fromkeys(("paulo", "york", "京"), "I-LOC"),
}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *OTHERS, *TOLD, "##son", "##ville"]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=64,
    intermediate_dim=64,
    max_sequence_length=64,
    initializer_range=0.1,
)
KINDS = ["LOC", "PER"]
FAST = {"learning_rate": 3e-3, "epochs": 8, "batch_size": 16, "patience": None, "evaluations": 2, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-tagger-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def new_tagger(**options):
    return EntityTagger.from_pretrained(pretrained_directory(), **{"labels": KINDS, **options})


def told_tagger(**options):
    """A tagger that needs no training: each token says its tag by itself, whatever stands around it."""
    tagger = new_tagger(**options)
    for weight in tagger.model.weights:
        if "position" in weight.path or "attention/output" in weight.path:
            weight.assign(np.zeros(weight.shape))
    classifier = tagger.model.get_layer("token_classifier")
    vectors = keras.Model(tagger.model.input, classifier.input)
    ids = np.arange(len(VOCABULARY), dtype="int32")[:, None].repeat(2, axis=1)
    states = vectors({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}).numpy()[:, 0]
    tags = [tagger.labels.index(TOLD.get(token, "O")) for token in VOCABULARY]
    states = np.concatenate([states, np.ones((len(states), 1))], axis=1)
    solution, *_ = np.linalg.lstsq(states, 15.0 * np.eye(len(tagger.labels))[tags], rcond=None)
    classifier.kernel.assign(solution[:-1])
    classifier.bias.assign(solution[-1])
    return tagger


def sentences(count, *, seed, longest=10):
    """Words and tags; names may have a second piece or a second word."""
    numbers = np.random.default_rng(seed)
    all_words, all_tags = [], []
    for _ in range(count):
        words, tags = [], []
        while len(words) < numbers.integers(3, longest):
            kind = numbers.integers(5)
            if kind == 0:
                name = [str(numbers.choice(["Ada", "Bob", "Zoë", "Li"])) + str(numbers.choice(["", "son"]))]
                name += [str(numbers.choice(["Smith", "Jones"]))] if numbers.integers(2) else []
            elif kind == 1:
                name = [["Rome"], ["Parisville"], ["São", "Paulo"], ["New", "York"], ["北", "京"]][numbers.integers(5)]
            else:
                name = [str(numbers.choice(OTHERS))]
            words += name
            tags += ["O"] if kind > 1 else [f"{'BI'[k > 0]}-{['PER', 'LOC'][kind]}" for k in range(len(name))]
        all_words.append(words)
        all_tags.append(tags)
    return all_words, all_tags


@pytest.fixture(scope="module", params=["softmax", "crf"])
def trained(request):
    tagger = new_tagger(head=request.param)
    report = tagger.fit(*sentences(200, seed=1), validation_data=sentences(40, seed=2), **FAST)
    return tagger, report


# === Learning ===


def test_both_heads_learn(trained):
    tagger, report = trained
    words, tags = sentences(60, seed=3)
    measured = tagger.evaluate(words, tags)
    assert measured.f1 > 0.9 and report.best.score > 0.9 and "f1" in str(report)
    predicted = tagger.predict_tags(words)
    assert measured.f1 == pytest.approx(seqeval.metrics.f1_score(tags, predicted))
    assert {scores.name: scores.support for scores in measured.classes} == {
        kind: sum(tag == f"B-{kind}" for row in tags for tag in row) for kind in KINDS
    }
    if tagger.head == "crf":
        assert np.abs(tagger.transitions).max() > 0.05  # at the encoder's own rate they would hardly have moved
    assert tagger.splitting == "words"


def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    tagger, _ = trained
    tagger.save(tmp_path / "model")
    loaded = EntityTagger.load(tmp_path / "model")
    texts = [" ".join(words) for words in sentences(20, seed=4)[0]]
    assert loaded.predict(texts) == tagger.predict(texts)
    assert (loaded.labels, loaded.head, loaded.scheme) == (tagger.labels, tagger.head, "BIO")
    assert loaded.splitting == "words" and loaded.long_texts == "windows"
    np.testing.assert_array_equal(loaded.scores, tagger.scores)
    plain, _ = keras_bert.load_model(tmp_path / "model")  # and it is an ordinary model directory
    assert plain.output["token_logits"].shape[-1] == 5
    assert EntityTagger.from_pretrained(tmp_path / "model").labels == tagger.labels


@pytest.mark.slow
def test_plain_keras_after_compile():
    tagger = new_tagger()
    tagger.compile("sgd", jit_compile=False)
    history = tagger.fit(*sentences(24, seed=1), validation_data=sentences(8, seed=2), epochs=2, verbose=0)
    assert len(history.history["val_loss"]) == 2 and np.isfinite(history.history["loss"]).all()
    with pytest.raises(ValueError, match="head='softmax'"):
        new_tagger(head="crf").compile()


# === Alignment ===

WORDS = [["Adason", "\x07", "ran", "", "don't"], ["北京", "Zoe\u0308", "-"], ["Sa\u0303o", "\u0301", "Paulo"]]


def test_the_first_piece_of_each_word_carries_its_label():
    tagger = new_tagger()
    data = tagger.prepare(WORDS, [["B-PER", "I-PER", "O", "O", "B-LOC"], ["O"] * 3, ["B-LOC"] * 3])
    ids, splits, _ = data.tokenized.packed()
    flat = [word for row in WORDS for word in row]
    for word, place, tag in zip(flat, data.places, data.tags, strict=True):
        pieces = tagger.tokenizer(word).numpy()
        if len(pieces):
            assert list(ids[place : place + len(pieces)]) == list(pieces)
            assert data.labels.values[place] == tag
            assert (data.labels.values[place + 1 : place + len(pieces)] == -1).all()
        else:
            assert place == -1
    assert np.sum(data.labels.values >= 0) == np.sum(data.places >= 0)
    assert (data.labels.values[splits[:-1]] == -1).all() and (data.labels.values[splits[1:] - 1] == -1).all()


def test_words_without_pieces_shift_nothing_and_cut_no_entity():
    tagger = told_tagger()
    words = [["met", "\x07", "New", "\u200b", "York", "", "Bob"], ["\u200b"], ["Rome"]]
    assert tagger.predict_tags(words) == [
        ["O", "O", "B-LOC", "I-LOC", "I-LOC", "O", "B-PER"],
        ["O"],
        ["B-LOC"],
    ]
    # A label on a word without pieces leaves a chain that is legal still.
    crf = new_tagger(head="crf")
    data = crf.prepare([["\x07", "Smith", "ran"]], [["B-PER", "I-PER", "O"]])
    assert [crf.labels[index] for index in data.labels.values if index >= 0] == ["B-PER", "O"]


def test_entities_are_exact_parts_of_any_text():
    tagger = told_tagger()
    text = "👩\u200d👧 Zoe\u0308  Smith's in S\u00e3o\u00a0Paulo, 北京!\u200b ADASON\tmet Ｂob\r\n(new york) \u0301"
    found = tagger.predict(text)
    assert [(entity.text, entity.label) for entity in found] == [
        ("Zoe\u0308  Smith", "PER"),
        ("S\u00e3o\u00a0Paulo", "LOC"),
        ("北京", "LOC"),
        ("ADASON", "PER"),
        ("new york", "LOC"),
    ]
    for entity in found:
        assert text[entity.start : entity.end] == entity.text
        assert 0.9 < entity.probability <= 1.0
    assert tagger.predict([text, ""]) == [found, []]
    assert tagger.predict([]) == []
    assert tagger.predict(text, threshold=1.1) == []
    joined = tagger.predict([["met", "Zoë", "Smith"]])[0][0]
    assert (joined.text, joined.start, joined.end) == ("Zoë Smith", 4, 13)


def test_windows_lose_nothing():
    words, _ = sentences(12, seed=6, longest=40)
    texts = [" ".join(row) for row in words]
    whole, windows = told_tagger(sequence_length=64), told_tagger(sequence_length=9)
    assert len(windows._arrange(words).tokenized) > 2 * len(words)
    ours, theirs = windows.predict(texts), whole.predict(texts)
    for mine, other in zip(ours, theirs, strict=True):
        assert [(e.text, e.start, e.label) for e in mine] == [(e.text, e.start, e.label) for e in other]
        np.testing.assert_allclose([e.probability for e in mine], [e.probability for e in other], atol=1e-4)
    # In training every word counts once, in its best window.
    data = windows.prepare(*sentences(12, seed=6, longest=40))
    assert np.sum(data.labels.values >= 0) == sum(map(len, words)) == len(np.unique(data.places))
    cut = told_tagger(sequence_length=9, long_texts="cut")
    with pytest.warns(UserWarning, match="were cut to 9 tokens"):
        assert sum(map(len, cut.predict(texts))) < sum(map(len, ours))


def test_characters_are_words_where_the_data_has_them_so():
    assert find_splitting([list("在北京1990年"), ["e\u0301"]]) == "characters"
    assert find_splitting([["a", "word"]]) == "words"
    tagger = told_tagger(splitting="characters")
    assert [word for word, _, _ in locate_words("19年", tagger.splitting)[1]] == ["1", "9", "年"]
    assert [entity.text for entity in tagger.predict("1990在北京")] == ["北京"]


# === Batches ===


def test_labels_stand_beside_their_tokens_in_every_batch():
    tagger = new_tagger()
    data = tagger.prepare(*sentences(45, seed=7))
    ids, splits, _ = data.tokenized.packed()
    rows = itertools.pairwise(splits)
    expected = sorted(tuple(zip(ids[a:b], data.labels.values[a:b], strict=True)) for a, b in rows)
    for packed in (True, False):
        batches, steps = task_batches(tagger, data, 8, packed=packed)
        seen = []
        for inputs, labels, weights in batches(0, 0, 1):
            tokens, numbers = (np.array(inputs[key]) for key in ("token_ids", "padding_mask"))
            values, counted = (np.array(part["token_logits"]) for part in (labels, weights))
            assert values.shape == counted.shape == tokens.shape and (counted[numbers == 0] == 0).all()
            values = np.where(counted > 0, values, -1)
            owner = numbers if packed else numbers * (1 + np.arange(len(numbers))[:, None])
            seen += [
                tuple(zip(tokens[owner == text], values[owner == text], strict=True))
                for text in np.unique(owner[owner > 0])
            ]
        assert len(list(batches(0, 0, 1))) == steps
        # The last bucketed batch is filled up with rows that count nothing.
        assert sorted(row for row in seen if any(label >= 0 for _, label in row)) == expected


def test_packed_rows_have_the_loss_of_single_ones():
    tagger = new_tagger()
    data = tagger.prepare(*sentences(30, seed=8))
    packed = fresh_model(tagger, find_recipe("standard"), 0, None)
    packed.get_layer("token_classifier").kernel.assign(tagger.model.get_layer("token_classifier").kernel)
    losses = []
    for model, is_packed in ((packed, True), (tagger.model, False)):
        batches, _ = task_batches(tagger, data, 30, packed=is_packed)
        (inputs, labels, weights), *rest = batches(0, 0, 1)
        assert not rest
        loss = tagger.losses()["token_logits"]
        losses.append(float(loss(labels["token_logits"], model(inputs)["token_logits"], weights["token_logits"])))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    score = tagger.score(tagger.outputs(data.tokenized), data, "f1")
    assert score.details["val_loss"] == pytest.approx(losses[1], rel=1e-4)


def test_a_chain_has_a_row_of_its_own_and_the_loss_of_its_decoder():
    tagger = new_tagger(head="crf")
    tagger.transitions = np.random.default_rng(9).normal(size=(6, 5)).astype("float32")
    tagger.fresh_heads = False
    data = tagger.prepare(*sentences(20, seed=9))
    with pytest.raises(ValueError, match="need a row for each text"):
        task_batches(tagger, data, 20, packed=True)[0](0, 0, 1)
    (inputs, labels, weights), *_ = task_batches(tagger, data, 20)[0](0, 0, 1)
    model = fresh_model(tagger, find_recipe("standard"), 0, None)
    potentials = model(inputs)["tag_potentials"]
    loss = tagger.losses()["tag_potentials"](labels["tag_potentials"], potentials, weights["tag_potentials"])
    # The loss leaves the beginning of a row free, for a row may be a window; decoding does not.
    scores = tagger.scores
    scores[-1, :-1] = tagger.transitions[-1]
    outputs = tagger.outputs(data.tokenized)
    assert tagger._mean_loss(tagger._pick(outputs, data), data, scores) == pytest.approx(float(loss), rel=1e-4)


# === Data ===


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_conll_files_are_read_and_bad_sentences_named(tmp_path):
    text = (
        "-DOCSTART- -X- O\n\n# a comment\nAda NNP B-PER\n# NN O\n\t\nran VB\nin IN\n \nin X O\nRome Y LOC\n\n"
        "Li NNP S-PER\n\u3000 X O\n\n\n\nBob X I-PER\n"
    )
    rows = read_tagged(write(tmp_path / "a.conll", text), label=2)
    assert rows.words == [("Ada", "#"), ("Li", "\u3000"), ("Bob",)]
    assert rows.tags == [("B-PER", "O"), ("S-PER", "O"), ("I-PER",)]
    assert [(drop.reason, drop.line) for drop in rows.report.dropped] == [
        ("line without a tag", 7),
        ("unknown tag 'LOC'", 11),
    ]
    assert rows.entity_kinds == ["PER"] and [example.row for example in rows] == [4, 13, 18]
    assert "5 rows read, 3 kept, 2 dropped" in rows.notes[0]
    with pytest.raises(ValueError, match="line 7: line without a tag"):
        read_tagged(tmp_path / "a.conll", label=2, strict=True)
    with pytest.raises(TypeError, match="pass numbers"):
        read_tagged(tmp_path / "a.conll", label="ner")
    with pytest.raises(ValueError, match="No usable sentence"):
        read_tagged(write(tmp_path / "b.conll", "Rome LOC\n"))
    (tmp_path / "c.bmes.gz").write_bytes(gzip.compress("常 B-NAME\n建 E-NAME\n\n".encode() + b"\xff O\n"))
    packed = read_tagged(tmp_path / "c.bmes.gz")
    assert packed.words == [("常", "建")] and packed.report.reasons == {"invalid UTF-8": 1}


def test_jsonl_files_are_read_and_bad_rows_named(tmp_path):
    rows = [
        {"tokens": ["Ada", "ran"], "ner_tags": ["B-PER", "O"]},
        {"text": "In São Paulo.", "entities": [{"start": 3, "end": 12, "label": "LOC"}]},
        {"text": "a Paris-Rome train", "label": [[2, 7, "LOC"]]},
        {"text": "nothing here", "entities": []},
        {"words": ["a", "b"], "tags": ["O"]},
        {"words": ["a"], "tags": [3]},
        {"text": "short", "entities": [[2, 99, "X"]]},
        {"text": "one two", "entities": [[0, 5, "X"], [3, 7, "X"]]},
        {"text": " ", "entities": []},
        {"text": "no labels"},
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n{oops\n")
    read = read_tagged(path)
    assert read.tags == [("B-PER", "O"), ("O", "B-LOC", "I-LOC", "O"), ("O", "B-LOC", "O"), ("O", "O")]
    assert [drop.line for drop in read.report.dropped] == [5, 6, 7, 8, 9, 10, 11]
    assert list(read.report.reasons)[:4] == [
        "2 words and 1 tags",
        "a tag is no string",
        "an entity lies outside of its text",
        "entities overlap",
    ]
    assert "widened to whole words" in read.notes[1]


def test_prodigy_files_have_words_as_objects(tmp_path):
    tokens = [{"text": "Ada", "start": 0, "end": 3, "id": 0}, {"text": "ran", "start": 4, "end": 7, "id": 1}]
    spans = [{"start": 0, "end": 3, "label": "PER", "token_start": 0, "token_end": 0}]
    rows = [
        {"text": "Ada ran", "tokens": tokens, "spans": spans, "answer": "accept"},
        {"text": "Ada ran", "tokens": tokens, "answer": "accept"},
        {"text": "Ada ran", "tokens": tokens, "spans": spans, "answer": "reject"},
        {"text": "Ada ran", "tokens": tokens, "spans": spans},
    ]
    read = read_tagged(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert read.words == [("Ada", "ran")] * 3
    assert read.tags == [("B-PER", "O"), ("O", "O"), ("B-PER", "O")]
    assert read.report.reasons == {"answer is 'reject'": 1}


def test_texts_with_entities_and_slots_are_examples_too():
    assistant = load_assistant("test")[:40]
    rows = as_tagged_rows([each.text for each in assistant], [each.slots for each in assistant])
    assert not rows.notes
    for row, each in zip(rows, assistant, strict=True):
        assert list(row.words) == each.words() and list(row.tags) == each.bio_tags()
    assert as_tagged_rows(["Ada ran"], ["B-PER O"])[0].tags == ("B-PER", "O")
    assert as_tagged_rows([TaggedExample(("a",), ("O",))])[0].words == ("a",)


def test_bad_data_is_named():
    tagger = new_tagger()
    for words, tags, message in (
        ([["Ada", "ran"]], [["B-PER"]], "Sentence 1 .*: 2 words and 1 tags"),
        ([["Ada"]], [["PER"]], "unknown tag 'PER'"),
        ([["Ada"]], [["B-ORG"]], "Row 1 .* unknown kind 'ORG'; the kinds are 'LOC', 'PER'"),
        ([["Ada"], ["ran"]], [["O"], ["O"]], "All 2 words have the tag 'O'"),
        ([[], [" "]], [[], ["O"]], "All 2 sentences are empty"),
        ([["Ada"]], None, "no tags"),
        ([["Ada"]], [["O"], ["O"]], "tags for 2"),
    ):
        with pytest.raises(ValueError, match=message):
            tagger.fit(words, tags, verbose=0)
    with pytest.raises(ValueError, match="class_weight"):
        tagger.fit([["Ada"]], [["B-PER"]], class_weight="balanced")
    with pytest.raises(ValueError, match="columns"):
        tagger.fit([["Ada"]], [["B-PER"]], columns={"text": 0})
    with pytest.raises(TypeError, match="lists of words"):
        tagger.predict_tags(["Ada ran"])
    broken = [["Ada", "ran"], ["Bob", "Smith"], []], [["B-PER", "O"], ["O", "I-PER"], []]
    notes = tagger.evaluate(*broken).notes
    assert any("1 of 2 sentences have tags that break BIO (row 2)" in note for note in notes)
    assert any("empty text: 1 (line 3)" in note for note in notes)


def test_bad_settings_are_named(tmp_path):
    for options, message in (
        ({"labels": None}, "has no named tags; pass labels"),
        ({"head": "hmm"}, "head='hmm'"),
        ({"scheme": "BILOU"}, "scheme='BILOU'"),
        ({"splitting": "lines"}, "splitting='lines'"),
        ({"labels": []}, "at least one kind"),
    ):
        with pytest.raises(ValueError, match=message):
            new_tagger(**options)
    model = new_tagger().model
    with pytest.raises(ValueError, match="expected tags of words"):
        EntityTagger(model, BertTokenizer(VOCABULARY), labels=["LABEL_0", "LABEL_1"])
    with pytest.raises(ValueError, match="5 outputs, but there are 3 tags"):
        EntityTagger(model, BertTokenizer(VOCABULARY), labels=["O", "B-X", "I-X"])
    tagger = new_tagger()
    data = tagger.prepare(*sentences(2, seed=1))
    with pytest.raises(ValueError, match="metric='bleu'"):
        tagger.score(tagger.outputs(data.tokenized), data, "bleu")


@pytest.mark.parametrize("scheme", ["BIOES", "IOB1"])
def test_data_of_any_scheme_trains_a_model_of_any_scheme(scheme):
    words, tags = sentences(8, seed=1)
    tagger = new_tagger(scheme=scheme)
    data = tagger.prepare(words, tags)
    assert entity_report(tags, tagger._codec.true_tags(data)).f1 == 1.0
    assert not data.notes


# === Metrics ===


def test_entities_are_counted_as_seqeval_counts_them():
    true, found = random_tags(300, seed=11, longest=6), random_tags(300, seed=12, longest=6)
    found = [(row * 6)[: len(other)] for row, other in zip(found, true, strict=True)]
    counts, report = count_entities(true, found), entity_report(true, found)
    for name in ("precision", "recall", "f1"):
        expected = getattr(seqeval.metrics, f"{name}_score")(true, found)
        assert getattr(counts, name) == pytest.approx(expected) == getattr(report.micro, name)
    assert report.macro.f1 == pytest.approx(seqeval.metrics.f1_score(true, found, average="macro"))
    assert report.accuracy == pytest.approx(seqeval.metrics.accuracy_score(true, found))
    assert report.to_dict()["f1"] == report.f1 and "support" in str(report)


def test_reports_without_entities_say_so():
    report = entity_report([["O", "O"]], [["O", "O"]])
    assert report.f1 == 0.0 and len(report.notes) == 2 and "undefined" in str(report)
    with pytest.raises(ValueError, match="as many"):
        entity_report([["O"]], [["O", "O"]])
