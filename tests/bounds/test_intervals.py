"""Intervals of measured errors: they hold as often as they say, for few pairs, for fits and for what was chosen."""

from __future__ import annotations

import numpy as np
import pytest

from asot.estimate.calibration import likeliest
from asot.estimate.exact_sample import Drawn, end_after_choice, pool, rms_interval


def misses(n_left: int, n_fitted: int, draw, times: int = 300) -> float:
    """How often the error of the pairs that are left is outside the interval, over random samples of 64."""
    rng = np.random.default_rng(0)
    missed, decided = 0, 0.0
    for _ in range(times):
        x, noise = rng.normal(size=(64 + n_left, max(n_fitted, 1))), draw(rng, 64 + n_left)
        held_out, true = noise[:64], noise[64:]
        if n_fitted:
            fold, ones, known = np.arange(64) % 8, np.ones(64), (np.zeros(n_fitted), np.eye(n_fitted))
            held_out = noise[:64].copy()
            for turn in range(8):
                seen = fold != turn
                held_out[~seen] -= x[:64][~seen] @ likeliest(x[:64][seen], noise[:64][seen], ones[seen], *known)[0]
            coefficients, decided = likeliest(x[:64], noise[:64], ones, *known)
            true = noise[64:] - x[64:] @ coefficients
        _, low, high = rms_interval(held_out, np.ones(64), decided, n_left)
        missed += not low <= np.sqrt(np.mean(true**2)) <= high
    return missed / times


@pytest.mark.parametrize(("n_left", "n_fitted"), [(20, 0), (60, 0), (4000, 7)])
def test_intervals_miss_at_most_six_times_in_a_hundred(n_left, n_fitted):
    assert misses(n_left, n_fitted, lambda rng, n: rng.normal(size=n)) <= 0.06


def test_intervals_of_errors_with_heavier_tails_hold_nearly_as_often():
    assert misses(2000, 7, lambda rng, n: rng.laplace(size=n)) <= 0.08


def test_what_was_chosen_for_its_small_error_is_reported_with_a_higher_end():
    """The true error is what is allowed, and only samples are accepted in which it looks clearly smaller."""
    rng = np.random.default_rng(1)
    seen = np.exp(0.1 * rng.normal(size=40_000))
    high = seen * np.exp(0.196)
    accepted = high <= 1.0
    ends = np.array([end_after_choice(x, h, 1.0) for x, h in zip(seen[accepted], high[accepted], strict=True)])
    assert len(ends) > 500
    assert np.mean(ends < 1.0) < 0.1  # without the correction, all of them


def test_an_error_far_below_what_is_allowed_keeps_its_interval():
    assert end_after_choice(1.0, 1.2, 5.0) == pytest.approx(1.2, rel=1e-4)
    assert end_after_choice(0.0, 0.0, 1.0) == 0.0
    nearer = [end_after_choice(1.0, 1.2, allowed) for allowed in (2.0, 1.5, 1.3, 1.2)]
    assert nearer[0] < nearer[1] < nearer[2] <= nearer[3] < 1.35


def test_pooled_draws_estimate_the_mean_of_both():
    first, second = Drawn(np.array([5, 2]), np.array([3.0, 1.0])), Drawn(np.array([2, 9]), np.array([2.0, 4.0]))
    pooled = pool([first, second])
    assert dict(zip(pooled.places.tolist(), pooled.weights.tolist(), strict=True)) == {5: 1.5, 2: 1.5, 9: 2.0}
    alone = pool([first])
    assert np.array_equal(alone.places, first.places)
    assert np.array_equal(alone.weights, first.weights)
