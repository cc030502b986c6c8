"""The fused Sinkhorn kernels, run by Triton's interpreter on the CPU and compared with the CPU solver.

The interpreter must be chosen before Triton is imported, hence the order of imports here.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")

torch = pytest.importorskip("torch", reason="torch is not installed")
triton = pytest.importorskip("triton", reason="Triton is not installed")

import triton.language as tl  # noqa: E402
from triton.runtime import interpreter  # noqa: E402

from asot.entropic import (  # noqa: E402
    halves,
    shared_kernel,
    triton_fused,
)
from asot.entropic import triton_kernel as sinkhorn_triton_kernel  # noqa: E402
from asot.entropic.cpu import SinkhornSharedCost  # noqa: E402
from asot.entropic.options import SinkhornOptions  # noqa: E402
from asot.entropic.triton_fused import (  # noqa: E402
    Chip,
    SinkhornTriton,
    Tiling,
    kernel_is_safe,
    launch,
    split,
    summation_order,
)
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs  # noqa: E402
from asot.run.protocols import OPEN, DeviceSolution, Status  # noqa: E402

if not isinstance(sinkhorn_triton_kernel.resident_kernel, interpreter.InterpretedFunction):
    pytest.skip("Triton was imported before its interpreter was chosen", allow_module_level=True)

PRECISION = {"tf32x3": "float32", "tf32": "tf32", "float64": "float64"}
ACCURACY = {"tf32x3": 1e-6, "tf32": 2e-3, "float64": 1e-13}
"""Relative errors of values that a mode is allowed."""

FIXED = {"reg": 0.1, "max_iter": 8, "tol": None}


@pytest.fixture(autouse=True)
def _scalars_as_integers(monkeypatch):
    """Triton 3.6's interpreter holds scalars as arrays of one number, which NumPy 2.4 does not take for integers."""
    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)


