"""POT's own functions, in the loop over pairs that people write with them, to compare other baselines with.

POT (https://pythonot.github.io) has to be installed: ``pip install 'asot[bench]'``.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from asot.baselines.arguments import read
from asot.baselines.sliced_wasserstein import random_directions
from asot.data.distributions import Distributions
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.run.protocols import Status
from asot.validation import as_choice, as_positive_int, as_tol
from asot_paper.baselines.checks import as_reg_of_points, as_truth, as_weight
from asot_paper.baselines.loops import Answer, Pair, run_loop


def _pot() -> Any:
    try:
        return importlib.import_module("ot")
    except ImportError as error:
        raise ImportError("POT is not installed; pip install 'asot[bench]' (or pip install POT)") from error


def pot_emd(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    max_iter: int = 1_000_000,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Exact W_1 by POT: ``ot.dist`` and ``ot.emd2`` for every pair.

    Parameters
    ----------
    D, E, pairs, n_jobs, progress
        As in `ot_emd`.
    max_iter : int
        Limit of POT's network simplex; pairs that hit it have status ``Status.MAX_ITER``.

    Returns
    -------
    Distances
    """
    ot = _pot()
    limit = as_positive_int(max_iter, "max_iter")

    def solve(pair: Pair) -> Answer:
        cost = ot.dist(pair.x, pair.y, metric="euclidean")
        value, log = ot.emd2(pair.a, pair.b, cost, numItermax=limit, log=True)
        return Answer(float(value), Status.OPTIMAL if log["result_code"] == 1 else Status.MAX_ITER)

    info = {"solver": "POT, ot.emd2", "max_iter": limit}
    return run_loop(read(D, E, pairs), solve, "OT-EMD (POT)", info, n_jobs=n_jobs, progress=progress)


