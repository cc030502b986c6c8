"""Which shared costs a GPU leaves to the CPU: those with large entries that mean "never" take the digits of the others.

Integer costs of a GPU reach as far as the largest one. The CPU solves a pair again where that matters
(``native/exact/digits.hpp``); a GPU does not, so what costs look like decides before anything is solved: small ones lie
apart from the others, and there are more of them than a plan needs. A cost whose sizes merge into one another, such as
squares of distances, is left to the CPU only if its small entries have hardly any digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FINE, FINEST = 12, 24
"""Octaves below the largest cost: of entries that lack digits if they lie apart, and of those that do anyway."""

APART = 8
"""Octaves without a cost."""

TOO_FAR_APART = 'some costs, such as those that mean "never", take the digits of the others, which the CPU keeps'


def lacks_digits(cost: NDArray[np.float64], *, cancel: bool) -> bool:
    """Whether the integers of a GPU have too few digits for more entries of a finite cost (k, l) ≥ 0 than a plan needs.

    ``cancel``: common mass is canceled, so that entries of 0 are not used.
    """
    small = cost < np.ldexp(cost.max(initial=0.0), -FINE)
    if np.count_nonzero(small) <= max(cost.shape):
        return False
    positive = cost[cost > 0]
    exponents = np.frexp(positive)[1]
    counts = np.bincount(int(exponents.max()) - exponents)
    free = 0 if cancel else cost.size - len(positive) - np.count_nonzero(np.diagonal(cost) == 0)
    enough = np.cumsum(counts[::-1])[::-1] + free > max(cost.shape)  # by octave: of costs in it or below
    taken = np.flatnonzero(counts)
    begins = taken[1:][np.diff(taken) > APART]
    return bool(enough[begins[begins >= FINE]].any() or enough[FINEST:].any())
