"""Texts with two entities: every form is read, every fault is named, and relations are counted as by SemEval."""

import gzip
import json

import pytest

from keras_bert.tasks.relation.files import RelationExample, as_relation_rows, read_relations
from keras_bert.tasks.relation.marked_text import MarkedText, as_marked, is_marked_form, parse_tags
from keras_bert.tasks.relation.metrics import relation_report

SEMEVAL = """8001\t"The <e1>lid</e1> of the <e2>jar</e2>."\r
Component-Whole(e1,e2)\r
Comment: easy\r
\r
8002\t"No <e1>second</e1> entity."\r
Other\r
Comment:\r
\r
8003\t"He said "no" to the <e2>cat</e2> and <e1>dog</e1>."\r
Other\r
Comment:\r
8004\t"<e1>One <e2>in</e2> another</e1>."\r
Other\r
8005\t"A <e1> </e1> and <e2>b</e2>."\r
Other\r
8006\t"A <e1>a</e1> and <e2>b</e2>."\r
Comment: forgotten\r
"""

# === Marked texts ===


def test_tags_and_places_are_two_forms_of_one_text():
    text = "A <e2>jar</e2> has a <e1> lid </e1>!"
    marked = parse_tags(text)
    assert (marked.text, marked.first, marked.second) == ("A jar has a  lid !", (13, 16), (2, 5))
    assert marked.entities == ("lid", "jar") and marked.second_leads
    assert "".join(marked.pieces) == marked.text
    assert parse_tags(marked.tagged) == marked
    assert as_marked((marked.text, [13, 16], {"start": 2, "end": 5})) == marked
    assert as_marked((marked.text, "13:16", "(2, 5)")) == marked
    beside = MarkedText("東京北京", (0, 2), (2, 4))  # side by side, no space between
    assert beside.entities == ("東京", "北京") and parse_tags(beside.tagged) == beside


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ("no entity", "missing tag <e1>"),
        ("<e1>one</e1> entity", "missing tag <e2>"),
        ("<e1>one <e2>b</e2>", "missing tag </e1>"),
        ("<e1>a</e1> <e1>b</e1> <e2>c</e2>", "tag <e1> more than once"),
        ("</e1>a<e1> <e2>b</e2>", "an entity ends before it begins"),
        ("<e1>a <e2>b</e1> c</e2>", "entities overlap"),
        ("<e1></e1> <e2>c</e2>", "empty entity"),
        (("a b", (0, 1), (2, 4)), "an entity lies outside of the text"),
        (("a b", (-1, 1), (2, 3)), "an entity lies outside of the text"),
        (("a b", (0, 3), (2, 3)), "entities overlap"),
        (("a b", (0, 1), (1, 2)), "empty entity"),
        (("a b", (0, 1), (2, "3")), "an entity is no (start, end)"),
        (("a b", (0, 1), None), "an entity is no (start, end)"),
        (("a b", (0, 1), "2"), "an entity is no (start, end)"),
        ((" ", (0, 1), (0, 1)), "empty text"),
        ((7, (0, 1), (2, 3)), "text is no string"),
        ((" a\udc80", (0, 1), (1, 2)), "invalid UTF-8"),
        (7, "neither a text with tags nor (text, first, second)"),
    ],
)
def test_faults_are_named(item, fault):
    assert as_marked(item) == fault
    with pytest.raises(ValueError, match="Text 1 ") as error:
        as_relation_rows([item], ["x"])
    assert fault in str(error.value)


def test_a_value_is_never_wrong():
    with pytest.raises(ValueError, match="entities overlap. Expected two parts of the text"):
        MarkedText("a b", (0, 2), (1, 3))


def test_one_text_is_told_from_a_list_of_texts():
    one = ("a b", (0, 1), (2, 3))
    assert is_marked_form(one) and is_marked_form("a") and is_marked_form(MarkedText(*one))
    assert not is_marked_form([one, one, one]) and not is_marked_form(["a", "b", "c"])


# === Files ===


