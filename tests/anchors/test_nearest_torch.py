"""Nearest anchors in torch, here on its CPU device: the answers of the NumPy path, in chunks of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot
from asot import AnchorSpace, FixedAnchors
from asot.anchors import nearest_torch as on_device
from asot.anchors import space as space_module
from asot.run import devices

torch = pytest.importorskip("torch")


@pytest.fixture
def torch_on_cpu(monkeypatch):
    """Take torch's CPU device for a GPU."""
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: None if device == "cpu" else "cpu")


def assign_in_torch(anchors, points):
    """What `AnchorSpace.assign` does on a device."""
    return on_device.nearest(points, anchors, "cpu")


# ------------------------------------------------------------------------------------------- the same answers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k", "d"), [(1, 1, 1), (255, 3, 2), (257, 65, 5), (1000, 7, 9), (500, 23, 140)])
def test_points_go_where_numpy_sends_them(n, k, d, dtype, torch_on_cpu):
    rng = np.random.default_rng([n, k])
    points, space = rng.normal(size=(n, d)).astype(dtype), AnchorSpace(rng.normal(size=(k, d)))
    index, distance = space.assign(points, device="cuda")
    expected_index, expected_distance = space.assign(points)
    np.testing.assert_array_equal(index, expected_index)
    np.testing.assert_allclose(distance, expected_distance, rtol=1e-12)
    assert (index.dtype, distance.dtype) == (np.int64, np.float64)


@given(st.data())
@settings(max_examples=40)
def test_of_equally_near_anchors_the_first_is_taken(data):
    dim = data.draw(st.integers(1, 3))
    rows = st.lists(st.lists(st.integers(0, 4), min_size=dim, max_size=dim), min_size=1, max_size=20)
    points, anchors = np.array(data.draw(rows), dtype=float), np.array(data.draw(rows), dtype=float)
    index, distance = assign_in_torch(anchors, points)
    np.testing.assert_array_equal(index, cdist(points, anchors).argmin(axis=1))
    np.testing.assert_allclose(distance, cdist(points, anchors).min(axis=1), rtol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9])
def test_distances_come_from_differences(offset):
    """Anchors that differ in their last digits, far from the origin: a product alone cannot tell them apart."""
    rng = np.random.default_rng(0)
    points = offset + rng.normal(size=(400, 6))
    anchors = points[rng.integers(400, size=30)] + 1e-6 * rng.normal(size=(30, 6))
    anchors = np.concatenate([anchors, anchors + 1e-14 * rng.normal(size=(30, 6))])
    index, distance = assign_in_torch(anchors, points)
    exact = np.sqrt(((points[:, None] - anchors.astype(np.longdouble)) ** 2).sum(axis=2))
    np.testing.assert_allclose(distance, exact[np.arange(400), index].astype(float), rtol=1e-14)
    np.testing.assert_allclose(distance, exact.min(axis=1).astype(float), rtol=1e-14)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-160, 1e160, 1e300, 1e305])
def test_the_nearest_anchor_is_found_at_any_scale(scale):
    x = np.array([[-3.0], [0.0], [1.0], [4.0]])
    index, distance = assign_in_torch(scale * np.array([[0.0], [5.0]]), scale * x)
    np.testing.assert_array_equal(index, [0, 0, 0, 1])
    np.testing.assert_allclose(distance / scale, [3.0, 0.0, 1.0, 1.0], rtol=1e-12)


