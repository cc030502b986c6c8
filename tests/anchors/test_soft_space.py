"""Spaces with soft codes: used as any other, bounded by the nearest anchors they keep, saved as plain arrays."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot import AnchorSpace, Distributions
from asot.anchors.soft_codes import LearnedSpace
from asot.cli import cli
from asot.data.npz import load_arrays, save_arrays
from tests.anchors.test_soft_codes import make


def space_of(which, nearest=None):
    soft = make(which)
    anchors = np.random.default_rng(5).normal(size=(5, 3))
    return LearnedSpace(anchors, AnchorSpace(anchors).cost * 1.1, soft, nearest)


@pytest.fixture(params=["metric", "paper's metric", "dictionary"])
def space(request):
    return space_of(request.param)


@pytest.fixture
def collection():
    rng = np.random.default_rng(0)
    return Distributions.from_list([rng.normal(size=(n, 3)) for n in (1, 7, 30, 20)])


def test_a_learned_space_is_used_as_any_other(space, collection):
    histograms = space.histograms(collection)
    expected = asot.emd_many(histograms, cost=space.cost).values
    np.testing.assert_array_equal(asot.pairwise(collection, space=space, estimate="anchor").values, expected)
    entropic = asot.pairwise(collection, space=space, reg=0.05, estimate="anchor")
    np.testing.assert_allclose(entropic.values, asot.sinkhorn_many(histograms, cost=space.cost, reg=0.05).values)
    assert repr(space).startswith("LearnedSpace: 5 anchors in 3 dimensions, soft codes (")


def test_soft_codes_break_the_papers_first_bound():
    """Two points with the code (½, ½) and C_s(1, 2) = 2 d(x, y): Ĉ = C, but W_AS = 0 < W_1 (docs/method.md §1)."""
    silent = {"weight0": np.zeros((1, 2)), "bias0": np.zeros(2)}
    soft = asot.anchors.soft_codes.SoftCodes("metric", np.zeros(1), np.ones(1), 1.0, silent)
    space = LearnedSpace([[0.0], [2.0]], [[0.0, 2.0], [2.0, 0.0]], soft)
    D = Distributions.from_list([[[0.5]], [[1.5]]])
    codes = space.encode(D.points)
    np.testing.assert_allclose(codes, 0.5)
    np.testing.assert_allclose(codes @ space.cost @ codes.T, 1.0)  # Ĉ is the distance of x and y
    assert asot.pairwise_exact(D).values == [1.0]
    assert asot.pairwise(D, space=space, estimate="anchor").values == [0.0]


def test_bounds_are_refused_with_the_reason(space, collection):
    with pytest.raises(ValueError, match="its codes are soft: two different points may have the same code"):
        asot.pairwise(collection, space=space, bounds=True, estimate="anchor")
    with pytest.raises(ValueError, match="no radii: its codes are soft"):
        space.radii(collection)
    with pytest.raises(ValueError, match="no nearest anchors: its codes are soft"):
        space.assign(collection.points)
    with pytest.raises(ValueError, match="no nearest anchors: its codes are soft"):
        space.cells(collection)


@pytest.fixture
def anchored():
    """A learned space that keeps nearest anchors, other ones than its own and another number of them."""
    return space_of("metric", AnchorSpace(np.random.default_rng(6).normal(size=(7, 3))))


@pytest.mark.parametrize("level", [True, "radius", "cells", "points"])
def test_bounds_stand_on_the_nearest_anchors(anchored, collection, level):
    exact = asot.pairwise_exact(collection).values
    found = asot.pairwise(collection, space=anchored, bounds=level, estimate="anchor")
    assert (found.lower <= exact).all()
    assert (exact <= found.upper).all()
    beside = asot.pairwise(collection, space=anchored.nearest, bounds=level, estimate="anchor")
    np.testing.assert_array_equal(found.lower, beside.lower)
    plain = asot.pairwise(collection, space=anchored, estimate="anchor").values
    np.testing.assert_array_equal(found.values, np.clip(plain, found.lower, found.upper))
    with pytest.raises(ValueError, match="bounds on entropic distances need nearest anchors"):
        asot.pairwise(collection, space=anchored, bounds=level, reg=0.1, estimate="anchor")


def test_neighbors_are_found_through_the_nearest_anchors(anchored, collection):
    found = asot.kneighbors(collection, None, 2, space=anchored)
    expected = asot.kneighbors(collection, None, 2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert found.info["n_anchors"] == 7
    with pytest.raises(ValueError, match="no radii: its codes are soft"):
        asot.kneighbors(collection, None, 2, space=space_of("metric"))


def test_a_fit_is_compared_with_what_would_be_returned_without_it(collection):
    """Points are anchors: the interval leaves only the truth, and a fit cannot do better."""
    space = space_of("dictionary", AnchorSpace(np.unique(collection.points, axis=0)))
    found = asot.pairwise(collection, space=space, estimate="calibrated")
    report = found.info["calibration"]
    np.testing.assert_allclose(found.values, asot.pairwise_exact(collection).values, rtol=1e-9)
    assert not report["used"]
    assert report["anchor_rmse"] > 0.1 * report["mean_distance"]
    assert report["held_out_rmse"] < 1e-9 * report["mean_distance"]
    assert found.error.max() < 1e-9 * report["mean_distance"]


def test_calibration_fits_with_the_learned_distance_too(anchored):
    rng = np.random.default_rng(2)
    D = Distributions.from_list([rng.normal(size=(n, 3)) + rng.normal(size=3) for n in rng.integers(3, 20, size=30)])
    found = asot.pairwise(D, space=anchored, estimate="calibrated")
    report = found.info["calibration"]
    assert set(report["coefficients"]) == {"anchor", "dual", "learned", "means", "moves", "radii", "spread", "stays"}
    exact, plain = asot.pairwise_exact(D).values, asot.pairwise(D, space=anchored, estimate="anchor").values
    assert np.square(found.values - exact).mean() < 0.2 * np.square(plain - exact).mean()
    across = asot.pairwise_exact(D[:10], D[10:]).values
    off = asot.pairwise(D[:10], D[10:], space=anchored, estimate="calibrated").values - across
    assert np.sqrt(np.square(off).mean()) < 0.1 * across.mean()


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.filterwarnings("ignore:.*farther from their anchors")
def test_calibration_survives_a_space_of_quite_another_scale(anchored, scale):
    rng = np.random.default_rng(3)
    D = Distributions.from_list([scale * rng.normal(size=(n, 3)) for n in rng.integers(3, 20, size=12)])
    exact = asot.pairwise_exact(D).values
    for space in (anchored, anchored.nearest):
        found = asot.pairwise(D, space=space, estimate="calibrated").values
        assert np.isfinite(found).all()
        assert np.abs(found - exact).max() < exact.max()


def test_where_points_are_anchors_the_interval_leaves_only_the_truth(collection):
    nearest = AnchorSpace(np.unique(collection.points, axis=0))
    exact = asot.pairwise_exact(collection).values
    found = asot.pairwise(collection, space=space_of("dictionary", nearest), bounds="radius", estimate="anchor")
    np.testing.assert_allclose(found.values, exact, rtol=1e-9)  # clipped to an interval of no width


def test_nearest_anchors_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match="nearest anchors are in 2 dimensions, but the space is in 3"):
        space_of("metric", AnchorSpace(np.zeros((4, 2))))


def test_nearest_anchors_must_be_able_to_carry_bounds(anchored):
    anchors = anchored.nearest.anchors
    for nearest in (anchored, AnchorSpace(anchors, 2.0 * anchored.nearest.cost), anchors):
        with pytest.raises(ValueError, match="nearest must be a space of nearest anchors with Euclidean costs; found"):
            space_of("metric", nearest)


def test_points_of_another_dimension_or_not_finite_are_refused(space, collection):
    with pytest.raises(ValueError, match=r"points must be \(n, 3\) in this anchor space"):
        space.encode(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="point 1 is nan in coordinate 2; points must be finite"):
        space.encode([[0.0, 0.0, 0.0], [0.0, 0.0, np.nan]])
    with pytest.raises(ValueError, match="the collection is in 2 dimensions, but the anchors are in 3"):
        space.histograms(Distributions.from_list([np.zeros((2, 2))]))


def test_codes_of_another_size_are_refused():
    with pytest.raises(ValueError, match="codes are for 5 anchors in 3 dimensions, but the space has 4 in 3"):
        LearnedSpace(np.zeros((4, 3)), 1.0 - np.eye(4), make("metric"))


# --------------------------------------------------------------------------------------------------------------- files


def test_a_saved_space_comes_back_whole(space, collection, tmp_path):
    space.save(tmp_path / "space.npz")
    back = AnchorSpace.load(tmp_path / "space.npz")
    assert isinstance(back, LearnedSpace)
    assert back.codes.kind == space.codes.kind
    np.testing.assert_array_equal(back.anchors, space.anchors)
    np.testing.assert_array_equal(back.cost, space.cost)
    np.testing.assert_array_equal(back.histograms(collection), space.histograms(collection))


def test_nearest_anchors_are_saved_too_and_a_file_without_them_has_no_bounds(anchored, collection, tmp_path):
    anchored.save(tmp_path / "space.npz")
    back = AnchorSpace.load(tmp_path / "space.npz")
    np.testing.assert_array_equal(back.nearest.anchors, anchored.nearest.anchors)
    bare = AnchorSpace.load(rewritten(tmp_path / "space.npz", drop=("nearest",)))
    assert bare.nearest is None
    with pytest.raises(ValueError, match="its codes are soft"):
        asot.pairwise(collection, space=bare, estimate="calibrated")


def test_a_file_holds_only_plain_arrays(space, tmp_path):
    space.save(tmp_path / "space.npz")
    with np.load(tmp_path / "space.npz", allow_pickle=False) as file:
        kinds = {name: file[name].dtype.kind for name in file.files}
    assert set(kinds.values()) <= set("fiu")


def rewritten(path, header_changes=None, array_changes=None, drop=()):
    """The file at ``path`` with another header or other arrays."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes()) | (header_changes or {})
    arrays = {name: array for name, array in (arrays | (array_changes or {})).items() if name not in drop}
    save_arrays(path, header, arrays)
    return path


