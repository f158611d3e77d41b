"""Relations: markers stand where the entities are and never get lost; packed rows learn the same; answers are saved."""

import functools
import itertools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.batching.shared_rows import PackedShape, packed_batches
from keras_bert.checkpoint import CheckpointError, load_model, save_pretrained
from keras_bert.cli import main
from keras_bert.decoding.entities import Entity
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, with_example_starts
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.relation.commands import find_negative
from keras_bert.tasks.relation.marked_text import MarkedText
from keras_bert.tasks.relation.rows import choose_markers, pack_marked
from keras_bert.tasks.relation.task import RelationClassifier
from keras_bert.text.tokenizer import BertTokenizer

UNUSED = [f"[unused{number}]" for number in range(4, 0, -1)]  # not in the order of their ids
NOUNS, VERBS, OTHERS = (
    ["cat", "dog", "hen", "fox", "owl"],
    {"feeds": "Feeds", "holds": "Holds", "and": None},
    ["the", "a", "."],
)
VOCABULARY = ["[PAD]", *UNUSED, "[UNK]", "[CLS]", "[SEP]", "[MASK]", "$", "##s", *NOUNS, *VERBS, *OTHERS]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=48,
    intermediate_dim=64,
    max_sequence_length=32,
    initializer_range=0.1,
)
LABELS = ["Feeds(e1,e2)", "Feeds(e2,e1)", "Holds(e1,e2)", "Holds(e2,e1)", "Other"]
FAST = {"learning_rate": 3e-3, "epochs": 8, "batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-relations-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def new_classifier(**options):
    return RelationClassifier.from_pretrained(pretrained_directory(), **{"labels": LABELS, **options})


def sentences(count, *, seed):
    """`the cat feeds a dog .`, with the entities tagged in either order."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        verb = str(random.choice(list(VERBS)))
        tags = ("e1", "e2") if random.integers(2) else ("e2", "e1")
        left, right = (f"<{tag}>{random.choice(NOUNS)}</{tag}>" for tag in tags)
        texts.append(f"{random.choice(OTHERS[:2])} {left} {verb} {random.choice(OTHERS[:2])} {right} .")
        labels.append(f"{VERBS[verb]}({','.join(tags)})" if VERBS[verb] else "Other")
    return texts, labels


@pytest.fixture(scope="module")
def trained():
    classifier = new_classifier()
    report = classifier.fit(*sentences(240, seed=1), validation_data=sentences(40, seed=2), **FAST)
    return classifier, report


# === Markers ===


def test_markers_are_unused_tokens_or_rare_signs():
    assert choose_markers(BertTokenizer(VOCABULARY)) == ("[unused1]", "[unused2]", "[unused3]", "[unused4]")
    some = BertTokenizer(["[UNK]", "[unused0]", "[unused7]", "[unused8]", "[unused9]", "$", "#", "@", "*"])
    assert choose_markers(some) == ("[unused0]", "[unused7]", "[unused8]", "[unused9]")
    with pytest.raises(ValueError, match="has 1 unused tokens .* and 3 of the signs"):
        choose_markers(BertTokenizer(["[UNK]", "[unused1]", "$", "#", "~", "a"]))


def rows_of(texts, *, length=32, markers=None, vocabulary=VOCABULARY):
    tokenizer = BertTokenizer(vocabulary)
    markers = choose_markers(tokenizer) if markers is None else markers
    marked = [text if isinstance(text, MarkedText) else MarkedText(*text) for text in texts]
    tokenized, notes = pack_marked(tokenizer, marked, markers, sequence_length=length)
    ids, splits = tokenized.first_ids, tokenized.first_splits
    rows = [[vocabulary[index] for index in ids[a:b]] for a, b in itertools.pairwise(splits)]
    assert tokenized.lengths.max() <= length
    for row in rows:
        assert [row.count(marker) for marker in markers] == [1] * 4
    return rows, notes


def test_markers_stand_around_the_entities():
    text = "the cats feeds [unused1]hen"
    rows, notes = rows_of([(text, (4, 8), (24, 27)), (text, (24, 27), (4, 8)), ("cat", (0, 2), (2, 3))])
    middle = ["feeds"] + ["[UNK]"] * 3
    assert rows[0] == ["the", "[unused1]", "cat", "##s", "[unused2]", *middle, "[unused3]", "hen", "[unused4]"]
    assert rows[1] == ["the", "[unused3]", "cat", "##s", "[unused4]", *middle, "[unused1]", "hen", "[unused2]"]
    assert rows[2] == ["[unused1]", "[UNK]", "[unused2]", "[unused3]", "[UNK]", "[unused4]"]
    assert notes == ()


def test_a_marker_in_the_text_is_no_marker():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "$", "#", "*", "@"]
    rows, _ = rows_of([("a $ b # $", (0, 1), (4, 5))], vocabulary=vocabulary)
    assert rows == [["@", "a", "#", "[UNK]", "$", "b", "*", "[UNK]", "[UNK]"]]


def test_long_texts_lose_what_is_far_from_the_entities():
    words = ["a"] * 10 + ["cat"] + ["the"] * 3 + ["dog"] + ["."] * 10
    text = " ".join(words)
    spans = (text.index("cat"), text.index("cat") + 3), (text.index("dog"), text.index("dog") + 3)
    (row,), notes = rows_of([(text, *spans)], length=17)
    assert (
        row
        == ["a"] * 3 + ["[unused1]", "cat", "[unused2]"] + ["the"] * 3 + ["[unused3]", "dog", "[unused4]"] + ["."] * 3
    )
    assert notes == ("1 of 1 texts were cut to 17 tokens around their entities",)
    (row,), _ = rows_of([("cat dog " + "a " * 40, (0, 3), (4, 7))], length=20)  # room on one side goes to the other
    assert row.count("a") == 12


def test_entities_that_are_far_apart_stay():
    text = "the cat " + "a " * 15 + ". " * 15 + "dog the"
    place = text.index("dog")
    (row,), notes = rows_of([(text, (4, 7), (place, place + 3))], length=16)
    assert row == ["[unused1]", "cat", "[unused2]", *["a"] * 4, *["."] * 4, "[unused3]", "dog", "[unused4]"]
    assert len(notes) == 2 and "1 of 1 texts have entities that are too long or too far apart" in notes[1]
    (row,), notes = rows_of([("a " * 30 + "cat", (0, 59), (60, 63))], length=8)
    assert row == ["[unused1]", "a", "[unused2]", "[unused3]", "cat", "[unused4]"] and len(notes) == 2
    with pytest.raises(ValueError, match="sequence_length=7 has no room"):
        rows_of([("cat dog", (0, 3), (4, 7))], length=7)


# === Learning ===


def test_it_learns_relations_and_their_directions(trained):
    classifier, report = trained
    assert report.metric == "macro_f1" and report.best.score > 0.9
    texts, labels = sentences(60, seed=3)
    measured = classifier.evaluate(texts, labels)
    assert measured.macro_f1 > 0.9 and measured.negative_label == "Other"
    answers = classifier.predict(texts)
    assert measured.accuracy == np.mean(
        [answer[0].name == label for answer, label in zip(answers, labels, strict=True)]
    )
    assert [len(answer) for answer in answers[:2]] == [5, 5] and answers[0][0].probability > answers[0][1].probability


def packed_and_plain(renumbered, texts=9):
    """Both models with the same weights, and a batch of each."""
    classifier = new_classifier()
    data = classifier.prepare(*sentences(texts, seed=5))
    config = classifier.config.replace(dropout=0.0, attention_dropout=0.0)
    options = {"classifier_dropout": 0.0, "seed": 0}
    plain = classifier.build_model(bert_encoder(config), **options)
    copy_weights(classifier.model, plain)
    tokenized, table = data.tokenized, None
    if renumbered:
        table = tokenized.used_ids()
        config, tokenized = config.replace(vocabulary_size=len(table)), tokenized.renumbered(table)
    encoder = with_example_starts(bert_encoder(config, packed=True))
    packed = classifier.build_training_model(encoder, **options, table=table)
    copy_weights(classifier.model, packed, table_rows=table)
    batch_size, shape = texts + 2, PackedShape(rows=3, width=40)  # three texts a row, and two places stay empty
    weights = np.arange(1, texts + 1, dtype="float32") / texts
    (side_by_side,) = packed_batches(
        tokenized, data.labels, batch_size=batch_size, shape=shape, seed=0, sample_weights=weights
    )
    one_a_row = next(
        iter(bucketed_batches(data.tokenized, data.labels, batch_size=texts, boundaries=(16,), sample_weights=weights))
    )
    return plain, one_a_row, packed, side_by_side, table


@pytest.mark.parametrize("renumbered", [False, True])
def test_packed_rows_learn_the_same_as_one_text_a_row(renumbered):
    plain, one_a_row, packed, side_by_side, table = packed_and_plain(renumbered)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    found = []
    for model, (inputs, targets, counted) in ((plain, one_a_row), (packed, side_by_side)):
        with tf.GradientTape() as tape:
            value = loss(targets, model(inputs, training=True)["relation_logits"], counted)
        gradients = tape.gradient(value, [weight.value for weight in model.trainable_variables])
        paths = [weight.path for weight in model.trainable_variables]
        found.append((value, dict(zip(paths, map(tf.convert_to_tensor, gradients), strict=True))))
    (expected, ours), (value, theirs) = found
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert ours.keys() == theirs.keys()
    for path, gradient in ours.items():
        gradient = gradient.numpy()
        if table is not None and path.startswith("token_embedding"):
            assert not np.delete(gradient, table, axis=0).any()
            gradient = gradient[table]
        np.testing.assert_allclose(theirs[path], gradient, atol=1e-5, err_msg=path)


def test_plain_keras_after_compile():
    classifier = new_classifier()
    classifier.compile("sgd", jit_compile=False)
    history = classifier.fit(*sentences(24, seed=1), validation_data=sentences(8, seed=2), epochs=1, verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()


def test_class_weights_and_labels_are_checked():
    classifier = new_classifier()
    texts, labels = sentences(12, seed=1)
    data = classifier.prepare(texts, labels, class_weight={"Other": 0.5})
    assert set(data.weights[data.labels == 4]) == {0.5} and set(data.weights[data.labels != 4]) == {1.0}
    with pytest.raises(ValueError, match="Row 1 has the unknown label 'Eats'"):
        classifier.fit(texts[:1], ["Eats"])
    with pytest.raises(ValueError, match="Row 1 has no label"):
        classifier.evaluate(texts)
    with pytest.raises(ValueError, match="All 2 examples are 'Other'"):
        classifier.fit(texts[:2], ["Other"] * 2)
    with pytest.raises(ValueError, match="metric='f2' is unknown for relations"):
        classifier.score({"relation_logits": np.zeros((12, 5), "float32")}, data, "f2")


# === Answers ===


def test_every_form_of_a_text_gives_the_same_answer(trained):
    classifier, _ = trained
    tagged = "the <e2>cat</e2> feeds a <e1>dog</e1> ."
    expected = classifier.predict(tagged)
    assert expected[0].name == "Feeds(e2,e1)"
    text, cat, dog = "the cat feeds a dog .", (4, 7), (16, 19)
    entities = [Entity(text[start:end], "ANIMAL", start, end, 0.9) for start, end in (dog, cat)]
    for form in (MarkedText(text, dog, cat), (text, dog, cat), (text, *entities)):
        assert classifier.predict(form) == expected
        np.testing.assert_allclose(*classifier.logits([form, tagged]), atol=1e-5)
    assert classifier.predict([]) == []
    assert classifier.predict(MarkedText(text, cat, dog))[0].name == "Feeds(e1,e2)"


@pytest.mark.parametrize("text", ["no tags", "<e1>one</e1>", ("the cat", (0, 5), (4, 7)), ("the cat", (0, 3), (4, 9))])
def test_texts_without_two_entities_are_refused(trained, text):
    with pytest.raises(ValueError, match="Text 2 .*Expected"):
        trained[0].predict(["<e1>a</e1> <e2>the</e2>", text])


def test_long_texts_are_told(trained):
    with pytest.warns(UserWarning, match="1 of 1 texts were cut to 32 tokens around their entities"):
        trained[0].predict("<e1>cat</e1> feeds <e2>dog</e2>" + " the" * 40)


def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    classifier, _ = trained
    classifier.save(tmp_path / "model")
    texts, _ = sentences(20, seed=4)
    loaded = keras_bert.load_task(tmp_path / "model")
    assert isinstance(loaded, RelationClassifier)
    np.testing.assert_array_equal(loaded.logits(texts), classifier.logits(texts))
    assert (loaded.labels, loaded.markers, loaded.negative_label) == (LABELS, classifier.markers, "Other")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["architectures"] == ["BertModel"]
    assert config["keras_bert"]["heads"] == ["relation"]
    assert config["keras_bert"]["marker_ids"] == [VOCABULARY.index("[unused1]"), VOCABULARY.index("[unused3]")]
    model, _ = load_model(tmp_path / "model")  # and it is an ordinary model directory
    assert list(model.output) == ["relation_logits"]
    del config["keras_bert"]["marker_ids"]
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="does not say which tokens mark the entities"):
        load_model(tmp_path / "model")
    config["keras_bert"]["marker_ids"] = [3, 3]
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"marker_ids is \[3, 3\]"):
        load_model(tmp_path / "model")


def test_transformers_opens_the_directory(trained, tmp_path):
    transformers = pytest.importorskip("transformers")
    trained[0].save(tmp_path / "model")
    theirs = transformers.BertModel.from_pretrained(tmp_path / "model")
    kernel = trained[0].model.get_layer("pooler").dense.kernel
    np.testing.assert_array_equal(theirs.pooler.dense.weight.detach().numpy().T, kernel)


def test_settings_are_checked(trained):
    model, tokenizer = trained[0].model, trained[0].tokenizer
    for options, words in (
        ({"labels": LABELS[:3]}, "The model has 5 outputs, but there are 3 labels"),
        ({"markers": UNUSED}, "the first and the third have the ids"),
        ({"negative_label": "None"}, "negative_label='None': expected one of the labels"),
        ({"long_texts": "windows"}, "cut around its two entities"),
        ({"sequence_length": 7}, "expected at least 8"),
    ):
        with pytest.raises(ValueError, match=words):
            RelationClassifier(model, tokenizer, **{"labels": LABELS, **options})
    assert RelationClassifier(model, tokenizer, labels=[*"abcde"]).negative_label is None
    with pytest.raises(ValueError, match="expected relation_logits"):
        RelationClassifier(bert_model(CONFIG, "classification", num_classes=5), tokenizer, labels=LABELS)


@pytest.mark.slow
def test_the_exported_file_has_three_inputs_and_the_same_answers(trained, tmp_path):
    export = pytest.importorskip("export")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    classifier, _ = trained
    path = export.convert(classifier.model, tmp_path / "model.tflite", recipe="float32", lengths=16).path
    runner = interpreter.Interpreter(str(path)).get_signature_runner("length_16")
    assert sorted(runner.get_input_details()) == ["padding_mask", "segment_ids", "token_ids"]
    texts = sentences(6, seed=7)[0]
    tokenized, _ = classifier.pack([keras_bert.tasks.relation.marked_text.parse_tags(text) for text in texts])
    batches = bucketed_batches(tokenized, batch_size=1, boundaries=(16,))
    found = [
        runner(**{name: value.numpy() for name, value in inputs.items()})["relation_logits"][0] for inputs in batches
    ]
    np.testing.assert_allclose(found, classifier.logits(texts), atol=1e-4)


# === The command ===


@pytest.mark.slow
def test_relations_from_a_file_to_answers(tmp_path, capsys):
    data = tmp_path / "TRAIN.TXT"
    blocks = [
        f'{n}\t"{text}"\n{label}\nComment:\n\n'
        for n, (text, label) in enumerate(zip(*sentences(120, seed=1), strict=True))
    ]
    data.write_text("".join(blocks), encoding="utf-8")
    command = [
        "finetune",
        str(data),
        str(tmp_path / "model"),
        "--task",
        "relation",
        "--model",
        str(pretrained_directory()),
    ]
    flags = "--learning-rate 3e-3 --epochs 8 --batch-size 8 --sequence-length 32 --json --debug"
    assert main([*command, *flags.split()]) == 0
    assert json.loads(capsys.readouterr().out)["macro_f1"] > 0.5
    assert main(["predict", str(tmp_path / "model"), "the <e1>fox</e1> holds a <e2>hen</e2> .", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert {row["label"] for row in answer} == set(LABELS)
    assert main(["evaluate", str(tmp_path / "model"), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["macro_f1"] > 0.5


@pytest.mark.slow
def test_relations_have_a_negative_label(tmp_path, capsys):
    words = ["the", "film", "was", "good", "and", "the", "plot", "bad"]
    places = {"subj_start": 1, "subj_end": 1, "obj_start": 6, "obj_end": 6}
    rows = [{"token": words, **places, "relation": ("no_relation", "a:b", "c:d")[row % 3]} for row in range(30)]
    data = tmp_path / "train.json"
    data.write_text(json.dumps(rows), encoding="utf-8")

    def finetune(name, *flags):
        command = ["finetune", str(data), str(tmp_path / name), "--task", "relation", "--validation", str(data)]
        steps = ["--epochs", "1", "--batch-size", "8", "--sequence-length", "24", "--json"]
        return main([*command, "--model", str(pretrained_directory()), *steps, *flags])

    assert finetune("found") == 0
    assert "note: 'no_relation' is used as the label of texts without a relation" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "found"), str(data), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in numbers["classes"]] == ["a:b", "c:d"]
    assert finetune("named", "--negative-label", "a:b") == 0
    assert keras_bert.load_task(tmp_path / "named").negative_label == "a:b"
    assert "is used as the label" not in capsys.readouterr().err
    assert find_negative(SimpleNamespace(negative_label=""), ["Other", "a"]) is None
    assert find_negative(SimpleNamespace(negative_label=None), ["a", "b"]) is None
    assert finetune("none", "--negative-label", "Other") == 1
    assert "--negative-label 'Other': expected one of the labels 'a:b', 'c:d', 'no_relation'" in capsys.readouterr().err