def test_points_of_all_scales_at_once():
    points = np.array([[1e-200], [3e-170], [1.0], [1e200]])
    anchors = np.array([[0.0], [1e-170], [2.0], [1e190]])
    np.testing.assert_array_equal(assign_in_torch(anchors, points)[0], AnchorSpace(anchors).assign(points)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_size_of_chunks_changes_no_bit(monkeypatch, dtype):
    rng = np.random.default_rng(1)
    points, anchors = rng.normal(size=(800, 17)).astype(dtype), rng.normal(size=(40, 17))
    anchors[20:] = anchors[:20]  # so that many anchors are equally near
    expected = assign_in_torch(anchors, points)
    for scratch in (2**25, 2**20, 2**15, 2**10):
        monkeypatch.setattr(on_device, "SCRATCH", scratch)
        np.testing.assert_array_equal(assign_in_torch(anchors, points), expected)


# ------------------------------------------------------------------------------------------- histograms and radii


def test_histograms_and_radii_are_those_of_the_cpu(collection, torch_on_cpu):
    space = AnchorSpace(np.random.default_rng(1).normal(size=(13, 3)))
    np.testing.assert_array_equal(space.histograms(collection, device="cuda"), space.histograms(collection))
    np.testing.assert_allclose(space.radii(collection, device="cuda"), space.radii(collection), rtol=1e-14)


def test_a_learner_encodes_on_its_device(collection, monkeypatch):
    asked = []
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: asked.append(device))
    FixedAnchors(np.eye(3), device="cuda:3").fit(collection).transform(collection)
    assert asked == ["cuda:3"]


def test_auto_leaves_small_work_to_the_cpu(collection, monkeypatch):
    asked = []
    monkeypatch.setattr(devices, "torch_device", lambda device, worth_it: asked.append((device, worth_it)))
    AnchorSpace(np.eye(3)).histograms(collection)
    monkeypatch.setattr(space_module, "WORTH_A_DEVICE", len(collection.points) * 9)
    AnchorSpace(np.eye(3)).histograms(collection)
    assert asked == [("auto", False), ("auto", True)]


# ------------------------------------------------------------------------------------------- memory, mistakes


def refuse_beyond(monkeypatch, module, most):
    """Let the work on chunks of more than so many points run out of memory; how many points it was tried with."""
    tried = []
    original = module.scaled

    def scaled(x, exponent):
        tried.append(len(x))
        if len(x) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(x, exponent)

    monkeypatch.setattr(module, "scaled", scaled)
    return tried


def test_a_device_that_runs_out_of_memory_gets_smaller_chunks(monkeypatch):
    rng = np.random.default_rng(2)
    points, anchors = rng.normal(size=(1000, 4)), rng.normal(size=(5, 4))
    expected = assign_in_torch(anchors, points)
    tried = refuse_beyond(monkeypatch, on_device, 300)
    np.testing.assert_array_equal(assign_in_torch(anchors, points), expected)
    assert tried == [1000, 500, 250, 250, 250, 250]


def test_a_device_without_memory_says_what_to_do(monkeypatch):
    tried = refuse_beyond(monkeypatch, on_device, 10)
    with pytest.raises(MemoryError, match=r"device 'cpu' has too little free memory.*or use device='cpu'"):
        assign_in_torch(np.eye(3), np.ones((1000, 3)))
    assert tried == [1000, 500, 250, 125, 64]


def test_auto_goes_to_the_cpu_when_the_device_has_no_memory(monkeypatch, torch_on_cpu):
    refuse_beyond(monkeypatch, on_device, 10)
    space, points = AnchorSpace(np.eye(3)), np.random.default_rng(3).normal(size=(1000, 3))
    np.testing.assert_array_equal(space.assign(points, device="auto"), space.assign(points))
    with pytest.raises(MemoryError, match="too little free memory"):
        space.assign(points, device="cuda")


def test_devices_that_cannot_be_used_are_refused(collection):
    space = AnchorSpace(np.eye(3))
    with pytest.raises(ValueError, match="unknown device 'gpu'; use 'auto', 'cpu', 'cuda' or 'cuda:N'"):
        space.assign(collection.points, device="gpu")
    with pytest.raises(ValueError, match=r"device='cuda:99' cannot be used: .*device='cpu'"):
        space.histograms(collection, device="cuda:99")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_that_are_not_finite_are_refused(value, dtype, torch_on_cpu):
    points = np.zeros((4, 3), dtype=dtype)
    points[2, 1] = value
    for device in ("cpu", "cuda"):
        with pytest.raises(ValueError, match=f"point 2 is {value} in coordinate 1; points must be finite"):
            asot.AnchorSpace(np.eye(3)).assign(points, device=device)


def test_no_points_have_no_anchors(torch_on_cpu):
    index, distance = AnchorSpace(np.eye(3)).assign(np.empty((0, 3)), device="cuda")
    assert (len(index), len(distance)) == (0, 0)
