"""Every entropic solver of the package, on the same problems, against the same long-double loop (tests/oracles.py).

A solver is a function of histograms, points and options that gives values, status, iterations and marginal errors. What
an iteration, a stop and a status is does not depend on the solver (`asot.entropic.options`), so neither do these tests.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

from asot import Distributions, Status, baselines
from asot.entropic import cpu
from asot.entropic.options import SinkhornOptions
from asot.run.pairs import ListedPairs
from tests.oracles import entropic_values, swept
from tests.simt import host, numpy_as_cupy

RATIOS = (1.0, 10.0, 150.0, 1e3)
"""max C/ε. A float64 kernel ends at 200, one of float32 at 40."""

PAIRS = np.array([[0, 1], [1, 2], [0, 3], [2, 4], [3, 4], [4, 4]])
ROWS, COLUMNS = PAIRS.T
NEVER = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Case:
    """Five histograms on nine points of the plane, and the options of a solve."""

    A: np.ndarray
    points: np.ndarray
    options: SinkhornOptions

    @property
    def cost(self):
        return cdist(self.points, self.points)


def case(ratio, *, zeros, **options):
    rng = np.random.default_rng(4)
    points, A = rng.normal(size=(9, 2)), rng.dirichlet(np.ones(9), 5)
    if zeros:
        A[0, :5] = A[1, 3] = A[4, 6:] = 0.0
    cost = cdist(points, points)
    return Case(A / A.sum(axis=1, keepdims=True), points, SinkhornOptions(cost.max() / ratio, **options))


# ----------------------------------------------------------------------------------------------------------- solvers


def on_cpu(case, monkeypatch, log_domain=False):
    if log_domain:
        monkeypatch.setattr(cpu, "KERNEL_RANGE", -1.0)
    found = cpu.SinkhornSharedCost(case.A, None, case.cost, case.options).solve(ROWS, COLUMNS, NEVER)
    return found.values, found.status, found.n_iter, found.marginal_error


def on_points(case, monkeypatch):
    D = Distributions.from_list([case.points] * len(case.A), masses=list(case.A))
    options = case.options
    how = {"max_iter": options.max_iter, "tol": options.tol, "init": options.init}
    r = baselines.entropic(D, reg=options.reg, pairs=PAIRS, **how)
    return r.values, r.status, r.n_iter, r.marginal_error


def in_torch(case, monkeypatch, dtype="float64", log_domain=False):
    torch = pytest.importorskip("torch")
    from asot.entropic import torch_solver

    if log_domain:
        monkeypatch.setattr(torch_solver, "KERNEL_RANGE", dict.fromkeys(torch_solver.KERNEL_RANGE, -1.0))
    A, cost = (torch.tensor(array, dtype=getattr(torch, dtype)) for array in (case.A, case.cost))
    found = torch_solver.SinkhornTorch(A, None, cost, case.options).solve(torch.tensor(ROWS), torch.tensor(COLUMNS))
    return tuple(part.numpy() for part in (found.values, found.status, found.n_iter, found.marginal_error))


def recorded(case, monkeypatch):
    """Iterations that autograd records. They give values only."""
    torch = pytest.importorskip("torch")
    from asot import gradients

    A, cost, options = torch.tensor(case.A), torch.tensor(case.cost), case.options
    how = {"max_iter": options.max_iter, "tol": options.tol, "value": options.value, "gradient": "iterations"}
    return gradients.sinkhorn_many(A, cost=cost, reg=options.reg, pairs=PAIRS, **how).numpy(), None, None, None


def fused(case, monkeypatch, streamed=False):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from triton.runtime import interpreter

    from asot.entropic import triton_fused, triton_kernel

    if not isinstance(triton_kernel.resident_kernel, interpreter.InterpretedFunction):
        pytest.skip("Triton was imported before its interpreter was chosen")
    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):  # Triton 3.6's scalars are arrays of one number, no integers for NumPy 2.4
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
    tiling = triton_fused.Tiling(16, 1, "float64")
    solver = triton_fused.SinkhornTriton(case.A, None, case.cost, case.options, precision="float64", tiling=tiling)
    data = solver.place("cpu", triton_fused.Chip(0 if streamed else 2**30, multiprocessors=2, generation=9))
    with np.errstate(all="ignore"):
        found = triton_fused.launch(data, ListedPairs(PAIRS, 5, 5, symmetric=True), 0, len(PAIRS))
    return tuple(part.numpy() for part in found)


def in_cuda(case, monkeypatch):
    if host.COMPILER is None:
        pytest.skip("the emulator needs a C++ compiler")
    from asot.entropic.cuda import LogSinkhornCuda

    numpy_as_cupy.install(monkeypatch)
    solver = LogSinkhornCuda(case.A, None, case.cost, case.options).on(numpy_as_cupy.DEVICE)
    found = solver.solve(ListedPairs(PAIRS, 5, 5, symmetric=True), 0, len(PAIRS))
    return found.values, found.status, found.n_iter, found.marginal_error


@dataclass(frozen=True)
class Solver:
    solve: object
    accuracy: float = 1e-11
    largest: float = np.inf
    """Largest max C/ε that it takes."""
    zeros: bool = True
    """Whether anchors without mass take part in its first iteration, as in `sinkhorn_many`."""
    values: tuple[str, ...] = ("transport", "regularized")
    inits: tuple[str, ...] = ("ones", "target")


SOLVERS = {
    "NumPy": Solver(on_cpu),
    "NumPy, log domain": Solver(partial(on_cpu, log_domain=True)),
    "a cost for each pair": Solver(on_points, zeros=False, values=("transport",)),
    "torch": Solver(in_torch),
    "torch, float32": Solver(partial(in_torch, dtype="float32"), accuracy=1e-4),
    "torch, log domain": Solver(partial(in_torch, log_domain=True)),
    "torch, recorded": Solver(recorded, inits=("ones",)),
    "Triton, resident": Solver(fused, largest=200.0),
    "Triton, streamed": Solver(partial(fused, streamed=True), largest=200.0),
    "CUDA, log domain": Solver(in_cuda),
}
every_solver = pytest.mark.parametrize("name", SOLVERS)
every_ratio = pytest.mark.parametrize("ratio", RATIOS)


def check(found, expected, accuracy, scale):
    np.testing.assert_allclose(found, expected, rtol=accuracy, atol=accuracy * scale)


# ------------------------------------------------------------------------------------------------------------- tests


@every_solver
@every_ratio
@pytest.mark.parametrize("count", [1, 2, 12])
def test_a_fixed_number_of_iterations(name, ratio, count, monkeypatch):
    solver = SOLVERS[name]
    if ratio > solver.largest:
        pytest.skip("out of its range")
    for value in solver.values:
        for init in solver.inits:
            one = case(ratio, zeros=solver.zeros, max_iter=count, tol=None, value=value, init=init)
            values, status, n_iter, error = solver.solve(one, monkeypatch)
            transport, regularized, wanted_error = swept(
                one.A[ROWS], one.A[COLUMNS], one.cost, one.options.reg, count, init == "target"
            )
            check(values, transport if value == "transport" else regularized, solver.accuracy, one.cost.max())
            if status is not None:
                check(error, wanted_error, solver.accuracy, 1.0)
                np.testing.assert_array_equal(status, Status.FIXED_ITERATIONS)
                np.testing.assert_array_equal(n_iter, count)


@every_solver
@every_ratio
def test_to_convergence(name, ratio, monkeypatch):
    solver = SOLVERS[name]
    slow = name.startswith(("Triton", "torch, recorded", "a cost"))  # plain iterations only
    if ratio > (10.0 if slow else solver.largest):
        pytest.skip("out of its range")
    for value in solver.values:
        one = case(ratio, zeros=solver.zeros, max_iter=5000, value=value)
        if name == "a cost for each pair":  # its tolerance is the marginal error's
            one = replace(one, options=replace(one.options, tol=1e-11))
        values, status, n_iter, error = solver.solve(one, monkeypatch)
        transport, regularized, settled = entropic_values(one.A[ROWS], one.A[COLUMNS], one.cost, one.options.reg)
        assert settled.max() < 1e-12
        done = np.ones(len(PAIRS), bool) if status is None or "Triton" not in name else status == Status.CONVERGED
        assert done.any()  # what is slow, a fused kernel leaves to the log domain
        wanted = transport if value == "transport" else regularized
        check(values[done], wanted[done], max(solver.accuracy, 1e-8), 1e-3 * one.cost.max())
        if status is not None:
            np.testing.assert_array_equal(status[done], Status.CONVERGED)
            assert error[done].max() < max(solver.accuracy, 1e-9)
            assert n_iter.min() >= 1


@every_solver
@pytest.mark.parametrize("ratio", [30.0, 1e3])
def test_what_is_unfinished_says_so(name, ratio, monkeypatch):
    solver = SOLVERS[name]
    if name == "torch, recorded" or ratio > solver.largest:
        pytest.skip("has no status, or out of its range")
    one = case(ratio, zeros=solver.zeros, max_iter=2)
    values, status, n_iter, error = solver.solve(one, monkeypatch)
    differ = ROWS != COLUMNS
    np.testing.assert_array_equal(status[differ], Status.MAX_ITER)
    np.testing.assert_array_equal(n_iter, 2)
    assert np.isfinite(values).all()
    assert error[differ].min() > 1e-9
