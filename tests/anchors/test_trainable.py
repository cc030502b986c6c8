"""Learned anchors earn their keep: better than k-means, metric costs, and training that survives odd input."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest

import asot
from asot import AnchorSpace, DictionaryAnchors, Distributions, KMeansAnchors, MetricAnchors
from asot.anchors import trainable as learned
from asot.exact.cost_check import is_metric
from asot.run import devices

torch = pytest.importorskip("torch")

BOTH = [MetricAnchors, DictionaryAnchors]
both = pytest.mark.parametrize("learner", BOTH)
every_objective = pytest.mark.parametrize("objective", ["distance", "paper"])
QUICK = {"max_epochs": 3, "n_pairs": 300, "random_state": 0, "device": "cpu"}


def clouds(n, seed=0, d=3):
    """Clouds of 10 to 30 points: two clusters of their own place and width each."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in rng.integers(10, 31, n):
        centers = rng.normal(size=(2, d)) * 2.0
        parts.append(centers[rng.integers(2, size=size)] + rng.normal(size=(size, d)) * rng.uniform(0.2, 1.0))
    return Distributions.from_list(parts)


@pytest.fixture(scope="module")
def collection():
    return clouds(80)


def error(space, D):
    exact = asot.pairwise_exact(D).values
    return np.sqrt(np.mean((asot.pairwise(D, space=space, estimate="anchor").values - exact) ** 2)) / exact.mean()


# --------------------------------------------------------------------------------------------------------- the point


@both
def test_learned_anchors_are_far_better_than_those_of_k_means(learner, collection):
    unseen = clouds(40, seed=1)
    plain = KMeansAnchors(12, random_state=0).fit(collection).space_
    space = learner(12, max_epochs=25, random_state=0, device="cpu").fit(collection).space_
    assert error(space, collection) < 0.6 * error(plain, collection)
    assert error(space, unseen) < 0.8 * error(plain, unseen)


@both
@every_objective
def test_training_never_ends_worse_than_it_began(learner, objective, collection):
    fitted = learner(8, objective=objective, **QUICK).fit(collection)
    assert fitted.validation_error_ == min(fitted.history_["error"])
    assert fitted.n_epochs_ == 3
    assert set(fitted.history_) == {"epoch", "loss", "error", "learning_rate", "seconds"}


@both
@every_objective
def test_the_cost_is_a_metric_so_that_the_fast_solver_applies(learner, objective, collection):
    space = learner(9, objective=objective, **QUICK).fit(collection).space_
    assert is_metric(space.cost)
    assert not space.is_euclidean


@both
def test_a_learned_space_keeps_the_anchors_where_it_began(learner, collection):
    fitted = learner(8, **QUICK).fit(collection)
    nearest = fitted.space_.nearest
    assert nearest.anchors.shape == (8, collection.dim)
    assert not np.array_equal(nearest.anchors, fitted.space_.anchors)
    exact = asot.pairwise_exact(collection).values
    bounded = asot.pairwise(collection, space=fitted, bounds=True, estimate="anchor")
    assert ((bounded.lower <= exact) & (exact <= bounded.upper)).all()
    again = fitted.set_params(warm_start=True).fit(collection)
    np.testing.assert_array_equal(again.space_.nearest.anchors, nearest.anchors)


@both
@every_objective
def test_histograms_keep_all_mass(learner, objective, collection):
    fitted = learner(8, objective=objective, **QUICK).fit(collection)
    histograms = fitted.transform(collection)
    assert histograms.shape == (80, 8)
    assert histograms.min() >= 0
    np.testing.assert_allclose(histograms.sum(axis=1), 1.0, rtol=1e-12)


def test_the_loss_falls_with_the_slope_that_the_envelope_theorem_gives(collection):
    """The gradient of the loss in anchors, embedding and sharpness, against differences of the loss itself."""
    fitted = MetricAnchors(5, hidden=4, **QUICK).fit(collection[:20])
    seen = {}

    def look(state, lesson, *rest, **options):
        seen.update(loss=lesson.loss_of, state=state)
        return learned.Outcome(state, 0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned, "train", look)
        MetricAnchors(5, hidden=4, **QUICK).fit(collection[:20])
    p = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in fitted._state.items()}
    seen["loss"](p, 0).backward()
    rng = np.random.default_rng(0)
    for name in ("anchors", "embedding", "log_sharpness"):
        direction = torch.tensor(rng.normal(size=p[name].shape))
        step = 1e-5
        with torch.no_grad():
            ends = [seen["loss"]({**p, name: p[name] + sign * step * direction}, 0).item() for sign in (1, -1)]
        slope = float((p[name].grad * direction).sum())
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-6)


@both
def test_the_paper_describes_its_own_spaces(learner, collection):
    space = learner(7, objective="paper", **QUICK).fit(collection).space_
    if learner is MetricAnchors:
        assert "anchors" not in space.codes.parameters  # codes come from the network alone
    else:
        np.testing.assert_allclose(space.cost, AnchorSpace(space.anchors).cost, rtol=1e-9)
        assert space.anchors.min() < 0


