"""W_1 under the Hamming distance of labels that nest: a sum, without any network (docs/method.md §14).

Weisfeiler-Lehman labels nest: a node's label after t rounds determines its label after t - 1 rounds. The labels then
form a tree, the Hamming distance of two points is the length of the path between their leaves, and transport on a tree
has a closed form. With p_t and q_t the histograms of labels in column t, one of d columns,

    W_1 = Σ_t ‖p_t - q_t‖₁ / (2 d) = 1 - Σ_t Σ_label min(p_t, q_t) / d.

Masses are integers, so equal distributions have the distance 0 and no order of summation matters.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from asot._typing import Identity, Indices, Info
from asot.data.distinct import LabelMasses, SparseHistograms, common_mass
from asot.exact.points import quantize_sparse
from asot.exact.price import PricedSolver
from asot.exact.workspace import MASS_BITS
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended
from asot.validation import FloatArray


def nested_codes(points: FloatArray) -> list[NDArray[np.int64]] | None:
    """The columns of points (V, d) as whole numbers (V,) from 0 on, if they nest: every column determines all columns
    that have fewer labels."""
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in np.asarray(points).T]
    codes.sort(key=lambda code: int(code.max()))
    for coarse, fine in itertools.pairwise(codes):
        parent = np.empty(int(fine.max()) + 1, dtype=np.int64)
        parent[fine] = coarse
        if (parent[fine] != coarse).any():
            return None
    return codes


class NestedLabels(PricedSolver):
    """Prepared once from histograms over points whose columns nest; then solves tiles of pairs. See `ExactPoints`."""

    stage = "exact distances"
    _most_pairs = 2**18

    def __init__(self, histograms: SparseHistograms, codes: list[Indices], column_start: int = 0) -> None:
        self._column_start, self._depth = column_start, len(codes)
        self._bits = MASS_BITS - int(self._depth).bit_length()  # the sum over all columns fits into 2^60
        masses = quantize_sparse(histograms.offsets, histograms.masses, self._bits)
        first = np.concatenate([[0], np.cumsum([int(code.max()) + 1 for code in codes])])
        n_labels = int(first[-1])
        n = len(histograms.offsets) - 1
        owner = np.repeat(np.arange(n), np.diff(histograms.offsets))
        keys = np.concatenate([owner * n_labels + first[t] + code[histograms.index] for t, code in enumerate(codes)])
        found, place = np.unique(keys, return_inverse=True)
        together = np.zeros(len(found), dtype=np.int64)
        np.add.at(together, place, np.tile(masses, self._depth))
        labels = (found % n_labels).astype(np.int64)
        offsets = np.searchsorted(found, np.arange(n + 1) * n_labels).astype(np.int64)
        self._record = LabelMasses(n_labels=n_labels, offsets=offsets, labels=labels, masses=together)
        self._seconds = 2e-8 + 1.5e-9 * len(found) / n
        self.info: Info = {
            "solver": "tree of nested labels",
            **IN_FLOAT64,
            "metric": "hamming",
            "metric_proven": True,
            "distinct_points": len(histograms.points),
        }

    def identity(self) -> Identity:
        return {
            "solver": "nested labels, 1",
            **self._record.arrays(),
            "depth": self._depth,
            "column_start": self._column_start,
        }

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        common = common_mass(self._record, rows, columns + self._column_start, stop)
        whole = np.int64(self._depth) << self._bits
        return all_ended(Status.OPTIMAL, np.ldexp((whole - common).astype(np.float64), -self._bits) / self._depth)
