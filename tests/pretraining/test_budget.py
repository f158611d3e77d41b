"""A time to train in becomes a number of steps, which a run that is started again keeps."""

import json
import time
from dataclasses import replace

import pytest
from pretraining_run import CONFIG, PLAN, TOKENIZER, write_tiny_examples
from taught_run import write_teacher

from keras_bert.pretraining import budget
from keras_bert.pretraining.budget import count_steps, fit_to_budget
from keras_bert.pretraining.plan import Phase
from keras_bert.pretraining.run import pretrain
from keras_bert.pretraining.teacher.plan import Teacher
from keras_bert.system.durations import parse_duration
from keras_bert.training.devices import Devices
from keras_bert.training.timings import Timings


@pytest.fixture(scope="module")
def phase(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    examples = write_tiny_examples(directory / "examples")
    validation = write_tiny_examples(directory / "validation", documents=20, seed=1)
    return Phase(examples=examples, plan=PLAN, validation=validation)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("1h", 3600), ("1h30m", 5400), ("0.5h", 1800), ("2d", 172800)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "1 h", "1h!", "-1h", "one hour"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is no duration; expected a number with d, h, m or s"):
        parse_duration(text)
    with pytest.raises(ValueError, match="no time at all"):
        parse_duration("0h")


@pytest.mark.parametrize("step", [0.01, 0.2, 3.0, 15.0])
@pytest.mark.parametrize("check", [0.0, 0.5, 60.0])
@pytest.mark.parametrize("seconds", [600.0, 3600.0, 86400.0])
def test_all_fits_into_the_time_and_most_of_it_is_used(step, check, seconds):
    timings = Timings(step=step, check=check, once=30.0)
    steps, every = count_steps(timings, seconds)
    assert steps % every == 0 and every % 8 == 0
    taken = 30.0 + steps * step + steps // every * check
    assert 0.75 * seconds < taken <= seconds
    assert steps // every * check <= max(0.05 * seconds, check)
    steps, every = count_steps(timings, seconds, save_every=24)
    assert every == 24 and 30.0 + steps * step + steps // 24 * check <= seconds


def test_too_short_a_time_says_how_long_it_must_be():
    timings = Timings(step=0.5, check=10.0, once=20.0)
    with pytest.raises(ValueError, match=r"budget of 30 s is too short: 25 s .*one evaluation .*at least 40 s"):
        count_steps(timings, 25.0, budget=30.0)
    assert count_steps(timings, 25.0 + 10.0) == (8, 8)
    with pytest.raises(ValueError, match="too short: 0 s of it are left"):
        count_steps(timings, -5.0, budget=30.0)


@pytest.mark.parametrize("rows", [500, 20_000, None])
@pytest.mark.parametrize("seconds", [900.0, 3600.0])
def test_a_teacher_reads_each_row_once(rows, seconds):
    timings = Timings(step=0.1, check=2.0, once=20.0, read=0.05, reads=8.0, rows=rows)
    steps, every = count_steps(timings, seconds)
    read = steps * 8.0 if rows is None else min(steps * 8.0, rows)
    taken = 20.0 + 0.1 * steps + 0.05 * read + steps // every * 2.0
    assert 0.75 * seconds < taken <= seconds
    with pytest.raises(ValueError, match="too short"):
        count_steps(timings, 22.0)


@pytest.mark.slow
@pytest.mark.parametrize("cache_gb", [4.0, 0.0])
def test_a_taught_run_ends_in_time(phase, tmp_path, monkeypatch, cache_gb):
    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    monkeypatch.setattr(budget, "_MEASURED_SECONDS", (0.5, 0.5))
    teacher = Teacher(model=write_teacher(tmp_path / "teacher"), cache_gb=cache_gb, mlm=0.5)
    began = time.monotonic()
    decided = fit_to_budget(phase, tmp_path / "run", CONFIG, TOKENIZER, budget=80.0, teacher=teacher)
    stored = json.loads((tmp_path / "run" / "budget.json").read_text())["seconds"]
    assert stored["read"] > 0 and stored["reads"] == PLAN.batch_size / (4 if cache_gb else 1)
    assert not list((tmp_path / "run").glob(".budget"))
    places = {"validation": phase.validation, "teacher": teacher, "verbose": 0}
    history = pretrain(phase.examples, tmp_path / "run", CONFIG, TOKENIZER, decided.plan, **places)
    assert history["step"][-1] == decided.plan.steps
    assert history["learning_rate"][-1] == pytest.approx(0.0, abs=1e-6)
    assert time.monotonic() - began < 140  # other programs may slow it down


@pytest.mark.slow
def test_the_decision_is_kept(phase, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budget, "_MEASURED_SECONDS", (0.2, 0.2))
    decided = fit_to_budget(phase, tmp_path, CONFIG, TOKENIZER, budget=600.0)
    stored = json.loads((tmp_path / "budget.json").read_text())
    assert (decided.plan.steps, decided.plan.save_every) == (stored["steps"], stored["save_every"])
    assert decided.plan.steps > 60 and stored["seconds"]["step"] > 0
    assert f"600 s: {stored['steps']:,} steps of" in capsys.readouterr().out
    assert replace(decided.plan, steps=60, save_every=6) == PLAN
    assert not list(tmp_path.glob(".budget")) and not (tmp_path / "state").exists()
    monkeypatch.setattr(budget, "_measure", lambda *arguments: pytest.fail("it was measured again"))
    assert fit_to_budget(phase, tmp_path, CONFIG, TOKENIZER, budget=600.0, verbose=False) == decided
    with pytest.raises(ValueError, match=r"was begun with a budget of 600 s \(.* steps\), not 900 s; go on with that"):
        fit_to_budget(phase, tmp_path, CONFIG, TOKENIZER, budget=900.0)


@pytest.mark.slow
def test_a_run_ends_in_time(phase, tmp_path, monkeypatch):
    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    monkeypatch.setattr(budget, "_MEASURED_SECONDS", (0.5, 0.5))
    began = time.monotonic()
    decided = fit_to_budget(phase, tmp_path, CONFIG, TOKENIZER, budget=40.0)
    history = pretrain(
        phase.examples, tmp_path, CONFIG, TOKENIZER, decided.plan, validation=phase.validation, verbose=0
    )
    assert history["step"][-1] == decided.plan.steps
    assert history["learning_rate"][-1] == pytest.approx(0.0, abs=1e-6)
    assert time.monotonic() - began < 70  # other programs may slow it down


def test_a_run_that_began_without_a_budget_goes_on_without(phase, tmp_path):
    (tmp_path / "state" / "step-000000006").mkdir(parents=True)
    with pytest.raises(ValueError, match="was begun with a number of steps, not with a budget"):
        fit_to_budget(phase, tmp_path, CONFIG, TOKENIZER, budget=600.0)
