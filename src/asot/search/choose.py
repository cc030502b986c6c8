"""Which lower bounds a search uses: what ``prune=`` and ``space=`` mean, and when a bound is not proven."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.anchors.space import AnchorSpace
from asot.data.distinct import SparseHistograms, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import simplex_of_points
from asot.exact.unmatched import Unmatched
from asot.ground.costs import GroundCost
from asot.ground.metrics import Ground
from asot.request import Distance
from asot.run.protocols import Solver
from asot.search.cascade import Cascade
from asot.search.dual_pool import DualPool, dual_pool, no_pool
from asot.search.projections import SORTED, TAIL, WIDTH, Projections, project
from asot.search.relaxed import Chain, Relaxed, block_bytes, relax
from asot.search.sweep import Look, Shape
from asot.validation import as_choice

HIGHEST_ORDER = 8
"""Powers of distances above this one are left to the solver: float32 has no room for them."""

CHOICES = ("auto", "projections", "potentials", "relaxed", "all")


class Problem(NamedTuple):
    """The queries, and the collection that is searched, made ready."""

    pooled: Distributions
    histograms: SparseHistograms
    cost: GroundCost
    distance: Distance
    unmatched: Unmatched | None
    shape: Shape
    solver: Callable[[], Solver]
    """Makes the exact solver of the CPU, which takes longer than the rest."""
    jobs: int
    memory: int


class Pruning(NamedTuple):
    """What a call says about how to look, which does not change what is found."""

    prune: Any = "auto"
    space: Any = None
    random_state: Any = None


@dataclass
class Offer:
    """The bounds that a call may use. ``cascade()`` makes tables for every distribution, once; the others are free."""

    relaxed: Relaxed | None
    """None if a block of its costs does not fit into memory."""
    cascade: Callable[[], Cascade]
    cascade_work: float
    """Seconds that ``cascade()`` takes, roughly; 0 if the user asked for it."""
    fixed: Look | None
    """The bounds that ``prune=`` named; None: what a rehearsal finds to be the cheapest."""
    made: Info
    """A record, for the report."""
    free: dict[str, Look]
    """What takes no time to make, by the word that ``prune=`` has for it: each is tried in the rehearsal by itself."""


def offer_bounds(problem: Problem, pruning: Pruning) -> Offer:
    """Read ``prune=`` and ``space=``, and say what they allow.

    Projections and potentials bound W_1, and so W_p, which is larger; but not where mass may stay unmatched.
    """
    pooled, histograms, cost, distance, unmatched, shape, _, n_jobs, memory = problem
    prune, space, random_state = pruning
    memory, p = memory // 2, distance.p
    ground, plain = cost.ground, cost.is_plain and unmatched is None
    as_choice(prune, "prune", CHOICES)
    norm = plain and ground.is_norm
    if (prune in ("projections", "potentials") or space is not None) and not plain:
        raise ValueError(
            f"{'a space' if space is not None else f'prune={prune!r}'} needs a metric with its own kernel and "
            "total mass 1; use prune='relaxed' (or 'auto')"
        )
    if prune == "projections" and not norm:
        raise ValueError(
            f"prune='projections' are only proven for metrics that are norms, and {ground.name!r} is not; "
            "use prune='relaxed' (or 'auto')"
        )
    anchors = None if space is None else _read_space(space, pooled, ground, random_state)
    fits = block_bytes(histograms) * n_jobs <= memory
    wanted = prune in ("auto", "relaxed", "all") and p <= HIGHEST_ORDER
    relaxed = relax(histograms, cost, shape, p, unmatched) if fits and wanted else None
    use_projections = norm and prune != "potentials"
    use_potentials = plain and (prune in ("potentials", "all") or not norm or anchors is not None)
    names = [name for name, used in (("projections", use_projections), ("potentials", use_potentials)) if used]
    made: Info = {"bounds": [], "tables": names, "n_rotations": 0, "n_potentials": 0, "n_exact": 0}
    if anchors is not None:
        made["n_anchors"] = anchors.n_anchors

    @functools.cache
    def cascade() -> Cascade:
        n, seed = len(pooled), _seed(random_state)
        projections = project(histograms, ground, n_jobs, memory) if use_projections else _no_projections(n)
        pool, made["n_exact"] = no_pool(n), 0
        if use_potentials and anchors is not None:
            pool = _pool_on_anchors(pooled, histograms, ground, anchors, seed, n_jobs, memory)
        elif use_potentials:
            source = simplex_of_points(histograms, ground)
            pool, made["n_exact"] = dual_pool(histograms, ground, source, ground.points, seed, n_jobs, memory)
        made["n_rotations"], made["n_potentials"] = _n_rotations(projections), pool.values.shape[1]
        return Cascade(ground, projections, pool, *shape)

    fixed: Look | None
    free: dict[str, Look] = {} if relaxed is None else {"relaxed": relaxed}
    if prune in free:
        fixed, made["bounds"] = free[prune], [prune]
    else:
        fixed, made["bounds"] = _named(prune, relaxed, cascade, names, block_bytes(histograms))
    axes = 4 * SORTED + min(max(0, ground.points.shape[1] - SORTED), TAIL) if use_projections else 0
    work = 0.0 if space is not None else 5e-8 * axes * len(histograms.index) + (0.1 if use_potentials else 0.0)
    work = work if plain else np.inf
    return Offer(relaxed, cascade, work, fixed, made, free)


def _named(
    prune: str, relaxed: Relaxed | None, cascade: Callable[[], Cascade], tables: list[str], needed: int
) -> tuple[Look | None, list[str]]:
    """What a word for ``prune=`` asks for, and the names of the bounds in it."""
    if prune == "auto":
        return None, []
    if prune == "relaxed":
        raise ValueError(
            f"prune='relaxed' needs {needed:,} bytes for each job and p ≤ {HIGHEST_ORDER}; raise memory= or use "
            "another one"
        )
    if prune == "all" and relaxed is not None and not tables:
        return relaxed, ["relaxed"]
    if prune == "all" and relaxed is not None:
        return Chain(cascade(), relaxed), [*tables, "relaxed"]
    return cascade(), tables


def _n_rotations(projections: Projections) -> int:
    return len(projections.mixed) * (WIDTH // max(1, projections.n_mixed))


def _no_projections(n: int) -> Projections:
    nothing = np.empty((n, 0, WIDTH), dtype=np.float32)
    return Projections(nothing, nothing, nothing[None][:0], 0, nothing[:, :, 0], 0.0, 0.0)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return 0
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def _read_space(space: Any, pooled: Distributions, ground: Ground, random_state: Any) -> AnchorSpace:
    """The space of a call, with a warning where its anchors are far from the points."""
    from asot.anchors.resolve import fitted_space

    if ground.name != "euclidean":
        raise ValueError(
            f"space= works with metric='euclidean': anchors are assigned in it, and {ground.name!r} has no proven "
            "bound through them; leave out the space"
        )
    anchors = fitted_space(space, pooled, random_state).proven
    radius = float(anchors.radii(pooled, device="cpu").mean())
    spread = float(anchors.cost.mean()) if anchors.is_euclidean else 0.0
    if radius > spread > 0:
        warnings.warn(
            f"points are {radius:.3g} away from their anchors on average, {radius / spread:.1f} times the mean "
            f"distance between anchors ({spread:.3g}): this space does not suit this collection, and its bounds "
            "will rule out few pairs; fit it on this collection",
            stacklevel=4,
        )
    return anchors


def _pool_on_anchors(
    pooled: Distributions,
    histograms: SparseHistograms,
    ground: Ground,
    anchors: AnchorSpace,
    seed: int,
    n_jobs: int,
    memory: int,
) -> DualPool:
    """Potentials of transport between histograms on anchors, extended from the anchors to the points."""
    on_anchors = sparse_histograms(
        Distributions.from_weights(anchors.histograms(pooled, device="cpu"), anchors.anchors)
    )
    support: NDArray[np.float64] = np.ldexp(np.asarray(on_anchors.points, dtype=np.float64), -ground.exponent)
    source = simplex_of_points(on_anchors, Ground(support, ground.code, ground.order, ground.exponent, ground.name))
    pool, _ = dual_pool(histograms, ground, source, support, seed, n_jobs, memory)
    return pool
