"""What goes where: a transport plan between two distributions of a collection, on their original points.

The plan on the anchors says how much goes from cell to cell; lifting it (docs/method.md §6) says which points it goes
between. The lifted plan has exactly the right marginals, so its cost is an upper bound on W_1. The optimal plan takes a
network simplex on all points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from asot._typing import Float, Parameters
from asot.anchors.resolve import fitted_space
from asot.anchors.space import AnchorSpace
from asot.bounds.point_bracket import lift, point_table
from asot.bounds.short_vectors import short_coordinates
from asot.data.distinct import SparseHistograms, distinct_rows, sparse_histograms
from asot.data.distributions import Distributions, as_distributions, check_mass
from asot.data.notebook import page_of
from asot.data.reading import factorized
from asot.exact.any_cost import CLIPPED, FINE, WIDER, WIDEST
from asot.exact.cost_check import is_metric
from asot.exact.shared_cost import ExactSharedCost, Trees, solve_one
from asot.exact.unmatched import read_unmatched
from asot.exact.workspace import MASS_BITS
from asot.ground.costs import Metric, cost_table, prepare_cost
from asot.request import Distance, Share, read_distance
from asot.results.frames import need_pandas
from asot.run.executors import alone
from asot.validation import FloatArray, as_choice, as_histograms, to_array

MOST_ENTRIES = 2**24
"""Up to this many entries in the cost of a pair, the optimal plan is the default: 128 MB, and a few seconds."""


class TransportPlan(sparse.csr_array):
    """A sparse plan (n_i, n_j): entry (p, q) is the mass that goes from point p of the first to point q of the second.

    Attributes
    ----------
    cost : float
        The cost of the plan: mass times distance, or for p > 1 the root of mass times d^p. If the plan is exact, this
        is W_p itself, otherwise it is at least W_1.
    is_exact : bool
    lower : float or None
        Plans between spaces (`asot.gromov_plan`): the proven bound below their distance.
    ids : tuple
        The names of the two distributions.
    unmatched : tuple of arrays (n_i,) and (n_j,), or None
        With ``unmatched=``: the mass of every point that has no partner.
    distances : (nnz,) float64 or None
        How far each entry moves its mass, to the power p, in the order of ``plan.data``; None if the plan was changed.
    """

    cost: float = np.nan
    unmatched: tuple[Float, Float] | None = None
    is_exact: bool = False
    lower: float | None = None
    ids: tuple[Any, Any] = (0, 1)
    distances: Float | None = None
    places: tuple[slice, slice, int] | None = None

    def by(self, groups_i: ArrayLike, groups_j: ArrayLike | None = None, values: str = "mass") -> Any:
        """What goes from group to group: a pandas DataFrame with the mass between groups of points, or its cost.

        Parameters
        ----------
        groups_i, groups_j : array-like (n_i,), (n_j,)
            The group of every point of the two distributions, such as its cell type. Or only the first, with the
            groups of all points of the collection, in its order.
        values : {"mass", "cost"}
            "cost" is mass times distance (to the power p): what each pair of groups adds to W_p^p.

        >>> import asot
        >>> D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]]])
        >>> asot.plan(D, 0, 1, exact=True).by(["B cell", "T cell"], ["B cell", "T cell"])
                B cell  T cell
        B cell     0.0     0.5
        T cell     0.5     0.0
        >>> asot.plan(D, 0, 1, exact=True).by(["B cell", "T cell"] * 2, values="cost")  # 1.5 in all
                B cell  T cell
        B cell     0.0     1.5
        T cell     0.0     0.0
        """
        pandas = need_pandas("plan.by")
        groups_i, groups_j = self.sides(groups_i, groups_j)
        (names_i, row), (names_j, column) = (
            _groups(groups, n, side) for groups, n, side in zip((groups_i, groups_j), self.shape, "ij", strict=True)
        )
        entries = self.tocoo()
        amounts = entries.data
        if as_choice(values, "values", ("mass", "cost")) == "cost":
            if self.distances is None or len(self.distances) != len(amounts):
                raise ValueError("this plan does not know its distances; take it as asot.plan returns it")
            amounts = amounts * self.distances
        moved = np.zeros((len(names_i), len(names_j)))
        np.add.at(moved, (row[entries.row], column[entries.col]), amounts)
        return pandas.DataFrame(moved, index=names_i, columns=names_j)

    def _repr_html_(self) -> str:
        sign = "=" if self.is_exact else "≤"
        words = f"Plan from {self.ids[0]} to {self.ids[1]}: {self.nnz:,} moves between {self.shape[0]:,} and "
        return page_of(f"{words}{self.shape[1]:,} points, W {sign} {self.cost:.6g}")

    def sides(self, groups_i: Any, groups_j: Any = None) -> tuple[Any, Any]:
        """The groups of both sides, from those of the whole collection if there is only one argument."""
        if groups_j is not None:
            return groups_i, groups_j
        if self.places is None:
            raise ValueError("groups_j is missing: the groups of the points of the second distribution")
        first, second, total = self.places
        found = to_array(groups_i, "groups_i")
        if found.shape != (total,):
            raise ValueError(
                f"without groups_j, groups_i are those of all {total:,} points of the collection; found {found.shape}"
            )
        groups = getattr(groups_i, "iloc", found)  # a pandas column keeps its categories
        return groups[first], groups[second]


def plan(
    D: Distributions,
    i: int | str,
    j: int | str,
    *,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
    unmatched: Any = None,
    share: float | None = None,
    space: Any = None,
    exact: bool = False,
    random_state: Any = None,
) -> TransportPlan:
    """A transport plan between distributions i and j of a collection, on their original points.

    Parameters
    ----------
    D : Distributions (N)
        Or a list of point arrays.
    i, j : int or str
        The two distributions: indices, or ids that are strings.
    p, metric, metric_params, unmatched, share
        Which distance, as in `pairwise_exact`; a plan on anchors needs the defaults. With ``unmatched``, masses are
        used as they were given, and ``plan.unmatched`` is the mass without a partner.
    space : AnchorSpace or anchor learner, optional
        The space whose plan is lifted to the original points, as in `pairwise`. Without one, you get the optimal plan
        if its cost matrix fits (16 million entries); for larger pairs, 64 anchors are learned from the two.
    exact : bool
        Always compute the optimal plan on the original points.
    random_state : int, RandomState or None
        Seed for learning anchors if `space` is None.

    Returns
    -------
    TransportPlan
        A scipy.sparse.csr_array (n_i, n_j) with the attribute ``cost``. Row sums are the masses of i and column sums
        those of j, less what is unmatched.

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]]])
    >>> T = asot.plan(D, 0, 1, exact=True)
    >>> T.toarray(), T.cost
    (array([[0. , 0.5],
           [0.5, 0. ]]), 1.5)
    """
    D, distance = as_distributions(D), read_distance(p, metric, metric_params, unmatched, share)
    ends = D.place(i, "i"), D.place(j, "j")
    first, second = (slice(*D.offsets[[t, t + 1]].tolist()) for t in ends)
    if distance.unmatched is not None:
        distance = replace(distance, unmatched=_prices_of(distance.unmatched, D, first, second))
    pair = D[[*ends]]
    if distance.matches_all:
        check_mass(pair)
    if exact or (space is None and int(pair.sizes[0]) * int(pair.sizes[1]) <= MOST_ENTRIES):
        found = _optimal(pair, distance) if distance.unmatched is None else _with_unmatched(pair, distance)
    else:
        found = _on_anchors(pair, distance, D if space is not None else pair, space, random_state)
    found.places = first, second, len(D.masses)
    return found


def _optimal(pair: Distributions, distance: Distance) -> TransportPlan:
    (_, a), (_, b) = pair
    costs = _ground_costs(pair, distance)
    value, optimal = _solve_power(a, b, costs, distance.p)
    return _as_plan(optimal, value, pair, is_exact=True, costs=costs, p=distance.p)


def _on_anchors(
    pair: Distributions, distance: Distance, learned_on: Distributions, space: Any, random_state: Any
) -> TransportPlan:
    if not distance.is_plain:
        raise ValueError(
            "a lifted plan needs p=1, metric='euclidean' and total mass 1; pass exact=True for other distances"
        )
    lifted = _lifted(fitted_space(space, learned_on, random_state), pair).tocoo()
    moved = _distances_of(pair, lifted.row, lifted.col)
    result = _as_plan(lifted, float(lifted.data @ moved), pair, is_exact=False)
    entries = result.tocoo()
    result.distances = _distances_of(pair, entries.row, entries.col)
    return result


def _ground_costs(pair: Distributions, distance: Distance) -> Float:
    """Distances (n_0, n_1) between the points of a collection of two."""
    if distance.is_plain:
        (x, _), (y, _) = pair
        return _distances(x, y)
    points, index = distinct_rows(pair.points)
    distances = cost_table(prepare_cost(points, distance.metric, distance.metric_params))
    middle = int(pair.offsets[1])
    return distances[np.ix_(index[:middle], index[middle:])]


def _solve_power(a: Float, b: Float, distances: Float, p: float) -> tuple[float, Any]:
    """(Σ T d^p)^(1/p) of masses of total 1 and its plan T, found as `asot.exact.any_cost` finds the value."""
    if p == 1:
        value, optimal, _ = solve_one(a, b, distances)
        return value, optimal
    least = (len(a) + len(b)) * np.finfo(float).eps
    plan, steps, used = _clipped_plan(a, b, distances, float(distances.max()), p, 1.0, least)
    enough = FINE
    while used < enough and distances[steps].max(initial=0.0) > 0:
        unit, top, enough = float(distances[steps].max()), CLIPPED, FINE * CLIPPED
        found = _clipped_plan(a, b, distances, unit, p, top, least)
        while found[2] >= top and top < WIDEST:
            top *= WIDER
            found = _clipped_plan(a, b, distances, unit, p, top, least)
        if found[2] >= top:  # what was clipped is needed: the last plan stands
            break
        plan, steps, used = found
    longest = float(distances[steps].max(initial=0.0))
    counted = plan.data[plan.data >= least]
    value = longest * float(counted @ (distances[steps] / (longest or 1.0)) ** p) ** (1.0 / p)
    return value, plan.tocsr()


def _clipped_plan(
    a: Float, b: Float, distances: Float, unit: float, p: float, top: float, least: float
) -> tuple[Any, tuple[Any, Any], float]:
    """The optimal plan for costs (d / unit)^p up to ``top``, the steps of it that count, and their largest cost."""
    with np.errstate(over="ignore"):
        costs = np.minimum((distances / (unit or 1.0)) ** p, top)
    plan = solve_one(a, b, costs).plan.tocoo()
    counted = plan.data >= least
    steps = plan.row[counted], plan.col[counted]
    return plan, steps, float(costs[steps].max(initial=0.0))


def _prices_of(unmatched: Any, D: Distributions, first: slice, second: slice) -> Any:
    """``unmatched=`` of a collection for two of its distributions: an array has a price for every point."""
    if isinstance(unmatched, (str, bool, int, float, np.number, Share)):
        return unmatched
    given = to_array(unmatched, "unmatched")
    if given.shape != (len(D.masses),):
        raise ValueError(
            f"unmatched has shape {given.shape}; as an array it is the price of each of the {len(D.masses)} points of "
            "the collection"
        )
    return np.concatenate([given[first], given[second]])


def _with_unmatched(pair: Distributions, distance: Distance) -> TransportPlan:
    """The optimal plan where mass may stay without a partner: each side has a reservoir as large as the other side."""
    points, index = distinct_rows(pair.points)
    cost, p = prepare_cost(points, distance.metric, distance.metric_params), distance.p
    prices = read_unmatched(distance.unmatched, pair, index, cost)
    n, m = (int(size) for size in pair.sizes)
    costs = np.zeros((n + 1, m + 1))
    costs[:n, :m] = cost_table(cost)[np.ix_(index[:n], index[n:])]
    if pair.totals.all():
        held = np.ix_(pair.masses[:n] > 0, pair.masses[n:] > 0)
        prices.check_reach(costs[:n, :m][held].max(keepdims=True).ravel(), pair.ids[:1], pair.ids[1:])
    costs[:n, m], costs[n, :m] = prices.prices[index[:n]], prices.prices[index[n:]]
    costs[n, m] = costs.max() if prices.share else 0.0  # so that no more is moved than has to be, even for free
    first, second = prices.totals if prices.share else pair.totals
    moved = prices.share * min(first, second)
    together = first + second - moved
    unit = together or 1.0  # two empty diagrams are solved as reservoirs of mass 1
    a = np.append(pair.masses[:n] * (first / unit), (second - moved) / unit if together else 1.0)
    b = np.append(pair.masses[n:] * (second / unit), (first - moved) / unit if together else 1.0)
    value, optimal = _solve_power(a, b, costs, p)
    whole = together * optimal.tocsr()
    total = together ** (1.0 / p) * value
    result = _as_plan(whole[:n, :m], total, pair, is_exact=True, costs=costs[:n, :m], p=p)
    result.unmatched = whole[:n, [m]].toarray().ravel(), whole[[n], :m].toarray().ravel()
    return result


def _as_plan(
    entries: Any, cost: float, pair: Distributions, *, is_exact: bool, costs: Float | None = None, p: float = 1
) -> TransportPlan:
    result = TransportPlan(entries)
    result.cost, result.is_exact, result.ids = cost, is_exact, tuple(pair.ids.tolist())
    if costs is not None:
        held = result.tocoo()
        with np.errstate(over="ignore"):  # powers of a high order may leave the range of numbers
            result.distances = costs[held.row, held.col] ** p
    return result


def _groups(groups: Any, n: int, side: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    found = to_array(groups, f"groups_{side}")
    if found.shape != (n,):
        raise ValueError(f"groups_{side} must have one group for each of the {n} points; found shape {found.shape}")
    return factorized(groups, n)


def _lifted(space: AnchorSpace, pair: Distributions) -> Any:
    """The lifted plan (n_0, n_1) of a collection of two."""
    histograms = sparse_histograms(pair)
    cell, _ = space.assign(histograms.points, device="cpu")
    short = short_coordinates(histograms.points, histograms.pooled_masses())
    table, original = point_table(histograms, cell, short, space.n_anchors)
    source, sink, mass = lift(table, _anchor_plan(space, pair), 0, 1)
    n = len(histograms.points)
    first, second = (np.bincount(histograms.index[o], histograms.masses[o], minlength=n) for o in _owns(histograms))
    both = np.flatnonzero((first > 0) & (second > 0))
    rows = np.concatenate([original[source], both])
    columns = np.concatenate([original[sink], both])
    moved = np.concatenate([np.ldexp(mass.astype(np.float64), -MASS_BITS), np.minimum(first, second)[both]])
    total = sparse.csr_array((moved, (rows, columns)), shape=(n, n))
    # A distinct point may stand for several points of a distribution: each takes its share.
    _, index = distinct_rows(np.concatenate([histograms.points, pair.points]))
    shares = [_shares(index[n:][own], pair[side][1], n) for side, own in enumerate(_owns(pair))]
    return shares[0] @ total @ shares[1].T


def _owns(pair: Distributions | SparseHistograms) -> tuple[slice, slice]:
    middle = int(pair.offsets[1])
    return slice(0, middle), slice(middle, None)


def _shares(index: NDArray[np.int64], masses: Float, n: int) -> Any:
    """(points, n): the part of the mass on a distinct point that each point has; 0 without mass."""
    held = masses > 0
    total = np.bincount(index[held], weights=masses[held], minlength=n)
    rows = np.flatnonzero(held)
    return sparse.csr_array((masses[held] / total[index[held]], (rows, index[held])), shape=(len(masses), n))


def _anchor_plan(space: AnchorSpace, pair: Distributions) -> Trees:
    a, b = as_histograms(space.histograms(pair, device="cpu"), "A", space.n_anchors)[:, None]
    if is_metric(space.cost):
        solver = ExactSharedCost(a, b, space.cost, cancel=True)
        only = np.zeros(1, dtype=np.int64)
        return alone(lambda stop: solver.solve_trees(only, only, stop), solver.expected_seconds(1))
    flows = solve_one(a[0], b[0], space.cost).plan.tocoo()
    off = flows.row != flows.col
    mass = np.rint(np.ldexp(flows.data[off], MASS_BITS)).astype(np.int64)
    start, nothing = np.array([0, len(mass)]), np.zeros((1, space.n_anchors))
    ends = flows.row[off].astype(np.int32), flows.col[off].astype(np.int32)
    return Trees(np.zeros(1), np.zeros(1, dtype=np.int32), start, *ends, mass, nothing)


def _distances(x: FloatArray, y: FloatArray) -> Float:
    """Euclidean distances (n, m), safe at any scale."""
    from scipy.spatial.distance import cdist

    exponent = int(np.frexp(max(np.abs(x).max(), np.abs(y).max()))[1])
    first, second = (np.ldexp(np.asarray(z, dtype=np.float64), -exponent) for z in (x, y))
    return np.ldexp(cdist(first, second), exponent)


def _distances_of(pair: Distributions, rows: NDArray[Any], columns: NDArray[Any]) -> Float:
    """Distance (m,) between the listed points of the two."""
    points = np.asarray(pair.points, dtype=np.float64)
    exponent = int(np.frexp(np.abs(points).max())[1])
    first, second = (np.ldexp(points[own], -exponent) for own in _owns(pair))
    return np.ldexp(np.linalg.norm(first[rows] - second[columns], axis=1), exponent)
