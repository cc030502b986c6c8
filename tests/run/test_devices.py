"""Choosing where to solve: the right place, the reason, and clear words when it cannot be."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import asot
from asot.run import devices
from asot.run.devices import choose, parse, torch_device
from tests.simt import numpy_as_cupy

WORK = {"needs": ("cupy",), "cpu_seconds": 100.0}


@pytest.mark.parametrize(
    ("device", "meaning"),
    [("auto", ("auto", None)), ("cpu", ("cpu", None)), ("cuda", ("cuda", None)), ("cuda:12", ("cuda", 12))],
)
def test_names_are_read(device, meaning):
    assert parse(device) == meaning


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:-1", "cuda:x", "", None, 0, "CUDA"])
def test_other_names_are_refused(device):
    with pytest.raises(ValueError, match="unknown device"):
        parse(device)


def test_a_torch_device_is_a_name():
    torch = pytest.importorskip("torch")
    assert parse(torch.device("cuda:1")) == ("cuda", 1)


def test_the_cpu_when_it_is_asked_for(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    choice = choose("cpu", **WORK)
    assert choice.gpus == ()
    assert choice.name == "cpu"


def test_auto_takes_all_gpus_for_enough_work(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=3)
    choice = choose("auto", **WORK)
    assert choice.gpus == (0, 1, 2)
    assert choice.name == "cuda:0 + cuda:1 + cuda:2"
    assert not choice.required


def test_auto_stays_on_the_cpu_for_little_work_and_says_so(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    choice = choose("auto", needs=("cupy",), cpu_seconds=0.1)
    assert choice.gpus == ()
    assert choice.reason == "too little work for a GPU"


def test_a_gpu_that_is_awake_pays_sooner(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    choose("cuda", **WORK)
    assert choose("auto", needs=("cupy",), cpu_seconds=0.1).gpus == (0,)


def test_a_gpu_that_is_awake_takes_what_it_does_faster(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    choose("cuda", **WORK)
    little = {"needs": ("cupy",), "cpu_seconds": 0.01}
    assert choose("auto", **little).gpus == ()
    assert choose("auto", **little, gpu_seconds=0.005).gpus == (0,)
    assert choose("auto", **little, gpu_seconds=0.02).gpus == ()


def test_many_small_problems_go_to_a_gpu_that_is_awake_and_few_large_ones_do_not(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    choose("cuda", **WORK)
    rng = np.random.default_rng(0)
    many, large = (asot.Distributions.from_list(list(rng.normal(size=s))) for s in ((80, 8, 3), (8, 99, 3)))
    seen = []
    monkeypatch.setattr(devices, "choose", lambda *given, **how: seen.append(how) or choose("cpu", **WORK))
    for D in (many, large):
        asot.pairwise_exact(D)
    faster = [how["gpu_seconds"] < how["cpu_seconds"] for how in seen]
    assert faster == [True, False]


def test_one_gpu_by_its_number(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=2)
    assert choose("cuda:1", **WORK).gpus == (1,)
    assert choose("cuda", needs=("cupy",), cpu_seconds=0.0).gpus == (0, 1)


def test_a_gpu_that_does_not_exist(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=2)
    with pytest.raises(ValueError, match=r"cuda:2 does not exist; this machine has 2 GPUs \(cuda:0 to cuda:1\)"):
        choose("cuda:2", **WORK)


def test_a_machine_without_gpus(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=0)
    with pytest.raises(ValueError, match="device='cuda' cannot be used: CUDA finds no GPU"):
        choose("cuda", **WORK)
    assert choose("auto", **WORK).reason == "CUDA finds no GPU"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("cudaErrorInsufficientDriver: CUDA driver version is insufficient", "driver is too old"),
        ("cudaErrorNoDevice: no CUDA-capable device is detected", "CUDA finds no GPU"),
    ],
)
def test_what_the_driver_says_is_reported(monkeypatch, code, message):
    cupy = numpy_as_cupy.install(monkeypatch)

    def fail():
        raise cupy.cuda.runtime.CUDARuntimeError(code)

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fail)
    with pytest.raises(ValueError, match=message):
        choose("cuda", **WORK)
    assert message in choose("auto", **WORK).reason


def test_a_gpu_that_is_too_old(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    monkeypatch.setattr(numpy_as_cupy.Device, "compute_capability", "61")
    with pytest.raises(ValueError, match="cuda:0 is older than compute capability 7"):
        choose("cuda", **WORK)


@pytest.mark.parametrize("package", ["cupy", "torch", "triton"])
def test_a_package_that_is_missing(monkeypatch, package):
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None if name == package else object())
    monkeypatch.setattr(devices.ahead, "archive", lambda: None)
    monkeypatch.setattr(devices, "_cupy_obstacle", lambda: None)
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: None)
    with pytest.raises(ValueError, match=r"device='cuda' cannot be used: \w+ is not installed"):
        choose("cuda", needs=("cupy", "torch", "triton"), cpu_seconds=100.0)
    assert "not installed" in choose("auto", needs=("cupy", "torch", "triton"), cpu_seconds=100.0).reason


def test_a_cupy_that_does_not_load(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: object())
    assert "CuPy does not load" in devices._cupy_obstacle.__wrapped__()


def test_a_problem_that_no_gpu_solver_takes(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    with pytest.raises(ValueError, match="too wide"):
        choose("cuda", **WORK, unfit="too wide")
    assert choose("auto", **WORK, unfit="too wide").reason == "too wide"


def test_the_low_level_call_names_the_limit_of_the_gpu_solver(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    with pytest.raises(ValueError, match=r"up to 512 anchors of a metric cost; found 600"):
        asot.emd_many(np.eye(600), cost=1.0 - np.eye(600), device="cuda")


# ------------------------------------------------------------------------------------------- torch


def test_points_go_to_a_gpu_that_was_asked_for_pairs_only_if_that_pays():
    names = ("auto", "cpu", "cuda", "cuda:0", "cuda:1")
    assert [devices.of_points(name) for name in names] == ["auto", "cpu", "auto", "auto", "cuda:1"]


def test_torch_is_used_only_where_it_is_worth_it(monkeypatch):
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: None)
    assert torch_device("auto", worth_it=False) is None
    assert torch_device("auto", worth_it=True) == "cuda"
    assert torch_device("cuda", worth_it=False) == "cuda"
    assert torch_device("cpu", worth_it=True) is None


def test_torch_without_a_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: "PyTorch finds no usable GPU")
    assert torch_device("auto", worth_it=True) is None
    with pytest.raises(ValueError, match="device='cuda' cannot be used: PyTorch finds no usable GPU"):
        torch_device("cuda", worth_it=True)


def test_torch_with_a_number_that_does_not_exist(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(devices, "_torch_obstacle", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert torch_device("cuda:0", worth_it=False) == "cuda:0"
    with pytest.raises(ValueError, match="cuda:5 does not exist"):
        torch_device("cuda:5", worth_it=False)