FORGED = {
    "another version": ({"version": 99}, {}, (), "format version 99, newer than the 1 read here; upgrade asot"),
    "no parameters": ({"parameters": 7}, {}, (), "does not name the parameters of the codes"),
    "an unknown map": ({"codes": "os.system"}, {}, (), "codes of the kind 'os.system' are unknown"),
    "a missing array": ({}, {}, ("codes_weight0",), "has no array 'codes_weight0'"),
    "a layer too wide": ({}, {"codes_weight1": np.zeros((7, 6))}, (), "layer 1 of the codes' network does not fit"),
    "no number": ({}, {"codes_unit": np.zeros(3)}, (), "'codes_unit' must hold one number"),
    "text": ({}, {"codes_centre": np.array(["a", "b", "c"])}, (), "'center' must hold finite numbers"),
    "a negative cost": ({}, {"cost": -np.ones((5, 5))}, (), "negative"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_file_ends_in_one_sentence_that_names_it(case, tmp_path):
    header, arrays, drop, message = FORGED[case]
    space_of("metric").save(tmp_path / "space.npz")
    path = rewritten(tmp_path / "space.npz", header, arrays, drop)
    with pytest.raises(ValueError, match=message) as caught:
        AnchorSpace.load(path)
    assert str(caught.value).startswith(str(path))


def test_the_command_line_knows_learned_spaces(tmp_path):
    space_of("dictionary").save(tmp_path / "space.npz")
    answer = CliRunner().invoke(cli, ["info", str(tmp_path / "space.npz")])
    assert answer.exit_code == 0
    assert "LearnedSpace: 5 anchors in 3 dimensions, soft codes (dictionary)" in answer.output


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "space.npz"
    space_of("metric").save(path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(ValueError, match="truncated or damaged"):
        AnchorSpace.load(path)


def test_a_pickled_object_is_never_loaded(tmp_path):
    path = tmp_path / "space.npz"
    space_of("metric").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    np.save(tmp_path / "evil.npy", np.array([print], dtype=object), allow_pickle=True)
    members["codes_bias0.npy"] = (tmp_path / "evil.npy").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="only numbers and text are read, never pickled objects"):
        AnchorSpace.load(path)


def test_a_version_without_soft_codes_does_not_take_it_for_nearest_anchors(tmp_path):
    path = tmp_path / "space.npz"
    space_of("metric").save(path)
    with pytest.raises(ValueError, match="holds a learned anchor space, not an anchor space"):
        load_arrays(path, "anchor-space", required=["anchors"], optional=["cost"])
