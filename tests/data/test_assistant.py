"""The bundled data set is well formed, balanced and truly held out, and its reader says what is wrong."""

import doctest
import re
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest

import keras_bert.data.assistant as datasets
from keras_bert.data.assistant import (
    Slot,
    Utterance,
    intents,
    load_assistant,
    read_utterances,
    slot_names,
    split_words,
)

SPLITS = ("train", "validation", "test")
HEADER = "intent\tutterance\n"


def normalise(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", "", text.lower()).split())


def delexicalise(utterance: Utterance) -> str:
    text = utterance.text
    for slot in reversed(utterance.slots):
        text = f"{text[: slot.start]} {slot.name} {text[slot.end :]}"
    return normalise(text)


def every_utterance() -> list[Utterance]:
    return [utterance for split in SPLITS for utterance in load_assistant(split)]


# === The data ===


@pytest.mark.parametrize(("split", "total", "each"), [("train", 700, 40), ("validation", 140, 9), ("test", 250, 15)])
def test_a_split_is_large_enough_and_balanced(split, total, each):
    counts = Counter(utterance.intent for utterance in load_assistant(split))
    assert sum(counts.values()) >= total
    assert set(counts) == set(intents())
    assert min(counts.values()) >= each


def test_intents_and_slots():
    assert len(intents()) == 16 and list(intents()) == sorted(intents())
    assert len(slot_names()) == 23 and list(slot_names()) == sorted(slot_names())


@pytest.mark.parametrize("split", ["validation", "test"])
def test_train_knows_every_slot_of_a_held_out_split(split):
    assert {slot.name for utterance in load_assistant(split) for slot in utterance.slots} == set(slot_names())


def test_no_utterance_stands_twice():
    counts = Counter(normalise(utterance.text) for utterance in every_utterance())
    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("split", ["validation", "test"])
def test_no_held_out_pattern_stands_in_train(split):
    patterns = {delexicalise(utterance) for utterance in load_assistant("train")}
    assert [u.text for u in load_assistant(split) if delexicalise(u) in patterns] == []


def test_most_slot_values_of_test_are_new():
    known = {slot.text.lower() for utterance in load_assistant("train") for slot in utterance.slots}
    values = [slot.text.lower() for utterance in load_assistant("test") for slot in utterance.slots]
    assert sum(value not in known for value in values) / len(values) > 0.75


def test_lengths_and_characters():
    for utterance in every_utterance():
        assert 2 <= len(utterance.text.split()) <= 20, utterance.text
        assert unicodedata.is_normalized("NFC", utterance.text)
    assert not any(utterance.slots for utterance in every_utterance() if utterance.intent == "small_talk")


def test_intents_take_turns():
    assert {utterance.intent for utterance in load_assistant("train")[:16]} == set(intents())


def test_no_slot_begins_with_what_the_convention_leaves_outside():
    whole = {"message", "phrase", "reminder", "song", "artist"}
    outside = {"the", "my", "our", "your", "at", "on", "in", "to", "for", "by", "of", "with"}
    for utterance in every_utterance():
        for slot in utterance.slots:
            if slot.name not in whole and slot.text.lower() not in outside:  # the change "on" is a slot itself
                assert slot.text.split()[0].lower() not in outside, utterance


# === Words and tags ===


def test_spans_equal_the_text_and_tags_give_the_slots_back():
    for utterance in every_utterance():
        words, tags = split_words(utterance.text), utterance.bio_tags()
        assert utterance.words() == [word for word, _, _ in words] == [utterance.text[s:e] for _, s, e in words]
        assert len(words) == len(tags)
        found: list[list] = []
        for (_, start, end), tag in zip(words, tags, strict=True):
            if tag.startswith("B-"):
                found.append([tag[2:], start, end])
            elif tag.startswith("I-"):
                assert found[-1][0] == tag[2:]
                found[-1][2] = end
        assert found == [[slot.name, slot.start, slot.end] for slot in utterance.slots], utterance.text
        assert all(utterance.text[slot.start : slot.end] == slot.text for slot in utterance.slots)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Call Zoë's mum, now!", ["Call", "Zoë", "'s", "mum", ",", "now", "!"]),
        ("don’t lie-in at 7:30.", ["don’t", "lie-in", "at", "7:30", "."]),
        ("$20, 1,500 or 6.5%", ["$", "20", ",", "1,500", "or", "6.5", "%"]),
        ("What's MUM'S 'name'?", ["What", "'s", "MUM", "'S", "'", "name", "'", "?"]),
        ("eggs,milk km/h o'clock", ["eggs", ",", "milk", "km", "/", "h", "o'clock"]),
        ("love you ❤\ufe0f cafe\u0301s", ["love", "you", "❤\ufe0f", "cafe\u0301s"]),
    ],
)
def test_split_words(text, words):
    assert [word for word, _, _ in split_words(text)] == words
    assert all(text[start:end] == word for word, start, end in split_words(text))


