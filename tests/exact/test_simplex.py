"""The compiled simplex, read as integers: what it returns is a spanning tree that proves itself optimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asot.exact.simplex import solve_block
from asot.exact.workspace import PAD, first_sink
from asot.jit.lanes import LANES
from tests.exact.workspaces import make_workspace

COST_BITS = 20


def index_bits_of(p, q):
    return max(4, (max(p, q) + LANES - 1).bit_length())


def solve(cost, supply, demand, stop=0):
    """Lay a problem of whole numbers out in a fresh workspace and solve it."""
    p, q = cost.shape
    bits = index_bits_of(p, q)
    ws = make_workspace(p, q, p + q)
    stride = -(-q // LANES) * LANES
    block = np.full((p, stride), PAD)
    block[:, :q] = (cost << bits) | np.arange(q)
    ws.cost[: p * stride] = block.ravel()
    ws.supply[:p] = supply
    ws.demand[:q] = demand
    ws.row_offset[:p] = 0
    ws.column_offset[:q] = 0
    return ws, solve_block(ws, p, q, bits, np.array([stop], dtype=np.int64))


def tree_arcs(ws, p, q):
    """(source, sink, flow) of every arc of the tree."""
    first = first_sink(p)
    for x in range(first + q):
        y = int(ws.parent[x])
        if y != x:
            yield (x, y - first, int(ws.flow[x])) if x < p else (y, x - first, int(ws.flow[x]))


def assert_proven_optimal(cost, supply, demand):
    """Exact in whole numbers: feasible flows, feasible potentials, and equal primal and dual values."""
    p, q = cost.shape
    ws, pivots = solve(cost, supply, demand)
    assert pivots >= 0
    arcs = list(tree_arcs(ws, p, q))
    assert len(arcs) == p + q - 1
    shipped, received = [0] * p, [0] * q
    for i, j, flow in arcs:
        assert flow >= 0
        shipped[i] += flow
        received[j] += flow
    assert shipped == supply.tolist()
    assert received == demand.tolist()
    f, g = (np.asarray(ws.pi[o : o + n]) >> index_bits_of(p, q) for o, n in ((0, p), (first_sink(p), q)))
    assert (cost - f[:, None] + g >= 0).all()
    primal = sum(flow * int(cost[i, j]) for i, j, flow in arcs)
    dual = sum(map(int.__mul__, f.tolist(), supply.tolist())) - sum(map(int.__mul__, g.tolist(), demand.tolist()))
    assert primal == dual
    return ws


@st.composite
def whole_problems(draw):
    """Costs and balanced masses in small whole numbers, where nearly every pivot is degenerate."""
    p, q = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    cost = draw(st.lists(st.integers(0, 5), min_size=p * q, max_size=p * q))
    units = max(p, q) + draw(st.integers(0, 6))
    return np.array(cost, dtype=np.int64).reshape(p, q), split(units, p), split(units, q)


def split(total, parts):
    """``total`` in nearly equal whole parts."""
    return np.array([total // parts + (i < total % parts) for i in range(parts)], dtype=np.int64)


@given(whole_problems())
def test_degenerate_problems_end_at_a_proven_optimum(problem):
    assert_proven_optimal(*problem)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 70), (70, 1), (31, 32), (32, 32), (33, 32), (63, 2), (65, 130)])
def test_random_problems_end_at_a_proven_optimum(p, q):
    rng = np.random.default_rng([p, q])
    cost = rng.integers(0, 2**COST_BITS, size=(p, q))
    supply, demand = (rng.multinomial(2**40, rng.dirichlet(np.ones(n))) + 1 for n in (p, q))
    short = int(supply.sum() - demand.sum())
    (demand if short > 0 else supply)[0] += abs(short)
    assert_proven_optimal(cost, supply, demand)


@pytest.mark.parametrize("n", [8, 64, 100])
def test_assignments_end_at_a_proven_optimum(n):
    cost = np.random.default_rng(n).integers(0, 10, size=(n, n))
    assert_proven_optimal(cost, np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64))


@pytest.mark.parametrize(("p", "q"), [(20, 30), (70, 80), (300, 260)])
def test_the_bitsets_hold_the_subtrees(p, q):
    rng = np.random.default_rng(p)
    cost = rng.integers(0, 2**COST_BITS, size=(p, q))
    ws = assert_proven_optimal(cost, np.full(p, q), np.full(q, p))
    first = first_sink(p)
    nodes = [*range(p), *range(first, first + q)]
    if first + q <= 64:
        sets = ws.below[: first + q, None]  # (nodes, words)
    else:
        m = ws.m
        groups = -(-(first + q) // (64 * LANES))
        sets = ws.below[: groups * m * LANES].reshape(groups, m, LANES).swapaxes(0, 1).reshape(m, -1)
    for x in nodes:
        path = [x]
        while ws.parent[path[-1]] != path[-1]:
            path.append(int(ws.parent[path[-1]]))
        assert [y for y in nodes if _has(sets[y], x)] == sorted(path)


def _has(words, x):
    return bool((int(words[x >> 6]) >> (x & 63)) & 1)


def test_a_raised_stop_ends_a_long_solve():
    rng = np.random.default_rng(0)
    n = 300
    cost = rng.integers(0, 2**COST_BITS, size=(n, n))
    supply, demand = (rng.multinomial(2**40, rng.dirichlet(np.ones(n))) for _ in range(2))
    _, pivots = solve(cost, supply, demand)
    assert pivots > 256
    assert solve(cost, supply, demand, stop=1)[1] == -1
