"""Whether groups differ in how many points their distributions have, which a test of their distances would notice.

W_1 between samples is larger the fewer points they have (`asot.noise_floor`). Where one group has smaller samples than
another, a permutation test finds that, and it looks like a difference of the distributions.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATIO = 1.2
"""Groups whose typical sizes differ by less than this do not matter."""

DEVIATIONS = 2.5
"""Differences within so many standard errors may be chance."""


def warn_of_sizes(sizes: NDArray[np.int64] | None, names: NDArray[Any], label: NDArray[np.int64]) -> None:
    """Warn if samples of one group (label (N,) into names) are smaller than those of another; None: nothing known."""
    if sizes is None:
        return
    logs = np.log(sizes)
    groups = [logs[label == group] for group in range(len(names))]
    means = np.array([own.mean() for own in groups])
    low, high = int(means.argmin()), int(means.argmax())
    rest = sum(((own - own.mean()) ** 2).sum() for own in groups) / max(len(logs) - len(groups), 1)
    chance = np.sqrt(rest * (1 / len(groups[low]) + 1 / len(groups[high])))
    apart = means[high] - means[low]
    if apart < np.log(RATIO) or apart <= DEVIATIONS * chance:
        return
    warnings.warn(
        f"distributions of group {str(names[low])!r} have {np.exp(means[low]):.3g} points where those of "
        f"{str(names[high])!r} have {np.exp(means[high]):.3g}; small samples are far from everything, so the groups "
        "differ in any case: compare them at one size, with asot.size_matched(D)",
        UserWarning,
        stacklevel=3,
    )
