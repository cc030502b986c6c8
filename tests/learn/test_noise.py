"""How much of a distance is noise, and distances at one size."""

from __future__ import annotations

import re

import numpy as np
import pytest

import asot
from asot import Distributions


def samples(seed, sizes, d=6):
    """Samples of one and the same distribution: every distance between them is noise."""
    rng = np.random.default_rng(seed)
    return Distributions.from_list([rng.normal(size=(n, d)) for n in sizes])


def test_the_floor_is_what_samples_of_one_distribution_are_apart():
    sizes = np.array([40, 60, 90, 140, 200] * 3)
    D = samples(0, sizes)
    floor = asot.noise_floor(D, random_state=0)
    distances = asot.pairwise_exact(D).matrix()
    apart = ~np.eye(len(D), dtype=bool)
    ratio = floor.matrix()[apart] / distances[apart]
    assert 0.85 < ratio.mean() < 1.15
    assert np.corrcoef(floor.matrix()[apart], distances[apart])[0, 1] > 0.7
    assert 0.05 < floor.exponent < 0.5  # six dimensions
    assert np.all(np.diff(floor.values[:5]) < 0)
    np.testing.assert_allclose(floor.at(sizes, sizes), floor.values)
    assert "samples of one distribution are" in repr(floor)


def test_in_one_dimension_noise_falls_with_the_root_of_the_size():
    assert 0.35 < asot.noise_floor(samples(1, [400] * 12, d=1), n_splits=16).exponent < 0.65


def test_the_same_seed_gives_the_same_floor_for_any_number_of_threads():
    D = samples(2, [20, 30, 40])
    one, two = asot.noise_floor(D, random_state=5), asot.noise_floor(D, random_state=5, n_jobs=2)
    np.testing.assert_array_equal(one.halves, two.halves)


def test_masses_stay_with_their_points_and_a_half_without_mass_gets_the_heaviest():
    D = Distributions.from_list([np.arange(8.0)[:, None]], [[1, 0, 0, 0, 0, 0, 0, 0]])
    assert np.isfinite(asot.noise_floor(D).halves).all()


def test_equal_points_have_no_noise():
    np.testing.assert_array_equal(asot.noise_floor(Distributions.from_list([np.ones((8, 2))] * 3)).values, 0.0)


def test_one_small_sample_does_not_refuse_the_cohort():
    D = samples(3, [80, 40, 3, 1, 2, 160])
    message = "3 distributions have fewer than 4 points, such as distribution 2 with 3; noise there is extrapolated"
    with pytest.warns(UserWarning, match=message):
        floor = asot.noise_floor(D)
    assert floor.extrapolated.tolist() == [False, False, True, True, True, False]
    assert "3 extrapolated" in repr(floor)
    without = asot.noise_floor(D[[0, 1, 5]])
    assert floor.exponent == pytest.approx(without.exponent, rel=0.4)  # the same but for the splits
    expected = asot.pairwise_exact(D).matrix()
    apart = ~np.eye(len(D), dtype=bool)
    assert 0.6 < (floor.matrix()[apart] / expected[apart]).mean() < 1.6
    assert floor.values[3] > floor.values[2] > floor.values[0]


def test_without_any_sample_of_four_points_there_is_nothing_to_measure():
    with pytest.raises(ValueError, match="no distribution has 4 points"):
        asot.noise_floor(samples(3, [3, 3]))


def test_size_matched_says_what_it_leaves_out_and_what_it_throws_away():
    D = samples(5, [20, 100, 110, 120, 3])
    with pytest.warns(
        UserWarning, match=r"drawn down to 3 points, the size of distribution 4.*min_size=10 would leave"
    ):
        assert asot.size_matched(D, n_draws=1).info["size"] == 3
    with pytest.warns(
        UserWarning, match=re.escape("left out 2 of 5 distributions with fewer than 50 points: 0 (20), 4 (3)")
    ):
        r = asot.size_matched(D, min_size=50, n_draws=1)
    assert r.info["size"] == 100
    assert r.info["left_out"] == [0, 4]
    assert r.ids.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(r.sizes, 100)
    asot.size_matched(D[:4], size=20, n_draws=1)  # asked for: no warning
    with pytest.warns(UserWarning, match="left out"):
        some = asot.size_matched(D, min_size=50, pairs=[[3, 1]], n_draws=1)
    assert some.ids[some.pairs].tolist() == [[3, 1]]
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="pair 0 has distribution 4, which"),
    ):
        asot.size_matched(D, min_size=50, pairs=[[1, 4]])
    with pytest.raises(ValueError, match="min_size is 500, but only 0 of 5 distributions are so large"):
        asot.size_matched(D, min_size=500)


def test_at_one_size_small_distributions_are_no_farther_than_large_ones():
    D = samples(4, [30] * 6 + [240] * 6)
    plain, matched = asot.pairwise_exact(D).matrix(), asot.size_matched(D, random_state=0)
    assert matched.info["size"] == 30
    W = matched.matrix()
    small, large = np.triu_indices(6, 1), tuple(6 + np.array(np.triu_indices(6, 1)))
    assert plain[small].mean() > 1.3 * plain[large].mean()
    assert W[small].mean() == pytest.approx(W[large].mean(), rel=0.1)
    assert np.all(matched.error >= 0)


def test_distances_at_one_size_or_above_noise_are_not_extended_by_plain_ones():
    D = samples(4, [20, 30, 40])
    old = D[:2]
    for r in (asot.size_matched(old, n_draws=1), asot.pairwise_exact(old).above_noise(asot.noise_floor(old))):
        with pytest.raises(ValueError, match="cannot be extended"):
            r.extend(D[2:])


def test_a_size_that_a_distribution_does_not_have_is_refused():
    with pytest.raises(ValueError, match=r"size is 20, but distribution 0 .* has only 10 points with mass"):
        asot.size_matched(samples(5, [10, 30]), size=20)


def test_draws_are_compared_by_any_distance_but_have_no_bounds():
    D = samples(4, [20, 30, 40])
    squared = asot.size_matched(D, n_draws=1, random_state=0, p=2, metric="cityblock", n_jobs=2)
    plain = asot.size_matched(D, n_draws=1, random_state=0)
    assert (squared.values > plain.values).all()
    assert squared.info["p"] == 2
    for word in ("bounds", "sink", "E", "unmatched", "eror"):
        with pytest.raises(TypeError, match=f"takes no {word}=; what it passes on to pairwise is error, p,"):
            asot.size_matched(D, **{word: None})
