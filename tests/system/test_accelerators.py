"""Machines by their variables and device files, and what a backend that does not see them says: never a silent CPU."""

import sys

import keras
import pytest

from keras_bert import cli
from keras_bert.system.accelerators import Accelerator, choose_backend, find_accelerator, unused_accelerator
from keras_bert.training import device_sets
from keras_bert.training.devices import choose_devices

TPU, GPU = Accelerator("TPU", "TPU_ACCELERATOR_TYPE=v5e-1"), Accelerator("GPU", "/dev/nvidia0")
# Environment, device files, PCI vendors, and the kind that is found.
MACHINES = {
    "nothing": ({}, [], [], None),
    "colab v5e": ({"TPU_ACCELERATOR_TYPE": "v5e-1"}, ["vfio/0"], ["0x1ae0"], "TPU"),
    "variable alone": ({"TPU_ACCELERATOR_TYPE": "v6e-8"}, [], [], "TPU"),
    "old colab": ({"COLAB_TPU_ADDR": "10.0.0.2:8470"}, [], [], "TPU"),
    "TPU VM by name": ({"TPU_NAME": "local"}, [], [], "TPU"),
    "TPU VM v4": ({}, ["accel0", "accel1"], ["0x1ae0"], "TPU"),
    "TPU VM v5 without variables": ({}, ["vfio/0", "vfio/vfio"], ["0x8086", "0x1ae0"], "TPU"),
    "a network card passed through": ({}, ["vfio/12", "vfio/vfio"], ["0x15b3"], None),
    "the driver of vfio alone": ({}, ["vfio/vfio"], ["0x1ae0"], None),
    "an NPU of a laptop": ({}, ["accel/accel0"], ["0x8086"], None),
    "GPU": ({}, ["nvidia0", "nvidiactl"], ["0x10de"], "GPU"),
    "GPU hidden on purpose": ({"CUDA_VISIBLE_DEVICES": ""}, ["nvidia0"], ["0x10de"], None),
    "GPU of which one is chosen": ({"CUDA_VISIBLE_DEVICES": "1"}, ["nvidia0", "nvidia1"], ["0x10de"], "GPU"),
    "both": ({"TPU_ACCELERATOR_TYPE": "v5e-1"}, ["nvidia0"], [], "TPU"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines(name, tmp_path):
    environment, files, vendors, kind = MACHINES[name]
    for file in files:
        (tmp_path / "dev" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / file).touch()
    for index, vendor in enumerate(vendors):
        device = tmp_path / "sys/bus/pci/devices" / f"0000:00:0{index}.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
    found = find_accelerator(environment, tmp_path)
    assert (None if found is None else found.kind) == kind


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("accelerator", [None, TPU, GPU])
@pytest.mark.parametrize("seen", ["CPU", "GPU", "TPU"])
def test_whoever_sees_only_a_cpu_is_told(backend, accelerator, seen):
    sentence = unused_accelerator(backend, seen, accelerator)
    if seen != "CPU" or accelerator is None:
        assert sentence is None
        return
    assert accelerator.evidence in sentence and "sees only CPUs" in sentence
    cures = {"TPU tensorflow": "set KERAS_BACKEND=jax", "TPU jax": "jax[tpu]", "GPU tensorflow": "tensorflow[and-cuda]"}
    assert cures.get(f"{accelerator.kind} {backend}", "jax[cuda12]") in sentence


def test_devices_that_are_to_be_found_are_no_silent_cpu(monkeypatch):
    monkeypatch.setattr(device_sets, "find_accelerator", lambda: TPU)
    with pytest.raises(RuntimeError, match=r"TPU_ACCELERATOR_TYPE=v5e-1.*set KERAS_BACKEND=jax.*strategy='one'"):
        choose_devices()
    with pytest.warns(UserWarning, match="has a TPU .* but TensorFlow sees only CPUs"):
        assert choose_devices("one").device_type == "CPU"
    with pytest.warns(UserWarning, match="has a TPU"):
        device_sets.warn_of_unused_accelerator()
    monkeypatch.setattr(device_sets, "find_accelerator", lambda: GPU)
    with pytest.warns(UserWarning, match=r"has a GPU \(/dev/nvidia0\), but TensorFlow sees only CPUs"):
        assert choose_devices().device_type == "CPU"


def test_a_jax_that_was_told_to_use_the_cpu_says_so_once(monkeypatch):
    monkeypatch.setattr(device_sets, "find_accelerator", lambda: TPU)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    with pytest.raises(RuntimeError, match=r"JAX sees only CPUs; pip install 'jax\[tpu\]'"):
        device_sets.tell_unused_accelerator("jax", "CPU", "auto")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.warns(UserWarning, match="leave JAX_PLATFORMS unset"):
        device_sets.tell_unused_accelerator("jax", "CPU", "auto")


def test_the_command_line_runs_on_jax_where_there_is_a_tpu(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert choose_backend({}, TPU) == "jax"
    assert choose_backend({"KERAS_BACKEND": "tensorflow"}, TPU) is None
    assert choose_backend({}, GPU) is None
    monkeypatch.setattr(cli, "find_accelerator", lambda: TPU)
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setattr("keras_bert.cli.make_parser", lambda: (_ for _ in ()).throw(ValueError("stop here")))
    assert cli.main(["info"]) == 1
    import os

    assert os.environ.pop("KERAS_BACKEND") == "jax"
    assert "there is a TPU (TPU_ACCELERATOR_TYPE=v5e-1), so Keras runs on JAX" in capsys.readouterr().err
    assert keras.backend.backend() == "tensorflow"
