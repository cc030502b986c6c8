"""The demo: its numbers are true, its picture is drawn, and matplotlib is left as it was."""

import os
import sys

import numpy as np
import pytest

import asot
from asot import demo as demo_module
from asot.demo import Demo, _random_pairs, run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo(60, n_jobs=1, n_checked=200, progress=False)


def test_the_demo_solves_all_pairs_and_measures_the_error_it_reports(demo):
    assert len(demo.distances) == 60 * 59 // 2
    assert demo.aim == "2%"
    pairs = _random_pairs(60, 200, seed=0)
    exact = asot.pairwise_exact(demo.digits, pairs=pairs).values
    found = demo.distances.matrix()[pairs[:, 0], pairs[:, 1]]
    assert demo.n_checked == len(pairs) == 200
    assert demo.error == pytest.approx(np.sqrt(np.mean((found - exact) ** 2)) / exact.mean())
    assert demo.error < 0.022


def test_the_table_shows_pairs_seconds_rate_and_error(demo):
    table = demo.table()
    assert "1,770" in table
    for word in ("pairs per second", "seconds", "error asked for", "how", "% of the mean distance"):
        assert word in table


def test_the_same_seed_gives_the_same_distances(demo):
    again = run_demo(60, n_jobs=2, n_checked=5, progress=False)
    np.testing.assert_array_equal(again.distances.values, demo.distances.values)


def test_random_pairs_are_distinct_and_ordered():
    pairs = _random_pairs(7, 1000, seed=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 21
    assert (pairs[:, 0] < pairs[:, 1]).all()


def test_too_few_digits_are_refused():
    with pytest.raises(ValueError, match="at least 3 digits"):
        run_demo(2)


# -------------------------------------------------------------------------------------------------------- the picture


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("X.PDF", b"%PDF")])
def test_the_picture_is_drawn_in_the_format_of_its_name(tmp_path, demo, name, start):
    pytest.importorskip("matplotlib")
    demo_module.draw(demo, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [name]


def test_drawing_leaves_pyplot_alone(tmp_path, demo):
    pytest.importorskip("matplotlib")
    pyplot = sys.modules.get("matplotlib.pyplot")
    before = None if pyplot is None else pyplot.get_fignums()
    demo_module.make_figure(demo)
    assert sys.modules.get("matplotlib.pyplot") is pyplot
    assert pyplot is None or pyplot.get_fignums() == before


def test_a_handful_of_digits_can_be_drawn_too(tmp_path, demo):
    pytest.importorskip("matplotlib")
    few = asot.pairwise(demo.digits[:3])
    small = Demo(demo.digits[:3], demo.labels[:3], demo.images[:3], few, "2%", 1, 0.1, 3, 0.0)
    demo_module.draw(small, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_another_suffix_lists_the_known_ones(tmp_path, demo):
    with pytest.raises(ValueError, match=r"x\.gif: its name must end in \.png, \.pdf or \.svg"):
        demo_module.draw(demo, tmp_path / "x.gif")


def test_the_map_is_the_same_every_time(demo):
    matrix = demo.distances.matrix()
    np.testing.assert_array_equal(demo_module.embed(matrix), demo_module.embed(matrix))


def test_thumbnails_are_inside_the_canvas_and_apart():
    rng = np.random.default_rng(0)
    places = demo_module.spread_out(rng.normal(size=(200, 2)))
    half = demo_module._THUMBNAIL / 2
    assert places.min() >= half - 1e-9
    assert places.max() <= demo_module._CANVAS - half + 1e-9
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(200)
    assert np.median(gaps.min(axis=1)) > 0.5 * demo_module._THUMBNAIL


def test_coincident_digits_do_not_break_the_map():
    places = demo_module.spread_out(np.zeros((5, 2)))
    assert np.isfinite(places).all()