def pot_sinkhorn(
    D: Distributions,
    E: Distributions | None = None,
    *,
    reg: float,
    pairs: ArrayLike | None = None,
    max_iter: int = 50,
    tol: float | None = None,
    init: str = "ones",
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Entropic transport by POT: ``ot.dist`` and ``ot.sinkhorn2`` for every pair.

    The iterations are those of `entropic`: POT updates the second scaling first, so it gets the two distributions in
    the opposite order.

    Parameters
    ----------
    D, E, pairs, n_jobs, progress
        As in `ot_emd`.
    reg, max_iter, init
        As in `entropic`.
    tol : float or None
        POT's ``stopThr``: Euclidean norm of the marginal error at which it stops. None runs ``max_iter`` iterations.

    Returns
    -------
    Distances
        The values are POT's. Where its iteration left the range of float64 it stopped, which the status says
        (``Status.MAX_ITER``), and the value means nothing.
    """
    ot = _pot()
    asked = read(D, E, pairs)
    epsilon = as_reg_of_points(reg, 0.0)
    limit, threshold = as_positive_int(max_iter, "max_iter"), as_tol(tol)
    at_target = as_choice(init, "init", ("ones", "target")) == "target"

    def solve(pair: Pair) -> Answer:
        cost = ot.dist(pair.y, pair.x, metric="euclidean")
        start = (np.log(pair.b), np.zeros_like(pair.a)) if at_target else None
        value, log = ot.sinkhorn2(
            pair.b, pair.a, cost, epsilon, numItermax=limit, stopThr=threshold or 0.0, warn=False, log=True,
            warmstart=start,
        )  # fmt: skip
        if threshold is None:
            # An error is noted in the first iteration, unless POT ended in it.
            fine, status = bool(log["err"]) and log["niter"] + 1 == limit, Status.FIXED_ITERATIONS
        else:
            fine, status = bool(log["err"]) and log["err"][-1] < threshold, Status.CONVERGED
        return Answer(float(value), status if fine and np.isfinite(value) else Status.MAX_ITER, log["niter"] + 1)

    info = {"solver": "POT, ot.sinkhorn2", "reg": epsilon, "max_iter": limit, "tol": threshold}
    return run_loop(asked, solve, "eOT (POT)", info, n_jobs=n_jobs, progress=progress)


def pot_sliced(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    n_projections: int | None = None,
    shared: bool = False,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Sliced Wasserstein by POT: ``ot.sliced_wasserstein_distance`` with p = 1 for every pair.

    Parameters
    ----------
    D, E, pairs, n_jobs, progress
        As in `ot_emd`.
    n_projections, random_state
        As in `sliced`.
    shared : bool
        Give POT the directions that `sliced` shares between pairs. Default: POT draws fresh ones for every pair.

    Returns
    -------
    Distances
    """
    ot = _pot()
    asked = read(D, E, pairs)
    count = asked.D.dim if n_projections is None else as_positive_int(n_projections, "n_projections")
    rng = check_random_state(random_state)
    directions = random_directions(asked.D.dim, count, rng) if as_truth(shared, "shared") else None
    seed = int(rng.randint(2**31))
    distance = functools.partial(ot.sliced_wasserstein_distance, n_projections=count, p=1, projections=directions)

    def solve(pair: Pair) -> Answer:
        own = None if shared else np.random.RandomState([seed, pair.i, pair.j])
        return Answer(float(distance(pair.x, pair.y, pair.a, pair.b, seed=own)))

    info = {"solver": "POT, ot.sliced_wasserstein_distance", "n_projections": count}
    return run_loop(asked, solve, "SW (POT)", info, n_jobs=n_jobs, progress=progress)


def low_rank(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    rank: int = 10,
    reg: float = 0.0,
    max_iter: int = 2000,
    random_state: int = 49,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Low-rank Sinkhorn by POT: ``ot.lowrank_sinkhorn`` for every pair.

    POT finds plans of low rank for the *squared* Euclidean cost only. The value here is the Euclidean cost
    ⟨T, C⟩ of that plan, so that it can be compared with W_1: it is never smaller, up to the marginal error.

    Parameters
    ----------
    D, E, pairs, progress
        As in `ot_emd`.
    rank : int
        Of the plan; at most the smaller number of points of the pair.
    reg : float
        Weight ≥ 0 of the entropy, relative to POT's rescaled cost.
    max_iter : int
        Limit on the inner (Dykstra) iterations. POT makes 100 outer ones.
    random_state : int
        Seed of POT's random start.
    n_jobs : int, optional
        Threads wait for each other: POT draws all its random starts from one generator.

    Returns
    -------
    Distances
        ``marginal_error`` is per pair. Where POT's iteration ended in NaN, as it does where all points of a pair
        are equal, the status is ``Status.MAX_ITER`` and the value is NaN.
    """
    ot = _pot()
    asked = read(D, E, pairs)
    wanted, limit = as_positive_int(rank, "rank"), as_positive_int(max_iter, "max_iter")
    epsilon = as_weight(reg)
    one_at_a_time = threading.Lock()  # POT seeds a generator that all threads share

    def solve(pair: Pair) -> Answer:
        with one_at_a_time:
            Q, R, g = ot.lowrank_sinkhorn(
                pair.x, pair.y, pair.a, pair.b, reg=epsilon, rank=wanted, seed_init=random_state, numItermax=limit,
                warn=False,
            )  # fmt: skip
        plan = (Q / g) @ R.T
        value = float((plan * ot.dist(pair.x, pair.y, metric="euclidean")).sum())
        status = Status.FIXED_ITERATIONS if np.isfinite(value) else Status.MAX_ITER
        return Answer(value, status, 100, float(np.abs(plan.sum(axis=1) - pair.a).sum()))

    info = {"solver": "POT, ot.lowrank_sinkhorn", "reg": epsilon, "rank": wanted, "max_iter": limit}
    return run_loop(asked, solve, "low-rank Sinkhorn (POT)", info, n_jobs=n_jobs, progress=progress)
