"""Kernels that are compiled ahead: what solvers ask for is on their lists, and only what matches is ever loaded."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from asot.entropic import cuda as entropic_cuda
from asot.estimate import cuda as estimates
from asot.exact.cuda import any_cost, own_costs, points, points_plan, solver, tables
from asot.gpu import ahead, cuda
from asot.run import gpu_transfer
from tests.simt import host, numpy_as_cupy

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "build_support"))
import gpu_kernels  # noqa: E402

sys.path.pop(0)

SHARED = sorted({size for sizes in ahead.SHARED_MEMORY.values() for size in sizes} | set(ahead.PTX_SHARED_MEMORY))
every_chip = pytest.mark.parametrize("shared_memory", SHARED)


def listed(module, shared_memory):
    return {(name, cuda.options_of(defines)) for name, defines in module.variants(shared_memory)}


# ------------------------------------------------------------------------------------------- the lists


@every_chip
def test_metric_costs_of_every_size_are_on_the_list(shared_memory):
    known = listed(solver, shared_memory)
    for n in (*range(1, 67, 1 if shared_memory == SHARED[-1] else 5), 99, 128, 129, 150, 255, 257, 300, 500, 512):
        cost = tables.node_cost(1.0 - np.eye(n) + np.eye(n) * (n == 1), cancel=True)
        plan = tables.lanes_plan(cost) if cost.n_nodes <= tables.MOST_LANES_NODES else tables.warp_plan(cost)
        for trees in (0, 1):
            defines = plan.geometry(shared_memory).defines | {"TREES": trees}
            assert (plan.name, cuda.options_of(defines)) in known, n


def test_padding_never_changes_how_costs_are_rounded():
    for n in range(2, solver.MAX_NODES + 1):
        padded = tables.padded_nodes(n)
        assert n <= padded <= solver.MAX_NODES
        assert tables._cost_bits(padded) == tables._cost_bits(n)


@every_chip
@pytest.mark.parametrize(("far_bytes", "multiprocessors"), [(2**20, 40), (2**30, 132), (2**34, 200)])
def test_points_of_every_size_are_on_the_list(shared_memory, far_bytes, multiprocessors):
    known = listed(points, shared_memory)
    for bounded, has_table in itertools.product((0, 1), (0, 1)):
        source = {"METRIC": 0, "BOUNDED": bounded, "TABLE": has_table}
        classes = points_plan.CLASSES if has_table else points_plan.CLASSES_FROM_COORDINATES
        for own in points_plan.classes_for(points_plan.MOST_POINTS, shared_memory, classes):
            launch = own.launch(shared_memory, far_bytes, multiprocessors, source)
            assert (own.kernel, cuda.options_of(launch.defines)) in known
            assert launch.threads <= launch.defines["THREADS"]


@every_chip
@pytest.mark.parametrize("module", [any_cost, own_costs], ids=["any_cost", "own_costs"])
@pytest.mark.parametrize(("far_bytes", "multiprocessors"), [(2**20, 40), (2**34, 200)])
def test_other_costs_of_every_size_are_on_the_list(shared_memory, module, far_bytes, multiprocessors):
    known = {options for _, options in listed(module, shared_memory)}
    source = {"TABLE": 0, "METRIC": 0, "BOUNDED": 0} | ({"CLOUDS": 1} if module is own_costs else {})
    for own in points_plan.classes_for(module.CLASSES[-1].most_rows, shared_memory, module.CLASSES):
        assert cuda.options_of(own.launch(shared_memory, far_bytes, multiprocessors, source).defines) in known


@every_chip
def test_estimates_are_on_the_list(shared_memory):
    known, limits = listed(estimates, shared_memory), (132, shared_memory, 2**28)
    for nodes, most, width in itertools.product((2, 30, 152, 512), (1, 9, 40, 300), estimates.WIDTHS):
        shapes = {
            "estimate": estimates.means_geometry(nodes, most, 0.7 * most, width, limits),
            "bracket": estimates.points_geometry(nodes, most, width, limits),
        }
        for name, shape in shapes.items():
            assert (name, cuda.options_of(shape.defines)) in known
            assert shape.threads <= shape.defines["THREADS"]


@every_chip
def test_every_solver_has_a_list_without_repeats(shared_memory):
    found = [(name, cuda.options_of(defines)) for name, defines in gpu_kernels.variants(shared_memory)]
    assert len(found) == len(set(found))
    for module in (entropic_cuda, gpu_transfer):
        assert listed(module, shared_memory) <= set(found)


def test_no_module_that_loads_kernels_is_forgotten():
    src = ROOT / "src"
    loading = [file for file in (src / "asot").rglob("*.py") if "from asot.gpu.cuda import" in file.read_text("utf-8")]
    names = {".".join(file.relative_to(src).with_suffix("").parts) for file in loading}
    assert names == set(gpu_kernels.SOLVERS)


@pytest.mark.slow
@host.needs_compiler
@pytest.mark.parametrize("file", sorted({name for name, _ in gpu_kernels.variants(SHARED[-1])}))
def test_what_is_listed_compiles(tmp_path, file):
    """The first and the last of every kernel file, by the emulator's compiler."""
    own = [defines for name, defines in gpu_kernels.variants(SHARED[-1]) if name == file]
    headers = [Path(host.__file__).with_name(name).read_text("utf-8") for name in ("simt.hpp", "words.hpp")]
    text = tmp_path / "kernel.cpp"
    text.write_text("\n".join([*headers, cuda.source(file)]), encoding="utf-8")
    for defines in (own[0], own[-1]):
        command = [str(host.COMPILER), "-fsyntax-only", "-w", *cuda.options_of(defines), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def nvrtc():
    try:
        return gpu_kernels.Nvrtc(gpu_kernels.find_nvrtc())
    except SystemExit as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted({name for name, _ in gpu_kernels.variants(SHARED[-1])}))
