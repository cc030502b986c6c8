"""Empty persistence diagrams, which have no mass: what they cost where points without a partner have a price, and that
they are refused everywhere else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import asot
from asot.exact.cuda import any_cost
from asot.exact.cuda.points_plan import BlockClass
from tests.simt import host, numpy_as_cupy

CHEBYSHEV = {"metric": "chebyshev"}
SAID = r"distribution {} is an empty diagram.*pass unmatched='diagonal', or leave it out"


def given(n=12, seed=0):
    """Diagrams, of which every third is empty in one of three ways."""
    rng = np.random.default_rng(seed)
    found = [rng.random((size, 2)) * [1.0, 0.5] for size in rng.integers(1, 6, n)]
    found = [np.column_stack([points[:, 0], points.sum(axis=1) + 0.05]) for points in found]
    found[1::3] = [([], [[0.3, 0.3]], np.empty((0, 2)))[k % 3] for k in range(len(found[1::3]))]
    return found


def points_of(diagram):
    points = np.reshape(np.asarray(diagram, dtype=float), (-1, 2))
    return points[points[:, 0] != points[:, 1]]


def by_assignment(x, y, p, price):
    """Every point goes to one of the other diagram, or to a copy of the reservoir."""
    x, y = points_of(x), points_of(y)
    n, m = len(x), len(y)
    costs = np.zeros((n + m, n + m))
    costs[:n, :m] = cdist(x, y, "chebyshev") ** p
    costs[:n, m:], costs[n:, :m] = price(x)[:, None] ** p, price(y) ** p
    rows, columns = linear_sum_assignment(costs)
    return costs[rows, columns].sum() ** (1 / p)


PRICES = {
    "diagonal": ("diagonal", lambda points: (points[:, 1] - points[:, 0]) / 2),
    "number": (10.0, lambda points: np.full(len(points), 10.0)),
}


def all_by_assignment(diagrams, p, price):
    return np.array([[by_assignment(x, y, p, price) for y in diagrams] for x in diagrams])


def test_an_empty_diagram_costs_what_the_points_of_the_other_one_cost():
    D = asot.Distributions.from_diagrams([[], [[1, 3]], []])
    assert asot.pairwise_exact(D, unmatched=10).values.tolist() == [10.0, 0.0, 10.0]
    assert asot.pairwise_exact(D, unmatched=[7.0, 3.0, 7.0]).values.tolist() == [3.0, 0.0, 3.0]
    assert D.totals.tolist() == [0.0, 1.0, 0.0]
    far = asot.Distributions.from_diagrams([[], [[1000, 1003]]])
    assert asot.pairwise_exact(far, unmatched=2).values.tolist() == [2.0]  # nothing is near the origin, or has to be


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize("kind", list(PRICES))
def test_distances_are_those_of_an_assignment(p, kind):
    unmatched, price = PRICES[kind]
    how = {"p": p, "unmatched": unmatched, **CHEBYSHEV}
    D = asot.Distributions.from_diagrams(given())
    expected = all_by_assignment(given(), p, price)
    np.testing.assert_allclose(asot.pairwise_exact(D, **how).matrix(), expected, rtol=1e-9, atol=1e-12)
    between = asot.pairwise_exact(D[:5], D[3:], **how).matrix()
    np.testing.assert_allclose(between, expected[:5, 3:], rtol=1e-9, atol=1e-12)
    estimated = asot.pairwise(D, error=None, bounds=True, **how)
    exact = asot.pairwise_exact(D, **how).values
    assert (estimated.lower <= exact + 1e-12).all()
    assert (exact <= estimated.upper + 1e-12).all()
    for i, j in [(0, 1), (1, 0), (1, 4), (2, 3)]:
        plan = asot.plan(D, i, j, **how)
        assert plan.cost == pytest.approx(expected[i, j], rel=1e-9, abs=1e-12)
        for axis, end, left in zip((1, 0), (i, j), plan.unmatched, strict=True):
            assert np.allclose(plan.sum(axis=axis) + left, D[end][1] * D.totals[end])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", list(PRICES))
def test_neighbors_are_those_of_an_assignment(p, kind, tmp_path):
    unmatched, price = PRICES[kind]
    how = {"p": p, "unmatched": unmatched, **CHEBYSHEV}
    diagrams = given(40, seed=1)
    D = asot.Distributions.from_diagrams(diagrams)
    matrix = all_by_assignment(diagrams, p, price)
    np.fill_diagonal(matrix, np.inf)
    expected = np.sort(matrix, axis=1)[:, :3]
    for prune in ("relaxed", "auto"):
        found = asot.kneighbors(D, None, 3, prune=prune, **how).distances
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    radius = float(np.median(expected)) * 1.0001
    within = asot.radius_neighbors(D, None, radius, **how)
    assert len(within.indices) == np.count_nonzero(matrix <= radius)
    assert asot.kneighbors(D, None, 3, recall=0.9, random_state=0, **how).distances.shape == (40, 3)
    for folder in (None, tmp_path / "index"):
        index = asot.Index(**how)
        index.add(D[:25])
        index.add(D[25:])
        if folder is not None:
            index.save(folder)
            index = asot.Index.open(folder)
        np.testing.assert_allclose(index.query(D, 4).distances[:, 1:], expected, rtol=1e-9, atol=1e-12)


@host.needs_compiler
@pytest.mark.parametrize("kind", list(PRICES))
def test_a_gpu_says_the_same(monkeypatch, kind):
    monkeypatch.setattr(any_cost, "CLASSES", (BlockClass(64, 64, 32, "any_cost"),))
    D = asot.Distributions.from_diagrams(given(6))
    how = {"p": 2, "unmatched": PRICES[kind][0], **CHEBYSHEV}
    expected = asot.pairwise_exact(D, **how, device="cpu").values
    numpy_as_cupy.install(monkeypatch, host.FORWARD)
    found = asot.pairwise_exact(D, **how, device="cuda")
    assert found.info["device"] == "cuda:0"
    np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-12)


def test_nothing_but_empty_diagrams():
    D = asot.Distributions.from_diagrams([[], [], []])
    for unmatched in ("diagonal", 1.0):
        assert asot.pairwise_exact(D, unmatched=unmatched).values.tolist() == [0.0, 0.0, 0.0]
        assert asot.kneighbors(D, None, 1, unmatched=unmatched).distances.tolist() == [[0.0]] * 3
        assert asot.pairwise(D, unmatched=unmatched, error=None).values.tolist() == [0.0, 0.0, 0.0]
        index = asot.Index(unmatched=unmatched)
        index.add(D)
        assert index.query(D, 2).distances.tolist() == [[0.0, 0.0]] * 3
        plan = asot.plan(D, 0, 1, unmatched=unmatched)
        assert (plan.cost, plan.sum(), plan.unmatched[0].sum()) == (0.0, 0.0, 0.0)


def test_they_stay_empty_in_files_slices_and_sums(tmp_path):
    D = asot.Distributions.from_diagrams([[[0.0, 1.0]], [], [[0.2, 0.9], [0.1, 0.2]]], ids=["a", "b", "c"])
    D.save(tmp_path / "diagrams.npz")
    others = asot.load_collection(tmp_path / "diagrams.npz"), pickle.loads(pickle.dumps(D)), D[:1] + D[["b", "c"]]
    for other in others:
        assert other == D
        assert other.totals.tolist() == [1.0, 0.0, 2.0]
        assert asot.pairwise_exact(other[::2] + other[[1]], unmatched=3.0).values[1:].tolist() == [3.0, 6.0]
    for name in ("diagrams.csv", "diagrams.parquet"):
        with pytest.raises(ValueError, match=r"cannot write .*: distribution 1 \('b'\) is an empty diagram.*use .npz"):
            D.save(tmp_path / name)


def test_stores_tell_prices_apart_and_go_on(tmp_path):
    D = asot.Distributions.from_diagrams(given())
    for unmatched in ("diagonal", 10.0):
        store = tmp_path / str(unmatched)
        exact = asot.pairwise_exact(D, unmatched=unmatched)
        for _ in range(2):
            kept = asot.pairwise_exact(D, unmatched=unmatched, sink=asot.sinks.Store(store))
            assert np.array_equal(kept.matrix(), exact.matrix())


SPACE = asot.AnchorSpace([[0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize(
    "call",
    [
        asot.pairwise, asot.pairwise_exact, asot.baselines.sliced, asot.noise_floor, asot.size_matched,
        lambda D: asot.pairwise_exact(D, p=2, metric="cityblock"), lambda D: asot.pairwise_exact(D, share=0.5),
        lambda D: asot.pairwise_exact(D[[0]], D[1:]), lambda D: asot.pairwise(D, space=SPACE), SPACE.histograms,
        lambda D: asot.kneighbors(D, None, 1), lambda D: asot.radius_neighbors(D, None, 1.0),
        lambda D: asot.plan(D, 0, 1), lambda D: asot.plan(D, 1, 0, exact=True, share=0.5),
        lambda D: asot.Index().add(D), lambda D: asot.perturbation_test(D, 0),
        lambda D: asot.WassersteinNeighbors(1).fit(D).kneighbors(), lambda D: asot.pairwise_exact(D, p=2),
        asot.gromov, lambda D: asot.gromov_plan(D, 0, 1), asot.Distributions.from_spaces,
    ],
)  # fmt: skip
def test_without_a_price_they_are_refused_by_name(call):
    D = asot.Distributions.from_diagrams([[[0.0, 1.0]] * 9, [], [[0.2, 0.9]] * 9])
    with pytest.raises(ValueError, match=SAID.format("[01]")):
        call(D)
    assert asot.pairwise_exact(D[::2]).values > 0  # the others have a distance


def test_an_index_without_a_price_refuses_them_as_queries():
    D = asot.Distributions.from_diagrams([[[0.0, 1.0]], []])
    index = asot.Index()
    index.add(D[:1])
    with pytest.raises(ValueError, match=SAID.format(0)):
        index.query(D[1:], 1)
