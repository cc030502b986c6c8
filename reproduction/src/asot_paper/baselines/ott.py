"""OTT-JAX's low-rank Sinkhorn, in a loop over pairs.

OTT compiles a function for every shape. So all distributions are padded to the largest size with points that have no
mass, which changes no answer, and one function solves all pairs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.baselines.arguments import read
from asot.data.distributions import Distributions
from asot.request import Request
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.run.protocols import Status
from asot.validation import as_positive_int
from asot_paper.baselines.checks import as_weight
from asot_paper.baselines.loops import Answer, Pair, run_loop


def ott_low_rank(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    rank: int = 10,
    reg: float = 0.0,
    max_iter: int = 2000,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Low-rank Sinkhorn by OTT-JAX: ``LRSinkhorn`` for every pair, with the Euclidean cost.

    OTT-JAX has to be installed: ``pip install ott-jax``. It computes in float32 unless JAX is told otherwise.

    Parameters
    ----------
    D, E, pairs, n_jobs, progress
        As in `ot_emd`.
    rank : int
        Of the plan.
    reg : float
        Weight ≥ 0 of the entropy.
    max_iter : int
        Pairs that hit it have status ``Status.MAX_ITER``.
    random_state : int
        Seed of OTT's random start.

    Returns
    -------
    Distances
        ⟨T, C⟩ of the plan that was found, and its ``marginal_error``.
    """
    solver = _compiled_solver(as_positive_int(rank, "rank"), as_weight(reg), as_positive_int(max_iter, "max_iter"))
    asked = read(D, E, pairs)
    n, m = _largest_sizes(asked)

    def solve(pair: Pair) -> Answer:
        value, plan_rows, converged, n_iter = solver(
            *_padded(pair.x, pair.a, n), *_padded(pair.y, pair.b, m), random_state
        )
        error = float(np.abs(np.asarray(plan_rows)[: len(pair.a)] - pair.a).sum())
        return Answer(float(value), Status.CONVERGED if converged else Status.MAX_ITER, int(n_iter), error)

    info = {"solver": "OTT-JAX, LRSinkhorn", "precision": "float32 unless JAX has x64", "reg": reg, "rank": rank}
    return run_loop(asked, solve, "low-rank Sinkhorn (OTT)", info, n_jobs=n_jobs, progress=progress)


def _compiled_solver(rank: int, reg: float, max_iter: int) -> Callable[..., Any]:
    """(x, a, y, b, seed) → ⟨T, C⟩, row sums of T, whether it converged, iterations."""
    try:
        jax = importlib.import_module("jax")
        costs, clouds = (importlib.import_module(f"ott.geometry.{name}") for name in ("costs", "pointcloud"))
        problems = importlib.import_module("ott.problems.linear.linear_problem")
        solvers = importlib.import_module("ott.solvers.linear.sinkhorn_lr")
    except ImportError as error:
        raise ImportError("OTT-JAX is not installed; pip install ott-jax") from error
    method = solvers.LRSinkhorn(rank=rank, epsilon=reg, max_iterations=max_iter)

    def solve(x: Any, a: Any, y: Any, b: Any, seed: Any) -> Any:
        geometry = clouds.PointCloud(x, y, cost_fn=costs.Euclidean())
        found = method(problems.LinearProblem(geometry, a, b), rng=jax.random.key(seed))
        return found.primal_cost, found.marginal(1), found.converged, found.n_iters

    jitted: Callable[..., Any] = jax.jit(solve)
    return jitted


def _largest_sizes(asked: Request) -> tuple[int, int]:
    second = asked.D if asked.E is None else asked.E
    return int(asked.D.sizes.max()), int(second.sizes.max())


def _padded(points: NDArray[Any], masses: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The last point, without mass, as often as needed."""
    missing = size - len(points)
    return np.pad(points, ((0, missing), (0, 0)), mode="edge"), np.pad(masses, (0, missing))
