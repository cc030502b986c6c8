"""
Persistence diagrams of time series
===================================

The persistence diagram of a signal has a point (birth, death) for each of its valleys: the level at which the valley
appears, and the level at which it merges into a deeper one. Diagrams have different numbers of points, and points
without a partner go to the diagonal. The distances are those of GUDHI, for all pairs in one call.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot


def valleys(signal):
    """Births and deaths (n, 2) of the valleys of a signal: sublevel-set persistence in dimension 0."""
    owner, pairs = (
        {},
        [],
    )  # the deepest point of the valley that each visited point belongs to
    for i in np.argsort(signal):
        beside = sorted(
            {owner[j] for j in (i - 1, i + 1) if j in owner},
            key=lambda lowest: signal[lowest],
        )
        owner[i] = beside[0] if beside else i
        for lowest in beside[1:]:  # the shallower valley ends here
            pairs.append((signal[lowest], signal[i]))
            owner.update({j: beside[0] for j in owner if owner[j] == lowest})
    return np.array(pairs).reshape(-1, 2)


rng = np.random.default_rng(6)
time = np.linspace(0, 1, 200)
kinds = np.repeat(["slow", "fast", "noisy"], 15)
waves = {"slow": (3, 0.05), "fast": (8, 0.05), "noisy": (3, 0.4)}
signals = [
    np.sin(2 * np.pi * (waves[kind][0] * time + rng.random()))
    + waves[kind][1] * rng.normal(size=200)
    for kind in kinds
]
diagrams = asot.Distributions.from_diagrams(
    [valleys(signal) for signal in signals]
)
distances = asot.pairwise_exact(
    diagrams, metric="chebyshev", unmatched="diagonal"
)

# %%
# The three kinds of signals are far apart, wherever their waves begin.

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 4.4), layout="constrained")
for kind in sorted(waves):  # the order of the map's colors
    points = np.concatenate(
        [diagrams[int(i)][0] for i in np.flatnonzero(kinds == kind)]
    )
    left.scatter(*points.T, s=2 if kind == "noisy" else 8, label=kind)
left.axline((-1, -1), slope=1, color="gray", linewidth=0.8)
left.set_title("Noise makes many points …")
left.set_xlabel("birth")
left.set_ylabel("death")
left.legend(markerscale=2)
asot.plots.map(distances, right, labels=kinds, method="mds")
right.set_title("… and a kind of its own")
