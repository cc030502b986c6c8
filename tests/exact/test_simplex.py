"""The compiled simplex, read as integers: what it returns is a spanning tree that proves itself optimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exact.problems import index_bits_of, solve_problem

COST_BITS = 20


def solve(cost, supply, demand, stop=0):
    """Solve a problem of whole numbers."""
    bits = index_bits_of(*cost.shape)
    return solve_problem(cost << bits, supply, demand, bits, subtrees=True, stop=stop)


def assert_proven_optimal(cost, supply, demand):
    """Exact in whole numbers: feasible flows, feasible potentials, and equal primal and dual values."""
    p, q = cost.shape
    solved = solve(cost, supply, demand)
    assert solved.pivots >= 0
    arcs = list(solved.arcs(p))
    assert len(arcs) == p + q - 1
    shipped, received = [0] * p, [0] * q
    for i, j, flow in arcs:
        assert flow >= 0
        shipped[i] += flow
        received[j] += flow
    assert shipped == supply.tolist()
    assert received == demand.tolist()
    f, g = (solved.pi[o : o + n] >> index_bits_of(p, q) for o, n in ((0, p), (solved.first, q)))
    assert (cost - f[:, None] + g >= 0).all()
    primal = sum(flow * int(cost[i, j]) for i, j, flow in arcs)
    dual = sum(map(int.__mul__, f.tolist(), supply.tolist())) - sum(map(int.__mul__, g.tolist(), demand.tolist()))
    assert primal == dual
    return solved


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
    solved = assert_proven_optimal(cost, np.full(p, q), np.full(q, p))
    nodes = [*range(p), *range(solved.first, solved.first + q)]
    for x in nodes:
        path = [x]
        while solved.parent[path[-1]] != path[-1]:
            path.append(int(solved.parent[path[-1]]))
        assert [y for y in nodes if _has(solved.below[y], x)] == sorted(path)


def _has(words, x):
    return bool((int(words[x >> 6]) >> (x & 63)) & 1)


def test_a_raised_stop_ends_a_long_solve():
    rng = np.random.default_rng(0)
    n = 300
    cost = rng.integers(0, 2**COST_BITS, size=(n, n))
    supply, demand = (rng.multinomial(2**40, rng.dirichlet(np.ones(n))) for _ in range(2))
    assert solve(cost, supply, demand).pivots > 256
    assert solve(cost, supply, demand, stop=1).pivots == -1
