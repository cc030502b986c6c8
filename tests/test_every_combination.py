"""The whole grid: order × price of unmatched mass × metric × estimate × device × sink.

Every combination either gives the number of an independent solver, or is refused with one sentence.
"""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.run import devices
from tests.oracles import ot

N = 6
PRICE = 30.0
METRICS = {
    "euclidean": lambda x, y: cdist(x, y),
    "chebyshev": lambda x, y: cdist(x, y, "chebyshev"),
    "cosine": lambda x, y: cdist(x, y, "cosine"),
    "braycurtis": lambda x, y: cdist(x, y, "braycurtis"),
}
NORMS = ("euclidean", "chebyshev")
UNMATCHED = ("none", "number", "array", "diagonal")
ESTIMATES = ("exact", "auto", "anchor", "calibrated", "entropic")
DEVICES = ("auto", "cpu", "cuda")
SINKS = ("values", "dense", "nearest", "radius", "counts", "callback", "store")


def collection():
    """Points above the diagonal, on a grid, so that distributions share some of them; totals differ."""
    rng = np.random.default_rng(0)
    births = [rng.integers(1, 6, size=(rng.integers(2, 9), 1)).astype(float) for _ in range(N)]
    points = [np.hstack([b, b + rng.integers(1, 5, size=b.shape)]) for b in births]
    return asot.Distributions.from_list(points, [rng.random(len(x)) + 0.1 for x in points])


D = collection()
SPACE = asot.KMeansAnchors(4, random_state=0).fit(D).space_
MOVED = asot.Distributions(
    SPACE.anchors[SPACE.assign(D.points)[0]], D.offsets, D.masses * np.repeat(D.totals, D.sizes)
)  # every point at its anchor


def prices_of(unmatched, metric, points):
    if unmatched == "number":
        return np.full(len(points), PRICE)
    if unmatched == "array":
        return points[:, 0] / 4.0  # a function of the point, since equal points have equal prices
    return np.abs(points[:, 1] - points[:, 0]) * (np.sqrt(0.5) if metric == "euclidean" else 0.5)


def by_pot(D, p, unmatched, metric):
    """W_p of all pairs (N, N), with a reservoir on each side that holds as much as the other side."""
    values = np.zeros((N, N))
    for i, j in itertools.combinations(range(N), 2):
        (x, a), (y, b) = D[i], D[j]
        cost = METRICS[metric](x, y)
        if unmatched != "none":
            a, b = a * D.totals[i], b * D.totals[j]
            cost = np.block(
                [
                    [cost, prices_of(unmatched, metric, x)[:, None]],
                    [prices_of(unmatched, metric, y)[None], np.zeros((1, 1))],
                ]
            )
            a, b = np.append(a, b.sum()), np.append(b, a.sum())
        total = a.sum()
        value = total * ot.emd2(a / total, b / b.sum(), cost**p, numItermax=10**6)
        values[i, j] = values[j, i] = value ** (1.0 / p)
    return values


def solved(estimate, wanted, device, sink):
    if estimate == "exact":
        return asot.pairwise_exact(D, device=device, sink=sink, **wanted)
    options = {"space": SPACE} if estimate in ("anchor", "entropic", "calibrated") else {}
    if estimate == "entropic":
        return asot.pairwise(D, reg=0.5, device=device, sink=sink, **options, **wanted)
    return asot.pairwise(D, estimate=estimate, device=device, sink=sink, random_state=0, **options, **wanted)


class Heard:
    """A callback that puts values where they belong."""

    def __init__(self):
        self.matrix = np.zeros((N, N))

    def __call__(self, rows, columns, values):
        self.matrix[rows, columns] = self.matrix[columns, rows] = values


def middle(expected):
    """A number between the expected distances, not at one of them."""
    return float(np.median(expected)) * (1.0 + 1e-6) + 1e-9


def make_sink(name, expected, folder):
    heard = Heard()
    sinks = {
        "values": None,
        "dense": asot.sinks.Dense(),
        "nearest": asot.sinks.TopK(2),
        "radius": asot.sinks.Radius(middle(expected)),
        "counts": asot.sinks.Counts([-1.0, middle(expected), 1e9]),
        "callback": asot.sinks.Callback(heard),
    }
    return (asot.sinks.Store(folder), heard) if name == "store" else (sinks[name], heard)


def assert_kept(name, kept, heard, expected):
    """What the sink kept is what it should keep of the expected matrix."""
    others = expected + np.diag(np.full(N, np.inf))
    close = {"rtol": 1e-8, "atol": 1e-9}
    if name == "nearest":
        assert np.allclose(kept.distances, np.sort(others, axis=1)[:, :2], **close)
    elif name == "radius":
        assert np.allclose(kept.toarray(), np.where(others <= middle(expected), expected, 0.0), **close)
    elif name == "counts":
        inside = int((expected[np.triu_indices(N, 1)] <= middle(expected)).sum())
        assert kept.tolist() == [inside, N * (N - 1) // 2 - inside]
    else:
        matrix = {"dense": lambda: kept, "callback": lambda: heard.matrix}.get(name, lambda: np.asarray(kept))()
        assert np.allclose(matrix, expected, **close)


def may_be_refused(p, unmatched, metric, estimate, device):
    """Where a refusal is right; everywhere else it is a fault."""
    plain = p == 1 and unmatched == "none" and metric == "euclidean"
    if device == "cuda" and devices.gpu_count() == 0:
        return True
    if unmatched == "diagonal" and metric not in NORMS:
        return True
    if estimate == "entropic":
        return not plain
    return estimate in ("anchor", "calibrated") and (metric not in NORMS or unmatched == "array")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("unmatched", UNMATCHED)
@pytest.mark.parametrize("p", [1, 2])
def test_every_combination_works_or_is_refused(p, unmatched, metric, tmp_path):
    arrays = {"none": None, "number": PRICE, "array": prices_of("array", metric, D.points), "diagonal": "diagonal"}
    wanted = {"p": p, "metric": metric, "unmatched": arrays[unmatched]}
    expected = by_pot(D, p, unmatched, metric)
    on_anchors = by_pot(MOVED, p, unmatched, metric)
    answered = 0
    for number, (estimate, device, sink) in enumerate(itertools.product(ESTIMATES, DEVICES, SINKS)):
        right = on_anchors if estimate == "anchor" else expected
        given, heard = make_sink(sink, right, tmp_path / str(number))
        kept, refused = None, ""
        try:
            kept = solved(estimate, wanted, device, given)
        except (ValueError, RuntimeError, ImportError) as error:
            refused = str(error)
        if refused:
            assert may_be_refused(p, unmatched, metric, estimate, device), (estimate, device, sink, refused)
            assert 20 < len(refused) < 500
            assert "\n" not in refused
            continue
        answered += 1
        if estimate != "entropic":  # a quantity of its own, with tests of its own
            assert_kept(sink, kept, heard, right)
        if sink == "values":
            assert kept.info["p"] == p
            assert kept.info.get("rooted", False) == (p != 1)
    assert answered >= (2 * 2 * len(SINKS) if unmatched != "diagonal" or metric in NORMS else 0)
