"""`gromov`: Gromov–Wasserstein distances of a collection of spaces, with a proven bound beside each."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot._typing import Info
from asot.data.spaces.reading import Spaces, as_gromov_order, chosen_spaces, joined_spaces, place_of, read_spaces
from asot.plans import TransportPlan
from asot.request import Accuracy, as_error
from asot.results.distances import named
from asot.results.sinks import Condensed, Kept, TopK, default_sink
from asot.run import devices
from asot.run.engine import Resources, Work, solve_work
from asot.run.pairs import ListedPairs, PairSet, make_pairs
from asot.run.progress import ProgressLike
from asot.run.protocols import Notes, Sink, SinkBase, Tile
from asot.spaces.estimate import GromovEstimate, fit_sample
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov


def gromov(
    X: Any,
    Y: Any = None,
    *,
    p: float = 2,
    masses: Any = None,
    features: Any = None,
    alpha: float = 1.0,
    error: float | str | None = None,
    bounds: bool = True,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Gromov–Wasserstein distances between spaces that are known by their distances only.

    Finding the best plan is NP-hard, so no value is called exact. A value is the price of the best plan that descents
    from two starts found, which is an upper bound; ``lower`` is proven. Together they are an interval.

    Parameters
    ----------
    X : list of (n_i, n_i) matrices, of graphs (networkx, PyTorch Geometric: shortest paths), or a Distributions
        Spaces of any sizes; a dictionary gives them names. The points of a `Distributions` are compared by their
        Euclidean distances within each distribution, with its masses.
    Y : the same, optional
        A second collection; every space of X with every space of Y.
    p : float from 1 to 16
        ``GW_p = ½ (min Σ |d_X(i, i') - d_Y(j, j')|^p T_ij T_i'j')^(1/p)``. For p = 2 a step is a product of matrices;
        other
        orders cost n times more.
    masses : list of vectors (n_i,), optional
        Masses of the points of X (a pair of lists for X and Y); default: uniform.
    features : list of (n_i, d) arrays, optional
        Features of the points, for fused distances (a pair of lists for X and Y).
    alpha : float in (0, 1]
        Share of the distances in a fused energy; less than 1 needs features.
    error : float or "5%", optional
        Accept estimates: a fit of the bounds to solved pairs, if held-out pairs show that it is this good. Otherwise,
        and for few pairs, plans are searched as without it.
    bounds : bool
        Keep ``lower`` and ``upper`` with every pair.
    pairs, n_jobs, memory, progress, sink
        As in `asot.pairwise_exact`. With ``sinks.TopK``, pairs that a bound rules out are not solved.
    device : {"auto", "cpu"}
    random_state : int or None
        Of the sample for ``error``; None is a fixed one.

    Returns
    -------
    Distances, or what the sink returns. ``error`` of a pair is how far its two starts disagree (or, for estimates, the
    measured error); ``info["convention"]`` says which number it is.

    Examples
    --------
    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> r = asot.gromov([line, 2 * line, line[::-1, ::-1]])
    >>> r.values.round(6)
    array([0.790569, 0.      , 0.790569])
    >>> bool((r.lower <= r.values).all())
    True
    """
    if devices.parse(device)[0] == "cuda":
        raise ValueError(f"device={str(device)!r}: gromov runs on the CPU; use device='auto' or 'cpu'")
    order, share = as_gromov_order(p), _as_alpha(alpha, features)
    spaces, (row_ids, column_ids) = _read(X, Y, masses, features)
    column_start = 0 if Y is None else len(row_ids)
    pair_set = make_pairs(len(row_ids), None if Y is None else len(column_ids), pairs)
    if isinstance(sink, TopK):
        sink.open(pair_set, {})  # what it refuses, it should refuse before hours of work
    resources = Resources(n_jobs, memory, progress)
    request = _Request(pair_set, spaces, order, share, column_start, bool(bounds))
    work, is_estimated = _choose(request, as_error(error), random_state, resources)
    result: Any
    if isinstance(sink, TopK) and not is_estimated:
        result = _nearest(request, work, sink, resources)
    else:
        extras = ("lower", "upper", "error") if bounds else ("error",)
        result = solve_work(work, default_sink(sink, extras), resources)
    found: Kept = named(result, row_ids, column_ids)
    return found


def gromov_plan(
    X: Any,
    i: int | str,
    j: int | str,
    *,
    Y: Any = None,
    p: float = 2,
    masses: Any = None,
    features: Any = None,
    alpha: float = 1.0,
) -> TransportPlan:
    """Which points of two spaces belong together: the best plan that `gromov` found for them.

    Parameters
    ----------
    X, Y, p, masses, features, alpha
        As in `gromov`.
    i, j : int or str
        Two spaces of X; with a second collection Y, a space of X and one of Y.

    Returns
    -------
    TransportPlan
        A scipy.sparse.csr_array (n_i, n_j) whose row sums are the masses of i. ``cost`` is the value that `gromov`
        reports, ``lower`` its proven bound.

    Examples
    --------
    >>> import numpy as np, asot
    >>> triangle = np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]])
    >>> turned = triangle[[2, 0, 1]][:, [2, 0, 1]]
    >>> T = asot.gromov_plan([triangle, turned], 0, 1)
    >>> T.cost, T.toarray().argmax(axis=1)
    (0.0, array([1, 2, 0]))
    """
    order, share = as_gromov_order(p), _as_alpha(alpha, features)
    spaces, (row_ids, column_ids) = _read(X, Y, masses, features)
    first, second = place_of(i, row_ids, "i"), place_of(j, column_ids, "j")
    pair = chosen_spaces(spaces, [first, second + (0 if Y is None else len(row_ids))])
    dense = np.zeros(tuple(pair.sizes.tolist()))
    solver = Gromov(pair, order, share, FROM_BOUND + FROM_PRODUCT)
    ends = np.array([0]), np.array([1])
    energy, third, _, _ = solver.energies(*ends, np.zeros(1, dtype=np.int64), dense)
    result = TransportPlan(dense)
    result.cost, result.ids = float(solver.distance(energy)[0]), (row_ids[first], column_ids[second])
    result.lower = min(float(solver.bounds(*ends, third).max()), result.cost)
    return result


