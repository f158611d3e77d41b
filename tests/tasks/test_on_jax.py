"""Every task on JAX: the answers, losses and scores of TensorFlow, on one device and on two, in few compilations."""

import json

import pytest
from compat_artifacts import differences
from every_task import fit
from strategy_processes import finish, start

TWO = "--xla_force_host_platform_device_count=2"
# Both backends round differently, and some steps of training make the differences larger.
TOLERANCE = 2e-4


def run(out, *arguments, backend="jax", **options):
    """What `every_task.py` wrote."""
    finish(start("every_task.py", out, *arguments, backend=backend, **options), timeout=900)
    return json.loads(out.read_text(encoding="utf-8"))


def without_traces(found):
    return {name: value for name, value in found.items() if name != "traces"}


def test_every_task_answers_as_on_tensorflow(tmp_path):
    assert run(tmp_path / "jax.json", "--ask", "--fit") == {"wrong answers": {}}


@pytest.mark.slow
def test_tasks_answer_as_on_tensorflow_and_two_devices_train_as_one(tmp_path):
    """Rows that are shared, with one label for each text and with pairs of texts."""
    found = run(tmp_path / "jax.json", "--devices", 2, "--ask", "--fit", "classification", "similarity", xla_flags=TWO)
    assert found.pop("wrong answers") == {}
    for name, result in found.items():
        assert not differences(without_traces(fit(name)), result, TOLERANCE), name
        assert 1 <= result["traces"] <= 2


@pytest.mark.slow
def test_every_task_trains_as_on_tensorflow_on_one_device_and_on_two(tmp_path):
    expected = run(tmp_path / "tensorflow.json", backend="tensorflow")
    one = run(tmp_path / "one.json")
    two = run(tmp_path / "two.json", "--devices", 2, xla_flags=TWO)
    assert sorted(expected) == sorted(one) == sorted(two) and len(expected) >= 14
    for name, result in expected.items():
        for found in (one[name], two[name]):
            assert not differences(without_traces(result), without_traces(found), TOLERANCE), name
            assert 1 <= found["traces"] <= 3, name
