"""max_error: every pair ends within it, and only those that have to are solved exactly."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asot
from asot import Distributions, KMeansAnchors, Status
from asot.request import as_max_error
from tests.bounds.test_error_bars import any_anchors, bounded, lattice_lists


@pytest.fixture(scope="module")
def D():
    rng = np.random.default_rng(0)
    return Distributions.from_list([rng.normal(i % 4, 1.0, size=(15 + i % 5, 2)) for i in range(25)])


@pytest.fixture(scope="module")
def exact(D):
    return asot.pairwise_exact(D).values


def allowed(max_error, exact):
    return float(max_error[:-1]) / 100 * exact if isinstance(max_error, str) else max_error


@pytest.mark.parametrize("estimate", ["anchor", "calibrated"])
@pytest.mark.parametrize("max_error", [0.02, 0.1, 0.5, "0.1%", "5%", "20%"])
def test_every_pair_is_within_the_error(D, exact, max_error, estimate):
    r = asot.pairwise(D, max_error=max_error, estimate=estimate, random_state=0)
    slack = 1e-9 * exact
    assert np.all(np.abs(r.values - exact) <= allowed(max_error, exact) + slack)
    assert np.all(0.5 * (r.upper - r.lower) <= allowed(max_error, exact) + slack)
    assert np.all((r.lower <= exact + slack) & (exact <= r.upper + slack))


def test_only_pairs_with_wide_bounds_are_solved_exactly(D, exact):
    plain = asot.pairwise(D, bounds=True, random_state=0, estimate="anchor")
    r = asot.pairwise(D, max_error=0.1, random_state=0, estimate="anchor")
    wide = 0.5 * (plain.upper - plain.lower) > 0.1
    assert 0 < wide.sum() < len(wide)
    np.testing.assert_array_equal(r.status == Status.EXACT, wide)
    np.testing.assert_array_equal(r.status[~wide], Status.ON_ANCHORS)
    for part in (r.values, r.lower, r.upper):
        np.testing.assert_array_equal(part[wide], exact[wide])
    assert r.info["n_exact"] == wide.sum()
    assert r.info["max_error"] == "0.1"
    assert Status(4).text == "exact: solved on the original points"


def test_pairs_that_were_solved_for_the_fit_keep_their_distance(D, exact):
    """Their bounds may be wide, and no value in the middle of these is meant by the status EXACT."""
    r = asot.pairwise(D, max_error="30%", estimate="calibrated", random_state=0)
    solved = r.status == Status.EXACT
    assert 64 <= solved.sum() < len(exact)
    for part in (r.values, r.lower, r.upper):
        np.testing.assert_array_equal(part[solved], exact[solved])


@given(st.data(), st.sampled_from([1e-6, 0.3, "1%", "50%"]))
def test_the_error_holds_for_any_points_and_any_anchors(data, max_error):
    D = Distributions.from_list(*data.draw(lattice_lists()))
    space = data.draw(any_anchors(D))
    exact = asot.pairwise_exact(D).values
    r = bounded(D, space=space, max_error=max_error)
    assert np.all(np.abs(r.values - exact) <= allowed(max_error, exact) + 1e-9 * exact)


def test_entropic_distances_are_brought_within_the_error(D, exact):
    r = asot.pairwise(D, space=KMeansAnchors(10, random_state=0), reg=0.05, max_error=0.4, estimate="anchor")
    assert np.all(np.abs(r.values - exact) <= 0.4 + 1e-9)
    assert 0 < r.info["n_exact"] <= len(exact)


def test_two_collections_and_listed_pairs(D, exact):
    r = asot.pairwise(D[:5], D[5:], max_error="3%", random_state=0, estimate="anchor")
    np.testing.assert_allclose(r.values, asot.pairwise_exact(D[:5], D[5:]).values, rtol=0.03)
    listed = asot.pairwise(D, pairs=[[3, 1], [7, 20], [4, 4]], max_error="3%", random_state=0, estimate="anchor")
    np.testing.assert_allclose(listed.values, asot.pairwise_exact(D, pairs=[[3, 1], [7, 20], [4, 4]]).values, rtol=0.03)


def test_a_number_of_anchors_is_learned(D):
    r = asot.pairwise(D, n_anchors=7, random_state=0, estimate="anchor")
    np.testing.assert_array_equal(
        r.values, asot.pairwise(D, space=KMeansAnchors(7, random_state=0), estimate="anchor").values
    )


def test_one_distribution_has_nothing_to_certify(D):
    assert len(asot.pairwise(D[:1], max_error=0.1)) == 0


@pytest.mark.parametrize(("text", "amount"), [("2%", 0.02), (" 0.5 % ", 0.005), ("1e-1%", 0.001)])
def test_shares_are_read(text, amount):
    parsed = as_max_error(text)
    assert parsed.relative
    assert parsed.amount == pytest.approx(amount)


@pytest.mark.parametrize("bad", [0, -1, "0%", "-2%", "two", "2", np.nan, np.inf, True, [1]])
def test_errors_that_cannot_be_met_are_refused(D, bad):
    message = "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%'"
    with pytest.raises(ValueError, match=re.escape(message)):
        asot.pairwise(D, max_error=bad, random_state=0, estimate="anchor")
