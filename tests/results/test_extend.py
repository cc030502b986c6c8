"""A result that grows: old pairs stay as they are, new ones are computed as the old ones were."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import asot


def clouds(n, seed, dim=3, offset=0.0):
    rng = np.random.default_rng(seed)
    return [
        rng.normal(offset + rng.normal(size=dim), 0.5 + rng.random(), size=(int(rng.integers(15, 40)), dim))
        for _ in range(n)
    ]


OLD, NEW = clouds(40, 1), clouds(4, 2)
D, N = (asot.Distributions.from_list(part) for part in (OLD, NEW))
WAYS = {
    "anchors": {"estimate": "calibrated", "n_anchors": 12},
    "aim": {"error": "6%"},
    "bounds": {"estimate": "calibrated", "n_anchors": 12, "bounds": True},
    "order 2": {"estimate": "calibrated", "n_anchors": 12, "p": 2},
    "cityblock": {"estimate": "calibrated", "n_anchors": 12, "metric": "cityblock"},
    "few anchors": {"estimate": "calibrated", "space": asot.FixedAnchors(np.random.default_rng(3).normal(size=(9, 3)))},
    "exact": {"max_error": "1e-9%"},
}


def distance_of(options):
    return {key: value for key, value in options.items() if key in ("p", "metric", "metric_params", "unmatched")}


@pytest.mark.parametrize("way", WAYS)
def test_old_pairs_keep_every_bit_and_new_ones_are_as_good(way):
    r = asot.pairwise(D, **WAYS[way])
    grown = r.extend(N)
    truth = asot.pairwise_exact(D + N, **distance_of(WAYS[way])).matrix()
    for name in ("values", "error", "lower", "upper", "status"):
        part = getattr(r, name)
        assert (part is None) == (getattr(grown, name) is None), name
        if part is not None:
            i, j = r.pair_set.indices(0, len(r))
            assert np.array_equal(grown.at(i, j, name), part), name
    off = grown.matrix() - truth
    rms_old, rms_new = (np.sqrt((part**2).mean()) for part in (off[:40, :40], off[40:]))
    assert rms_new <= 2.0 * rms_old + 1e-9
    assert len(grown.ids) == 44
    assert grown.info["n_old"] == 40


@pytest.mark.parametrize("way", WAYS)
def test_a_file_grows_as_its_result_does(way, tmp_path):
    r = asot.pairwise(D, **WAYS[way])
    r.save(tmp_path / "r.npz")
    grown, again = r.extend(N), asot.load_distances(tmp_path / "r.npz").extend(N)
    for name in ("values", "error", "status", "lower", "upper"):
        assert np.array_equal(getattr(grown, name), getattr(again, name)), name
    grown.save(tmp_path / "grown.npz")
    assert np.array_equal(asot.load_distances(tmp_path / "grown.npz").extend(NEW[:0] + clouds(2, 5)).shape, (46, 46))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "bounds"])
def test_new_pairs_alone_are_those_of_the_grown_result(way):
    r = asot.pairwise(D, **WAYS[way])
    alone = asot.pairwise(D, N, model=r.model, **distance_of(WAYS[way]))
    grown = r.extend(N).matrix()
    assert np.allclose(alone.matrix(), grown[:40, 40:], rtol=1e-9)
    turned = asot.pairwise(N, D, model=r.model, **distance_of(WAYS[way]))
    assert np.abs(turned.matrix() - grown[40:, :40]).max() <= 0.1 * grown.mean()  # equal plans on few anchors differ


@pytest.mark.parametrize(
    "options",
    [{}, {"p": 2}, {"metric": "chebyshev"}, {"unmatched": 9.0}, {"share": 0.5},
     {"metric": "minkowski", "metric_params": {"p": 3}},
     {"metric": "seuclidean", "metric_params": {"V": [1.0, 2.0, 3.0]}}],
    ids=str,
)  # fmt: skip
def test_exact_results_grow_to_what_solving_all_pairs_gives(options, tmp_path):
    r = asot.pairwise_exact(D, **options)
    r.save(tmp_path / "r.npz")
    whole = asot.pairwise_exact(D + N, **options)
    for own in (r, asot.load_distances(tmp_path / "r.npz")):
        assert np.allclose(own.extend(N).values, whole.values, rtol=1e-12)


def test_exact_results_solve_only_new_pairs(monkeypatch):
    from asot.exact.points import ExactPoints

    r, seen = asot.pairwise_exact(D), []
    plain = ExactPoints.solve
    monkeypatch.setattr(ExactPoints, "solve", lambda self, i, j, stop: (seen.extend(j), plain(self, i, j, stop))[1])
    r.extend(N)
    assert len(seen) == 4 * 40 + 6
    assert min(seen) >= 40


def test_a_few_small_distributions_grow_too():
    r = asot.pairwise_exact([[[0.0, 0.0]], [[3.0, 4.0]]])
    assert r.extend([[[0.0, 1.0]]]).values.tolist() == [5.0, 1.0, np.hypot(3.0, 3.0)]


def test_between_two_collections_rows_are_added():
    r = asot.pairwise_exact(D[:10], D[10:])
    assert np.array_equal(r.extend(N).matrix(), asot.pairwise_exact(D[:10] + N, D[10:]).matrix())


def test_results_grow_again_and_again():
    r = asot.pairwise(D, **WAYS["anchors"])
    once = r.extend(N)
    twice = r.extend(N[:2]).extend(N[2:])
    assert np.allclose(once.values, twice.values, rtol=1e-6)  # coordinates are rounded around another mean


def test_ids_go_on_or_must_be_new():
    named = asot.Distributions.from_list(OLD[:3], ids=["a", "b", "c"])
    r = asot.pairwise_exact(named)
    assert r.extend(asot.Distributions.from_list(NEW[:1], ids=["d"])).ids.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="the id 'b' of new distribution 1 is there already"):
        r.extend(asot.Distributions.from_list(NEW[:2], ids=["d", "b"]))
    with pytest.raises(ValueError, match="the id 'd' of new distribution 1 is there already"):
        r.extend(asot.Distributions.from_list(NEW[:2], ids=["d", "d"]))
    assert asot.pairwise_exact(OLD[:2]).extend(NEW[:1]).ids.tolist() == [0, 1, 2]


def test_what_does_not_fit_is_refused():
    r = asot.pairwise(D, **WAYS["anchors"])
    with pytest.raises(ValueError, match="for points in 3 dimensions, but the collection has 2"):
        r.extend(asot.Distributions.from_list(clouds(2, 0, dim=2)))
    with pytest.raises(ValueError, match="for points in 3 dimensions"):
        asot.pairwise(clouds(2, 0, dim=2), model=r.model)
    with pytest.raises(ValueError, match="for W_1 under 'euclidean', but this call asks for W_2 under 'euclidean'"):
        asot.pairwise(N, D, model=r.model, p=2)
    with pytest.raises(ValueError, match="but this call asks for W_1 under 'cityblock'"):
        asot.pairwise(N, D, model=r.model, metric="cityblock")
    with pytest.raises(ValueError, match="leave out n_anchors, error"):
        asot.pairwise(N, D, model=r.model, n_anchors=5, error="1%")
    with pytest.raises(ValueError, match=r"model must be r\.model"):
        asot.pairwise(N, D, model=r.info["strategy"])
    with pytest.raises(ValueError, match="a list of pairs does not say which pairs"):
        asot.pairwise_exact(D, pairs=[(0, 1)]).extend(N)


def test_distributions_of_another_kind_are_named():
    r = asot.pairwise(D, **WAYS["anchors"])
    with pytest.warns(
        UserWarning, match="1 of 2 new distributions, the first of them new distribution 1, are more than"
    ):
        r.extend([NEW[0], NEW[1] + 100.0])


def test_distances_that_depend_on_all_points_are_refused():
    with pytest.raises(ValueError, match=r"took its V from the old points.*metric_params=\{'V': ...\}"):
        asot.pairwise_exact(D, metric="seuclidean").extend(N)
    prices = np.full(len(D.points), 2.0)
    with pytest.raises(ValueError, match="a price for every old point"):
        asot.pairwise_exact(D, unmatched=prices).extend(N)


def test_results_without_a_model_say_so(tmp_path):
    for r in (asot.pairwise(D, estimate="anchor", n_anchors=8), asot.emd_many(np.eye(3), cost=1 - np.eye(3))):
        assert r.model is None
        with pytest.raises(ValueError, match="does not know what it was made with"):
            r.extend(N)
    asot.pairwise_exact(D[:3]).save(tmp_path / "r.csv")
    with pytest.raises(ValueError, match="does not know what it was made with"):
        asot.load_distances(tmp_path / "r.csv").extend(N)
    asot.pairwise_exact(D[:3], metric=lambda x, y: float(np.abs(x - y).sum())).save(tmp_path / "f.npz")
    assert asot.load_distances(tmp_path / "f.npz").model is None


def test_a_file_without_its_collection_still_has_the_fit(tmp_path):
    r = asot.pairwise(D, **WAYS["anchors"])
    r.save(tmp_path / "r.npz", collection=False)
    loaded = asot.load_distances(tmp_path / "r.npz")
    with pytest.raises(ValueError, match=r"saved without its collection.*model=r.model"):
        loaded.extend(N)
    alone = asot.pairwise(D, N, model=loaded.model)
    assert np.array_equal(alone.values, asot.pairwise(D, N, model=r.model).values)
    with np.load(tmp_path / "r.npz") as there:
        assert not [name for name in there if name.startswith("model_rows")]


def rewritten(source, target, change):
    """A copy of an .npz file whose header was changed, and without the arrays that ``change`` names."""
    with zipfile.ZipFile(source) as there, zipfile.ZipFile(target, "w") as here:
        header = json.loads(np.load(there.open("header.npy")).tobytes())
        dropped = change(header) or ()
        with here.open("header.npy", "w") as stream:
            np.save(stream, np.frombuffer(json.dumps(header).encode(), np.uint8))
        for name in there.namelist():
            if name != "header.npy" and name.removesuffix(".npy") not in dropped:
                here.writestr(name, there.read(name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["model"].update(version=99), "version 99"),
        (lambda h: h["model"].update(metric=None, p=0), "p must be"),
        (lambda h: h["model"].update(dim=2), "dimensions"),
        (lambda h: h["model"].update(exponent=10**9), "fit of the model"),
        (lambda h: h["model"].update(spaces=[]), "what spaces"),
        (lambda h: h["model"].update(spaces=[{"kind": "learned-space"}]), "parameters of the codes"),
        (lambda h: h["model"].update(level="all"), "unknown bounds"),
        (lambda h: h["model"].update(report={}), "cannot be understood"),
        (lambda h: h["model"].update(strategy=[1]), "no record"),
        (lambda h: h["model"].update(between_two=True), "collection of the model is missing"),
        (lambda h: h.update(model=[1]), "does not describe a model"),
        (lambda h: ["model_coefficients"], "cannot be understood"),
        (lambda h: ["model_rows_points"], "'points' is missing"),
        (lambda h: ["model_space0_anchors"], "'anchors' is missing"),
    ],
)
def test_a_damaged_model_is_refused(change, message, tmp_path):
    asot.pairwise(D, **WAYS["anchors"]).save(tmp_path / "r.npz")
    rewritten(tmp_path / "r.npz", tmp_path / "bad.npz", change)
    with pytest.raises(ValueError, match=message):
        asot.load_distances(tmp_path / "bad.npz")


@pytest.mark.parametrize(("way", "bounds"), [("bounds", "points"), ("bounds", "cells"), ("anchors", False)])
def test_a_model_fitted_to_other_bounds_is_read_and_makes_no_estimates(way, bounds, tmp_path):
    r = asot.pairwise(D, **{**WAYS[way], "bounds": bounds})
    r.save(tmp_path / "r.npz")
    rewritten(tmp_path / "r.npz", tmp_path / "old.npz", lambda header: header["model"].pop("plan") and None)
    old = asot.load_distances(tmp_path / "old.npz")
    np.testing.assert_array_equal(old.values, r.values)
    if bounds != "points":  # these have not changed
        np.testing.assert_array_equal(old.extend(N).values, r.extend(N).values)
        return
    for attempt in (lambda: old.extend(N), lambda: asot.pairwise(N, D, model=old.model, bounds=True)):
        with pytest.raises(ValueError, match="fitted to upper bounds by points of another version"):
            attempt()


def test_a_file_from_before_models_is_read_and_does_not_grow(tmp_path):
    asot.pairwise_exact(D[:4]).save(tmp_path / "r.npz")
    rewritten(tmp_path / "r.npz", tmp_path / "old.npz", lambda h: h.pop("model") and None)
    with pytest.raises(ValueError, match="saved by an older version"):
        asot.load_distances(tmp_path / "old.npz").extend(N)
