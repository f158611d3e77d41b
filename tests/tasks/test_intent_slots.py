"""Commands in, intents and slots out: three files or one, every row kept or named, one model for both."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import seqeval.metrics
import tensorflow as tf

import keras_bert
from keras_bert.checkpoint import save_pretrained
from keras_bert.cli import main
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.tasks.intent_slots.files import as_commands, read_commands
from keras_bert.tasks.intent_slots.metrics import command_numbers, command_report
from keras_bert.tasks.intent_slots.task import IntentSlots
from keras_bert.text.tokenizer import BertTokenizer

FILLERS = ["please", "now", "for", "the", "me", "to"]
TIMES, SONGS = [["six"], ["half", "past", "ten"], ["noon"]], [["blue"], ["yesterday"], ["let", "it", "be"]]
VERBS = {"set_alarm": ["wake", "alarm"], "play": ["play", "hear"]}
WORDS = sorted({*FILLERS, *(word for name in (*TIMES, *SONGS) for word in name), *VERBS["set_alarm"], *VERBS["play"]})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=64,
    intermediate_dim=64,
    max_sequence_length=32,
    initializer_range=0.1,
)
FAST = {"learning_rate": 3e-3, "epochs": 6, "batch_size": 16, "patience": None, "evaluations": 2, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-commands-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def commands(count, *, seed):
    """Words, and an intent with the tags of the words."""
    numbers, words, answers = np.random.default_rng(seed), [], []
    for _ in range(count):
        intent = ["play", "set_alarm"][numbers.integers(2)]
        slot, names = ("time", TIMES) if intent == "set_alarm" else ("song", SONGS)
        name = names[numbers.integers(len(names))]
        before, after = (list(numbers.choice(FILLERS, numbers.integers(3))) for _ in range(2))
        verb = [str(numbers.choice(VERBS[intent]))]
        words.append([*map(str, before), *verb, *name, *map(str, after)])
        tags = ["O"] * (len(before) + 1) + [f"B-{slot}"] + [f"I-{slot}"] * (len(name) - 1) + ["O"] * len(after)
        answers.append((intent, tags))
    return words, answers


def new_model(**options):
    names = {"intents": ["play", "set_alarm"], "slots": ["song", "time"]}
    return IntentSlots.from_pretrained(pretrained_directory(), **{**names, **options})


def write_folder(folder, words, answers):
    folder.mkdir()
    lines = {
        "seq.in": [" ".join(row) for row in words],
        "seq.out": [" ".join(tags) for _, tags in answers],
        "label": [intent for intent, _ in answers],
    }
    for name, part in lines.items():
        (folder / name).write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder


def with_commas(words, answers):
    """A comma, which the vocabulary does not know, before every third slot."""
    for row, (_, tags) in zip(words[::3], answers[::3], strict=True):
        place = next(index for index, tag in enumerate(tags) if tag != "O")
        row.insert(place, ",")
        tags.insert(place, "O")
    return words, answers


@pytest.fixture(scope="module")
def trained():
    model = new_model()
    report = model.fit(*with_commas(*commands(240, seed=1)), validation_data=commands(40, seed=2), **FAST)
    return model, report


# === Learning and answers ===


def test_one_model_learns_both(trained):
    model, report = trained
    words, answers = commands(60, seed=3)
    measured = model.evaluate(words, answers)
    assert measured.sentence_accuracy > 0.9 and report.best.score > 0.9
    assert measured.intent_accuracy >= measured.sentence_accuracy and measured.slot_f1 > 0.9
    assert "intent accuracy" in str(measured) and json.dumps(measured.to_dict())
    assert {"val_intent_accuracy", "val_slot_f1"} <= set(report.measurements[-1])


def test_answers_are_parts_of_the_text(trained):
    model, _ = trained
    text = "  PLEASE wake me,  half past\u00a0ten"
    command = model.predict(text)
    assert command.intent == "set_alarm" and 0.5 < command.probability <= 1
    assert [(slot.label, slot.text) for slot in command.slots] == [("time", "half past\u00a0ten")]
    assert all(text[slot.start : slot.end] == slot.text for slot in command.slots)
    assert str(command).startswith("set_alarm (")
    assert model.predict([text, ""])[0] == command and model.predict([]) == []
    assert model.predict([["play", "blue"]])[0].slots[0].text == "blue"
    assert not model.predict(text, threshold=1.1).slots


def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    model, _ = trained
    model.save(tmp_path / "model")
    loaded = keras_bert.load_task(tmp_path / "model")
    texts = [" ".join(words) for words in commands(20, seed=4)[0]]
    assert loaded.predict(texts) == model.predict(texts)
    assert loaded.labels == ["play", "set_alarm"] and loaded.slot_kinds == ["song", "time"]
    assert (tmp_path / "model/labels.txt").read_text().split() == loaded.labels
    plain, _ = keras_bert.load_model(tmp_path / "model")
    assert {name: value.shape[-1] for name, value in plain.output.items()} == {"class_logits": 2, "token_logits": 5}


def test_packed_rows_train_on_the_same_loss():
    model = new_model()
    data = model.prepare(*commands(12, seed=5))
    recipe = keras_bert.Recipe(batch_size=12, dropout=0.0, attention_dropout=0.0, classifier_dropout=0.0)
    losses = {}
    for packed in (True, False):
        model.trains_packed = packed
        batches, steps = task_batches(model, data, 12, packed=packed)
        assert steps == 1
        inputs, labels, weights = next(iter(batches(0, 0, 1)))
        network = fresh_model(model, recipe, 0, None)
        outputs = network(inputs, training=True)
        losses[packed] = [
            float(loss(labels[name], outputs[name], weights[name])) for name, loss in model.losses().items()
        ]
    assert losses[True] == pytest.approx(losses[False], abs=1e-5)
    assert model._mean_loss(model.outputs(data.tokenized), data) == pytest.approx(sum(losses[True]), abs=1e-5)


@pytest.mark.slow
def test_plain_keras_after_compile():
    model = new_model()
    model.compile("sgd", jit_compile=False)
    history = model.fit(*commands(24, seed=1), epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


# === Numbers ===


def test_a_sentence_is_right_where_all_of_it_is():
    intents, tags = ["a", "a", "b"], [["B-x", "I-x"], ["O"], ["B-y"]]
    found = command_numbers(intents, tags, ["a", "b", "b"], [["B-x", "O"], ["O"], ["B-y"]])
    assert found.intent_accuracy == pytest.approx(2 / 3) and found.sentence_accuracy == pytest.approx(1 / 3)
    report = command_report(intents, tags, ["a", "b", "b"], [["B-x", "O"], ["O"], ["B-y"]])
    assert report.slot_f1 == found.slot_f1 == seqeval.metrics.f1_score(tags, [["B-x", "O"], ["O"], ["B-y"]])


def test_what_the_model_cannot_know_counts_as_wrong(trained):
    model, _ = trained
    words, answers = commands(10, seed=6)
    before = model.evaluate(words, answers)
    unseen = [(intent if index else "call", tags) for index, (intent, tags) in enumerate(answers)]
    unseen[1] = (unseen[1][0], [tag.replace("song", "place").replace("time", "place") for tag in unseen[1][1]])
    after = model.evaluate(words, unseen)
    assert after.intent_accuracy == pytest.approx(before.intent_accuracy - 0.1)
    assert after.sentence_accuracy == pytest.approx(before.sentence_accuracy - 0.2) and after.slot_f1 < before.slot_f1
    assert "unknown intents 'call' and slots 'place'" in str(after)
    with pytest.raises(ValueError, match="unknown intents 'call'"):
        model.fit(words, unseen)
    with pytest.raises(ValueError, match="EntityTagger"):
        model.fit(words, [("play", tags) for _, tags in answers])


def test_long_commands_are_cut_with_a_note(trained):
    model, _ = trained
    words, answers = [["please"] * 40 + ["play", "blue"]], [("play", ["O"] * 41 + ["B-song"])]
    report = model.evaluate(words, answers)
    assert "1 of 1 texts were cut to 32 tokens" in str(report) and report.slot_f1 == 0
    with pytest.warns(UserWarning, match="cut to 32 tokens"):
        assert not model.predict([words[0]])[0].slots
    with pytest.raises(ValueError, match="must be one row"):
        new_model(long_texts="windows")


# === Files ===


def test_three_files_are_one_set(tmp_path):
    folder = write_folder(tmp_path / "train", *commands(5, seed=1))
    (folder / "seq.in").write_text("\n".join(["wake me", "play", "now", "caf\ufeff\u00e9", "six"]) + "\n", "utf-8")
    (folder / "seq.out").write_text("\n".join(["O O", "O O", "X-time", "B-song", "B-time "]) + "\n", "utf-8")
    (folder / "label").write_text("\n".join(["set_alarm", "play", "play", "play", "set_alarm"]) + "\n", "utf-8")
    rows = read_commands(folder)
    assert len(rows) == 3 and rows.intents == ["play", "set_alarm"] and rows[2].tags == ("B-time",)
    assert rows.report.reasons == {"1 words and 2 tags": 1, "unknown tag 'X-time'": 1}
    with pytest.raises(ValueError, match="line 2: 1 words and 2 tags"):
        read_commands(folder, strict=True)
    (folder / "label").write_text("set_alarm\n\nplay\nplay\n", "utf-8")
    with pytest.raises(ValueError, match="seq.in 5, seq.out 5, label 4"):
        read_commands(folder)
    (folder / "label").write_text("set_alarm\nplay\nplay\n\nset_alarm\n", "utf-8")
    assert read_commands(folder).report.reasons["missing intent"] == 1
    with pytest.raises(FileNotFoundError, match="it has the folders train"):
        read_commands(tmp_path)


def test_json_lines_and_python_lists_say_the_same(tmp_path):
    path = tmp_path / "commands.jsonl"
    slots = [{"start": 11, "end": 14, "label": "time"}]
    lines = [
        {"text": "wake me at six", "intent": "set_alarm", "slots": slots},
        {"tokens": ["play", "blue"], "intent": "play", "tags": ["O", "B-song"]},
        {"text": "hello", "intent": "talk", "slots": []},
        {"text": "hello", "slots": []},
        {"text": "hello", "intent": "talk", "slots": [{"start": 3, "end": 99, "label": "x"}]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    rows = read_commands(path)
    assert [example.tags for example in rows] == [("O", "O", "O", "B-time"), ("O", "B-song"), ("O",)]
    assert rows.report.reasons == {"no key 'intent' or 'label'": 1, "an entity lies outside of its text": 1}
    texts = ["wake me at six", ["play", "blue"], ["hello"]]
    same = as_commands(texts, [("set_alarm", [(11, 14, "time")]), ("play", ["O", "B-song"]), ("talk", [])])
    assert [(one.words, one.tags, one.intent) for one in same] == [(one.words, one.tags, one.intent) for one in rows]
    with pytest.raises(TypeError, match=r"expected \(intent, slots\)"):
        as_commands(["wake me"], ["set_alarm"])
    with pytest.raises(ValueError, match="2 texts and intents for 1"):
        as_commands(["a", "b"], [("x", [])])


def test_json_lines_are_split_as_asked(tmp_path):
    path, line = tmp_path / "commands.jsonl", {"text": "an alarm, six", "intent": "set_alarm"}
    path.write_text(json.dumps({**line, "slots": [{"start": 10, "end": 13, "label": "time"}]}), encoding="utf-8")
    (words,), (spaces,) = read_commands(path), read_commands(path, splitting="spaces")
    assert words.words == ("an", "alarm", ",", "six") and words.tags == ("O", "O", "O", "B-time")
    assert spaces.words == ("an", "alarm,", "six") and spaces.tags == ("O", "O", "B-time")
    with pytest.raises(ValueError, match="splitting='letters': expected one of"):
        read_commands(path, splitting="letters")


def test_the_bundled_assistant_is_read_whole():
    utterances = keras_bert.load_assistant("validation")
    rows = as_commands(utterances)
    assert len(rows) == len(utterances) and not rows.notes
    assert [example.tags for example in rows] == [tuple(utterance.bio_tags()) for utterance in utterances]


@pytest.mark.slow
def test_from_folder_to_answers_by_commands(tmp_path, capsys):
    train = write_folder(tmp_path / "train", *commands(160, seed=1))
    dev = write_folder(tmp_path / "dev", *commands(20, seed=2))
    flags = "--task intent_slots --learning-rate 3e-3 --epochs 8 --batch-size 16 --sequence-length 32 --json --debug"
    arguments = ["--model", str(pretrained_directory()), "--validation", str(dev), *flags.split()]
    assert main(["finetune", str(train), str(tmp_path / "model"), *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["sentence_accuracy"] > 0.8
    assert main(["predict", str(tmp_path / "model"), "wake me noon", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["intent"] == "set_alarm" and [slot["text"] for slot in answer["slots"]] == ["noon"]
    assert main(["evaluate", str(tmp_path / "model"), str(dev)]) == 0
    assert "whole sentences" in capsys.readouterr().out


@pytest.mark.slow
def test_several_devices_train_it_too():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        model = new_model()
        report = model.fit(*commands(32, seed=1), **{**FAST, "epochs": 1})
    assert np.isfinite(report.best.score)
