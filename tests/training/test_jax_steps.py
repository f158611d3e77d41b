"""Steps on JAX: accumulation, several devices, and gradients of tables in full precision; in a process of their own."""

import json

import pytest
from strategy_processes import finish, start


@pytest.fixture(scope="module")
def checks():
    checked = start("jax_checks.py", backend="jax", xla_flags="--xla_force_host_platform_device_count=2")
    (printed,) = finish(checked, timeout=900)
    return json.loads(printed.splitlines()[-1])


@pytest.mark.slow
def test_parts_and_devices_take_the_step_of_the_whole_batch(checks):
    for name in ("accumulation", "devices", "accumulation on devices"):
        assert checks[name] < 1e-5, name
    assert "does not divide the 8 examples of a batch" in checks["uneven accumulation"]


@pytest.mark.slow
def test_rows_of_tables_are_summed_in_full_precision(checks):
    """`[CLS]` and `[MASK]` occur thousands of times in a batch: in half precision, most of their gradient is lost."""
    for shapes in checks["half sums"]:
        assert shapes and not [shape for shape in shapes if shape in checks["tables"]]
    assert [shape for shape in checks["sums in bfloat16 alone"] if shape in checks["tables"]], "the check sees nothing"


@pytest.mark.slow
def test_a_program_masks_rows_as_the_host_does(checks):
    assert checks["unequal masks"] == []