def _as_alpha(alpha: Any, features: Any) -> float:
    number = isinstance(alpha, (int, float, np.number)) and not isinstance(alpha, bool)
    if not number or not 0 < float(alpha) <= 1:
        raise ValueError(f"alpha must be a number in (0, 1]; found {alpha!r}. Features alone are asot.pairwise_exact")
    if float(alpha) == 1 and features is not None:
        raise ValueError("features count for nothing where alpha is 1; give alpha < 1, such as 0.5, or leave them out")
    if float(alpha) < 1 and features is None:
        raise ValueError(f"alpha={alpha} shares the energy with features; pass features=, or leave alpha at 1")
    return float(alpha)


def _read(X: Any, Y: Any, masses: Any, features: Any) -> tuple[Spaces, tuple[Any, Any]]:
    """All spaces, those of X first, and the names of rows and columns."""
    if Y is None:
        spaces = read_spaces(X, masses, features)
        return spaces, (spaces.ids, spaces.ids)
    both = []
    for name, given in (("masses", masses), ("features", features)):
        if given is not None and len(given) != 2:
            raise ValueError(f"with two collections, {name} must be a pair: ({name} of X, {name} of Y)")
        both.append((None, None) if given is None else given)
    first = read_spaces(X, both[0][0], both[1][0], "X")
    second = read_spaces(Y, both[0][1], both[1][1], "Y")
    return joined_spaces(first, second), (first.ids, second.ids)


@dataclass(frozen=True)
class _Request:
    """What was asked for, checked."""

    pairs: PairSet
    spaces: Spaces
    p: float
    alpha: float
    column_start: int
    bounds: bool

    def descents(self, starts: int, bounds: bool) -> Any:
        return functools.partial(Gromov, self.spaces, self.p, self.alpha, starts, self.column_start, bounds)


def _choose(request: _Request, aim: Accuracy | None, random_state: Any, resources: Resources) -> tuple[Work, bool]:
    """Estimates, if they were asked for and measure as good as that; else descents from both starts.

    And whether they are estimates.
    """
    r, info = request, {"distance": "Gromov–Wasserstein", "rooted": True}
    descents = r.descents(FROM_BOUND + FROM_PRODUCT, r.bounds)
    if aim is None:
        return Work(r.pairs, descents, notes=Notes(info)), False
    fit = fit_sample(r.pairs, r.spaces, r.p, r.alpha, r.column_start, random_state, replace(resources, progress=False))
    if fit is None:
        info["why"] = "few pairs: searching their plans costs no more than a fit"
        return Work(r.pairs, descents, notes=Notes(info)), False
    measured = f"estimates are {100 * fit.relative(fit.interval[1]):.1f} percent off at most (95 percent sure)"
    if not aim.met(fit.interval[1], fit.mean):
        why = {"why": f"{measured}, which is more than {aim}"}
        return Work(r.pairs, descents, notes=Notes({**info, **why})), False
    estimate = functools.partial(GromovEstimate, r.spaces, r.p, r.alpha, fit, r.column_start, r.bounds)
    return Work(r.pairs, estimate, notes=Notes({**info, "why": f"{measured}; asked for was {aim}"})), True


class _Into(SinkBase[Any]):
    """A sink that was opened for all pairs, of which only some are solved."""

    def __init__(self, sink: TopK, n_pairs: int) -> None:
        self._sink, self._n_pairs = sink, n_pairs

    def open(self, pairs: PairSet, info: Info) -> None: ...

    def accept(self, tile: Tile) -> None:
        self._sink.accept(tile)

    def close(self, info: Info) -> Any:
        return self._sink.close({**info, "n_pairs": self._n_pairs, "n_solved": info["n_pairs"]})


def _nearest(request: _Request, work: Work, sink: TopK, resources: Resources) -> Any:
    """The nearest of each row. A pair is solved only if its lower bound is at most the price of the k-th plan of one of
    its rows: k others are at least as near as that."""
    pairs = request.pairs
    seen = solve_work(Work(pairs, request.descents(0, True)), Condensed(extras=("lower", "upper")), resources)
    assert seen.lower is not None
    assert seen.upper is not None
    rows, columns = pairs.indices(0, len(pairs))
    limit = _kth_price(rows, columns, seen.upper, pairs, sink.n_neighbors)
    needed = seen.lower <= limit[rows]
    if pairs.symmetric:
        needed |= seen.lower <= limit[columns]
    chosen = np.stack([rows[needed], columns[needed]], axis=1)
    listed = ListedPairs(chosen, pairs.n_rows, pairs.n_columns, pairs.symmetric)
    return solve_work(replace(work, pairs=listed), _Into(sink, len(pairs)), resources)


def _kth_price(rows: Any, columns: Any, prices: Any, pairs: PairSet, k: int) -> Any:
    """(N,) the k-th smallest price of a plan in each row."""
    ends = np.concatenate([rows, columns]) if pairs.symmetric else rows
    both = np.concatenate([prices, prices]) if pairs.symmetric else prices
    order = np.lexsort((both, ends))
    starts = np.searchsorted(ends[order], np.arange(pairs.n_rows))
    return both[order][starts + k - 1]
