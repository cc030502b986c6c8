"""Few problems with one large cost, and images: beside POT's core after canceling, and flows on a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import asot
from benchmarks.common import Options, Report
from benchmarks.exact.edges import INTRODUCTION, Case, Float, race_all, upper
from benchmarks.exact.edges_rivals import canceled, grid_flow, needs

NEEDS = {"pot"}


def run(options: Options) -> Report:
    """Race every case and make the report."""
    tables = race_all((_few_pairs, _images), options.quick)
    return Report("edges_shared", "The edges of the field: one cost", INTRODUCTION, tables, NOTES)


NOTES = (
    "cancel + core: common mass is taken out in NumPy, and the rest is solved by `ot.lp.emd_wrap.emd_c`, POT's "
    "compiled solver without any of its checks.",
    "OR-tools: `SimpleMinCostFlow` on the 4-neighbor grid with masses rounded to 10⁻⁹. "
    "Its answers may differ by more, and are shown times 10⁻⁴.",
    "Images are noise: every pixel has a mass of its own, so that nearly every one sends or receives some.",
    "Differences are over the largest distance of the case.",
)


def _few_pairs(rng: Any, quick: bool) -> Iterator[Case]:
    for k, n in ((200, 3),) if quick else ((500, 4), (1000, 3), (2000, 2)):
        points = rng.normal(size=(k, 3))
        cost = cdist(points, points)
        A = rng.dirichlet(np.ones(k), n)
        yield _shared("Few pairs, one cost", f"k = {k:,}", A, cost, {}, 3.0)


def _shared(
    group: str,
    label: str,
    A: Float,
    cost: Float,
    more: dict[str, Callable[[], Float]],
    target: float,
    repeats: int = 2,
) -> Case:
    pairs = list(upper(len(A)))
    rivals = {"cancel + core": lambda: np.array([canceled(A[i], A[j], cost) for i, j in pairs]), **more}
    return Case(group, label, lambda: asot.emd_many(A, cost=cost).values, rivals, len(pairs), target, repeats)


def _images(rng: Any, quick: bool) -> Iterator[Case]:
    for side, n in ((8, 4),) if quick else ((28, 4), (32, 3), (64, 2)):
        positions = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
        A = rng.integers(0, 256, (n, side, side)).astype(float)
        A = A.reshape(n, -1) / A.sum(axis=(1, 2))[:, None]
        for metric in ("euclidean", "cityblock"):
            cost = cdist(positions, positions, metric)
            more = {}
            if metric == "cityblock" and needs("ortools"):
                more["OR-tools"] = lambda A=A, side=side: np.array(
                    [grid_flow(A[i], A[j], side) for i, j in upper(len(A))]
                )
            yield _shared("Images", f"{side} × {side}, {metric}", A, cost, more, *((3.0, 2) if side < 64 else (1.0, 1)))
