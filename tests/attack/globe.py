"""Angles on the globe, from next to nothing to antipodes."""

from __future__ import annotations

import numpy as np

import asot
from tests.attack import oracles, problems


def attack(rng, report):
    """One point against another: its antipode, nearly that, or anywhere."""
    latitude, longitude = rng.uniform(-1.5, 1.5), rng.uniform(-3, 3)
    near = 10.0 ** rng.uniform(-12, -1) * rng.normal(size=2) * rng.integers(0, 2)
    match rng.integers(3):
        case 0:
            other = np.array([-latitude, longitude + np.pi]) + near
        case 1:
            other = np.array([latitude, longitude]) + near
        case _:
            other = rng.uniform([-1.5, -3], [1.5, 3])
    x, y = np.array([[latitude, longitude]]), np.clip(other, [-np.pi / 2, -10], [np.pi / 2, 10])[None]
    D = asot.Distributions.from_list([x, y])
    radius = float(rng.choice([1.0, 6371.0]))
    value = asot.pairwise_exact(D, metric="great_circle", metric_params={"radius": radius}).values
    expected = radius * oracles.distances(x, y, "great_circle")[0]
    code = problems.as_code(D, f"asot.pairwise_exact(D, metric='great_circle', metric_params={{'radius': {radius}}})")
    report.compare("angles", value, expected, slack=5e-16 * radius * np.pi, reproduction=code)
