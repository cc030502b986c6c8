"""Losses that people train point clouds with, beside the exact W₁: is the value right, where does the gradient point?

No clock takes part. geomloss and POT are called as installed. The auction is written here after Bertsekas (1988), with
the ε and the numbers of rounds that public code for point clouds uses: sources without a target bid for their best one,
all at once, and those that are still free in the end take their best target, whoever has it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, largest_difference, require
from benchmarks.peers.peers import pot

NEEDS = {"pot", "torch"}

PAIRS = 4
"""Of each kind of clouds."""


def run(options: Options) -> Report:
    """Hold every loss against the exact one and make the report."""
    n = 64 if options.quick else 512
    tables = [_table(kind, make(n), quick=options.quick) for kind, make in KINDS.items()]
    return Report("losses", "Losses of point clouds, checked", INTRODUCTION.format(n=n, pairs=PAIRS), tables, _notes())


INTRODUCTION = (
    "Clouds of {n} points in the unit cube, {pairs} pairs of each kind; means over them. Value: over the exact one of "
    "the same kind, so 1 is right. Gradient: the cosine of its angle to that of the exact W₁, so 1 is right."
)


def _notes() -> tuple[str, ...]:
    notes = (
        "Exact values are those of `asot.gradients.wasserstein`; they are compared with POT's `ot.emd2` to 1e-6. "
        "geomloss with p = 2 is held against ½ W₂² and its gradient.",
        "Unused: the share of the points of the second cloud that no point of the first is matched with.",
        "Auction: written for this table after Bertsekas (1988). Stopped after so many rounds, it is no matching; run "
        "to its end, it is within ε per point.",
        "Chamfer is no approximation of W₁; it is here because it is what else people train with.",
    )
    return notes if _has_geomloss() else (*notes, "geomloss is not installed; `pip install geomloss` adds it.")


def _has_geomloss() -> bool:
    return importlib.util.find_spec("geomloss") is not None


# -------------------------------------------------------------------------------------------------------------- clouds


def _uniform(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((PAIRS, n, 3)), rng.random((PAIRS, n, 3))


def _sphere(n: int, rng: np.random.Generator) -> Any:
    points = rng.normal(size=(PAIRS, n, 3))
    return 0.5 + 0.45 * points / np.linalg.norm(points, axis=2, keepdims=True)


def _shapes(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    cube = rng.random((PAIRS, n, 3))
    side, end = rng.integers(0, 3, (PAIRS, n, 1)), rng.integers(0, 2, (PAIRS, n, 1)).astype(float)
    np.put_along_axis(cube, side, end, axis=2)
    return _sphere(n, rng), cube


def _moved(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    x = _sphere(n, rng)
    return x, x[:, rng.permutation(n)] + rng.normal(0, 0.01, x.shape)


KINDS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "Two uniform samples": _uniform,
    "A sphere and the surface of a cube": _shapes,
    "A sphere and itself, moved by 0.01": _moved,
}

# -------------------------------------------------------------------------------------------------------------- losses


def auction(x: Any, y: Any, eps: float, rounds: int) -> Any:
    """The target (n,) of each point of a cloud x (n, d)."""
    import torch

    gain, n = -torch.cdist(x.detach(), y.detach()).double().numpy(), len(x)
    prices, owner, target = np.zeros(n), np.full(n, -1), np.full(n, -1)
    for _ in range(rounds):
        free = np.flatnonzero(target < 0)
        if len(free) == 0:
            break
        offers = gain[free] - prices
        wanted, each = offers.argmax(1), np.arange(len(free))
        best = offers[each, wanted]
        offers[each, wanted] = -np.inf
        bids = prices[wanted] + best - offers.max(1) + eps
        order = bids.argsort()  # the highest bid for a target comes last and stays
        taken, highest = np.unique(wanted[order][::-1], return_index=True)
        winners = order[::-1][highest]
        target[owner[taken][owner[taken] >= 0]] = -1
        owner[taken], prices[taken] = free[winners], bids[winners]
        target[free[winners]] = taken
    return torch.from_numpy(np.where(target < 0, (gain - prices).argmax(1), target))


def _by_auction(eps: float, rounds: int) -> Callable[[Any, Any], tuple[Any, Any]]:
    def loss(x: Any, y: Any) -> tuple[Any, Any]:
        matched = auction(x, y, eps, rounds)
        return (x - y[matched]).norm(dim=1).mean(), matched

    return loss


def _chamfer(x: Any, y: Any) -> tuple[Any, Any]:
    import torch

    distances = torch.cdist(x, y)
    return (distances.amin(1).mean() + distances.amin(0).mean()) / 2, distances.argmin(1)


def _sinkhorn(p: int, blur: float) -> Callable[[Any, Any], tuple[Any, Any]]:
    import geomloss

    loss = geomloss.SamplesLoss("sinkhorn", p=p, blur=blur, backend="tensorized")
    return lambda x, y: (loss(x, y), None)


def _losses(quick: bool) -> dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], bool]]:
    """Losses by name, and whether each stands for ½ W₂² instead of W₁."""
    found = {"Chamfer, half the sum of both ways": (_chamfer, False)}
    if _has_geomloss():
        for blur in (0.05, 0.01, 0.001):
            found[f"geomloss, p = 1, blur = {blur}"] = (_sinkhorn(1, blur), False)
        found["geomloss, p = 2, blur = 0.05 (its default)"] = (_sinkhorn(2, 0.05), True)
        found["geomloss, p = 2, blur = 0.01"] = (_sinkhorn(2, 0.01), True)
    found["auction, ε = 0.005, 50 rounds"] = (_by_auction(0.005, 50), False)
    if not quick:
        found["auction, ε = 0.002, to its end"] = (_by_auction(0.002, 10_000), False)
    return found


def _exact(x: Any, y: Any, squares: bool) -> Any:
    if squares:
        return asot.gradients.wasserstein(x, y, metric="sqeuclidean") / 2
    return asot.gradients.wasserstein(x, y)


def _gradient(value: Any, x: Any) -> Any:
    import torch

    return torch.autograd.grad(value, x)[0].flatten().double()


def _table(kind: str, clouds: tuple[Any, Any], *, quick: bool) -> Table:
    import torch

    firsts, seconds = (torch.tensor(part, dtype=torch.float32) for part in clouds)
    rows = []
    for name, (loss, squares) in _losses(quick).items():
        measured = []
        for first, second in zip(firsts, seconds, strict=True):
            x = first.clone().requires_grad_()
            exact = _exact(x, second, squares)
            _check(exact, first, second, squares)
            expected = _gradient(exact, x)
            value, matched = loss(x, second)
            cosine = torch.nn.functional.cosine_similarity(_gradient(value, x), expected, dim=0)
            unused = float("nan") if matched is None else 1 - len(matched.unique()) / len(second)
            measured.append((float((value / exact).detach()), float(cosine), unused))
        value, cosine, unused = np.mean(measured, axis=0)
        rows.append([name, f"{value:.3f}", f"{cosine:.3f}", "—" if np.isnan(unused) else f"{unused:.1%}"])
    return Table(f"{kind}:", ("loss", "value / exact", "gradient", "unused"), rows)


def _check(exact: Any, x: Any, y: Any, squares: bool) -> None:
    ot = pot()
    metric = "sqeuclidean" if squares else "euclidean"
    uniform = np.full(len(x), 1 / len(x))
    expected = ot.emd2(uniform, uniform, ot.dist(x.double().numpy(), y.double().numpy(), metric), numItermax=10_000_000)
    require("POT", largest_difference(float(exact.detach()), expected / (2 if squares else 1), expected), 1e-6)