# ----------------------------------------------------------------------------------------------------------- training


@both
def test_an_integer_seed_gives_the_same_space_on_every_run(learner, collection):
    torch.manual_seed(1)
    first = learner(8, **QUICK).fit(collection)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = learner(8, **QUICK).fit(collection)
    np.testing.assert_array_equal(first.space_.cost, second.space_.cost)
    np.testing.assert_array_equal(first.transform(collection), second.transform(collection))
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's random numbers are touched


@both
def test_warm_start_goes_on_where_the_last_fit_ended(learner, collection):
    fitted = learner(8, warm_start=True, **QUICK).fit(collection)
    reached = fitted.validation_error_
    fitted.set_params(learning_rate=1e-6).fit(collection)
    assert len(fitted.history_["error"]) == 8
    assert fitted.history_["error"][4] == pytest.approx(reached, rel=0.3)  # the held-out pairs are others
    with pytest.raises(ValueError, match="warm_start=True continues in 3 dimensions, but the collection is in 2"):
        fitted.fit(clouds(20, d=2))
    for change in ({"n_anchors": 9}, {"objective": "paper"}):
        with pytest.raises(ValueError, match="continues with n_anchors=8 and objective='distance'; set it to False"):
            fitted.set_params(**change).fit(collection)
        fitted.set_params(n_anchors=8, objective="distance")


def test_new_distributions_never_change_the_space(collection):
    fitted = MetricAnchors(8, **QUICK).fit(collection)
    before = fitted.space_
    fitted.transform(clouds(10, seed=3))
    assert fitted.space_ is before


def test_training_ends_in_time(collection):
    fitted = MetricAnchors(8, max_epochs=100_000, patience=100_000, max_time=2.0, random_state=0).fit(collection)
    assert fitted.history_["seconds"][-1] < 4.0


def test_progress_is_reported(collection, capsys):
    told = []
    MetricAnchors(8, progress=lambda done, total: told.append((done, total)), **QUICK).fit(collection)
    assert told == [(1, 3), (2, 3), (3, 3)]
    MetricAnchors(8, progress=True, **QUICK).fit(collection)
    assert "loss" in capsys.readouterr().err


def test_a_learned_space_is_saved_and_loaded(collection, tmp_path):
    space = DictionaryAnchors(8, **QUICK).fit(collection).space_
    space.save(tmp_path / "space.npz")
    back = AnchorSpace.load(tmp_path / "space.npz")
    np.testing.assert_array_equal(back.histograms(collection), space.histograms(collection))


