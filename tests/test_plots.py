"""Pictures: axes in, axes out, and what they show is what the numbers say."""

from __future__ import annotations

import numpy as np
import pytest

import asot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from asot.learn import maps  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def digits():
    D, labels, _ = asot.datasets.load_digits(40)
    return D, labels, asot.pairwise(D, bounds=True, random_state=0, estimate="anchor")


def test_the_matrix_is_a_reordered_matrix_of_the_same_distances(digits):
    _, _, r = digits
    ax = asot.plots.matrix(r)
    shown = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(r.matrix(), axis=None))
    np.testing.assert_array_equal(np.diag(shown), 0.0)
    names = [int(tick.get_text()) for tick in ax.get_yticklabels()]
    np.testing.assert_allclose(shown, r.matrix()[np.ix_(names, names)])


def test_groups_stand_together(digits):
    _, labels, r = digits
    ax = asot.plots.matrix(r, labels=labels, order="given")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [str(c) for c in np.unique(labels)]


@pytest.mark.parametrize("draw", ["matrix", "map", "errors"])
def test_pictures_draw_on_the_axes_they_are_given(digits, draw):
    _, _, r = digits
    _, ax = pyplot.subplots()
    assert getattr(asot.plots, draw)(r, ax) is ax


def test_a_plan_shows_a_line_for_every_part_that_moves(digits):
    D, _, _ = digits
    ax = asot.plots.plan(D, 0, 1)
    assert len(ax.lines) == asot.plan(D, 0, 1, exact=True).nnz


def test_error_bars_reach_from_lower_to_upper(digits):
    _, _, r = digits
    bars = asot.plots.errors(r).collections[0].get_segments()
    lowest = min(bar[:, 1].min() for bar in bars)
    highest = max(bar[:, 1].max() for bar in bars)
    assert lowest == pytest.approx(r.lower[np.argmin(r.values)], rel=1e-9)
    assert highest >= r.values.max()


def test_pictures_without_what_they_need_say_so(digits):
    D, labels, r = digits
    with pytest.raises(ValueError, match="have no error bars"):
        asot.plots.errors(asot.pairwise_exact(D[:4]))
    with pytest.raises(ValueError, match="one entry for each of the 40"):
        asot.plots.map(r, labels=labels[:2])
    with pytest.raises(ValueError, match="square matrix"):
        asot.plots.matrix(asot.pairwise_exact(D[:2], D[2:5]))
    with pytest.raises(ValueError, match="is nan"):
        asot.plots.matrix(np.array([[0.0, np.nan], [np.nan, 0.0]]))
    with pytest.raises(ValueError, match="method must be"):
        asot.plots.map(r, method="pca")


def test_maps_are_the_same_every_time_and_keep_distances_on_a_plane():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    places = maps.embed(distances, "mds")
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places, axis=2), distances, atol=1e-9)
    np.testing.assert_array_equal(places, maps.embed(distances, "mds"))


def test_maps_of_few_and_of_equal_distributions():
    for n in (1, 2, 3):
        assert maps.embed(np.zeros((n, n))).shape == (n, 2)
    assert np.isfinite(maps.embed(np.zeros((40, 40)))).all()


def test_leaves_put_clusters_side_by_side():
    places = np.array([0.0, 10.0, 0.1, 10.1, 0.2])
    order = maps.leaf_order(np.abs(places[:, None] - places))
    assert set(order[:3]) in ({0, 2, 4}, {1, 3, order[2]})


def test_colors_span_the_distances_of_different_distributions(digits):
    D, _, _ = digits
    r = asot.pairwise_exact(D)
    low, high = asot.plots.matrix(r).images[0].get_clim()
    assert low == r.values.min() > 0
    assert high == r.values.max()


def test_a_bar_shows_the_group_of_every_row(digits):
    _, labels, r = digits
    ax = asot.plots.matrix(r, labels=labels, order="clusters")
    names = [int(tick.get_text()) for tick in ax.get_yticklabels()]
    bar, tree = ax.child_axes
    _, code = np.unique(labels, return_inverse=True)
    np.testing.assert_array_equal(np.asarray(bar.images[0].get_array())[:, 0], code[names])
    assert len(tree.lines) == len(labels) - 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(c) for c in np.unique(labels)]
    np.testing.assert_array_equal(names, maps.leaf_order(r.matrix()))


def test_measurements_are_shown_by_a_scale_and_not_as_groups(digits):
    _, _, r = digits
    age = np.linspace(20.0, 80.0, 40)
    ax = asot.plots.map(r, labels=age)
    assert ax.get_legend() is None
    np.testing.assert_array_equal(ax.collections[0].get_array(), age)
    matrix = asot.plots.matrix(r, labels=age)
    assert len(matrix.get_xticklabels()) == 40


