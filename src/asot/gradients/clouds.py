"""Exact Wasserstein losses of clouds of points, batched or ragged, and the optimal pairing of two of them.

The kernel computes the costs of a pair, solves it and hands back the few arcs of its plan (`cloud_plans`); torch prices
these arcs again, so that gradients reach the points, and nothing of size n × m is kept (docs/method.md §16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from asot.gradients.tensors import as_order, check_tensors, import_torch, wide
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.validation import as_choice

if TYPE_CHECKING:
    from torch import Tensor

    from asot.gradients.given_clouds import GivenClouds


class CloudPlan(NamedTuple):
    """Optimal plans of P pairs of clouds, sparse: arc e belongs to pair ``pair[e]`` and ships ``mass[e]`` from point
    ``source[e]`` to point ``sink[e]``, rows of x and y (of ``x.flatten(0, 1)`` and ``y.flatten(0, 1)`` where these are
    batches). A pair of n and m points has room for n + m arcs; masses are 0 where it has fewer.

    Potentials: point ``row[k]`` of pair ``row_pair[k]`` has ``f[k]``, and f_i + g_j ≤ d(x_i, y_j)^p. The sum of f and
    g, weighted with the masses, is the value to the power p. Plans and potentials are float64."""

    pair: Tensor  # (arcs,) int64
    source: Tensor
    sink: Tensor
    mass: Tensor
    row_pair: Tensor  # (rows,) int64, where rows counts the points of the first clouds of all pairs
    row: Tensor
    f: Tensor
    column_pair: Tensor  # (columns,) int64
    column: Tensor
    g: Tensor


CODES = {"euclidean": EUCLIDEAN, "sqeuclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "chebyshev": CHEBYSHEV}


def wasserstein(
    x: Tensor,
    y: Tensor,
    *,
    x_offsets: Tensor | None = None,
    y_offsets: Tensor | None = None,
    a: Tensor | None = None,
    b: Tensor | None = None,
    pairs: Any = None,
    p: float = 1,
    metric: str = "euclidean",
    plans: bool = False,
) -> Any:
    """Exact Wasserstein distances W_p between clouds of points, with gradients in points and masses.

    Parameters
    ----------
    x, y : tensor (B, n, d) and (B, m, d), or (n, d) with offsets
        Batches of clouds of one size; or the points of all clouds, one cloud after the other, with ``x_offsets`` and
        ``y_offsets``. Two tensors (n, d) and (m, d) without offsets are one pair.
    x_offsets, y_offsets : integer tensor (B + 1,), optional
        Where each cloud begins, and where the last one ends (``ptr`` of PyTorch Geometric).
    a, b : tensors shaped like x and y without their last dimension, optional
        Masses ≥ 0; both clouds of a pair must have one total. Default: uniform of total 1.
    pairs : "all", or integer array (P, 2), optional
        Which cloud of x with which cloud of y. Default: the i-th with the i-th.
    p : float ≥ 1
        Values are (Σ T d^p)^(1/p).
    metric : {"euclidean", "sqeuclidean", "cityblock", "chebyshev"}
    plans : bool
        Return the plans and potentials as well.

    Returns
    -------
    values : tensor (P,)
        In the dtype and on the device of x; a number for one pair without offsets. With ``plans=True``, (values,
        `CloudPlan`).

    Notes
    -----
    Plans are exact optima of the coordinates as they are given, and values are sums in float64, rounded to the dtype
    of x at the end: 6e-8 of the value in float32, 4e-3 in bfloat16. At a distance of 0 between two points, at a value
    of 0, and for a pair without mass the gradient is 0, which is a subgradient. Totals of two clouds may differ by 1e-6
    of themselves, or by the rounding of their dtype if that is more.

    The solver runs on the CPU, on `torch.get_num_threads()` threads, and for tensors on an NVIDIA GPU there, if CuPy is
    installed and clouds have up to 4,096 points, or 23,000 where all masses and sizes are equal. There is no second
    derivative and no forward mode.

    Examples
    --------
    >>> import torch
    >>> from asot import gradients
    >>> x = torch.tensor([[[0.0, 0.0], [1.0, 0.0]]], requires_grad=True)
    >>> y = torch.tensor([[[0.0, 2.0], [1.0, 1.0]]])
    >>> value = gradients.wasserstein(x, y)
    >>> value
    tensor([1.5000], grad_fn=<...>)
    >>> value.sum().backward()
    >>> x.grad
    tensor([[[ 0.0000, -0.5000],
             [ 0.0000, -0.5000]]])
    """
    torch = import_torch()
    given = {"x": x, "y": y, **{name: mass for name, mass in (("a", a), ("b", b)) if mass is not None}}
    check_tensors(given, "asot.pairwise_exact")
    as_choice(metric, "metric", tuple(CODES))
    p = as_order(p)
    from asot.gradients.given_clouds import GivenClouds, read_pairs

    single = x.ndim == 2 and x_offsets is None and y.ndim == 2 and y_offsets is None
    first, second = (GivenClouds.read(*side) for side in ((x, x_offsets, a, "x", "a"), (y, y_offsets, b, "y", "b")))
    if first.points.shape[1] != second.points.shape[1]:
        raise ValueError(
            f"x has {first.points.shape[1]} coordinates, y has {second.points.shape[1]}; they must be in one space"
        )
    if pairs is None and not plans and metric in ("euclidean", "sqeuclidean"):
        from asot.gradients import paired_clouds

        found = paired_clouds.distances(first, second, _power(p, metric), p)
        if found is not None:
            return found[0] if single else found
    listed = read_pairs(pairs, len(first), len(second))
    kind = "cpu" if x.device.type == "meta" else x.device.type
    with torch.autocast(kind, enabled=False):
        learned = any(side.masses is not None and side.masses.requires_grad for side in (first, second))
        solved, unit = _plans(first, second, listed, p, metric, potentials=plans or learned)
        values = _values(torch, first, second, solved, unit, p, metric)
        if single:
            values = values[0]
        if not plans:
            return values
        scale = unit ** _power(p, metric)  # potentials in units of the caller's costs
        return values, solved._replace(f=solved.f * scale[solved.row_pair], g=solved.g * scale[solved.column_pair])


def assign(x: Tensor, y: Tensor, *, p: float = 2) -> Tensor:
    """The optimal pairing of two clouds of n points each: ``y[..., permutation, :]`` goes with x.

    Flow matching pairs noise with data so: of all n! pairings, the one with the least sum of ``|x_i - y_σ(i)|^p``.

    Parameters
    ----------
    x, y : tensor (n, d) or (B, n, d)
        Points may have any further dimensions (images): they count as one vector.
    p : float ≥ 1

    Returns
    -------
    int64 tensor (n,) or (B, n)

    Examples
    --------
    >>> import torch
    >>> from asot import gradients
    >>> gradients.assign(torch.tensor([[0.0], [5.0], [9.0]]), torch.tensor([[8.0], [1.0], [4.0]]))
    tensor([1, 2, 0])
    """
    torch = import_torch()
    check_tensors({"x": x, "y": y}, "asot.pairwise_exact")
    if x.shape != y.shape or x.ndim < 2:
        raise ValueError(f"x and y must be (n, d) or (B, n, d) of one shape; found {tuple(x.shape)}, {tuple(y.shape)}")
    from asot.gradients.given_clouds import GivenClouds, read_pairs

    single = x.ndim == 2
    first, second = (
        GivenClouds.read(part.detach()[None] if single else part.detach(), None, None, name, "masses")
        for part, name in ((x, "x"), (y, "y"))
    )
    pairs = read_pairs(None, len(first), len(second))
    plans, _ = _plans(first, second, pairs, as_order(p), "euclidean", potentials=False)
    B, n = (1, len(x)) if single else x.shape[:2]
    shipped = (plans.mass > 0).view(B, 2 * n)  # n arcs of each problem, one from each point of x
    order = shipped.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :n]
    source, sink = (part.view(B, 2 * n).gather(1, order) % max(n, 1) for part in (plans.source, plans.sink))
    found: Tensor = torch.zeros_like(sink).scatter(1, source, sink)
    return found[0] if single else found


# ------------------------------------------------------------------------------------------------------------ pricing


def _plans(
    first: GivenClouds, second: GivenClouds, pairs: Tensor, p: float, metric: str, *, potentials: bool
) -> tuple[CloudPlan, Tensor]:
    """Plans, and the powers of two that coordinates were divided by; potentials are in units of their power."""
    from asot.gradients.cloud_plans import CloudBatch, solve_clouds

    def bare(part: Tensor | None) -> Any:
        return None if part is None else part.detach()

    batch = CloudBatch(
        x=bare(first.points),
        y=bare(second.points),
        a=bare(first.masses),
        b=bare(second.masses),
        x_offsets=first.offsets,
        y_offsets=second.offsets,
        pairs=pairs,
        rows=first.points_of(pairs[:, 0], "x"),
        columns=second.points_of(pairs[:, 1], "y"),
        power=_power(p, metric),
        metric=metric,
        potentials=potentials,
    )
    return solve_clouds(batch)


def _power(p: float, metric: str) -> float:
    """Of the metric whose code the solver gets: a squared distance is one of power 2."""
    return 2.0 * p if metric == "sqeuclidean" else p


def _values(
    torch: Any, first: GivenClouds, second: GivenClouds, plans: CloudPlan, unit: Tensor, p: float, metric: str
) -> Tensor:
    """Values (P,) that autograd can follow: the arcs of optimal plans, priced again, in the pairs' units."""
    from asot.gradients.refusals import without_second
    from asot.gradients.units import times

    x, y = without_second(first.points), without_second(second.points)
    prices = _prices(torch, x, y, plans, unit, p, metric)
    values = unit.new_zeros(len(unit)).index_add(0, plans.pair, plans.mass * prices)
    for masses, place, point, potential in (
        (first.masses, plans.row_pair, plans.row, plans.f),
        (second.masses, plans.column_pair, plans.column, plans.g),
    ):
        if masses is not None and masses.requires_grad:
            scale = unit * unit if metric == "sqeuclidean" else unit
            values = values + scale * _through_masses(masses, place, point, potential, len(unit))
    if p != 1:
        positive = values > 0
        values = torch.where(positive, torch.where(positive, values, 1.0) ** (1.0 / p), 0.0)
    one = torch.ones_like(unit)
    values = times(values, unit, one)
    return (times(values, unit, one) if metric == "sqeuclidean" else values).to(first.points.dtype)


