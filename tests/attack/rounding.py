"""How far two right answers to one question may lie apart: what rounding explains, derived from how it is done."""

from __future__ import annotations

import numpy as np

from asot.exact.any_cost import FINE, WIDER
from asot.exact.shared_cost import cost_bits_for, index_bits_for
from tests.attack import problems, solvers


def largest_distances(D, pairs, metric, given=None):
    """The largest distance (P,) between points of each pair, as an oracle says."""
    return np.array([solvers.ground(metric)(D[i][0], D[j][0], given).max() for i, j in pairs.tolist()])


def of_plans(D, values, largest, p, pairs=None):
    """By how much W_p (P,) of another optimal plan may differ, in more than one dimension.

    The simplex sees costs (d/L)^p as multiples of 2^-b: L is the pair's largest distance, and b depends on its sizes
    (`asot.exact.shared_cost`). Each is off by half a unit at most, so a plan of total mass 1 that is optimal for them
    is worth one unit more than the best at most: W^p lies between the best and the best plus 2^-b L^p. Which of the
    plans in between is found depends on the order of points and of the pair. A root makes a unit large where W is far
    below L, as it is where little mass goes far.

    Where all masses are equal no mass is little: a step moves 1/(nm) at least. Since costs are clipped until the
    largest in use is at least FINE / WIDER of the largest of all, W^p is then at least that share of the cost whose
    rounding counts.
    """
    slack = np.zeros(len(values))
    for t, (i, j) in enumerate((problems.all_pairs(len(D)) if pairs is None else pairs).tolist()):
        if not largest[t] > 0:
            continue
        (n, a), (m, b) = ((len(D[k][1]), D[k][1]) for k in (i, j))
        unit = 2.0 ** -cost_bits_for(index_bits_for(n + 1, m + 1))
        whole = (values[t] / largest[t]) ** p
        if (a == a[0]).all() and (b == b[0]).all():
            unit = min(unit, unit * whole * n * m * WIDER / FINE)
        above, below = (whole + unit) ** (1 / p), max(whole - unit, 0.0) ** (1 / p)
        slack[t] = largest[t] * (above - below)
    return slack