def test_semeval_files_with_faults_that_are_counted(tmp_path):
    path = tmp_path / "TRAIN_FILE.TXT"
    path.write_bytes(SEMEVAL.encode())
    rows = read_relations(path)
    assert [(example.row, example.label) for example in rows] == [(1, "Component-Whole(e1,e2)"), (9, "Other")]
    assert rows[1].text.text == 'He said "no" to the cat and dog.' and rows[1].text.entities == ("dog", "cat")
    assert rows.report.reasons == {
        "missing tag <e2>": 1,
        "entities overlap": 1,
        "empty entity": 1,
        "missing label": 1,
    }
    assert {drop.reason: drop.line for drop in rows.report.dropped}["missing label"] == 16
    assert rows.label_names == ["Component-Whole(e1,e2)", "Other"]
    with pytest.raises(ValueError, match="TRAIN_FILE.TXT, line 5: missing tag <e2>; fix the row"):
        read_relations(path, strict=True)
    assert read_relations(path, allowed_labels=["Other"]).report.reasons["unknown label"] == 1
    with gzip.open(tmp_path / "again.txt.gz", "wb") as file:
        file.write(SEMEVAL.encode())
    assert read_relations(tmp_path / "again.txt.gz").examples == rows.examples


def test_semeval_files_without_relations_and_with_keys(tmp_path):
    path, keys = tmp_path / "TEST_FILE.txt", tmp_path / "KEY.TXT"
    path.write_text('1\t"<e1>a</e1> <e2>b</e2>"\n2\t"<e2>a</e2> <e1>b</e1>"\n', encoding="utf-8")
    keys.write_text("2\tOther\n1\tCause-Effect(e2,e1)\n", encoding="utf-8")
    assert read_relations(path).labels == [None, None]
    assert read_relations(path, keys=keys).labels == ["Cause-Effect(e2,e1)", "Other"]
    keys.write_text("2\tOther\n", encoding="utf-8")
    assert read_relations(path, keys=keys).report.reasons == {"missing label": 1}
    keys.write_text("2\tOther\n2\tOther\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: number 2 once more"):
        read_relations(path, keys=keys)


def test_tables_with_tags_and_with_places(tmp_path):
    tagged = tmp_path / "tagged.tsv"
    tagged.write_text("part\tA <e1> lid </e1> of a <e2>jar</e2>\n\t<e1>a</e1> <e2>b</e2>\nalone\n", encoding="utf-8")
    rows = read_relations(tagged, text=1, label=0)
    assert rows[0].text.entities == ("lid", "jar") and rows.labels == ["part"]
    assert rows.report.reasons == {"missing label": 1, "too few columns": 1}
    placed = tmp_path / "placed.tsv"
    placed.write_text(
        "text\tlabel\tfirst\tsecond\na lid of a jar\tpart\t2 5\t11,14\na b\tx\t0 9\t2 3\n", encoding="utf-8"
    )
    rows = read_relations(placed)
    assert rows[0] == RelationExample(MarkedText("a lid of a jar", (2, 5), (11, 14)), "part", 2)
    assert rows.report.reasons == {"an entity lies outside of the text": 1}
    with pytest.raises(ValueError, match="no columns named 'sentence'"):
        read_relations(placed, text="sentence")


def test_jsonl_with_tags_and_with_places(tmp_path):
    path = tmp_path / "data.jsonl"
    lines = [
        {"text": "a lid of a jar", "label": "part", "first": [2, 5], "second": {"start": 11, "end": 14}},
        {"text": "<e1>a</e1> <e2>b</e2>", "label": "other"},
        {"text": "a lid of a jar", "label": "part", "first": [2, 5]},
        {"text": 7, "label": "part"},
        {"label": "part"},
        {"text": "<e1>a</e1> <e2>b</e2>"},
    ]
    path.write_text("\n".join([*map(json.dumps, lines), "{"]), encoding="utf-8")
    rows = read_relations(path)
    assert rows.labels == ["part", "other"] and rows[0].text.entities == ("lid", "jar")
    assert rows.report.reasons == {
        "an entity is no (start, end)": 1,
        "text is no string": 1,
        "no key 'text'": 1,
        "missing label": 1,
        "not a JSON object": 1,
    }
    assert len(read_relations(path, label=None)) == 3
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="No usable row"):
        read_relations(path)


