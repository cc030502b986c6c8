"""Large problems on a short list of arcs: the answer is that of the whole problem, with a proof."""

from __future__ import annotations

import numpy as np
import pytest

from asot.exact.shared_cost import quantize_cost, quantize_masses
from tests.exact.problems import solve_problem


def _quantized(a, b, cost):
    """Costs, masses and offsets in whole numbers, of what has mass."""
    quantized, _ = quantize_cost(cost)
    arrays = quantized.arrays()
    supply, demand = quantize_masses(a[None])[0], quantize_masses(b[None])[0]
    rows, columns = supply > 0, demand > 0
    integer = np.ascontiguousarray(arrays["integer"][np.ix_(rows, columns)])
    offsets = arrays["row_offset"][rows], arrays["column_offset"][columns]
    return integer, supply[rows], demand[columns], quantized.index_bits, offsets


def _shipped(solved, p, q):
    """Flows as (p, q)."""
    plan = np.zeros((p, q), dtype=np.int64)
    for i, j, flow in solved.arcs(p):
        plan[i, j] += flow
    return plan


def _problems():
    rng = np.random.default_rng(0)
    n, m = 520, 600
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(m, 3)) + 0.2
    distances = np.linalg.norm(x[:, None] - y, axis=-1)
    yield "weighted", rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m)), distances
    equal = distances[:, :n]
    yield "assignment", np.full(n, 1 / n), np.full(n, 1 / n), equal
    yield "squares", np.full(n, 1 / n), np.full(m, 1 / m), distances**2
    yield "many ties", np.full(n, 1 / n), np.full(n, 1 / n), rng.integers(0, 4, (n, n)).astype(float)
    yield "all alike", rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n)), np.ones((n, n))
    yield "all zero", rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n)), np.zeros((n, n)) + 1e-300
    yield "one heavy point", np.r_[0.999, np.full(n - 1, 0.001 / (n - 1))], rng.dirichlet(np.full(m, 0.05)), distances
    yield "one huge cost", np.full(n, 1 / n), np.full(n, 1 / n), equal + 1e9 * (np.arange(n) == 7)[:, None]
    grid = np.stack(np.meshgrid(np.arange(23.0), np.arange(23.0)), -1).reshape(-1, 2)
    yield "grid", rng.dirichlet(np.ones(529)), rng.dirichlet(np.ones(529)), np.abs(grid[:, None] - grid).sum(-1)


@pytest.mark.parametrize(("a", "b", "cost"), [pytest.param(*p[1:], id=p[0]) for p in _problems()])
def test_the_short_list_ends_at_the_value_of_the_whole_problem(a, b, cost):
    integer, supply, demand, bits, offsets = _quantized(a, b, cost)
    p, q = integer.shape
    short, whole = (
        solve_problem(integer, supply, demand, bits, offsets=offsets, large=large) for large in (True, False)
    )
    assert short.pivots >= 0
    shipped = _shipped(short, p, q)
    # Dual: no arc of the whole problem improves. Primal: flows are ≥ 0 and meet the masses. Both tight on the tree.
    f, g = short.pi[:p], short.pi[short.first :]
    assert (integer - f[:, None] + g).min() >= 0
    assert all(f[i] - g[j] == integer[i, j] for i, j, _ in short.arcs(p))
    assert shipped.min() >= 0
    np.testing.assert_array_equal(shipped.sum(axis=1), supply)
    np.testing.assert_array_equal(shipped.sum(axis=0), demand)
    values = [sum(int(m) * int(c) for m, c in zip(plan.flat, integer.flat, strict=True) if m)
              for plan in (shipped, _shipped(whole, p, q))]  # fmt: skip
    assert values[0] == values[1]


def test_a_raised_stop_is_heard():
    cost = np.random.default_rng(0).random((600, 600))
    integer, supply, demand, bits, offsets = _quantized(np.full(600, 1 / 600), np.full(600, 1 / 600), cost)
    assert solve_problem(integer, supply, demand, bits, offsets=offsets, large=True, stop=1).pivots == -1