def problem(k, l=None, n=5, seed=0):
    """Histograms with empty anchors, and distances between points; a second set on l other anchors."""
    rng = np.random.default_rng([k, l or 0, seed])
    points = rng.random((k, 3))
    others = points if l is None else rng.random((l, 3))
    cost = np.sqrt(((points[:, None] - others) ** 2).sum(axis=2))
    A, B = (rng.dirichlet(np.ones(size), n) for size in (k, l or k))
    for histograms in (A, B):
        histograms[0, : histograms.shape[1] // 2] = 0.0
        histograms /= histograms.sum(axis=1, keepdims=True)
    return A, None if l is None else B, cost


def fused(A, B, cost, pairs, mode="float64", start=0, streamed=False, block=16, **how):
    """Values, status, iterations and errors of the pairs from ``start`` on, by the kernels."""
    solver = SinkhornTriton(
        A, B, cost, SinkhornOptions(**how), precision=PRECISION[mode], tiling=Tiling(block, 1, mode)
    )
    data = solver.place("cpu", Chip(shared_memory=0 if streamed else 2**30, multiprocessors=2, generation=9))
    pieces = "WIDE" in data.constants
    between = any(wide < len(cost) <= most for wide, most in ((32, 48), (64, 96), (128, 160)))
    assert pieces == (not streamed and B is None and mode == "tf32x3" and between)
    assert (data.n_programs > 0) == (streamed or (max(cost.shape) > 128 and not pieces))
    with np.errstate(all="ignore"):  # the GPU does not warn of what leaves its range
        return [part.numpy() for part in launch(data, pairs, start, len(pairs))]


def on_cpu(A, B, cost, pairs, start=0, **how):
    rows, columns = pairs.indices(start, len(pairs))
    return SinkhornSharedCost(A, B, cost, SinkhornOptions(**how)).solve(rows, columns, np.zeros(1, np.int64))


@pytest.mark.parametrize("mode", PRECISION)
@pytest.mark.parametrize(("k", "l"), [(1, None), (2, None), (16, None), (30, None), (20, 33), (65, 3)])
def test_values_and_errors_are_those_of_the_cpu_solver(k, l, mode):
    A, B, cost = problem(k, l)
    pairs = AllPairs(5) if B is None else CrossPairs(5, 5)
    values, status, n_iter, error = fused(A, B, cost, pairs, mode, **FIXED)
    wanted = on_cpu(A, B, cost, pairs, **FIXED)
    np.testing.assert_allclose(values, wanted.values, rtol=ACCURACY[mode], atol=1e-15)
    np.testing.assert_allclose(error, wanted.marginal_error, atol=ACCURACY[mode])
    assert (status == Status.FIXED_ITERATIONS).all()
    assert (n_iter == 8).all()


@pytest.mark.parametrize("mode", PRECISION)
@pytest.mark.parametrize(("k", "l"), [(3, None), (70, 40), (256, 130)])
def test_streamed_values_are_those_of_the_cpu_solver(k, l, mode):
    A, B, cost = problem(k, l, n=3)
    pairs = AllPairs(3) if B is None else CrossPairs(3, 3)
    how = FIXED | {"max_iter": 2}
    values, status, n_iter, error = fused(A, B, cost, pairs, mode, streamed=True, **how)
    wanted = on_cpu(A, B, cost, pairs, **how)
    np.testing.assert_allclose(values, wanted.values, rtol=ACCURACY[mode])
    np.testing.assert_allclose(error, wanted.marginal_error, atol=ACCURACY[mode])
    assert (status == Status.FIXED_ITERATIONS).all()
    assert (n_iter == 2).all()


@pytest.mark.parametrize(("k", "tol"), [(40, None), (40, 1e-3), (150, None)])
@pytest.mark.parametrize("value", ["transport", "regularized"])
def test_values_of_a_kernel_in_two_pieces_are_those_of_the_cpu_solver(value, k, tol):
    A, _, cost = problem(k, n=3)
    how = {"reg": 0.1, "max_iter": 8 if tol is None else 60, "tol": tol, "value": value}
    values, status, _, error = fused(A, None, cost, AllPairs(3), "tf32x3", **how)
    wanted = on_cpu(A, None, cost, AllPairs(3), **how)
    np.testing.assert_allclose(values, wanted.values, rtol=1e-6 if tol is None else 2 * tol)
    assert (status == wanted.status).all()
    if tol is None:
        np.testing.assert_allclose(error, wanted.marginal_error, atol=1e-6)


def in_halves(A, cost, **how):
    """Values, status, iterations and errors of all pairs, in half-precision parts."""
    solver = SinkhornTriton(A, None, cost, SinkhornOptions(**how), precision="float32", tiling=Tiling(16, 1, "halves"))
    data = solver.place("cpu", Chip(shared_memory=2**18, multiprocessors=2, generation=9))
    with np.errstate(all="ignore"):
        return [part.numpy() for part in launch(data, AllPairs(len(A)), 0, len(A) * (len(A) - 1) // 2)]


@pytest.mark.parametrize(("k", "tol"), [(40, None), (40, 1e-4), (150, None)])
@pytest.mark.parametrize(("value", "init"), [("transport", "ones"), ("regularized", "target")])
def test_values_in_halves_are_those_of_the_cpu_solver(value, init, k, tol, monkeypatch):
    monkeypatch.setitem(triton_fused.HALVES, ("float32", 48), ((32, 16), Tiling(16, 1, "halves")))
    A, _, cost = problem(k, n=3)
    how = {"reg": 0.1, "max_iter": 8 if tol is None else 100, "tol": tol, "value": value, "init": init}
    values, status, _, error = in_halves(A, cost, **how)
    wanted = on_cpu(A, None, cost, AllPairs(3), **how)
    np.testing.assert_allclose(values, wanted.values, rtol=1e-6 if tol is None else 2 * tol)
    assert (status == wanted.status).all()
    if tol is None:
        np.testing.assert_allclose(error, wanted.marginal_error, atol=1e-6)


def test_values_in_halves_are_accurate_up_to_the_largest_exponent(monkeypatch):
    """Masses from 1 down to 1e-12, where costs and masses are as strange as they may be."""
    monkeypatch.setitem(triton_fused.HALVES, ("float32", 48), ((32, 16), Tiling(16, 1, "halves")))
    rng = np.random.default_rng(0)
    far = rng.choice([0.0, 0.5, 1.0], size=(40, 40), p=[0.6, 0.2, 0.2])
    cost = np.triu(far, 1) + np.triu(far, 1).T
    cost[0, 1:] = cost[1:, 0] = 1.0
    A = 10.0 ** rng.uniform(-12, 0, size=(4, 40))
    A[0, 1:] *= 1e-9
    A /= A.sum(axis=1, keepdims=True)
    how = {"reg": 1 / halves.LARGEST_EXPONENT, "max_iter": 30, "tol": None}
    values, *_ = in_halves(A, cost, **how)
    np.testing.assert_allclose(values, on_cpu(A, None, cost, AllPairs(4), **how).values, rtol=2e-6)


def test_halves_are_for_moderate_exponents_and_the_other_parts_for_larger_ones():
    A, _, cost = problem(150, n=2)
    for share, mode in ((1.0, "halves"), (1.01, "tf32x3")):
        reg = float(cost.max()) / (share * halves.LARGEST_EXPONENT)
        solver = SinkhornTriton(A, None, cost, SinkhornOptions(reg=reg, max_iter=5, tol=None), precision="float32")
        assert solver.place("cpu", Chip(2**18, 2, generation=9)).tiling.mode == mode


def test_halves_of_a_matrix_add_up_to_it():
    table = np.exp(-halves.LARGEST_EXPONENT * np.random.default_rng(0).random((16, 16)))
    high, low = (part.astype(np.float64) for part in halves.split(table))
    np.testing.assert_allclose((high + low / halves.LOW_SCALE) / halves.MATRIX_SCALE, table, rtol=2**-22)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("tol", [None, 1e-6])
def test_regularized_values_and_the_start_at_the_target(tol, streamed):
    A, B, cost = problem(18, 25, n=3)
    how = FIXED | {"value": "regularized", "init": "target", "tol": tol, "max_iter": 4 if tol is None else 200}
    values, *_ = fused(A, B, cost, CrossPairs(3, 3), streamed=streamed, **how)
    np.testing.assert_allclose(values, on_cpu(A, B, cost, CrossPairs(3, 3), **how).values, rtol=1e-12)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "pairs",
    [
        AllPairs(9),
        CrossPairs(9, 9),
        ListedPairs(np.array([[3, 1], [0, 8], [4, 4], [8, 0], [2, 7]]), 9, 9, symmetric=True),
        ListedPairs(np.array([[3, 1], [0, 8], [4, 4], [8, 0], [2, 7]]), 9, 9, symmetric=False),
    ],
    ids=["all", "cross", "listed", "listed in order"],
)
def test_a_tile_may_begin_anywhere_in_any_kind_of_pairs(pairs, streamed):
    A, _, cost = problem(6, n=9)
    values, *_ = fused(A, A, cost, pairs, start=3, streamed=streamed, **FIXED)
    np.testing.assert_allclose(values, on_cpu(A, A, cost, pairs, start=3, **FIXED).values, rtol=1e-13, atol=1e-15)


def test_positions_are_exact_for_a_million_histograms():
    @triton.jit
    def locate(positions, listed, rows, columns, n, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        position = tl.load(positions + at)
        row, column = sinkhorn_triton_kernel.pair_at(position, at * 0, n, n, listed, 0)
        tl.store(rows + at, row)
        tl.store(columns + at, column)

    for n in (2, 3, 1000, 10**6, 2**25):
        every = AllPairs(n)
        rng = np.random.default_rng(n)
        rows = rng.integers(0, n - 1, 40)
        firsts = rows * (2 * n - rows - 1) // 2
        positions = np.concatenate(
            [firsts, firsts - 1, firsts + 1, rng.integers(0, len(every), 6), [0, len(every) - 1]]
        )
        positions = torch.as_tensor(np.clip(positions, 0, len(every) - 1))
        rows, columns = torch.zeros(128, dtype=torch.int64), torch.zeros(128, dtype=torch.int64)
        locate[(1,)](positions, torch.zeros(2, dtype=torch.int64), rows, columns, n, SIZE=128)
        wanted = np.array([np.concatenate(every.indices(int(p), int(p) + 1)) for p in positions])
        np.testing.assert_array_equal(np.stack([rows, columns], axis=1), wanted)


@pytest.mark.parametrize("streamed", [False, True])
def test_every_pair_leaves_when_it_has_converged(streamed, monkeypatch):
    monkeypatch.setattr(shared_kernel, "SLOW", np.inf)  # plain updates on the CPU, too
    A, _, cost = problem(12, n=6)
    how = FIXED | {"tol": 1e-5, "max_iter": 300}
    values, status, n_iter, error = fused(A, None, cost, AllPairs(6), streamed=streamed, **how)
    wanted = on_cpu(A, None, cost, AllPairs(6), **how)
    assert (status == Status.CONVERGED).all()
    assert n_iter.tolist() == wanted.n_iter.tolist()
    assert len(set(n_iter)) > 2
    np.testing.assert_allclose(values, wanted.values, rtol=1e-13)
    np.testing.assert_allclose(error, wanted.marginal_error, atol=1e-14)


def test_slow_pairs_are_left_open_and_the_others_are_not():
    A, _, cost = problem(12, n=7)
    how = FIXED | {"tol": 1e-9, "max_iter": 1000, "reg": 0.03}
    values, status, n_iter, error = fused(A, None, cost, AllPairs(7), **how)
    wanted = on_cpu(A, None, cost, AllPairs(7), **how)
    left_open = status == OPEN
    assert 0 < left_open.sum() < len(status)
    assert (n_iter[left_open] < 500).all()
    assert (status[~left_open] == Status.CONVERGED).all()
    np.testing.assert_allclose(values[~left_open], wanted.values[~left_open], rtol=1e-9)
    assert np.isfinite(values + error).all()


@pytest.mark.parametrize("streamed", [False, True])
def test_pairs_at_the_limit_of_iterations_say_so(streamed, monkeypatch):
    monkeypatch.setattr(shared_kernel, "SLOW", np.inf)
    A, _, cost = problem(12, n=4)
    how = FIXED | {"tol": 1e-9, "max_iter": 17}
    values, status, n_iter, _ = fused(A, None, cost, AllPairs(4), streamed=streamed, **how)
    wanted = on_cpu(A, None, cost, AllPairs(4), **how)
    assert (status == Status.MAX_ITER).all()
    assert (n_iter == 17).all()
    np.testing.assert_allclose(values, wanted.values, rtol=1e-13)


def test_float32_reaches_the_tolerance_it_promises():
    A, _, cost = problem(20, n=6)
    how = FIXED | {"tol": 1e-4, "max_iter": 1000}
    values, status, *_ = fused(A, None, cost, AllPairs(6), "tf32x3", **how)
    exact = on_cpu(A, None, cost, AllPairs(6), **how | {"tol": 1e-10})
    assert (status == Status.CONVERGED).all()
    np.testing.assert_allclose(values, exact.values, rtol=1e-4)


@pytest.mark.parametrize("tol", [None, 1e-4])
@pytest.mark.parametrize("streamed", [False, True])
def test_pairs_out_of_range_are_left_open_with_finite_numbers(tol, streamed):
    A, _, cost = problem(12, n=5)
    reg = float(cost.max()) / 2000
    assert not kernel_is_safe(cost, reg, "float32")
    how = FIXED | {"reg": reg, "tol": tol, "max_iter": 20}
    values, status, _, error = fused(A, None, cost, AllPairs(5), "tf32x3", streamed=streamed, **how)
    assert (status == OPEN).any()
    assert np.isfinite(values + error).all()


def test_masses_too_small_for_float32_are_left_out():
    A, _, cost = problem(12, n=4)
    A[0] = 1e-38
    A[1] = 1e-31
    A[2] = 1e-50
    A[[0, 1, 2], [3, 4, 5]] = 1.0
    how = FIXED | {"reg": float(cost.max()) / 40}
    assert kernel_is_safe(cost, how["reg"], "float32")
    values, status, _, error = fused(A, None, cost, AllPairs(4), "tf32x3", **how)
    wanted = on_cpu(A, None, cost, AllPairs(4), **how)
    assert (status == Status.FIXED_ITERATIONS).all()
    np.testing.assert_allclose(values, wanted.values, rtol=1e-6)
    np.testing.assert_allclose(error, wanted.marginal_error, atol=1e-6)


@pytest.mark.parametrize("start_at_target", [False, True])
def test_scalings_stay_in_the_range_that_safety_is_proven_with(start_at_target):
    """|log| of all scalings without their mass is at most 2 R + log l, also for the strangest costs and histograms."""
    rng = np.random.default_rng(0)
    for R in (1.0, 40.0, 200.0):
        for k, l in ((2, 2), (3, 17), (40, 5)):
            M = R * rng.choice([0.0, 0.01, 0.99, 1.0], size=(k, l))
            M.flat[0] = R
            K = np.exp(-M)
            a, b = (np.where(rng.random(n) < 0.5, 1e-300, rng.random(n)) for n in (k, l))
            a, b = a / a.sum(), b / b.sum()
            v = b if start_at_target else np.ones(l)
            largest = 0.0
            for _ in range(60):
                F = 1.0 / (K @ v)
                G = 1.0 / (K.T @ (a * F))
                v = b * G
                largest = max(largest, np.abs(np.log(F)).max(), np.abs(np.log(G)).max())
            assert largest <= 2 * R + np.log(l) + 1e-9


def test_safety_depends_on_range_and_precision():
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    for precision, safe, unsafe in (("float32", 40, 45), ("tf32", 40, 45), ("float64", 200, 250)):
        assert kernel_is_safe(cost, 1 / safe, precision)
        assert not kernel_is_safe(cost, 1 / unsafe, precision)


def test_parts_of_a_matrix_add_up_to_it():
    table = np.exp(-40 * np.random.default_rng(0).random((16, 16)))
    high, low = split(table, "tf32x3", "cpu")
    np.testing.assert_allclose(high.double() + low.double(), table, rtol=2**-22)
    assert not (high.numpy().view(np.int32) & (2**13 - 1)).any()


def test_the_order_of_summation_swaps_what_a_thread_holds_for_what_it_needs():
    assert summation_order(16).tolist() == [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]


def test_a_launch_answers_with_arrays_that_others_can_take():
    A, _, cost = problem(6, n=4)
    solver = SinkhornTriton(A, None, cost, SinkhornOptions(**FIXED), precision="float64")
    answers = launch(solver.place("cpu", Chip(2**17, 2, 9)), AllPairs(4), 1, 6)
    solution = DeviceSolution(*map(np.from_dlpack, answers))
    np.testing.assert_allclose(solution.values, on_cpu(A, None, cost, AllPairs(4), start=1, **FIXED).values, rtol=1e-13)
    assert (solution.status.dtype, solution.n_iter.dtype) == (np.int8, np.int32)
    assert len(solution.marginal_error) == 5
    assert solver.info["precision"] == "float64"


def test_tiles_follow_memory_and_work():
    A, _, cost = problem(6, n=4)
    quick = SinkhornTriton(A, None, cost, SinkhornOptions(**FIXED), precision="float32")
    long = SinkhornTriton(A, None, cost, SinkhornOptions(**FIXED | {"max_iter": 10**6}), precision="float32")
    assert quick.pairs_per_tile(2**40) == 2**24
    assert quick.pairs_per_tile(3700) == 100
    assert 1 <= long.pairs_per_tile(2**40) < 2**16


COMPILED = (
    (90, 30, "float32", False),
    (80, 30, "float64", True),
    (90, 150, "float32", False),
    (90, 150, "float32", False, 0.02),
)
COMPILE = f"""
from tests.entropic.compile_triton import shared_memory
print([shared_memory(*case) for case in {COMPILED}])
"""


def test_kernels_compile_for_gpus_and_fit_into_their_shared_memory(tmp_path):
    """Triton compiles for GPUs that are not there, but not in a process where it interprets."""
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment, timeout=300)
    assert run.returncode == 0, run.stderr
    for needed, allowed in ast.literal_eval(run.stdout):
        assert 0 < needed <= allowed
