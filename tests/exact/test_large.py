"""Large problems on a short list of arcs: the answer is that of the whole problem, with a proof."""

from __future__ import annotations

import numpy as np
import pytest

from asot.exact.integers import quantize_cost, quantize_masses
from asot.exact.large import solve_any
from asot.exact.shared_cost import place_costs, place_masses, value_of_tree
from asot.exact.simplex import solve_block
from asot.exact.workspace import first_sink
from asot.jit.compiled import compiled
from tests.exact.workspaces import make_workspace


@compiled
def _solve(ws, a, b, integer, unit, row_offset, column_offset, index_bits, whole, stop):
    p, q = place_masses(ws, a, b, None)
    place_costs(ws, p, q, integer, row_offset, column_offset)
    if whole:
        pivots = solve_block(ws, p, q, index_bits, stop)
    else:
        pivots = solve_any(ws, p, q, index_bits, stop)
    return pivots, value_of_tree(ws, p, q, unit), ws.parent, ws.flow, ws.pi, p, q


def _solve_both(a, b, cost):
    c = quantize_cost(cost)
    masses = quantize_masses(a[None])[0], quantize_masses(b[None])[0]
    prepared = c.integer, c.unit, c.row_offset, c.column_offset, c.index_bits
    stop = np.zeros(1, np.int64)
    k, l = cost.shape
    return c, *(_solve(make_workspace(k, l, k + l), *masses, *prepared, whole, stop) for whole in (False, True))


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
    c, short, whole = _solve_both(a, b, cost)
    assert short[1] == pytest.approx(whole[1], rel=1e-13)
    pivots, _, parent, flow, pi, p, q = short
    assert pivots >= 0
    first = first_sink.py_func(p)
    supply, demand = quantize_masses(a[None])[0], quantize_masses(b[None])[0]
    integer = c.integer[np.ix_(supply > 0, demand > 0)]
    # Dual: no arc of the whole problem improves. Primal: flows are ≥ 0 and meet the masses. Both tight on the tree.
    assert (integer - pi[:p, None] + pi[None, first : first + q]).min() >= 0
    shipped = np.zeros((p, q), dtype=np.int64)
    for x in [*range(p), *range(first, first + q)]:
        y = parent[x]
        if y != x:
            i, j = (x, y - first) if x < p else (y, x - first)
            assert pi[i] - pi[first + j] == integer[i, j]
            shipped[i, j] += flow[x]
    assert shipped.min() >= 0
    np.testing.assert_array_equal(shipped.sum(axis=1), supply[supply > 0])
    np.testing.assert_array_equal(shipped.sum(axis=0), demand[demand > 0])


def test_a_raised_stop_is_heard():
    a = np.full(600, 1 / 600)
    c = quantize_cost(np.random.default_rng(0).random((600, 600)))
    masses = quantize_masses(a[None])[0]
    ws = make_workspace(600, 600, 1200)
    prepared = c.integer, c.unit, c.row_offset, c.column_offset, c.index_bits
    out = _solve(ws, masses, masses, *prepared, False, np.ones(1, np.int64))
    assert out[0] == -1
