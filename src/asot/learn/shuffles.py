"""Random orders of distributions or points, within strata where there are any, and what many tests at once need.

Under the null hypothesis labels could as well belong to others of the same stratum (a batch, a site, a donor). So
labels are only exchanged within strata, and everything that differs between them stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices


def shuffled(rng: Any, n: int, strata: list[Indices] | None) -> Indices:
    """A random order (n,) that maps every stratum to itself; strata None is one stratum of all."""
    if strata is None:
        return np.asarray(rng.permutation(n), dtype=np.int64)
    order = np.arange(n)
    for members in strata:
        order[members] = members[rng.permutation(len(members))]
    return order


def members_of(label: Indices) -> list[Indices]:
    """Where each stratum (0, 1, 2, …) has its members."""
    return [np.flatnonzero(label == stratum) for stratum in range(int(label.max()) + 1)]


def check_strata_vary(label: Indices, strata: list[Indices] | None, words: str) -> None:
    """Refuse strata within which nothing can change places."""
    if strata is not None and all(len(np.unique(label[own])) == 1 for own in strata):
        raise ValueError(f"{words} do not differ within any stratum, so there is nothing to exchange; leave out strata")


def q_values(p_values: Any) -> NDArray[np.float64]:
    """Benjamini and Hochberg's adjusted p-values (n,): the false discovery rate of calling this one and all smaller.

    >>> q_values([0.01, 0.04, 0.03, 0.5]).round(4)
    array([0.04  , 0.0533, 0.0533, 0.5   ])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return found


def share_as_large(permuted: Any, observed: float, scale: float) -> float:
    """p = (1 + #{permuted ≥ observed}) / (1 + B), where rounding (in units of ``scale``) does not break ties."""
    values = np.asarray(permuted, dtype=np.float64)
    as_large = np.count_nonzero(values >= observed - 1e-9 * scale) + np.count_nonzero(np.isnan(values))
    return float((1 + as_large) / (1 + len(values)))
