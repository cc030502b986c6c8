"""Plans as tables on a GPU, run by the emulator, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from asot.exact.cuda import plan_tables
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", host.ORDERS)
@pytest.mark.parametrize("step", [0, 1])
def test_tables_hold_the_arcs_of_their_problems(monkeypatch, dtype, order, step):
    numpy_as_cupy.install(monkeypatch, order)
    B, rows, columns, E = 3, 13, 29, 40
    rng = np.random.default_rng(0)
    cells = np.array([rng.permutation(rows * columns)[:E] for _ in range(B)])
    mass = rng.random((B, E)).astype(dtype)
    mass[:, 30:], cells[:, 30:] = 0.0, 0  # room that is not used
    weights = rng.normal(size=B if step else 1).astype(dtype)
    tables = np.full((B, rows, columns), np.nan, dtype=dtype)
    arcs = plan_tables.DeviceArcs(B, E, cells // columns, cells % columns, mass)
    real = "float" if dtype == np.float32 else "double"
    plan_tables.write(arcs, weights, step, (rows, columns), real, tables)
    expected = np.zeros((B, rows * columns), dtype=dtype)
    for b in range(B):
        np.add.at(expected[b], cells[b], weights[step * b] * mass[b])
    assert np.array_equal(tables.reshape(B, -1), expected)


def test_nothing_is_launched_for_nothing(monkeypatch):
    launched = []
    monkeypatch.setattr(plan_tables, "load", lambda *kernel: launched.append(kernel))
    none, empty = plan_tables.DeviceArcs(0, 3, *[np.zeros((0, 3))] * 3), np.zeros(0)
    plan_tables.write(none, empty, 1, (2, 1), "double", empty)
    plan_tables.write(none._replace(problems=1), empty, 1, (0, 3), "double", empty)
    assert not launched