def test_neighbouring_slots_begin_anew():
    utterance = Utterance("at 40% now", "x", (Slot("amount", 3, 5, "40"), Slot("amount", 5, 6, "%")))
    assert utterance.bio_tags() == ["O", "B-amount", "B-amount", "O"]


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([Slot("time", 8, 11, "six")], "text[start:end] is 'at '"),
        ([Slot("time", 11, 13, "si")], "must begin and end where a word does"),
        ([Slot("time", 10, 14, " six")], "must begin and end where a word does"),
        ([Slot("time", 11, 14, "six"), Slot("date", 5, 7, "me")], "out of order"),
    ],
)
def test_slots_that_do_not_fit_are_refused(slots, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Utterance("Wake me at six", "set_alarm", tuple(slots))


# === The reader ===


def test_read_utterances(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_text(HEADER + "set_alarm\twake me at [six](time) :)\nsmall_talk\thello there\n", encoding="utf-8")
    assert read_utterances(path) == [
        Utterance("wake me at six :)", "set_alarm", (Slot("time", 11, 14, "six"),)),
        Utterance("hello there", "small_talk"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "There are 1 columns; expected 2"),
        ("set_alarm wake me", "There are 1 columns; expected 2"),
        ("set_alarm\twake\tme", "There are 3 columns; expected 2"),
        ("\twake me", "Intent '': expected a name"),
        ("Set Alarm\twake me", "Intent 'Set Alarm': expected a name"),
        ("set_alarm\t", "is empty, or has a space"),
        ("set_alarm\twake  me", "is empty, or has a space"),
        ("set_alarm\twake me ", "is empty, or has a space"),
        ("set_alarm\twake me at [six](time", "A square bracket is left over"),
        ("set_alarm\twake me at [six] (time)", "A square bracket is left over"),
        ("set_alarm\twake me at [half [past](x) six](time)", "A square bracket is left over"),
        ("set_alarm\twake me at six](time)", "A square bracket is left over"),
        ("set_alarm\twake me at [](time)", "marks no words"),
        ("set_alarm\twake me at [six ](time)", "marks no words, or a space"),
        ("set_alarm\twake me at [six]()", "Slot '': expected a name"),
        ("set_alarm\twake me at [six](Time)", "Slot 'Time': expected a name"),
        ("set_alarm\twake me at [six](time)ish", "must begin and end where a word does"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, message):
    path = tmp_path / "broken.tsv"
    path.write_text(f"{HEADER}small_talk\thello there\n{line}\nsmall_talk\tbye bye\n", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape("broken.tsv, line 3: ") + ".*" + re.escape(message)):
        read_utterances(path)


@pytest.mark.parametrize("content", ["", "set_alarm\twake me at six\n"])
def test_a_missing_header_is_named(tmp_path, content):
    path = tmp_path / "headless.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"headless\.tsv, line 1: the header is .* expected 'intent\\tutterance'"):
        read_utterances(path)


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "latin.tsv"
    path.write_bytes((HEADER + "make_call\tcall Zoë\n").encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.tsv is not UTF-8"):
        read_utterances(path)


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="split='dev': expected one of 'train', 'validation', 'test'"):
        load_assistant("dev")


def test_a_loaded_list_belongs_to_the_caller():
    load_assistant("test").clear()
    assert load_assistant("test")


def test_docstring_examples_run():
    result = doctest.testmod(datasets)
    assert result.attempted > 0 and result.failed == 0


def test_reading_needs_no_tensorflow():
    code = "import sys, keras_bert.data.assistant as d; d.load_assistant(); print('tensorflow' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
