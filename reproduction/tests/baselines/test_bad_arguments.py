"""Mistakes in the arguments of a baseline: what was found, where, and what to do."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from asot_paper import baselines

import asot
from reproduction.tests.baselines.problems import clouds

D = clouds()
REGULARIZED = (baselines.entropic, baselines.block_diagonal, baselines.pot_sinkhorn)
EVERY = {
    baselines.ot_emd: {},
    baselines.sliced: {},
    baselines.entropic: {"reg": 1.0},
    baselines.block_diagonal: {"reg": 1.0, "device": "cpu"},
    baselines.pot_emd: {},
    baselines.pot_sinkhorn: {"reg": 1.0},
    baselines.pot_sliced: {},
    baselines.low_rank: {},
}


def raises_saying(message, kind=ValueError):
    return pytest.raises(kind, match=re.escape(message))


@pytest.mark.parametrize("baseline", EVERY)
def test_collections_and_pairs(baseline):
    with raises_saying("expected asot.Distributions or a list of point arrays", TypeError):
        baseline(3.0, **EVERY[baseline])
    with raises_saying("the two collections are in 3 and 2 dimensions; they must share one space"):
        baseline(D, clouds(dim=2), **EVERY[baseline])
    with raises_saying("pair 1 is (0, 9), but its second index must be between 0 and 4"):
        baseline(D, pairs=[(0, 1), (0, 9)], **EVERY[baseline])
    with raises_saying("n_jobs must be None"):
        baseline(D, n_jobs=0, **EVERY[baseline])


@pytest.mark.parametrize("baseline", REGULARIZED)
@pytest.mark.parametrize("reg", [0, -1.0, np.nan, np.inf, "auto", None, True])
def test_reg(baseline, reg):
    with raises_saying(f"reg must be a number > 0, in the units of the distance; found {reg!r}"):
        baseline(D, reg=reg)


@pytest.mark.parametrize("baseline", REGULARIZED[:2])
def test_a_reg_that_float64_cannot_resolve(baseline):
    with raises_saying("use asot.pairwise_exact for the exact limit"):
        baseline(D, reg=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("baseline", "how"),
    [
        (baselines.entropic, {"reg": 1.0}),
        (baselines.block_diagonal, {"reg": 1.0}),
        (baselines.sliced, {"shared": False}),
    ],
)
def test_points_whose_distances_float64_cannot_hold(baseline, how):
    with raises_saying("the box around all points is larger than the range of float64; scale the points down"):
        baseline([[[1.7e308], [0.0]], [[-1.7e308]]], **how)
    huge = {**how, "reg": 1e306} if "reg" in how else how
    near = baseline([[[1.5e308], [1.5e308]], [[1.5e308]], [[1.4e308]]], **huge)
    np.testing.assert_allclose(near.values, [0.0, 1e307, 1e307], rtol=1e-6)


@pytest.mark.parametrize("baseline", REGULARIZED)
def test_iterations(baseline):
    with raises_saying("max_iter must be a whole number ≥ 1; found 0"):
        baseline(D, reg=1.0, max_iter=0)
    with raises_saying("init must be one of 'ones', 'target'; found 'zeros'"):
        baseline(D, reg=1.0, init="zeros")


def test_tolerances():
    for baseline in (baselines.entropic, baselines.pot_sinkhorn):
        with raises_saying("tol must be None or a number between 0 and 1; found 2"):
            baseline(D, reg=1.0, tol=2)


def test_devices():
    with raises_saying("entropic runs on the CPU; found device='cuda'. block_diagonal runs the same iterations"):
        baselines.entropic(D, reg=1.0, device="cuda")
    with raises_saying("unknown device 'tpu'"):
        baselines.block_diagonal(D, reg=1.0, device="tpu")
    with raises_saying("precision must be one of 'auto', 'float32', 'float64'; found 'half'"):
        baselines.block_diagonal(D, reg=1.0, device="cpu", precision="half")


def test_torch_has_to_be_installed_for_stacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with raises_saying("block_diagonal needs PyTorch; pip install 'asot[torch]'", ImportError):
        baselines.block_diagonal(D, reg=1.0)


@pytest.mark.parametrize("baseline", [baselines.sliced, baselines.pot_sliced])
def test_directions(baseline):
    with raises_saying("n_projections must be a whole number ≥ 1; found 0"):
        baseline(D, n_projections=0)
    with raises_saying("'yes' cannot be used to seed"):
        baseline(D, random_state="yes")
    with raises_saying("shared must be True or False; found 'no'"):
        baseline(D, shared="no")


def test_ranks():
    with raises_saying("rank must be a whole number ≥ 1; found 0"):
        baselines.low_rank(D, rank=0)
    with raises_saying("reg must be a number ≥ 0; found -1.0"):
        baselines.low_rank(D, reg=-1.0)


def test_pairs_that_cannot_fit_are_named(monkeypatch):
    named = asot.Distributions(D.points, D.offsets, ids=["a", "b", "c", "d", "e"])
    monkeypatch.setattr("asot.validation.physical_memory", lambda: 1000)
    for baseline in REGULARIZED[:2]:
        options = EVERY[baseline]
        with raises_saying("distribution 4 ('e') (33 points) and distribution 2 ('c') (20 points)", MemoryError):
            baseline(named, **options)
        with raises_saying("distribution 4 ('e') (33 points) and distribution 1 of the second collection", MemoryError):
            baseline(named, clouds(sizes=(2, 9)), **options)
        with raises_saying("distribution 2 ('c') (20 points) and distribution 4 ('e') (33 points)", MemoryError):
            baseline(named, pairs=[(0, 0), (4, 2)], **options)
        assert len(baseline(named, pairs=[(0, 0)], **options)) == 1
    with raises_saying("64 points along 9 shared directions needs", MemoryError):
        baselines.sliced(named, n_projections=9)
    assert len(baselines.sliced(named, n_projections=9, shared=False)) == 10


@pytest.mark.parametrize("baseline", EVERY)
def test_a_collection_of_one_has_no_pairs(baseline):
    alone = baseline(D[:1], **EVERY[baseline])
    assert len(alone) == 0
    assert len(baseline(D, pairs=np.empty((0, 2), dtype=int), **EVERY[baseline])) == 0
