"""Exact Wasserstein losses of clouds of points, batched or ragged, and the optimal pairing of two of them.

The kernel computes the costs of a pair, solves it and hands back the few arcs of its plan; torch prices these arcs
again, so that gradients reach the points, and nothing of size n × m is kept (docs/method.md §16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.batch import Batch, check_masses, solve_batch
from asot.exact.batch import Clouds, Side, ranges
from asot.gradients.tensors import check_tensors, import_torch
from asot.ground.metrics import CHEBYSHEV, CITYBLOCK, EUCLIDEAN
from asot.validation import as_choice, as_pairs

if TYPE_CHECKING:
    from torch import Tensor

METRICS = ("euclidean", "sqeuclidean", "cityblock", "chebyshev")


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
) -> Tensor:
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

    Returns
    -------
    tensor (P,), in the dtype and on the device of x; a number for one pair without offsets

    Notes
    -----
    Plans are exact optima of the coordinates in float64; values are sums over a plan in the dtype of x, so in float32
    they are right to about 1e-6 of themselves. At a distance of 0 between two points, and at a value of 0, the gradient
    is 0, which is a subgradient. There is no second derivative.

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
    as_choice(metric, "metric", METRICS)
    if not 1 <= float(p) < np.inf:
        raise ValueError(f"p must be a finite number ≥ 1; found {p!r}")
    single = x.ndim == 2 and x_offsets is None and y.ndim == 2 and y_offsets is None
    first, second = (_Side.read(torch, *side) for side in ((x, x_offsets, a, "x", "a"), (y, y_offsets, b, "y", "b")))
    if first.points.shape[1] != second.points.shape[1]:
        raise ValueError(
            f"x has {first.points.shape[1]} coordinates, y has {second.points.shape[1]}; they must be in one space"
        )
    rows, columns = _read_pairs(pairs, len(first), len(second))
    with torch.autocast(x.device.type, enabled=False):
        values = _values(torch, first, second, rows, columns, float(p), metric)
    return values[0] if single else values


def assign(x: Tensor, y: Tensor, *, p: float = 2) -> Tensor:
    """The optimal pairing of two clouds of n points each: ``y[..., permutation, :]`` goes with x.

    Flow matching pairs noise with data so: of all n! pairings, the one with the least sum of |x_i - y_σ(i)|^p.

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
    if not 1 <= float(p) < np.inf:
        raise ValueError(f"p must be a finite number ≥ 1; found {p!r}")
    single = x.ndim == 2
    first, second = (
        _Side.read(torch, part.detach()[None] if single else part.detach(), None, None, name, "masses")
        for part, name in ((x, "x"), (y, "y"))
    )
    each = np.arange(len(first), dtype=np.int64)
    solved = _solve(first.arrays(), second.arrays(), each, each, float(p), "euclidean")
    n = x.shape[0] if single else x.shape[1]
    permutation = np.zeros((len(each), n), dtype=np.int64)
    for t in range(len(each)):
        source, sink, mass = solved.solver.arcs_of(t)
        heavy = mass > 0.5 / n  # rounding of masses may leave crumbs
        permutation[t, source[heavy]] = sink[heavy]
    found = torch.as_tensor(permutation, device=x.device)
    return found[0] if single else found


# ------------------------------------------------------------------------------------------------------------ reading


class _Side(NamedTuple):
    """The clouds of one argument: points of all of them, where each begins, and masses or None."""

    points: Tensor  # (n, d)
    offsets: NDArray[np.int64]  # (B + 1,)
    masses: Tensor | None  # (n,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64] | None]:
        """The same on the CPU, in float64."""
        torch = import_torch()
        points, masses = (
            None if part is None else part.detach().to("cpu", torch.float64).contiguous().numpy()
            for part in (self.points, self.masses)
        )
        assert points is not None
        return points, self.offsets, masses

    @classmethod
    def read(cls, torch: Any, points: Tensor, offsets: Any, masses: Tensor | None, name: str, mass_name: str) -> _Side:
        if offsets is None:
            batch = points[None] if points.ndim == 2 else points
            if batch.ndim < 3:
                raise ValueError(
                    f"{name} must be (B, n, d), or (n, d) with {name}_offsets; found {tuple(points.shape)}"
                )
            B, n = batch.shape[:2]
            flat, bounds = batch.reshape(B * n, -1), np.arange(B + 1, dtype=np.int64) * n
        else:
            if points.ndim != 2:
                raise ValueError(f"{name} must be (n, d) where {name}_offsets are given; found {tuple(points.shape)}")
            flat, bounds = points, _read_offsets(torch, offsets, len(points), f"{name}_offsets")
        if masses is not None and masses.numel() != len(flat):
            raise ValueError(f"{mass_name} must hold a mass for each of the {len(flat)} points of {name}")
        empty = np.diff(bounds) == 0
        if empty.any() and masses is None:
            raise ValueError(f"problem {int(empty.argmax())}: its cloud in {name} has no points")
        if not bool(torch.isfinite(flat.detach()).all()):
            place = int((~torch.isfinite(flat.detach()).all(1)).nonzero()[0])
            cloud = int(np.searchsorted(bounds, place, side="right") - 1)
            raise ValueError(f"problem {cloud}: point {place - bounds[cloud]} of its cloud in {name} is not finite")
        return cls(flat, bounds, None if masses is None else masses.reshape(-1))


