"""Values and gradients of problems with costs or clouds of their own: the exact layer beside what others assemble."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from benchmarks.common import Options, Report, Table, largest_difference, microseconds, race, ratio
from benchmarks.exact.edges_rivals import needs
from benchmarks.peers.peers import pot

NEEDS = {"pot", "torch"}

Float = NDArray[np.float64]
Solve = Callable[[Float], Any]


def run(options: Options) -> Report:
    """Race every case, check gradients, and make the report."""
    rows = []
    for case in (*_matrices(options.quick), *_ragged(options.quick), *_assignments(options.quick)):
        done = race(
            {"asot": case.ours, **case.rivals},
            lambda answers: {
                name: largest_difference(values, answers["asot"], float(np.abs(answers["asot"]).max()))
                for name, values in answers.items()
            },
            repeats=case.repeats,
            tolerance=1e-6,
            clock=time.process_time,
        )
        ours = done.seconds["asot"] / case.problems
        best = sorted((done.seconds[name] / case.problems, name) for name in case.rivals)
        wanted = [case.targets.get(name) for _, name in best]
        rows.append([
            case.label, str(case.problems), microseconds(ours), " / ".join(name for _, name in best),
            " / ".join(microseconds(seconds) for seconds, _ in best),
            " / ".join(ratio(seconds / ours, target) for (seconds, _), target in zip(best, wanted, strict=True)),
            f"{max(done.deviations.values()):.0e}",
        ])  # fmt: skip
    columns = ("case", "problems", "asot, µs each", "rival", "its µs each", "times faster", "largest difference")
    tables = [Table("Value and gradient, one thread:", columns, rows), _gradient_table(options.quick)]
    return Report("layer", "An exact layer", INTRODUCTION, tables, NOTES)


INTRODUCTION = (
    "Problems with a cost, or two clouds, of their own: the value of each, and the gradient of their sum. asot is "
    "called as a user of PyTorch calls it (`gradients.emd`, `wasserstein`, `assign`, then `backward`), so its times "
    "include torch's. Times are those that the processor worked, best of interleaved repeats."
)
NOTES = (
    "POT core: `ot.lp.emd_wrap.emd_c`, POT's compiled solver without any of its checks, and the gradient in NumPy.",
    "Assignments have no gradient; rivals get the finished matrix of costs and their time to compute it is counted.",
    "Differences are those of values, over the largest one.",
    "Everything runs on the CPU; `layer_gpu` is about tensors on a GPU.",
)


@dataclass(frozen=True)
class Case:
    label: str
    ours: Callable[[], Float]
    rivals: dict[str, Callable[[], Float]]
    problems: int
    targets: dict[str, float]
    repeats: int = 5


def _core() -> Callable[..., Any]:
    pot()
    from ot.lp.emd_wrap import emd_c

    return lambda a, b, cost: emd_c(a, b, cost, 10_000_000, 1)[:2]


def _assignment_solvers() -> dict[str, Solve]:
    """Functions that give the column of every row."""
    solvers: dict[str, Solve] = {"SciPy": lambda cost: linear_sum_assignment(cost)[1]}
    if needs("lapjv"):
        import lapjv

        solvers["lapjv"] = lambda cost: lapjv.lapjv(cost)[0]
    if needs("lapx"):
        import lap

        solvers["lapx"] = lambda cost: lap.lapjv(cost)[1]
    return solvers


def _layer(cost: Float, a: Float | None = None, b: Float | None = None) -> Callable[[], Float]:
    import torch

    torch.set_num_threads(1)
    tensors = [None if x is None else torch.from_numpy(x) for x in (cost, a, b)]

    def solve() -> Float:
        leaf = tensors[0].detach().requires_grad_()
        values = asot.gradients.emd(leaf, *tensors[1:])
        values.sum().backward()
        return values.detach().numpy()

    return solve


def _matrices(quick: bool) -> Iterator[Case]:
    rng, core = np.random.default_rng(0), _core()
    for n, count, targets in ((25, 375, (2.5, 1.2)), (50, 200, (3.0, 3.0))):
        B = 20 if quick else count
        cost = rng.random((B, n, n))
        a, b = rng.dirichlet(np.ones(n), B), rng.dirichlet(np.ones(n), B)

        def by_core(cost: Float = cost, a: Float = a, b: Float = b) -> Float:
            gradient, values = np.empty_like(cost), np.empty(len(cost))
            for t in range(len(cost)):
                gradient[t], values[t] = core(a[t], b[t], cost[t])
            return values

        rivals = {"POT core": by_core}
        yield Case(f"{n} × {n}, weighted", _layer(cost, a, b), rivals, B, {"POT core": targets[0]}, repeats=25)

        def by_matching(solve: Solve, cost: Float = cost) -> Float:
            gradient, values, each = np.zeros_like(cost), np.empty(len(cost)), np.arange(cost.shape[1])
            for t in range(len(cost)):
                columns = solve(cost[t])
                gradient[t, each, columns] = 1 / len(each)
                values[t] = cost[t, each, columns].mean()
            return values

        matched = {name: lambda solve=solve, by=by_matching: by(solve) for name, solve in _assignment_solvers().items()}
        yield Case(f"{n} × {n}, equal masses", _layer(cost), matched, B, {"lapx": targets[1]}, repeats=25)


def _ragged(quick: bool) -> Iterator[Case]:
    import torch

    rng, core, B = np.random.default_rng(1), _core(), 4 if quick else 64
    sizes = rng.integers(20, 40, (2, B)) if quick else rng.integers(200, 401, (2, B))
    offsets = [np.concatenate([[0], np.cumsum(part)]) for part in sizes]
    x, y = (rng.normal(size=(part[-1], 3)) for part in offsets)

    def ours() -> Float:
        points = torch.from_numpy(x).requires_grad_()
        bounds = [torch.from_numpy(part) for part in offsets]
        values = asot.gradients.wasserstein(points, torch.from_numpy(y), x_offsets=bounds[0], y_offsets=bounds[1])
        values.sum().backward()
        return values.detach().numpy()

    def by_core() -> Float:
        gradient, values = np.empty_like(x), np.empty(B)
        for t in range(B):
            here, there = (slice(part[t], part[t + 1]) for part in offsets)
            cost = cdist(x[here], y[there])
            masses = (np.full(len(side), 1 / len(side)) for side in (x[here], y[there]))
            plan, values[t] = core(*masses, cost)
            i, j = np.nonzero(plan)
            pull = plan[i, j, None] * (x[here][i] - y[there][j]) / cost[i, j, None]
            gradient[here] = np.stack([np.bincount(i, pull[:, c], minlength=len(cost)) for c in range(3)], axis=1)
        return values

    yield Case("200–400 points in 3-D, ragged", ours, {"POT core": by_core}, B, {"POT core": 5.0}, 2)


def _assignments(quick: bool) -> Iterator[Case]:
    import torch

    rng = np.random.default_rng(2)
    for n in (100,) if quick else (1000, 4096):
        repeats = 3 if n < 4000 else 2
        cost = rng.random((n, n))
        solvers = {name: each for name, each in _assignment_solvers().items() if n <= 1000 or name == "lapjv"}
        uniform = {
            name: lambda solve=solve, cost=cost: np.array([cost[np.arange(len(cost)), solve(cost)].mean()])
            for name, solve in solvers.items()
        }
        layer = _layer(cost[None])
        yield Case(f"one assignment of {n:,}, uniform costs", layer, uniform, 1, {"lapjv": 1.0}, repeats)
        if n > 1000:
            continue
        for d in (2, 64):
            x, y = rng.normal(size=(n, d)), rng.normal(size=(n, d))

            def ours(x: Float = x, y: Float = y) -> Float:
                order = asot.gradients.assign(torch.from_numpy(x), torch.from_numpy(y)).numpy()
                return np.array([((x - y[order]) ** 2).sum()])

            def theirs(solve: Solve, x: Float = x, y: Float = y) -> Float:
                squares = cdist(x, y, "sqeuclidean")
                return np.array([squares[np.arange(len(x)), solve(squares)].sum()])

            clouds = {name: lambda solve=solve, theirs=theirs: theirs(solve) for name, solve in solvers.items()}
            yield Case(f"one assignment of {n:,}, clouds in {d}-D", ours, clouds, 1, {"lapjv": 1.0}, repeats)


# ---------------------------------------------------------------------------------------------------------- gradients


def _gradient_table(quick: bool) -> Table:
    """Finite differences where the plan stays, and rules that hold at ties as well."""
    import torch

    rng, step = np.random.default_rng(3), 1e-6
    B = 100 if quick else 1000
    x, y, along = (torch.tensor(rng.normal(size=(B, n, 3))) for n in (8, 9, 8))
    leaf = x.clone().requires_grad_()
    asot.gradients.wasserstein(leaf, y).sum().backward()
    ends, slopes = [], []
    for sign in (1, -1):
        end = (x + sign * step * along).requires_grad_()
        ends.append(asot.gradients.wasserstein(end, y))
        slopes.append(torch.autograd.grad(ends[-1].sum(), end)[0])
    stays = (slopes[0] - slopes[1]).abs().amax((1, 2)) < 1e-3
    error = (((ends[0] - ends[1]) / (2 * step)).detach() - (leaf.grad * along).sum((1, 2)))[stays].abs().max()
    tied = [torch.tensor(rng.integers(0, 3, (10 * B, n, 2)).astype(float), requires_grad=True) for n in (6, 7)]
    values = asot.gradients.wasserstein(*tied)
    values.sum().backward()
    euler = (sum((part * part.grad).sum((1, 2)) for part in tied) - values).abs().max()
    moved = (tied[0].grad.sum(1) + tied[1].grad.sum(1)).abs().max()
    rows = [
        ["finite differences, plan unchanged within the step", f"{int(stays.sum()):,} of {B:,}", f"{error:.0e}"],
        ["Euler: Σ x ∂v/∂x + Σ y ∂v/∂y = v, points on a grid", f"{10 * B:,}", f"{euler:.0e}"],
        ["translation: Σ ∂v/∂x = -Σ ∂v/∂y, points on a grid", f"{10 * B:,}", f"{moved:.0e}"],
    ]
    return Table("Gradients of W_1:", ("check", "problems", "largest error"), rows)