def test_tacred_with_words_and_inclusive_ends(tmp_path):
    words = ["Ada", "Byron", "-LRB-", "1815", "-RRB-", "founded", "Acme", "Inc."]
    entry = {"token": words, "subj_start": 6, "subj_end": 7, "obj_start": 0, "obj_end": 1, "relation": "org:founded_by"}
    entries = [
        {"id": "a", **entry},
        {**entry, "relation": "no_relation"},
        {**entry, "obj_end": 6},
        {**entry, "obj_end": 99},
        {**entry, "subj_start": "6"},
        {**entry, "subj_start": -1},
        {**entry, "token": "Ada"},
        {key: value for key, value in entry.items() if key != "relation"},
    ]
    for name, content in (("train.json", json.dumps(entries)), ("train.jsonl", "\n".join(map(json.dumps, entries)))):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        rows = read_relations(path)
        assert rows.labels == ["org:founded_by", "no_relation"]
        assert rows[0].text.text == "Ada Byron ( 1815 ) founded Acme Inc."
        assert rows[0].text.entities == ("Acme Inc.", "Ada Byron") and rows[0].text.second_leads
        assert rows.report.reasons == {
            "an entity lies outside of the text": 2,
            "entities overlap": 1,
            "an entity is no (start, end)": 1,
            "token is no list of words": 1,
            "missing label": 1,
        }
        assert len(read_relations(path, label=None)) == 3
        assert read_relations(path, label="id").labels == ["a"]


def test_lists_need_a_label_each():
    text = "<e1>a</e1> <e2>b</e2>"
    assert as_relation_rows([text]).labels == [None]
    with pytest.raises(ValueError, match="2 texts and 1 labels"):
        as_relation_rows([text, text], ["x"])
    with pytest.raises(TypeError, match="x is one text"):
        as_relation_rows(text, ["x"])
    with pytest.raises(ValueError, match="are for files"):
        as_relation_rows([text], ["x"], text=1)


# === Scores ===


def test_the_wrong_direction_is_wrong_and_other_is_left_out():
    labels = ["A(e1,e2)"] * 3 + ["A(e2,e1)"] + ["B(e1,e2)"] * 2 + ["Other"] * 2
    found = ["A(e1,e2)", "A(e2,e1)", "Other", "A(e2,e1)", "B(e1,e2)", "A(e1,e2)", "Other", "B(e2,e1)"]
    report = relation_report(labels, found)
    scores = {row.name: row for row in report.classes}
    # A: 4 in the labels, 4 predicted, 2 of these right. B: 2 in the labels, 2 predicted, 1 right.
    assert (scores["A"].precision, scores["A"].recall, scores["A"].f1, scores["A"].support) == (0.5, 0.5, 0.5, 4)
    assert (scores["B"].precision, scores["B"].recall, scores["B"].support) == (0.5, 0.5, 2)
    assert sorted(scores) == ["A", "B"]
    assert report.macro_f1 == 0.5 and report.micro.f1 == 0.5 and report.accuracy == 4 / 8
    assert report.wrong_direction == 1 and report.negative_label == "Other"
    assert "macro F1 without Other 0.5000" in str(report) and "1 in the wrong direction" in str(report)
    assert report.to_dict()["macro_f1"] == 0.5


def test_macro_is_the_mean_of_relations_however_rare():
    labels, found = ["A"] * 8 + ["B"] * 2, ["A"] * 8 + ["B", "A"]
    report = relation_report(labels, found, negative_label=None)
    assert report.macro_f1 == pytest.approx((16 / 17 + 2 / 3) / 2)
    assert report.weighted.f1 == pytest.approx(0.8 * 16 / 17 + 0.2 * 2 / 3)
    assert report.micro.f1 == report.accuracy == 0.9
    assert report.negative_label is None
    # The same with one of them as the negative class.
    without = relation_report(labels, found, negative_label="A")
    assert without.macro_f1 == pytest.approx(2 / 3) and without.accuracy == 0.9


def test_what_is_undefined_is_said():
    report = relation_report(["Other", "Other"], ["Other", "A(e1,e2)"])
    assert report.macro_f1 == 0.0 and "no relation in the labels" in str(report)
    report = relation_report(["A", "A"], ["A", "B"])
    assert report.macro_f1 == pytest.approx(2 / 3)  # B is in no label and has no share
    assert any("left out of macro: B" in note for note in report.notes)
    assert "all predictions are 'A'" in str(relation_report(["A", "B"], ["A", "A"]))
    with pytest.raises(ValueError, match="2 labels and 1 predictions"):
        relation_report(["A", "B"], ["A"])
