"""Other libraries in a loop: their numbers, our pairs and results."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from asot_paper import baselines
from numpy.testing import assert_allclose, assert_array_equal

import asot
from reproduction.tests.baselines.problems import clouds, lattice

LOOPS = {
    "pot_emd": {},
    "pot_sinkhorn": {"reg": 0.5},
    "pot_sliced": {"random_state": 0},
    "low_rank": {"rank": 2, "max_iter": 20},
}


def test_pot_emd_is_exact():
    D = clouds(weighted=True)
    r = baselines.pot_emd(D)
    assert_allclose(r.values, baselines.ot_emd(D).values, rtol=1e-7)
    assert set(r.status) == {asot.Status.OPTIMAL}


def test_pot_emd_tells_when_it_gave_up():
    r = baselines.pot_emd(clouds(sizes=(30, 40)), max_iter=1)
    assert asot.Status(r.status[0]) is asot.Status.MAX_ITER


@pytest.mark.parametrize("init", ["ones", "target"])
def test_pot_sinkhorn_makes_the_iterations_of_eot(init):
    D, E = clouds(), lattice()
    how = {"reg": 0.6, "max_iter": 7, "init": init}
    r = baselines.pot_sinkhorn(D, E, **how)
    assert_allclose(r.matrix(), baselines.entropic(D, E, **how).matrix(), rtol=1e-8)
    assert set(r.status) == {asot.Status.FIXED_ITERATIONS}
    assert_array_equal(r.n_iter, 7)


def test_pot_sinkhorn_stops_at_a_tolerance_or_says_that_it_did_not():
    D = clouds(sizes=(10, 12))
    r = baselines.pot_sinkhorn(D, reg=0.5, tol=1e-9, max_iter=5000)
    assert asot.Status(r.status[0]) is asot.Status.CONVERGED
    assert_allclose(r.values, baselines.entropic(D, reg=0.5, tol=1e-10, max_iter=5000).values, rtol=1e-7)
    for failed in (
        baselines.pot_sinkhorn(D, reg=0.5, tol=1e-9, max_iter=5),
        baselines.pot_sinkhorn(D, reg=1e-4),  # exp(-C/ε) is 0
        baselines.pot_sinkhorn(D, reg=1e-4, max_iter=1),
    ):
        assert asot.Status(failed.status[0]) is asot.Status.MAX_ITER
        assert failed.info["n_not_converged"] == 1


def test_pot_sliced_draws_fresh_directions_that_do_not_depend_on_threads():
    D = clouds(sizes=(5, 5, 6))
    how = {"n_projections": 4, "random_state": 3}
    alone = baselines.pot_sliced(D, **how)
    assert_array_equal(alone.values, baselines.pot_sliced(D, n_jobs=3, **how).values)
    assert not np.allclose(alone.values, baselines.pot_sliced(D, shared=True, **how).values)


def test_low_rank_plans_cost_at_least_the_distance():
    D = clouds(sizes=(6, 7))
    r = baselines.low_rank(D, rank=3, max_iter=200)
    assert r.marginal_error.max() < 1e-3
    exact = baselines.ot_emd(D).values
    assert exact[0] - 1e-3 < r.values[0] < 2 * exact[0]


def test_low_rank_says_where_pot_found_no_number():
    D = asot.Distributions.from_list([[[1.0, 1.0]] * 2, [[1.0, 1.0]] * 3])  # POT divides by the largest cost, 0
    with pytest.raises(ArithmeticError, match=r"the pair \(0, 1\) is not a number"):
        baselines.low_rank(D, max_iter=20)


def test_low_rank_solves_one_pair_at_a_time(monkeypatch):
    """POT's random starts come from one generator: a second thread would seed it anew in between."""
    inside, most = [], []

    def solve(x, y, a, b, **options):
        inside.append(1)
        time.sleep(0.001)
        most.append(len(inside))
        inside.pop()
        return a[:, None], b[:, None], np.ones(1)

    monkeypatch.setattr("ot.lowrank_sinkhorn", solve)
    baselines.low_rank(clouds(sizes=(3,) * 12), n_jobs=4)
    assert most == [1] * 66


@pytest.mark.parametrize("name", LOOPS)
def test_loops_take_every_kind_of_pairs(name):
    loop, options = getattr(baselines, name), LOOPS[name]
    D, E = clouds(sizes=(2, 3), weighted=True), clouds(sizes=(3, 2, 2), seed=1)
    matrix = loop(D, E, **options).matrix()
    assert matrix.shape == (2, 3)
    assert np.isfinite(matrix).all()
    assert_array_equal(loop(D, E, pairs=[(1, 2)], **options).values, matrix[1, 2])
    assert len(loop(D, pairs=[(1, 1), (1, 0)], **options)) == 2


@pytest.mark.parametrize("name", LOOPS)
def test_pot_has_to_be_installed(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"POT is not installed; pip install 'asot\[bench\]'"):
        getattr(baselines, name)(clouds(), **LOOPS[name])


def test_ott_has_to_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match="OTT-JAX is not installed; pip install ott-jax"):
        baselines.ott_low_rank(clouds())


def test_ott_low_rank_plans_cost_about_the_distance():
    pytest.importorskip("ott", reason="OTT-JAX is not installed")
    D = clouds(sizes=(6, 9, 4), weighted=True)
    r = baselines.ott_low_rank(D, rank=4)
    exact = baselines.ot_emd(D).values
    assert (exact - 1e-2 < r.values).all()
    assert (r.values < 1.5 * exact).all()
    assert r.marginal_error.max() < 1e-2
    assert_allclose(baselines.ott_low_rank(D[:1], D[1:], rank=4, pairs=[(0, 1)]).values, r.values[1], rtol=1e-3)


def test_nothing_optional_is_loaded_before_it_is_used():
    job = "import sys, asot_paper.baselines; asot_paper.baselines.ot_emd([[[0.0]], [[1.0]]])"
    look = "print(sorted({'jax', 'matplotlib', 'ot', 'ott', 'torch'} & set(sys.modules)))"
    code = f"import sys; sys.path[:] = {sys.path!r}; {job}; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