def test_a_map_says_its_stress_and_names_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 2))
    ax = asot.plots.map(np.linalg.norm(x[:, None] - x, axis=2), method="mds")
    assert ax.get_title(loc="right") == "stress 0.00"
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 25
    assert sum(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k]) <= 3
    d = rng.random((12, 12)) + 1.0
    assert 0 < maps.stress((d + d.T) * (1 - np.eye(12)), rng.normal(size=(12, 2))) < 1


def test_a_plan_of_many_points_is_bundled_by_groups():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["B", "T"], 600)
    x = rng.normal(size=(600, 2)) + 9.0 * (kinds == "T")[:, None]
    D = asot.Distributions(x, [0, 300, 600], ids=["before", "after"])
    ax = asot.plots.plan(D, "before", "after", groups=kinds)
    assert len(ax.lines) == 0
    moved = asot.plan(D, 0, 1, exact=True).by(kinds)
    told = [text.get_text() for text in ax.texts if text.get_text()]
    assert f"B {moved.loc['B', 'B']:.0%}" in told
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["before", "after"]


def test_names_stand_beside_groups_and_nothing_is_cut_off(digits):
    D, labels, _ = digits
    named = asot.Distributions.from_list([D[i][0] for i in range(20)], ids=[f"patient {i:02}" for i in range(20)])
    ax = asot.plots.matrix(asot.pairwise_exact(named), labels=labels[:20])
    ax.figure.canvas.draw()
    shown = ax.get_yticklabels()
    assert sorted(text.get_text() for text in shown) == named.ids.tolist()
    assert min(text.get_window_extent().x0 for text in shown) >= 0
    heights = sorted(text.get_window_extent().y0 for text in shown)
    assert np.diff(heights).min() >= max(text.get_window_extent().height for text in shown) * 0.8


def test_names_of_bundles_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(60, 2)) for _ in range(2)])
    ax = asot.plots.plan(D, 0, 1, groups=rng.choice(["a kind", "another", "a third"], size=120))
    ax.figure.canvas.draw()
    boxes = [Text.get_window_extent(text).shrunk(0.9, 0.8) for text in ax.texts if text.get_text()]
    assert len(boxes) == 9
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_names_of_bundles_leave_their_arrows_visible_and_only_the_largest_have_one():
    rng = np.random.default_rng(0)
    kinds = rng.choice([f"kind {k:02}" for k in range(13)], 1000)
    middle = {kind: 9.0 * rng.normal(size=2) for kind in np.unique(kinds)}
    x = np.array([middle[kind] for kind in kinds]) + rng.normal(size=(1000, 2))
    x[500:] += [0.0, 2.0]  # every kind moves a little: arrows are shorter than names
    ax = asot.plots.plan(asot.Distributions(x, [0, 500, 1000], ids=["before", "after"]), 0, 1, groups=kinds)
    ax.figure.canvas.draw()
    named = [text for text in ax.texts if text.get_text()]
    assert len(named) == 10
    assert all("kind" in text.get_text() for text in named)
    boxes = [Text.get_window_extent(text).shrunk(0.9, 0.8) for text in named]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    arrows = [text for text in ax.texts if not text.get_text()]
    middles = [ax.transData.transform((np.array(a.xy) + a.xyann) / 2) for a in arrows]
    assert sum(box.contains(*middle) for box in boxes for middle in middles) == 0
    legend = ax.get_legend().get_window_extent()
    assert not any(legend.overlaps(box) for box in boxes)
    page = ax.get_window_extent()
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in boxes)


def test_the_title_stays_on_the_page_and_off_the_axes_beside(digits):
    from matplotlib import pyplot

    def title_of(ax):
        return next(text for text in ax.get_children() if isinstance(text, Text) and "apart" in text.get_text())

    _, labels, r = digits
    with pyplot.rc_context(asot.plots.STYLE):
        alone = asot.plots.matrix(r, labels=labels, order="clusters")
        alone.figure.canvas.draw()
        box = title_of(alone).get_window_extent()
        assert box.y1 <= alone.figure.bbox.y1
        assert box.y0 >= alone.child_axes[1].get_window_extent().y1
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
        asot.plots.matrix(r, left, labels=labels)
        figure.canvas.draw()
        assert "\n" in left.get_title(loc="left")
        assert title_of(left).get_window_extent().x1 < right.get_window_extent().x0


def test_the_bar_of_measurements_says_their_range(digits):
    _, _, r = digits
    ax = asot.plots.matrix(r, labels=np.linspace(20.0, 80.0, 40))
    assert ax.child_axes[0].get_title(loc="right") == "20 to 80"
