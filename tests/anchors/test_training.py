"""The training loop, on problems small enough to know the answer."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from asot.anchors import training
from asot.anchors.training import DeviceLostError, Lesson, Schedule, train

torch = pytest.importorskip("torch")

GOAL = np.array([1.0, -2.0])


def schedule(max_epochs=30, **changes):
    options = {"learning_rate": 0.1, "max_epochs": max_epochs, "patience": 30, "max_time": None}
    return Schedule(**{**options, **changes}, started=time.monotonic())


def bowl(p, batch):
    return (p["x"] - torch.tensor(GOAL, dtype=torch.float32)).square().sum()


def distance(p):
    return float(np.linalg.norm(p["x"].detach().numpy() - GOAL))


def descend(loss=bowl, error=distance, start=None, **changes):
    state = {"x": np.zeros(2), "label": np.array(7)} if start is None else start
    rng = np.random.RandomState(0)
    return train(state, Lesson({"x": 1.0}, loss, error, 5), schedule(**changes), rng)


def test_the_loss_is_minimized_and_what_is_not_learned_stays():
    outcome = descend()
    np.testing.assert_allclose(outcome.state["x"], GOAL, atol=0.01)
    assert outcome.state["label"] == 7
    assert outcome.error == min(outcome.history["error"])
    assert outcome.history["epoch"] == list(range(len(outcome.history["error"])))
    assert outcome.history["loss"][-1] < outcome.history["loss"][1]


def test_the_best_state_is_kept_even_if_it_is_the_start():
    outcome = descend(error=lambda p: 1.0 - distance(p))  # the closer to the goal, the worse
    np.testing.assert_array_equal(outcome.state["x"], 0.0)
    assert outcome.error == outcome.history["error"][0]


def test_patience_ends_the_training():
    outcome = descend(error=lambda p: 1.0, patience=3)
    assert outcome.history["epoch"][-1] == 3


def test_an_error_of_zero_leaves_nothing_to_learn():
    outcome = descend(start={"x": GOAL})
    assert outcome.history["epoch"] == [0]


def test_the_rate_rises_and_falls():
    rates = descend().history["learning_rate"][1:]
    assert 0.09 < max(rates) <= 0.1
    assert rates[-1] < 0.01
    assert rates.index(max(rates)) < 5


def test_time_ends_the_training_and_the_schedule_with_it():
    def slow(p, batch):
        time.sleep(0.01)
        return bowl(p, batch)

    outcome = descend(loss=slow, max_epochs=10_000, max_time=0.5)
    assert 0.4 < outcome.history["seconds"][-1] < 2.0
    assert outcome.history["learning_rate"][-1] < 0.02


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_restores_the_best_state_and_lowers_the_rate(bad):
    calls = []

    def fails_once(p, batch):
        calls.append(p["x"].detach().numpy().copy())
        return bowl(p, batch) * (bad if len(calls) == 23 else 1.0)

    outcome = descend(loss=fails_once)
    errors, rates = outcome.history["error"], outcome.history["learning_rate"]
    failed = errors.index(math.inf)
    assert failed == 5
    best = min(range(failed), key=errors.__getitem__)
    assert distance({"x": torch.tensor(calls[23])}) == pytest.approx(errors[best])  # where the next epoch began
    assert rates[failed + 1] < 0.3 * rates[failed - 1]
    assert np.isfinite(outcome.state["x"]).all()
    assert outcome.error < 1.0


def test_gradients_that_are_not_finite_never_reach_the_arrays():
    def root(p, batch):  # its slope at 0 is infinite
        return p["x"].abs().sqrt().sum() + 0.0 * batch

    outcome = descend(loss=root)
    np.testing.assert_array_equal(outcome.state["x"], 0.0)
    assert outcome.history["epoch"][-1] == training.MOST_FAILURES


def test_training_is_the_same_on_every_run():
    first, second = descend(), descend()
    np.testing.assert_array_equal(first.state["x"], second.state["x"])
    assert first.history["error"] == second.history["error"]


def test_a_device_that_fails_is_reported_with_what_was_learned():
    """A CPU build of torch fails on "cuda" as a GPU that disappeared does: with an error of no common type."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    state = {"x": np.ones(2)}
    with pytest.raises(DeviceLostError, match="device 'cuda' failed") as caught:
        train(state, Lesson({"x": 1.0}, bowl, distance, 1), schedule(), None, device="cuda")
    np.testing.assert_array_equal(caught.value.outcome.state["x"], 1.0)


def test_an_error_of_the_cpu_is_not_hidden():
    def broken(p, batch):
        raise RuntimeError("a mistake in the loss")

    with pytest.raises(RuntimeError, match="a mistake in the loss"):
        descend(loss=broken)
