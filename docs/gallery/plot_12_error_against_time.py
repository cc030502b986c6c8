"""
Error against time
==================

More anchors take more time and give less error. Calibration corrects most of the error for any number of anchors.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

import asot

rng = np.random.default_rng(5)
D = asot.Distributions.from_list(
    [rng.normal(rng.normal(size=4), 1.0, size=(120, 4)) for _ in range(40)]
)
exact = asot.pairwise_exact(D)
spaces = {
    k: asot.KMeansAnchors(k, random_state=0).fit(D).space_
    for k in (8, 16, 32, 64)
}


def measured(estimate, k):
    """Seconds (the best of three) and the error in percent."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        r = asot.pairwise(D, space=spaces[k], estimate=estimate)
        seconds.append(time.perf_counter() - started)
    off = np.sqrt(np.mean((r.values - exact.values) ** 2))
    return min(seconds), 100 * off / exact.values.mean()


# %%
# The number beside a dot is that of the anchors.

fig, ax = plt.subplots(layout="constrained")
for estimate in ("anchor", "calibrated"):
    dots = np.array([measured(estimate, k) for k in spaces])
    ax.loglog(*dots.T, "o-", label=estimate)
    for k, dot in zip(spaces, dots, strict=True):
        ax.annotate(
            str(k), dot, xytext=(5, 5), textcoords="offset points", fontsize=8
        )
ax.set_xlabel("seconds for all pairs")
ax.set_ylabel("error, % of the mean distance")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
ax.set_title("Calibration takes most of the error away")
ax.legend(title="estimate")
