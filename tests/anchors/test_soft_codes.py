"""Soft codes: NumPy and torch compute the same, every point keeps its mass, and odd arrays are refused."""

from __future__ import annotations

import numpy as np
import pytest

from asot import Distributions
from asot.anchors import soft_codes as codes_module
from asot.anchors.soft_codes import MAPS, SoftCodes

D_IN, K, HIDDEN = 3, 5, 7


def network(rng, outputs):
    return {
        "weight0": rng.normal(size=(D_IN, HIDDEN)),
        "bias0": rng.normal(size=HIDDEN),
        "weight1": 0.3 * rng.normal(size=(HIDDEN, outputs)),
        "bias1": 0.1 * rng.normal(size=outputs),
    }


def parameters(which, seed=0):
    rng = np.random.default_rng(seed)
    nearest = {"anchors": rng.normal(size=(K, D_IN)), "log_sharpness": np.array(0.5)}
    if which == "metric":
        return nearest | network(rng, K)
    if which == "paper's metric":
        return network(rng, K)
    return nearest | network(rng, 1) | {"log_step": np.array(2.0), "n_layers": np.array(4)}


def make(which, **changes):
    kind = "dictionary" if which == "dictionary" else "metric"
    return SoftCodes(kind, np.full(D_IN, 0.5), np.full(D_IN, 2.0), 3.0, parameters(which) | changes)


every_map = pytest.mark.parametrize("which", ["metric", "paper's metric", "dictionary"])


@every_map
def test_codes_are_rows_of_total_one(which):
    points = np.random.default_rng(1).normal(size=(200, D_IN)) * 4
    found = make(which).encode(points)
    assert found.shape == (200, K)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


@every_map
def test_torch_computes_the_codes_of_numpy(which):
    torch = pytest.importorskip("torch")
    soft = make(which)
    points = np.random.default_rng(2).normal(size=(50, D_IN))
    p = {name: torch.as_tensor(array) for name, array in soft.parameters.items()}
    u, z = (torch.as_tensor(part) for part in soft.standardize(points))
    found = MAPS[soft.kind](p, u, z, torch).numpy()
    np.testing.assert_allclose(found, soft.encode(points), rtol=1e-10, atol=1e-14)


@every_map
def test_histograms_are_masses_times_codes_in_chunks_of_any_size(which, monkeypatch):
    rng = np.random.default_rng(3)
    sizes = (1, 40, 2, 7, 1)
    D = Distributions.from_list([rng.normal(size=(n, D_IN)) for n in sizes], [rng.random(n) + 0.1 for n in sizes])
    soft = make(which)
    expected = [masses @ soft.encode(points) for points, masses in D]
    for n_bytes in (1, 1000, 2**24):
        monkeypatch.setattr(codes_module, "_CHUNK_BYTES", n_bytes)
        np.testing.assert_allclose(soft.histograms(D), expected, rtol=1e-12, atol=1e-15)


@every_map
@pytest.mark.parametrize("far", [1e3, 1e100, 1e300, -1e300])
def test_points_far_from_the_collection_have_codes(which, far):
    found = make(which).encode(np.full((1, D_IN), far))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(), 1.0)


def test_a_code_of_all_zeros_gives_its_mass_to_the_soft_nearest_anchor():
    silent = {name: np.zeros_like(array) for name, array in network(np.random.default_rng(0), 1).items()}
    silent["bias1"] = np.array([1e6])  # a threshold that no weight passes
    soft = make("dictionary", **silent, log_sharpness=np.array(6.0))
    points = np.random.default_rng(1).normal(size=(20, D_IN))
    u, z = soft.standardize(points)
    raw = codes_module.unrolled_codes(soft.parameters, u, z, np)
    assert not raw.any()
    found = soft.encode(points)
    nearest = ((u[:, None] - soft.parameters["anchors"]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found.argmax(axis=1), nearest)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_unrolled_steps_rebuild_points_better_than_the_start():
    soft = make("dictionary", n_layers=np.array(200), bias1=np.zeros(1), weight1=np.zeros((HIDDEN, 1)))
    u, z = soft.standardize(np.random.default_rng(1).normal(size=(30, D_IN)))
    p = soft.parameters
    p["log_step"] = np.log(np.linalg.norm(p["anchors"], 2) ** 2)
    gaps = []
    for n_layers in (1, 10, 200):
        code = codes_module.unrolled_codes(p | {"n_layers": np.array(n_layers)}, u, z, np)
        gaps.append(((code @ p["anchors"] - u) ** 2).sum())
    assert gaps[2] < gaps[1] < gaps[0]


BROKEN = {
    "an unknown kind": ("metrics", {}, "codes of the kind 'metrics' are unknown"),
    "NaN": ("metric", {"bias0": np.full(HIDDEN, np.nan)}, "'bias0' must hold finite numbers"),
    "text": ("metric", {"bias0": np.array(["a"] * HIDDEN)}, "'bias0' must hold finite numbers"),
    "a layer that does not fit": ("metric", {"weight1": np.zeros((HIDDEN + 1, K))}, "layer 1 of the codes' network"),
    "a bias of another size": ("metric", {"bias0": np.zeros(2)}, "layer 0 of the codes' network does not fit"),
    "anchors of another dimension": ("metric", {"anchors": np.zeros((K, 9))}, "anchors do not fit"),
    "other anchors": ("metric", {"anchors": np.zeros((K + 1, D_IN))}, "anchors do not fit"),
    "a sharpness that is an array": ("metric", {"log_sharpness": np.zeros(2)}, "need the number 'log_sharpness'"),
    "endless layers": ("dictionary", {"n_layers": np.array(10**9)}, "ask for 1000000000 layers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_arrays_that_make_no_map_are_refused(case):
    kind, changes, message = BROKEN[case]
    which = "dictionary" if kind == "dictionary" else "metric"
    with pytest.raises(ValueError, match=message):
        SoftCodes(kind, np.zeros(D_IN), np.ones(D_IN), 1.0, parameters(which) | changes)


@pytest.mark.parametrize(
    ("center", "spread", "unit"),
    [
        (np.zeros(D_IN), np.zeros(D_IN), 1.0),
        (np.zeros((1, D_IN)), np.ones(D_IN), 1.0),
        (np.zeros(D_IN), np.ones(D_IN), 0.0),
    ],
)
def test_a_scale_that_cannot_be_divided_by_is_refused(center, spread, unit):
    with pytest.raises(ValueError, match="center, spread and unit must be"):
        SoftCodes("metric", center, spread, unit, parameters("metric"))


def test_codes_without_a_network_are_refused():
    with pytest.raises(ValueError, match="'weight0' is missing"):
        SoftCodes("metric", np.zeros(D_IN), np.ones(D_IN), 1.0, {"anchors": np.zeros((K, D_IN))})
