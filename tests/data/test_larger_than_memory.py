"""Collections that are larger than memory: mapped files without a copy, blocks of Zarr arrays, anchors of a sample."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import asot
from asot.data.reading import stretches

SIZES = np.random.default_rng(0).integers(1, 40, 300)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
POINTS = np.random.default_rng(1).normal(size=(OFFSETS[-1], 4)).astype(np.float32)
MASSES = np.random.default_rng(2).random(OFFSETS[-1])
WHOLE = asot.Distributions(POINTS, OFFSETS, MASSES)


@pytest.fixture
def mapped(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    return np.load(tmp_path / "points.npy", mmap_mode="r")


def test_points_of_a_file_mapped_for_reading_are_not_copied(mapped):
    D = asot.Distributions(mapped, OFFSETS, MASSES)
    assert np.shares_memory(D.points, mapped)
    assert D == WHOLE


def test_a_file_mapped_for_writing_is_copied_because_it_could_change(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r+")
    assert not np.shares_memory(asot.Distributions(mapped, OFFSETS).points, mapped)


@pytest.mark.parametrize("most", [1, 39, 40, 1000, 10**9])
def test_stretches_are_all_distributions_each_once(most):
    found = list(stretches(OFFSETS, most))
    assert [low for low, _ in found] == [0, *(high for _, high in found[:-1])]
    assert found[-1][1] == 300
    assert all(high == low + 1 or OFFSETS[high] - OFFSETS[low] <= most for low, high in found)


def sliced_arrays(tmp_path):
    zarr = pytest.importorskip("zarr")
    points = zarr.create_array(str(tmp_path / "p.zarr"), data=POINTS, chunks=(100, 4))
    masses = zarr.create_array(str(tmp_path / "m.zarr"), data=MASSES, chunks=(100,))
    return points, masses


def test_blocks_of_zarr_arrays_are_the_collection(tmp_path):
    seen = []
    for place, block in asot.Distributions.blocks(*_with_offsets(sliced_arrays(tmp_path)), max_points=500):
        assert block == asot.Distributions(
            POINTS[OFFSETS[place.start] : OFFSETS[place.stop]],
            OFFSETS[place.start : place.stop + 1] - OFFSETS[place.start],
            MASSES[OFFSETS[place.start] : OFFSETS[place.stop]],
            ids=np.arange(place.start, place.stop),
        )
        seen.append(place)
    assert len(seen) > 10
    assert (seen[0].start, seen[-1].stop) == (0, 300)


def _with_offsets(arrays):
    return arrays[0], OFFSETS, arrays[1]


def test_a_fault_in_a_block_is_named_by_its_place_in_the_whole():
    masses = MASSES.copy()
    masses[OFFSETS[200]] = -1.0
    with pytest.raises(ValueError, match=r"\('200'\) has a negative mass"):
        list(asot.Distributions.blocks(POINTS, OFFSETS, masses, max_points=500))
    with pytest.raises(ValueError, match="one mass for each of the"):
        list(asot.Distributions.blocks(POINTS, OFFSETS, masses[:-1]))
    with pytest.raises(ValueError, match="max_points"):
        list(asot.Distributions.blocks(POINTS, OFFSETS, max_points=0))


def test_histograms_in_stretches_are_the_same_to_the_last_bit(monkeypatch):
    space = asot.KMeansAnchors(6, random_state=0).fit(WHOLE).space_
    expected = space.histograms(WHOLE)
    monkeypatch.setattr("asot.anchors.space.POINTS_AT_A_TIME", 700)
    np.testing.assert_array_equal(space.histograms(WHOLE), expected)
    blocks = asot.Distributions.blocks(POINTS, OFFSETS, MASSES, max_points=500)
    np.testing.assert_array_equal(np.concatenate([space.histograms(block) for _, block in blocks]), expected)


def test_histograms_of_a_mapped_file_take_little_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "many.npy", np.random.default_rng(3).normal(size=(60_000, 2)))
    D = asot.Distributions(np.load(tmp_path / "many.npy", mmap_mode="r"), np.arange(0, 60_001, 20))
    space = asot.KMeansAnchors(6, random_state=0).fit(D[:50]).space_
    monkeypatch.setattr("asot.anchors.space.POINTS_AT_A_TIME", 2000)
    space.histograms(D)  # loads compiled code
    tracemalloc.start()
    histograms = space.histograms(D)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < histograms.nbytes + 400_000  # anchors and distances of all points alone would be 960,000 bytes


def test_anchors_of_a_sample_fit_all_points_nearly_as_well():
    def inertia(space):
        return WHOLE.masses @ space.assign(WHOLE.points)[1] ** 2 / len(WHOLE)

    full = asot.KMeansAnchors(6, random_state=0).fit(WHOLE)
    some = asot.KMeansAnchors(6, random_state=0, max_points=1500).fit(WHOLE)
    assert inertia(some.space_) < 1.15 * inertia(full.space_)
    assert some.inertia_ != full.inertia_
    again = asot.KMeansAnchors(6, random_state=0, max_points=1500).fit(WHOLE)
    np.testing.assert_array_equal(again.space_.anchors, some.space_.anchors)
    every = asot.KMeansAnchors(6, random_state=0, max_points=10**6).fit(WHOLE)
    np.testing.assert_array_equal(every.space_.anchors, full.space_.anchors)


def test_a_sample_keeps_the_number_of_anchors_of_the_whole():
    learner = asot.KMeansAnchors(random_state=0, max_points=1000).fit(WHOLE)
    assert learner.space_.n_anchors == round(SIZES.mean())
    vocabulary = asot.Distributions.from_weights(np.eye(30)[:20] + 0.1, POINTS[:30])
    assert asot.KMeansAnchors(3, random_state=0, max_points=100).fit(vocabulary).space_.n_anchors == 3


def test_mini_batches_of_blocks():
    learner = asot.KMeansAnchors(6, random_state=0)
    for _, block in asot.Distributions.blocks(POINTS, OFFSETS, MASSES, max_points=1000):
        learner.partial_fit(block)
    assert learner.transform(WHOLE).shape == (300, 6)