def _read_offsets(torch: Any, offsets: Any, n_points: int, name: str) -> NDArray[np.int64]:
    given = torch.as_tensor(offsets)
    if given.dtype.is_floating_point or given.ndim != 1 or len(given) < 1:
        raise ValueError(f"{name} must be a vector of integers (B + 1,); found {given.dtype} {tuple(given.shape)}")
    bounds = given.cpu().numpy().astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != n_points:
        raise ValueError(
            f"{name} must go from 0 to {n_points}, the number of points; found {bounds[0]} to {bounds[-1]}"
        )
    falls = np.diff(bounds) < 0
    if falls.any():
        raise ValueError(f"problem {int(falls.argmax())}: {name} must ascend, and falls behind it")
    return bounds


def _read_pairs(pairs: Any, n_first: int, n_second: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if pairs is None:
        if n_first != n_second:
            raise ValueError(
                f"x holds {n_first} clouds, y {n_second}; pairs='all' takes every one with every other, and an array "
                "(P, 2) the pairs that it lists"
            )
        each = np.arange(n_first, dtype=np.int64)
        return each, each
    if isinstance(pairs, str):
        as_choice(pairs, "pairs", ("all",))
        rows, columns = np.divmod(np.arange(n_first * n_second, dtype=np.int64), max(n_second, 1))
        return rows, columns
    listed = as_pairs(np.asarray(pairs.cpu() if isinstance(pairs, import_torch().Tensor) else pairs), n_first, n_second)
    return np.ascontiguousarray(listed[:, 0]), np.ascontiguousarray(listed[:, 1])


# ------------------------------------------------------------------------------------------------------------ solving

_CODES = {"euclidean": EUCLIDEAN, "sqeuclidean": EUCLIDEAN, "cityblock": CITYBLOCK, "chebyshev": CHEBYSHEV}


def _solve(first: Any, second: Any, rows: Any, columns: Any, p: float, metric: str) -> Batch:
    """Solve pairs of clouds (points, offsets, masses), with plans and potentials."""
    torch = import_torch()
    left, right = (
        Side(np.ascontiguousarray(bounds[:-1][chosen]), np.ascontiguousarray(np.diff(bounds)[chosen]), masses)
        for (_, bounds, masses), chosen in ((first, rows), (second, columns))
    )
    check_masses(left, right)
    power = 2.0 * p if metric == "sqeuclidean" else p
    costs = Clouds(first[0], second[0], _CODES[metric], 2.0, power)
    return solve_batch(left, right, costs, plans=True, n_jobs=torch.get_num_threads())


def _values(torch: Any, first: _Side, second: _Side, rows: Any, columns: Any, p: float, metric: str) -> Tensor:
    """Values (P,) that autograd can follow: the arcs of optimal plans, priced again."""
    from asot.gradients.operations import without_second

    solved = _solve(first.arrays(), second.arrays(), rows, columns, p, metric)
    arcs, potentials = solved.solver.arcs, solved.solver.potentials
    assert arcs is not None
    assert potentials is not None
    device, dtype = first.points.device, first.points.dtype
    pair, kept = ranges(arcs.starts, arcs.counts)
    source = torch.as_tensor(arcs.source[kept] + first.offsets[rows[pair]], device=device)
    sink = torch.as_tensor(arcs.sink[kept] + second.offsets[columns[pair]], device=device)
    mass = torch.as_tensor(arcs.mass[kept], device=device, dtype=dtype)
    place = torch.as_tensor(pair, device=device)
    x, y = without_second(first.points), without_second(second.points)
    cost = _ground(torch, x[source] - y[sink].to(dtype), metric, p)
    values = torch.zeros(len(rows), dtype=dtype, device=device).index_add(0, place, mass * cost)
    for side, chosen, starts, heights in (
        (first, rows, potentials.f_starts, potentials.f),
        (second, columns, potentials.g_starts, potentials.g),
    ):
        if side.masses is not None and side.masses.requires_grad:
            values = values + _through_masses(torch, side, chosen, starts, heights)
    if p == 1:
        return values
    positive = values > 0
    return torch.where(positive, torch.where(positive, values, 1.0) ** (1.0 / p), 0.0)


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


def _through_masses(torch: Any, side: _Side, chosen: Any, starts: Any, heights: Any) -> Tensor:
    """Zeros (P,) whose gradient in the masses is the potentials, centred within each cloud."""
    from asot.gradients.operations import without_second

    assert side.masses is not None
    sizes = np.diff(side.offsets)[chosen]
    pair, kept = ranges(starts, sizes)
    means = np.bincount(pair, heights[kept], minlength=len(chosen)) / np.maximum(sizes, 1)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    point = torch.as_tensor(side.offsets[chosen][pair] + within, device=side.masses.device)
    slope = torch.as_tensor(heights[kept] - means[pair], device=side.masses.device, dtype=side.masses.dtype)
    change = without_second(side.masses) - side.masses.detach()
    place = torch.as_tensor(pair, device=side.masses.device)
    return change.new_zeros(len(chosen)).index_add(0, place, slope * change[point])
