"""Which lower bounds a search uses: what ``bounds=`` and ``space=`` mean, and where a bound is not proven."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.search.cascade import Cascade
from asot.bounds.search.dual_pool import DualPool, dual_pool, no_pool
from asot.bounds.search.projections import Projections, has_norm, project
from asot.data.distinct import SparseHistograms, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.points import ExactPoints
from asot.jit.float_lanes import WIDTH
from asot.jit.metrics import Ground
from asot.validation import as_choice

CHOICES = ("auto", "projections", "potentials", "all")


def prepare_cascade(
    pooled: Distributions,
    histograms: SparseHistograms,
    ground: Ground,
    shape: tuple[int, int, int, bool],
    bounds: str | bool,
    space: Any,
    n_jobs: int,
    memory: int,
    random_state: Any,
) -> tuple[Cascade, dict[str, Any]]:
    """The cascade for pairs of ``shape`` (rows, columns, column_start, within), and a record of what was made."""
    if isinstance(bounds, bool):  # distances of neighbours are exact, and so their own bounds
        bounds = "auto"
    as_choice(bounds, "bounds", CHOICES)
    norm = has_norm(ground)
    if bounds == "projections" and not norm:
        raise ValueError(
            f"bounds='projections' are proven for metrics that are norms, and {ground.name!r} is none; "
            "use bounds='potentials' (or 'auto')"
        )
    anchors = None if space is None else _read_space(space, pooled, ground, random_state)
    use_projections = norm and bounds != "potentials"
    use_potentials = bounds in ("potentials", "all") or not norm or anchors is not None
    n = len(pooled)
    projections = project(histograms, ground, n_jobs, memory) if use_projections else _no_projections(n)
    pool, solved = no_pool(n), 0
    if use_potentials:
        seed = _seed(random_state)
        if anchors is None:
            source, support = ExactPoints(histograms, ground), ground.points
            pool, solved = dual_pool(histograms, ground, source, support, seed, n_jobs, memory)
        else:
            pool = _pool_on_anchors(pooled, histograms, ground, anchors, seed, n_jobs, memory)
    made = {
        "bounds": [name for name, used in _names(use_projections, use_potentials) if used],
        "n_rotations": _n_rotations(projections),
        "n_potentials": pool.values.shape[1],
        "n_exact": solved,
    }
    if anchors is not None:
        made["n_anchors"] = anchors.n_anchors
    return Cascade(ground, projections, pool, *shape), made


def _names(projections: bool, potentials: bool) -> list[tuple[str, bool]]:
    return [("projections", projections), ("potentials", potentials)]


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
    from asot.distances import _fitted_space

    if ground.name != "euclidean":
        raise ValueError(
            f"space= works with metric='euclidean': anchors are assigned in it, and {ground.name!r} has no proven "
            "bound through them; leave out the space"
        )
    anchors = _fitted_space(space, pooled, random_state).proven
    radius = float(anchors.radii(pooled).mean())
    spread = float(anchors.cost.mean()) if anchors.is_euclidean else 0.0
    if radius > spread > 0:
        warnings.warn(
            f"points are {radius:.3g} away from their anchors in the mean, {radius / spread:.1f} times the mean "
            f"distance between anchors ({spread:.3g}): this space tells little about this collection, and its bounds "
            "will exclude few pairs; fit it on this collection",
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
    on_anchors = sparse_histograms(Distributions.from_weights(anchors.histograms(pooled), anchors.anchors))
    support: NDArray[np.float64] = np.ldexp(np.asarray(on_anchors.points, dtype=np.float64), -ground.exponent)
    source = ExactPoints(on_anchors, Ground(support, ground.code, ground.order, ground.exponent, ground.name))
    pool, _ = dual_pool(histograms, ground, source, support, seed, n_jobs, memory)
    return pool
