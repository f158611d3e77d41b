"""Compiling for chips that are not there: names, reports, what is counted, and that steps lower for all platforms."""

import json
import subprocess
import sys
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from places import ROOT
from strategy_processes import finish, start

from keras_bert.cli import main
from keras_bert.training.ahead_of_time import CompiledStep, estimated_cycles, matmul_flops, target_shardings
from keras_bert.training.chips import CHIPS, gpu_description, read_target

STEP = CompiledStep(
    target="8 × TPU v5e (2x4)",
    memory_limit=16 * 2**30,
    arguments=2**30,
    temporary=2 * 2**30,
    code=0,
    flops=200e12,
    matmul_flops=197e12 * 8 * 0.05,
    peak=197 * 8,
    seconds=0.1,
    attention=0.25,
    rows=256,
    tokens=256 * 128,
    compile_seconds=9.0,
)


@pytest.mark.parametrize(
    ("text", "count", "topology"),
    [("v5e:2x4", 8, "2x4"), ("v5e", 1, "1x1"), ("v4:2x2x1", 4, "2x2x1"), ("a100:4", 4, ""), ("T4", 1, "")],
)
def test_chips_by_name(text, count, topology):
    target = read_target(text)
    assert (target.count, target.topology) == (count, topology)
    assert str(target).startswith(f"{count} × {target.chip.title}")


@pytest.mark.parametrize("text", ["v7", "v5e:8", "v4:2x2", "a100:2x2", "a100:0", "v5e:0x4", ""])
def test_unknown_chips_are_named(text):
    with pytest.raises(ValueError, match="expected one of v4, v5e, v5p, v6e, a100, h100, t4"):
        read_target(text)


def test_gpus_are_described_in_whole():
    fields = {name: {line.split(":")[0].split("{")[0].strip() for line in gpu_description(chip).splitlines()}
              for name, chip in CHIPS.items() if chip.kind == "GPU"}  # fmt: skip
    assert len(fields) == 3 and len({frozenset(found) for found in fields.values()}) == 1
    assert gpu_description(CHIPS["a100"]).count("{") == gpu_description(CHIPS["a100"]).count("}") == 3


def test_a_report_says_what_fits_how_long_and_that_nothing_ran():
    text = STEP.describe(steps=36_000)
    for words in (
        "yes: 3.00 of 16 GiB a chip",
        "39% of all",
        "about 100.0 ms, the compiler's estimate: 50% of peak, attention 25%",
        "about 1.00 hours for 36,000 steps, about 327,680 tokens/s",
        "about 1,816 rows, by proportion",
        "nothing ran",
    ):
        assert words in text, words
    big = CompiledStep(**{**STEP.__dict__, "temporary": 15 * 2**30, "seconds": None, "attention": None, "flops": None})
    assert not big.fits and "NO: 16.00 of 16 GiB" in big.describe(1)
    assert "at least 50.0 ms at the chips' peak; the compiler estimates none for GPUs" in big.describe(1)
    assert json.loads(json.dumps(big.to_dict()))["fits"] is False


def test_products_are_counted_also_in_loops():
    def step(a, b):
        return jax.lax.scan(lambda carry, _: (jnp.tanh(carry @ b), None), a, None, length=5)[0] @ b

    program = jax.make_jaxpr(step)(np.ones((2, 3)), np.ones((3, 3)))
    assert matmul_flops(program.jaxpr) == 6 * 2 * 2 * 3 * 3


def test_cycles_are_added_and_attention_is_told_apart():
    text = """HloModule jit_step
%body.1 (p: f32[2]) -> f32[2] {
  ROOT %f.1 = f32[2] fusion(%p), metadata={op_name="jit(s)/jvp(block_0)/attention/exp"}, "estimated_cycles":"10"
}
ENTRY %main (p: f32[2]) -> f32[2] {
  %f.2 = f32[2] fusion(%p), metadata={op_name="jit(s)/jvp(block_0)/attention/query/dot"}, "estimated_cycles":"100"
  %f.3 = f32[2] fusion(%p), metadata={op_name="jit(s)/jvp(block_0)/attention_norm/mul"}, "estimated_cycles":"1000"
  %w = f32[2] while(%p), condition=%c, body=%body.1
}"""
    assert estimated_cycles(text) == (1110, 10)
    assert estimated_cycles(text, repeats=4) == (1140, 40)


def test_a_packed_step_lowers_for_all_platforms_and_wastes_no_product():
    (printed,) = finish(start("jax_lowering.py", backend="jax"), timeout=600)
    found = json.loads(printed.splitlines()[-1])
    counted, expected = found["products"]
    # The first layer's inputs are looked up, so nothing else is left out.
    assert counted == pytest.approx(expected, rel=1e-6) and found["in parts"] == pytest.approx(expected, rel=1e-6)
    assert found["dynamic"] is False and found["custom calls"] == 0 and found["size"] > 100_000


def test_commands_refuse_unknown_chips(capsys):
    assert main(["pretrain", "text.txt", "out", "--compile-for", "v9"]) == 1
    assert "'v9' is no accelerator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chips", "extra", "module"), [("v5e:2x2", "aot", "libtpu"), ("a100", "aot-gpu", "jax_cuda12_plugin")]
)
def test_a_compiler_that_is_not_installed_is_named_with_its_extra(chips, extra, module):
    if find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(RuntimeError, match=rf"did not start .*pip install 'keras-bert-edge\[{extra}\]'"):
        target_shardings(read_target(chips))


needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="needs libtpu: pip install libtpu")
CHECKPOINT = ROOT / "tests" / "compat" / "0.1.0" / "checkpoints" / "huggingface"


@pytest.mark.slow
@needs_libtpu
def test_a_task_compiles_for_a_tpu(tmp_path):
    lines = [f"{'a good film' if index % 2 else 'the dull plot was bad'}\t{index % 2}" for index in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    words = ["finetune", tmp_path / "train.tsv", tmp_path / "out", "--model", CHECKPOINT, "--sequence-length", "32"]
    command = [sys.executable, "-m", "keras_bert.cli", *words, "--batch-size", "16", "--compile-for", "v5e"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for said in (
        "compiled for     1 × TPU v5e (1x1)",
        "fits             yes",
        "the compiler's estimate",
        "nothing ran",
    ):
        assert said in done.stdout, said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@needs_libtpu
@pytest.mark.parametrize("flags", [(), ("--packed", "--accumulation", "2")])
def test_tiny_compiles_for_four_tpus(flags, tmp_path):
    words = ["pretrain", "none.txt", str(tmp_path), "--size", "tiny", "--batch-size", "64", "--json", *flags]
    command = [sys.executable, "-m", "keras_bert.cli", *words, "--compile-for", "v5e:2x2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (step,) = json.loads(done.stdout.splitlines()[-1]).values()
    assert step["fits"] and step["memory"] < 2**30 and step["tokens"] == 64 * 128
    assert step["matmul_flops"] < step["flops"] < 2 * step["matmul_flops"]
    assert step["seconds"] > step["fastest"] and 0 < step["attention"] < 1
    assert not list(tmp_path.iterdir())  # nothing was trained