def test_a_saved_space_is_used_without_torch(collection, tmp_path):
    MetricAnchors(8, **QUICK).fit(collection).space_.save(tmp_path / "space.npz")
    job = f"import sys, asot; space = asot.AnchorSpace.load({str(tmp_path / 'space.npz')!r}); space.encode([[0, 0, 0]])"
    code = f"import sys; sys.path[:] = {sys.path!r}; {job}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def peak_bytes(function):
    """Most memory that NumPy and Python held at a time, beyond what they held before."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@both
def test_memory_does_not_grow_with_the_number_of_points(learner, monkeypatch):
    monkeypatch.setattr(learned, "START_POINTS", 2000)
    monkeypatch.setattr(asot.anchors.soft_codes, "_CHUNK_BYTES", 2**18)
    rng = np.random.default_rng(0)
    small, large = (Distributions(rng.normal(size=(50 * n, 4)), 50 * np.arange(n + 1)) for n in (2000, 10_000))
    fits, transforms = [], []
    for D in (small, small, large):  # the first pays for what is loaded once
        fitted = learner(6, n_pairs=200, max_epochs=1, random_state=0, device="cpu")
        fits.append(peak_bytes(lambda fitted=fitted, D=D: fitted.fit(D)))
        transforms.append(peak_bytes(lambda fitted=fitted, D=D: fitted.transform(D)))
    more_points = large.points.nbytes - small.points.nbytes
    assert fits[2] < fits[1] + 0.2 * more_points
    assert transforms[2] < transforms[1] + 0.2 * more_points  # the histograms themselves are 0.03 of it


# ---------------------------------------------------------------------------------------------------------- bad input


@both
def test_without_torch_the_message_says_what_to_install(learner, collection, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"{learner.__name__} is learned with PyTorch.*pip install 'asot\[torch\]'"):
        learner(4).fit(collection)


@both
@every_objective
def test_fewer_distinct_points_than_anchors_become_the_anchors(learner, objective):
    D = Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]], [[0.0], [3.0], [3.0]]] * 4)
    with pytest.warns(UserWarning, match="only 3 distinct points"):
        space = learner(9, objective=objective, **QUICK).fit(D).space_
    assert space.n_anchors == 3
    if objective == "distance" or learner is DictionaryAnchors:
        np.testing.assert_allclose(
            asot.pairwise(D, space=space, estimate="anchor").values, asot.pairwise_exact(D).values, atol=1e-5
        )


@both
@every_objective
def test_constant_features_do_no_harm(learner, objective, collection):
    constant = np.full((len(collection.points), 1), 1e6)
    D = Distributions(np.hstack([collection.points, constant]), collection.offsets)
    fitted = learner(8, objective=objective, **QUICK).fit(D)
    assert np.isfinite(fitted.space_.cost).all()
    np.testing.assert_allclose(fitted.space_.anchors[:, 3], 1e6)


@both
def test_equal_points_leave_nothing_to_learn(learner):
    D = Distributions.from_list([np.ones((4, 2))] * 6)
    with pytest.warns(UserWarning, match="all distances are 0, so there is nothing to learn"):
        space = learner(**QUICK).fit(D).space_
    np.testing.assert_array_equal(asot.pairwise(D, space=space, estimate="anchor").values, 0.0)


@both
@pytest.mark.parametrize("scales", [(1e-6, 1.0, 1e6), (1e-6, 1e-6, 1e-6), (1e6, 1e6, 1e6)])
def test_features_of_any_scale_are_learned(learner, scales, collection):
    D = Distributions(collection.points * np.array(scales), collection.offsets)
    fitted = learner(8, max_epochs=12, n_pairs=1000, random_state=0, device="cpu").fit(D)
    assert fitted.validation_error_ < 0.95 * fitted.history_["error"][0]
    assert error(fitted.space_, D) < 1.1 * error(KMeansAnchors(8, random_state=0).fit(D).space_, D)


@both
def test_a_single_distribution_keeps_the_anchors_of_k_means(learner, collection):
    with pytest.warns(UserWarning, match="a single distribution has no distances to learn from"):
        fitted = learner(4, **QUICK).fit(collection[:1])
    assert fitted.transform(collection).shape == (80, 4)


@both
@every_objective
def test_two_distributions_are_enough(learner, objective, collection):
    fitted = learner(4, objective=objective, **QUICK).fit(collection[:2])
    assert np.isfinite(fitted.validation_error_)


@both
def test_a_device_that_disappears_hands_over_to_the_cpu(learner, collection, monkeypatch):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: "cuda" if device != "cpu" else None)
    monkeypatch.setattr(learned.KMeansAnchors, "_torch_device", lambda self, D, k: None)
    options = QUICK | {"device": "auto"}
    with pytest.warns(UserWarning, match="device 'cuda' failed .* while training, which continues on the CPU"):
        fitted = learner(6, **options).fit(collection)
    assert fitted.n_epochs_ == 3
    assert fitted.transform(collection).shape == (80, 6)
    named = learner(6, **(QUICK | {"device": "cuda", "warm_start": True}))
    with pytest.raises(RuntimeError, match="What was learned is kept: fit again with device='cpu' and warm_start=True"):
        named.fit(collection)
    monkeypatch.undo()
    assert named.set_params(device="cpu").fit(collection).n_epochs_ == 3


WRONG = {
    "objective": ("points", "objective must be one of 'distance', 'paper'; found 'points'"),
    "max_epochs": (0, "max_epochs must be a whole number ≥ 1; found 0"),
    "learning_rate": (-1.0, "learning_rate must be a number > 0; found -1.0"),
    "max_time": (0, "max_time must be None or a number of seconds > 0; found 0"),
    "validation_fraction": (1.5, "validation_fraction must be a number between 0 and 1; found 1.5"),
    "n_pairs": (0.5, "n_pairs must be a whole number ≥ 1; found 0.5"),
    "batch_size": ("many", "batch_size must be a whole number ≥ 1; found 'many'"),
    "hidden": ((8, 0), "hidden must be a whole number ≥ 1; found 0"),
    "patience": (None, "patience must be a whole number ≥ 1; found None"),
    "device": ("tpu", "unknown device 'tpu'"),
    "n_anchors": (0, "n_anchors must be a whole number ≥ 1; found 0"),
}


@both
@pytest.mark.parametrize("name", WRONG)
def test_parameters_are_checked_in_fit_with_what_was_found(learner, name, collection):
    value, message = WRONG[name]
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        learner(**{name: value}).fit(collection)


def test_the_dictionary_checks_its_own_parameters(collection):
    with pytest.raises(ValueError, match="n_layers must be a whole number ≥ 1; found -1"):
        DictionaryAnchors(n_layers=-1).fit(collection)
    with pytest.raises(ValueError, match="loss_weights must be three numbers ≥ 0"):
        DictionaryAnchors(loss_weights=(1.0, 2.0), objective="paper").fit(collection)


def test_nothing_is_warned_about_in_an_ordinary_fit(collection):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        MetricAnchors(8, **QUICK).fit(collection)
    assert [str(warning.message) for warning in told] == []
