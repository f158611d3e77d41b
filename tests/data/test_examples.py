"""Rows and the loop that collects them: what is kept, what is reported, and when nothing is left."""

import dataclasses

import pytest

from keras_bert.data.examples import Dropped, Example, RowReport, Rows, TextRows, collect_rows, found_in

GOOD, BAD = Example("a fine film", label="good", row=1), Dropped("empty text", "a.tsv", 2)


def test_examples_are_kept_and_other_rows_are_reported():
    rows = collect_rows(TextRows, [GOOD, BAD, GOOD], ["a.tsv"])
    assert isinstance(rows, Rows) and list(rows) == [GOOD, GOOD] and rows[1:] == (GOOD,) and rows[-1] is GOOD
    assert rows.report == RowReport(("a.tsv",), 3, 2, (BAD,)) and rows.labels == ["good", "good"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows.examples = ()


def test_strict_raises_at_the_first_bad_row_and_reads_no_further():
    rows = iter([(1, GOOD), (2, "empty text"), (3, "too few columns")])
    with pytest.raises(ValueError, match="a.tsv, line 2: empty text; fix the sentence, or pass strict=False"):
        collect_rows(TextRows, found_in("a.tsv", rows), ["a.tsv"], what="sentence", strict=True)
    assert next(rows) == (3, "too few columns")


def test_a_place_stands_for_the_line_where_a_document_has_none():
    error = Dropped("no key 'question'", "dev.json", 0, "data[0]").error("question")
    assert str(error).startswith("dev.json, data[0]: no key 'question'; fix the question")


def test_an_error_where_nothing_is_left():
    with pytest.raises(ValueError, match="(?s)No usable row in a.tsv; 1 rows read, 0 kept.*empty text: 1"):
        collect_rows(TextRows, [BAD], ["a.tsv"])
    with pytest.raises(ValueError, match="^All texts are empty.$"):
        collect_rows(TextRows, [BAD], nothing="All texts are empty.")