def _prices(torch: Any, x: Tensor, y: Tensor, plans: CloudPlan, unit: Tensor, p: float, metric: str) -> Tensor:
    """d^p of the arcs, (arcs,), in the pairs' units; those without mass may have any price. Gradients are as of values
    in the caller's units."""
    from asot.gradients import arc_prices
    from asot.gradients.units import times

    shrink, slope = 1.0 / unit, unit if metric == "sqeuclidean" else torch.ones_like(unit)
    if arc_prices.has_kernel(x, y, metric):
        arcs = arc_prices.Arcs(plans.source, plans.sink, plans.pair, plans.mass, shrink, slope)
        return arc_prices.prices(x, y, arcs, _power(p, metric))
    own, after = (each[plans.pair][:, None] for each in (shrink, slope))
    one, two = (times(points[at].to(wide(x)), own, after) for points, at in ((x, plans.source), (y, plans.sink)))
    return _ground(torch, one - two, metric, p)


def _ground(torch: Any, gap: Tensor, metric: str, p: float) -> Tensor:
    """d^p of differences (E, d), whose gradient at 0 is 0."""
    if metric == "cityblock":
        distance = gap.abs().sum(1)
    elif metric == "chebyshev":
        distance = gap.abs().amax(1) if gap.shape[1] else gap.sum(1)
    else:
        squares = (gap * gap).sum(1)
        power = p if metric == "sqeuclidean" else p / 2
        if power == 1:
            return squares
        positive = squares > 0
        return torch.where(positive, torch.where(positive, squares, 1.0) ** power, 0.0)
    return distance if p == 1 else distance**p


def _through_masses(masses: Tensor, place: Tensor, point: Tensor, potential: Tensor, n_pairs: int) -> Tensor:
    """Zeros (P,) whose gradient in the masses is the potentials (rows,), centred within each cloud."""
    from asot.gradients.refusals import without_second

    zeros = potential.new_zeros(n_pairs)
    sizes = zeros.index_add(0, place, potential.new_ones(len(place)))
    means = zeros.index_add(0, place, potential) / sizes.clamp(min=1)
    change = (without_second(masses) - masses.detach()).to(potential.dtype)
    return zeros.index_add(0, place, (potential - means[place]) * change[point])
