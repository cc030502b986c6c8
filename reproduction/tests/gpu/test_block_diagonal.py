"""BDS-eOT on a GPU makes the iterations of eOT on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from asot_paper.baselines import block_diagonal, entropic
from numpy.testing import assert_allclose

from asot import Distributions
from asot.run import devices

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(devices.gpu_count() == 0, reason="there is no GPU"),
]


def clouds(sizes, weighted=False):
    rng = np.random.default_rng(0)
    masses = [rng.random(n) + 0.1 for n in sizes] if weighted else None
    return Distributions.from_list([rng.normal(size=(n, 3)) + rng.normal(size=3) for n in sizes], masses)


@pytest.mark.parametrize("init", ["ones", "target"])
@pytest.mark.parametrize("reg", [30.0, 1.0, 0.1, 0.03, 0.01, 1e-3, 1e-6])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_iterations_are_those_of_the_cpu(precision, reg, init):
    rtol = {"float32": 2e-6, "float64": 1e-10}[precision]
    for D in (clouds((1, 2, 5, 9, 30)), clouds(range(1, 60), weighted=True)):
        rows, columns = np.triu_indices(len(D))  # with the diagonal
        how = {"reg": reg, "pairs": np.stack([rows, columns], axis=1), "init": init}
        r = block_diagonal(D, device="cuda", precision=precision, **how)
        assert_allclose(r.values, entropic(D, **how).values, rtol=rtol, atol=rtol * np.ptp(D.points))
        assert r.info["device"] == "cuda:0"
