"""What a search begins and what it skips: time that is left, models that have already lost too much."""

import time
from types import SimpleNamespace

import pytest

import export
from export.search import run
from export.search.trials import MEASURED, Trial

FILE_SECONDS = 30.0
INT8 = export.Candidate(recipe="dynamic_int8")


@pytest.fixture
def search(monkeypatch, tmp_path):
    """A search whose files take 30 seconds each, with a teacher's score of 0.9 and a budget of 0.02."""
    costs = SimpleNamespace(of_file=lambda candidate: FILE_SECONDS, of_model=lambda candidate: 0.0)
    data = SimpleNamespace(measure_teacher=lambda teacher: (0.9, costs))
    monkeypatch.setattr(run, "ModelMaker", lambda *arguments, **named: SimpleNamespace(is_made=lambda model: True))
    return run.Search(None, data, tmp_path, budget=0.02, time_limit=120, verbose=0)


def test_what_fits_into_the_time_that_is_left_is_begun(search):
    search.start = time.perf_counter() - 60
    assert search._reason_to_skip(INT8) is None


def test_what_takes_longer_than_what_is_left_is_skipped_with_the_reason(search):
    search.start = time.perf_counter() - 100
    assert search._reason_to_skip(INT8) == "it would take about 30 s, and 20 s are left"
    search.start = time.perf_counter() - 500
    assert search._reason_to_skip(INT8) == "it would take about 30 s, and 0 s are left"


def test_time_to_write_the_result_is_reserved(search):
    search.start = time.perf_counter() - 60
    search.reference = SimpleNamespace(seconds=20)
    assert search._reason_to_skip(INT8) == "it would take about 30 s, and 20 s are left"


def test_without_a_limit_nothing_is_skipped_for_time(search):
    search.time_limit, search.start = None, time.perf_counter() - 1e6
    assert search._reason_to_skip(INT8) is None


def test_fewer_bits_of_a_model_that_lost_too_much_are_skipped(search):
    search.trials = [Trial.of(export.Candidate(recipe="float32"), MEASURED, model_score=0.85)]
    assert search._reason_to_skip(INT8) == "its model loses 5.0 points before it is stored in fewer bits"
    search.trials = [Trial.of(export.Candidate(recipe="float32"), MEASURED, model_score=0.89)]
    assert search._reason_to_skip(INT8) is None
