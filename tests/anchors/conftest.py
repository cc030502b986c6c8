"""The collection that spaces are tried on: weighted points in three dimensions, from one to hundreds."""

import numpy as np
import pytest

import asot


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    sizes = (1, 7, 300, 20)
    return asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in sizes], [rng.random(n) for n in sizes])
