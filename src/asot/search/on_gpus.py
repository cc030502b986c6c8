"""A search for neighbors on GPUs: cheap lower bounds and exact solves in the same kernels (docs/method.md §9).

A pair is ruled out when a lower bound exceeds the distance to the last neighbor so far, of both its ends. Two bounds
are so cheap on a GPU that all pairs are checked: mean points or sorted projections, where the metric is a norm, and,
with the distances of the pair on chip, potentials from its least costs. What they leave is solved, and only what is
near enough comes back. The known distances become smaller as the search continues; a search among other distributions
begins with a few columns, so that every row soon has some. Of other distances than W_1 under a metric with a kernel,
all pairs are solved.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Info
from asot.data.distinct import SparseHistograms
from asot.exact.any_cost import ExactAnyCost
from asot.exact.auto import any_cost_on_gpu, gpu_solver, simplex_of_points
from asot.exact.cuda.points import Limits
from asot.ground.metrics import Ground
from asot.run.devices import Choice
from asot.run.engine import DEFAULT_MEMORY, Ready, Resources, Work, solve_work
from asot.run.executors import Progress, in_stretches
from asot.run.pairs import AllPairs, CrossPairs, PairSet
from asot.run.protocols import SinkBase, Tile
from asot.search.choose import Problem
from asot.search.projections import COARSE, WIDTH, project
from asot.search.sweep import Best, Edges, Shape

MANY_COLUMNS, MOST_MEANS = 10_000, 256
"""Sorted projections pay off from this many columns on; and the most coordinates whose means are kept."""

FIRST_COLUMNS, GROWTH = 256, 3
"""Columns of a first look at two collections, and how many times more each further look has. Among 239,456 molecules, 3
leaves 26,000 pairs to look at closely per query, 16 leaves 32,000, and no bound of this kind fewer than 11,000."""


class _Shifted(SinkBase["Info"]):
    """A sink that hands columns from ``start`` on to what a search keeps."""

    def __init__(self, sink: Best | Edges, start: int) -> None:
        self._sink, self._start = sink, start

    def open(self, pairs: PairSet, info: Info) -> None:
        pass

    def limits(self) -> Float:
        return np.ascontiguousarray(self._sink.limits()[0])

    def accept(self, tile: Tile) -> None:
        rows, columns = tile.indices()
        self._sink.keep(rows, columns + self._start, tile.solution.values)

    def close(self, info: Info) -> Info:
        return info


class _Steps:
    """Progress of one look, added to that of the whole search."""

    def __init__(self, shown: Progress) -> None:
        self._shown, self._done = shown, 0

    def __call__(self, done: int, total: int) -> None:
        self._shown.advance(done - self._done)
        self._done = done


Profiles = tuple[NDArray[np.float32], int, float, float]
"""What bounds the distances of a norm, feature by feature (features, N); how many axes it has shares of the mass along;
and the rounding in it (see `Limits`)."""


def search_on_gpus(problem: Problem, sink: Best | Edges, choice: Choice, shown: Progress) -> Info:
    """Look at all pairs, and return what to say about the search. ``sink`` keeps what was found."""
    histograms, ground, shape = problem.histograms, problem.cost.ground, problem.shape
    memory = None if problem.memory == DEFAULT_MEMORY else problem.memory
    resources = Resources(problem.jobs, memory)
    if problem.distance.has_kernel:
        profiles = profiles_of(histograms, ground, shape.n_columns, problem.jobs)
        return search_points(histograms, ground, shape, profiles, sink, choice, resources, shown)
    solver = problem.solver()
    assert isinstance(solver, ExactAnyCost)
    every = AllPairs(shape.n_rows) if shape.within else CrossPairs(shape.n_rows, shape.n_columns)
    work = Work(every, Ready(solver), Ready(any_cost_on_gpu(solver, resources)), choice)
    info = solve_work(work, _Shifted(sink, 0), replace(resources, progress=_Steps(shown)))
    return info | {"n_exact": len(every), "bounds": []}


def search_points(
    histograms: SparseHistograms, ground: Ground, shape: Shape, profiles: Profiles, sink: Best | Edges, choice: Choice,
    resources: Resources, shown: Progress,
) -> Info:  # fmt: skip
    """The search for W_1 under a metric with a kernel."""
    n_rows, n_columns, column_start, within = shape
    none: Float = np.full(0 if within else n_columns, -np.inf)

    def limits() -> tuple[Float, Float]:
        rows = np.ascontiguousarray(sink.limits()[0])
        return rows, rows if within else none

    asked = Limits(limits, *profiles)
    solver = gpu_solver(histograms, ground, column_start, resources, n_rows * n_columns, limits=asked)
    info, on_cpus = Info(), 0
    for start, pairs in _looks(n_rows, n_columns, within):
        solver.from_column(column_start + start)
        on_cpu = functools.partial(simplex_of_points, histograms, ground, column_start + start)
        work = Work(pairs, on_cpu, Ready(solver), choice)
        info = solve_work(work, _Shifted(sink, start), replace(resources, progress=_Steps(shown)))
        on_cpus += info.get("n_solved_on_cpu", 0)
    names = ["projections" if profiles[1] else "means", "least costs"] if ground.is_norm else ["least costs"]
    return info | {"n_exact": solver.n_solved() + on_cpus, "bounds": names}


def profiles_of(histograms: SparseHistograms, ground: Ground, n_columns: int, n_jobs: int) -> Profiles:
    """The profiles of a collection.

    Sorted projections where there are many columns, since the CPU takes a while for them; else mean points.
    """
    n = len(histograms.offsets) - 1
    if not ground.is_norm:
        return np.empty((0, n), dtype=np.float32), 0, 0.0, 0.0
    if n_columns < MANY_COLUMNS:
        return _mean_points(histograms, ground, n_jobs)
    p = project(histograms, ground, n_jobs, memory=0)
    used = min(WIDTH, ground.points.shape[1])
    shares = p.coarse[:, :, :used].transpose(2, 1, 0).reshape(used * COARSE, n)
    return np.concatenate([shares, p.tail.T]), used, p.relative, p.absolute


def _mean_points(histograms: SparseHistograms, ground: Ground, n_jobs: int) -> Profiles:
    """Means (d, N) along the coordinates; along the widest of them, if there are many: a norm of fewer is no larger."""
    widest = np.argsort(-ground.points.std(axis=0), kind="stable")[:MOST_MEANS]
    x = ground.points[:, widest] - ground.points[:, widest].mean(axis=0)
    means = np.ascontiguousarray(histograms.means(x, functools.partial(in_stretches, n_jobs=n_jobs)).T)
    rounding = float(np.finfo(np.float32).eps)
    extent = float(np.abs(x).max(axis=0).sum())
    return means.astype(np.float32), 0, 2.0 * rounding * (len(means) + 16), 8.0 * rounding * extent


def _looks(n_rows: int, n_columns: int, within: bool) -> Iterator[tuple[int, PairSet]]:
    """Pair sets that are looked at one after another, each with its first column."""
    if within:
        yield 0, AllPairs(n_rows)
        return
    start, width = 0, FIRST_COLUMNS
    while start < n_columns:
        width = min(width, n_columns - start)
        yield start, CrossPairs(n_rows, width)
        start, width = start + width, width * GROWTH