def test_nvrtc_compiles_what_is_listed(nvrtc, file):
    """The first of every kernel file. NVRTC has none of the headers that the emulator's compiler has."""
    own = next(defines for name, defines in gpu_kernels.variants(SHARED[-1]) if name == file)
    assert nvrtc.compile(cuda.source(file), cuda.options_of(own), "ptx")


# ------------------------------------------------------------------------------------------- the archive


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """An archive of three kernels for every kind of chip, whose code tells what it is."""
    place = tmp_path / ahead.ARCHIVE
    index, text = {}, ""
    for kind, key in itertools.product(("sm_80", "sm_90", "sm_100", "ptx"), ("a", "b", "reduce")):
        name = key if key != "reduce" else ahead.key_of(cuda.source("reduce"), cuda.options_of({}))
        code = f"{kind} {key};"
        index[f"{kind}/{name}"] = "all", len(text), len(code)
        text += code
    with zipfile.ZipFile(place, "w") as made:
        made.writestr(ahead.INDEX, json.dumps(index))
        made.writestr("all", text, zipfile.ZIP_LZMA)
    monkeypatch.setattr(ahead, "archive", lambda: place)
    return place


@pytest.mark.parametrize(
    ("capability", "kind"),
    [(75, None), (80, "sm_80"), (86, "sm_80"), (89, "sm_80"), (90, "sm_90"), (100, "sm_100"), (103, "sm_100"),
     (110, "ptx"), (120, "ptx")],
)  # fmt: skip
def test_a_chip_gets_its_own_code_or_that_of_an_older_one_of_its_kind(archive, capability, kind):
    found = ahead.find("b", capability)
    assert found == (None if kind is None else f"{kind} b;".encode())


def test_a_kernel_that_is_not_there_is_not_found(archive):
    assert ahead.find("c", 90) is None


def test_without_the_package_there_is_no_archive(monkeypatch):
    monkeypatch.setitem(sys.modules, "asot_cuda", None)
    assert ahead.archive.__wrapped__() is None


def test_other_text_and_other_defines_are_another_kernel():
    keys = {ahead.key_of(text, options) for text in ("x", "y") for options in (("-DA=1",), ("-DA=2",), ())}
    assert len(keys) == 6


class Loaded:
    """Stands in for a module of CuPy, which a driver may refuse."""

    refused = False

    def load(self, code):
        if self.refused:
            raise CUDADriverError("CUDA_ERROR_NO_BINARY_FOR_GPU")
        self.code = code

    def get_function(self, name):
        return f"{name} of {self.code.decode()}"


class CUDADriverError(RuntimeError):
    pass


@pytest.fixture
def cupy(monkeypatch, archive):
    installed = numpy_as_cupy.install(monkeypatch)
    monkeypatch.setattr(ahead, "archive", lambda: archive)
    installed.cuda.function = type("function", (), {"Module": Loaded})
    installed.cuda.driver = type("driver", (), {"CUDADriverError": CUDADriverError})
    monkeypatch.setattr(cuda, "_load", cuda._load.__wrapped__)
    monkeypatch.setattr(installed, "RawModule", lambda code, options: ("compiled", options))
    return installed


def test_what_was_compiled_ahead_is_loaded(cupy):
    module = cuda.load("reduce", {})
    assert module.get_function("keep_near")._function == "keep_near of sm_90 reduce;"
    assert module.get_function("keep_near") is module.get_function("keep_near")


def test_a_changed_source_is_compiled(cupy, monkeypatch):
    text = cuda.source("reduce")
    monkeypatch.setattr(cuda, "source", lambda name: text + "\n")
    assert cuda.load("reduce", {}) == ("compiled", cuda.options_of({}))


def test_another_define_is_compiled(cupy):
    assert cuda.load("reduce", {"MORE": 1}) == ("compiled", cuda.options_of({"MORE": 1}))


def test_what_a_driver_refuses_is_compiled(cupy, monkeypatch):
    monkeypatch.setattr(Loaded, "refused", True)
    assert cuda.load("reduce", {}) == ("compiled", cuda.options_of({}))


def test_the_archive_of_this_checkout_has_every_kernel():
    if not gpu_kernels.PLACE.exists():
        pytest.skip("packaging/build_gpu_kernels was not run here")
    with zipfile.ZipFile(gpu_kernels.PLACE) as archive:
        index = json.loads(archive.read(ahead.INDEX))
    kinds = sorted({key.split("/")[0] for key in index})
    for kind, name, options in gpu_kernels.jobs(kinds):
        assert f"{kind}/{ahead.key_of(cuda.source(name), options)}" in index, (kind, name, options)
