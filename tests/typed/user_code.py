"""Typical user code, for type checkers only: mypy and pyright must agree on every type that is asserted here."""
# mypy: warn-return-any, disallow-untyped-decorators

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import asot
from asot.sinks import Callback, Condensed, Counts, Dense, Store, TopK


class MeanDistance:
    """A sink of a user's own."""

    def open(self, pairs: object, info: dict[str, Any]) -> None:
        self.count, self.total = int(info["n_pairs"]), 0.0

    def accept(self, tile: asot.sinks.Tile) -> None:
        self.total += float(tile.solution.values.sum())

    def close(self, info: dict[str, Any]) -> float:
        return self.total / self.count


def high_level(D: asot.Distributions, path: os.PathLike[str]) -> None:
    assert_type(asot.pairwise(D), asot.Distances)
    assert_type(asot.pairwise(D, sink=TopK(5)), asot.Neighbors)
    assert_type(asot.pairwise(D, sink=None), asot.Distances)
    assert_type(asot.pairwise_exact(D, sink=Condensed()), asot.Distances)
    assert_type(asot.pairwise_exact(D, D, sink=Dense()), NDArray[np.float64])
    assert_type(asot.pairwise(D, sink=MeanDistance()), float)
    assert_type(asot.pairwise(D, sink=Store(path)), asot.Stored)
    assert_type(asot.open_store(path), asot.Stored)
    assert_type(asot.open_store(path).top_k(3), asot.Neighbors)
    assert_type(asot.pairwise(D).values, NDArray[np.float64])
    assert_type(asot.pairwise(D, bounds=True).lower, NDArray[np.float64] | None)
    assert_type(asot.kneighbors(D, n_neighbors=3), asot.Neighbors)


def low_level(A: NDArray[np.float64], cost: NDArray[np.float64]) -> None:
    assert_type(asot.emd_many(A, cost=cost), asot.Distances)
    assert_type(asot.emd_many(A, cost=cost, sink=TopK(2)), asot.Neighbors)
    assert_type(asot.sinkhorn_many(A, cost=cost, reg=0.1, sink=Counts([0.0, 1.0])), NDArray[np.int64])
    asot.sinkhorn_many(A, cost=cost, reg="auto", sink=Callback(print))
    assert_type(asot.emd(A[0], A[1], cost).value, float)


def chosen(D: asot.Distributions, sink: asot.sinks.Sink[asot.Neighbors] | None) -> asot.Neighbors | asot.Distances:
    return asot.pairwise(D, sink=sink)
