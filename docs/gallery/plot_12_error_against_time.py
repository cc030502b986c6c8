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
fig, ax = plt.subplots(layout="constrained")
for estimate in ("anchor", "calibrated"):
    errors, seconds = [], []
    for k in (8, 16, 32, 64):
        space = asot.KMeansAnchors(k, random_state=0).fit(D).space_
        started = time.perf_counter()
        r = asot.pairwise(D, space=space, estimate=estimate)
        seconds.append(time.perf_counter() - started)
        errors.append(
            100
            * np.sqrt(np.mean((r.values - exact.values) ** 2))
            / exact.values.mean()
        )
    ax.loglog(seconds, errors, "o-", label=estimate)

# %%
# Each dot is a number of anchors: 8, 16, 32 and 64.

ax.set_xlabel("seconds for all pairs")
ax.set_ylabel("error, % of the mean distance")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
ax.set_title("Calibration takes most of the error away")
ax.legend(title="estimate")
