"""The exact kernels for GPUs, run by the emulator: against the CPU's solver, POT and their own dual potentials."""

from __future__ import annotations

import functools
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from asot.exact.cuda.solver import MAX_NODES, DeviceTrees, ExactCuda
from asot.exact.cuda.tables import lanes_plan, node_cost, warp_plan
from asot.exact.shared_cost import ExactSharedCost
from asot.gpu import cuda as module
from asot.run.pairs import make_pairs
from asot.run.protocols import Status
from tests.oracles import pot_values
from tests.simt import host, numpy_as_cupy
from tests.strategies import METRICS, problem

LANES_SIZES = (1, 2, 3, 5, 23, 30, 32, 33, 47, 64)
WARP_SIZES = (65, 100, 150, 256)
RECTANGLES = ((1, 1), (2, 3), (12, 12), (20, 27), (60, 40))
TOL = 1e-12
SHARED_MEMORY = {"turing": 64 * 1024, "ada": 99 * 1024, "ampere": 163 * 1024, "hopper": 227 * 1024}


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Compile all kernels of these tests side by side: one after another they would take most of the time."""
    if host.COMPILER is None:
        return
    solvers = [metric_solver("plane", k)[0] for k in (*LANES_SIZES, *WARP_SIZES)]
    solvers += [ExactCuda(np.eye(k), np.eye(l), np.ones((k, l)), cancel=False) for k, l in RECTANGLES]
    wanted = {(solver.plan.name, *sorted(defines_of(solver).items())) for solver in solvers}
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        numpy_as_cupy.install(patch)
        list(pool.map(lambda which: module.load(which[0], dict(which[1:])), wanted))


@pytest.fixture
def gpu(monkeypatch):
    if host.COMPILER is None:
        pytest.skip("g++ is not installed, and kernels are compiled with it")
    return functools.partial(numpy_as_cupy.install, monkeypatch)


def defines_of(solver, trees=True):
    return solver.plan.geometry(numpy_as_cupy.SHARED_BYTES).defines | {"TREES": int(trees)}


def metric_solver(metric, k, n=8):
    """A solver for a few histograms of every kind; two of them are equal."""
    p = problem(metric, k)
    A = p.histograms[:n]
    return ExactCuda(A, None, p.cost, cancel=True), A, p.cost


def solve_and_prove(solver, A, B, cost, pairs):
    """Values of all pairs, after their plans and potentials have proven them optimal."""
    solution, trees = solver.on(numpy_as_cupy.DEVICE).solve_with_trees(pairs, 0, len(pairs))
    rows, columns = pairs.indices(0, len(pairs))
    plans = solver.plans_and_potentials(rows, columns, DeviceTrees(*(array.get() for array in trees)))
    top = cost.max() or 1.0
    a, b, values = A[rows], (A if B is None else B)[columns], solution.values.get() / top
    T = np.zeros((len(rows), *cost.shape))
    np.add.at(T, (plans.pair, plans.source, plans.sink), plans.mass)
    f, g = plans.f / top, plans.g / top
    assert (plans.mass > 0).all()
    assert np.abs(T.sum(axis=2) - a).max() < TOL
    assert np.abs(T.sum(axis=1) - b).max() < TOL
    assert np.abs((T * (cost / top)).sum(axis=(1, 2)) - values).max() < TOL
    assert (f[:, :, None] + g[:, None, :] - cost / top).max() < TOL
    assert np.abs((f * a).sum(axis=1) + (g * b).sum(axis=1) - values).max() < TOL
    assert (solution.status.get() == Status.OPTIMAL).all()
    return solution.values.get()


def cpu_values(A, B, cost, pairs, cancel):
    solver = ExactSharedCost(A, B, cost, cancel=cancel)
    return solver.solve(*pairs.indices(0, len(pairs)), np.zeros(1, np.int64)).values


def assert_close(values, expected, cost):
    assert np.abs(values / (cost.max() or 1.0) - expected / (cost.max() or 1.0)).max() < TOL


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", LANES_SIZES)
def test_one_pair_per_lane_agrees_with_the_cpu(gpu, metric, k):
    gpu()
    solver, A, cost = metric_solver(metric, k, n=18)
    pairs = make_pairs(len(A), None)
    values = solve_and_prove(solver, A, None, cost, pairs)
    assert_close(values, cpu_values(A, None, cost, pairs, cancel=True), cost)
    assert values[0] == 0.0  # of twins


@pytest.mark.parametrize(("metric", "k"), zip(METRICS, (65, 100, 65, 150, 100, 256), strict=True))
def test_one_pair_per_warp_agrees_with_the_cpu(gpu, metric, k):
    gpu()
    solver, A, cost = metric_solver(metric, k, n=8 if k < 256 else 4)
    pairs = make_pairs(len(A), None)
    values = solve_and_prove(solver, A, None, cost, pairs)
    assert_close(values, cpu_values(A, None, cost, pairs, cancel=True), cost)
    assert values[0] == 0.0


@pytest.mark.parametrize("k", [5, 32, 64, 65])
def test_values_agree_with_pot(gpu, k):
    gpu()
    solver, A, cost = metric_solver("plane", k)
    pairs = make_pairs(len(A), None)
    values = solver.on(numpy_as_cupy.DEVICE).solve_with_trees(pairs, 0, len(pairs))[0].values.get()
    assert_close(values, pot_values(A, A, cost, np.stack(pairs.indices(0, len(pairs)), axis=1)), cost)


@pytest.mark.parametrize(("k", "l"), RECTANGLES)
@pytest.mark.parametrize("ties", [False, True])
def test_any_cost_between_any_two_sets(gpu, k, l, ties):
    gpu()
    rng = np.random.default_rng([k, l])
    cost = rng.integers(0, 4, size=(k, l)).astype(float) if ties else rng.random((k, l)) ** 3
    A, B = rng.dirichlet(np.ones(k), 3), rng.dirichlet(np.ones(l), 3)
    A[0], B[0] = np.eye(k)[0], np.full(l, 1 / l)
    pairs = make_pairs(3, 3)
    values = solve_and_prove(ExactCuda(A, B, cost, cancel=False), A, B, cost, pairs)
    assert_close(values, cpu_values(A, B, cost, pairs, cancel=False), cost)


def test_pairs_within_one_set_under_a_cost_that_is_not_a_metric(gpu):
    gpu()
    rng = np.random.default_rng(0)
    A, cost = rng.dirichlet(np.ones(12), 6), rng.random((12, 12))
    pairs = make_pairs(6, None)
    values = solve_and_prove(ExactCuda(A, None, cost, cancel=False), A, None, cost, pairs)
    assert_close(values, cpu_values(A, None, cost, pairs, cancel=False), cost)


@pytest.mark.parametrize("k", [23, 47, 65])
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e300])
def test_costs_of_any_size(gpu, k, scale):
    gpu()
    _, A, cost = metric_solver("plane", k)
    cost = cost * scale
    pairs = make_pairs(len(A), None)
    values = solve_and_prove(ExactCuda(A, None, cost, cancel=True), A, None, cost, pairs)
    assert_close(values, cpu_values(A, None, cost, pairs, cancel=True), cost)


@pytest.mark.parametrize("k", [23, 47, 65])
def test_a_pair_has_one_answer_whichever_set_and_tile_it_is_in(gpu, k):
    gpu()
    _, A, cost = metric_solver("plane", k)
    n = len(A)
    within, across = ExactCuda(A, None, cost, cancel=True), ExactCuda(A, A, cost, cancel=True)
    device, pairs = within.on(numpy_as_cupy.DEVICE), make_pairs(n, None)
    rows, columns = pairs.indices(0, len(pairs))
    values = device.solve_with_trees(pairs, 0, len(pairs))[0].values.get()
    tile = device.solve_with_trees(pairs, 5, 12)[0].values.get()
    listed = device.solve_with_trees(make_pairs(n, None, np.stack([columns, rows], axis=1)[::-1]), 3, 9)[0].values.get()
    cross = across.on(numpy_as_cupy.DEVICE).solve_with_trees(make_pairs(n, n), 0, n * n)[0].values.get().reshape(n, n)
    assert np.array_equal(tile, values[5:12])
    assert np.array_equal(listed, values[::-1][3:9])
    assert np.array_equal(cross[rows, columns], values)
    assert (np.diagonal(cross) == 0.0).all()


@pytest.mark.parametrize("k", [23, 47, 65])
def test_the_order_of_threads_does_not_matter(gpu, k):
    solver, A, _ = metric_solver("grid", k)
    pairs = make_pairs(len(A), None)
    found = []
    for order in host.ORDERS:
        gpu(order_seed=order)
        solution, trees = solver.on(numpy_as_cupy.DEVICE).solve_with_trees(pairs, 0, len(pairs))
        found.append([solution.values, solution.n_iter, *trees])
    assert all(
        np.array_equal(x, y, equal_nan=True) for other in found[1:] for x, y in zip(found[0], other, strict=True)
    )


@pytest.mark.parametrize("k", [23, 65])
def test_values_alone_are_the_same(gpu, k):
    gpu()
    solver, A, _ = metric_solver("plane", k)
    device, pairs = solver.on(numpy_as_cupy.DEVICE), make_pairs(len(A), None)
    alone, (with_trees, _) = device.solve(pairs, 0, len(pairs)), device.solve_with_trees(pairs, 0, len(pairs))
    for name in ("values", "status", "n_iter"):
        assert np.array_equal(getattr(alone, name), getattr(with_trees, name))


@pytest.mark.parametrize("k", [30, 65])
def test_a_bound_on_pivots_leaves_a_feasible_plan(gpu, monkeypatch, k):
    gpu()
    solver, A, cost = metric_solver("plane", k)
    pairs = make_pairs(len(A), None)
    expected = cpu_values(A, None, cost, pairs, cancel=True)
    text = module.source(solver.plan.name)
    assert "MOST_PIVOTS = 64 * NODES * NODES" in text
    monkeypatch.setattr(
        module, "source", lambda name: text.replace("MOST_PIVOTS = 64 * NODES * NODES", "MOST_PIVOTS = 2")
    )
    monkeypatch.setattr(module, "_load", module._load.__wrapped__)
    solution = solver.on(numpy_as_cupy.DEVICE).solve_with_trees(pairs, 0, len(pairs))[0]
    stopped = solution.status.get() == Status.MAX_ITER
    assert stopped.any()
    assert (~stopped).any()
    assert (solution.n_iter.get()[stopped] == 2).all()
    assert_close(solution.values.get()[~stopped], expected[~stopped], cost)
    assert (solution.values.get() > expected - TOL * cost.max()).all()


# ---------------------------------------------------------------------------------------------------- host


@pytest.mark.parametrize("shared_memory", SHARED_MEMORY.values(), ids=SHARED_MEMORY)
@pytest.mark.parametrize("n", [2, 12, 23, 32, 33, 64, 65, 150, 256, MAX_NODES])
def test_blocks_fit_into_shared_memory(shared_memory, n):
    cost = node_cost(1.0 - np.eye(n), cancel=True)
    plan = lanes_plan(cost) if n <= 64 else warp_plan(cost)
    if not plan.fits(shared_memory):
        assert (n, shared_memory) == (64, SHARED_MEMORY["turing"])
        plan = warp_plan(cost)
    threads, shared_bytes, defines = plan.geometry(shared_memory)
    assert 32 <= threads <= 1024
    assert shared_bytes <= shared_memory
    assert defines["THREADS"] == threads


def test_where_a_block_has_too_little_memory_a_warp_takes_a_pair(gpu, monkeypatch):
    gpu()
    monkeypatch.setitem(numpy_as_cupy.Device.attributes, "MaxSharedMemoryPerBlockOptin", SHARED_MEMORY["turing"])
    solver, A, cost = metric_solver("plane", 64, n=4)
    pairs = make_pairs(len(A), None)
    values = solve_and_prove(solver, A, None, cost, pairs)
    assert solver.plan.name == "exact_warp"
    assert_close(values, cpu_values(A, None, cost, pairs, cancel=True), cost)


@pytest.mark.parametrize("k", [1, 23, 64, 150, MAX_NODES])
def test_tiles_keep_within_memory(k):
    solver = ExactCuda(np.eye(k)[:2], None, 1.0 - np.eye(k), cancel=True)
    assert solver.pairs_per_tile(2**40) >= 4096
    assert 1 <= solver.pairs_per_tile(10_000) <= 500


@pytest.mark.parametrize("n", [23, 30, 60, 150, 512])
def test_nvcc_compiles_kernels_for_old_and_new_gpus(tmp_path, n):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    cost = node_cost(1.0 - np.eye(n), cancel=True)
    plan = lanes_plan(cost) if n <= 64 else warp_plan(cost)
    path = tmp_path / "kernel.cu"
    path.write_text(module.source(plan.name), encoding="utf-8")

    def compiled(arch, gpu_name):
        defines = plan.geometry(SHARED_MEMORY[gpu_name]).defines | {"TREES": 0}
        options = ["-std=c++17", "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-o", str(tmp_path / arch)]
        command = [nvcc, *options, *(f"-D{key}={value}" for key, value in defines.items()), str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(compiled, ("sm_75", "sm_80", "sm_90"), ("turing", "ampere", "hopper")))
    for done in reports:
        assert done.returncode == 0, done.stderr
        if n <= 32:
            assert " 0 bytes spill stores" in done.stdout + done.stderr, done.stderr
