"""Where ``device="auto"`` solves: the faster place of collections that were measured on both, by prices alone."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from asot.exact import price
from asot.exact.cuda.points_plan import MOST_POINTS
from asot.exact.price import RATES, Split, best_split, gpu_rate
from asot.run import devices
from tests.simt import numpy_as_cupy

THREADS = 16

MEASURED = (  # points, dimensions: pairs per second of an H200, and of sixteen threads beside it (gpu_sizes)
    (8, 2, 3.8e7, 1.0e7), (32, 2, 2.6e7, 1.2e6), (100, 2, 7.9e5, 1.4e5), (250, 2, 1.6e5, 1.8e4), (1000, 2, 7644, 346),
    (2048, 2, 653, 52), (64, 7, 3.5e6, 5.2e5), (150, 7, 4.3e5, 9.8e4), (700, 7, 1.1e4, 1958), (2048, 7, 401, 51),
    (16, 100, 1.6e7, 1.2e5), (100, 100, 1.7e5, 8.7e4), (400, 100, 1.0e4, 5712), (1448, 100, 345, 208),
)  # fmt: skip


@pytest.fixture
def steep(monkeypatch):
    """A GPU that is slow with more than 150 points."""
    monkeypatch.setattr(
        price, "RATES", ((16, 5e7), (32, 1.2e7), (100, 4.3e5), (150, 6.2e4), (250, 3.6e3), (400, 200.0))
    )


def split_of(sizes, dim=2, jobs=THREADS, n_pairs=None):
    sizes = np.asarray(sizes)
    pairs = len(sizes) * (len(sizes) - 1) / 2 if n_pairs is None else n_pairs
    return best_split(sizes, sizes, pairs, dim, jobs, MOST_POINTS)


@pytest.mark.parametrize(("points", "dim", "gpu", "cpu"), MEASURED)
def test_many_pairs_of_a_measured_size_go_where_they_are_at_most_a_fifth_slower(points, dim, gpu, cpu):
    split = split_of(np.full(300, points), dim)
    taken = gpu if split.gpu < split.cpu else cpu
    assert 1.2 * taken >= max(gpu, cpu)


def test_rates_are_the_measured_ones_and_fall_with_the_size():
    sizes = np.array([size for size, _ in RATES], dtype=float)
    assert np.allclose(gpu_rate(sizes), [rate for _, rate in RATES])
    assert (np.diff(gpu_rate(np.arange(8.0, 3000.0))) < 0).all()
    assert np.array_equal(gpu_rate(np.array([1.0])), gpu_rate(np.array([8.0])))


def test_large_distributions_of_a_mixed_collection_stay_on_the_cpu(steep):
    mixed = split_of([30] * 2000 + [500] * 5)
    assert mixed.most_points == 30
    assert mixed.gpu < 0.5 * mixed.cpu
    assert split_of([30] * 2005).most_points == 30
    alike = split_of([100] * 300 + [120] * 300)
    assert alike.most_points == 120


def test_no_split_is_worse_than_all_of_it_on_the_gpu(steep):
    sizes = np.random.default_rng(0).integers(5, 500, 400)
    best = split_of(sizes)
    everything = np.sum(1.0 / gpu_rate(np.sqrt(np.outer(sizes, sizes)))) / 2
    assert best.gpu < everything
    assert best.most_points < sizes.max()


def test_a_size_beyond_all_kernels_is_never_counted_on_the_gpu():
    assert split_of([MOST_POINTS + 1] * 50).gpu == np.inf
    assert split_of([20] * 1000 + [5000]).most_points == 20


def test_many_sizes_are_counted_as_few():
    sizes = np.random.default_rng(1).integers(10, 200, 3000)
    exact = np.outer(np.ones(3000), sizes)[:600, :600].T  # 600 distributions are enough to compare with
    some = split_of(sizes[:600])
    one_by_one = np.sum(1.0 / gpu_rate(np.sqrt(exact * exact.T))) / 2
    assert some.gpu < 1.2 * one_by_one + 0.1


def test_no_pairs():
    assert split_of([5], n_pairs=0).cpu == 0.0


@pytest.mark.parametrize(("awake", "installed"), [(False, True), (False, False), (True, True)])
def test_a_gpu_that_has_to_start_must_be_worth_it(monkeypatch, tmp_path, awake, installed):
    numpy_as_cupy.install(monkeypatch)
    monkeypatch.setattr(devices.ahead, "archive", lambda: tmp_path if installed else None)
    monkeypatch.setattr(devices, "_awake", awake)
    starts = 0.0 if awake else devices.START_SECONDS + (0.0 if installed else devices.COMPILE_SECONDS)
    for cpu, gpu in ((0.5, 0.1), (2.0, 0.1), (5.0, 0.1), (9.0, 1.0), (0.02, 0.01)):
        chosen = devices.choose("auto", needs=("cupy",), cpu_seconds=cpu, gpu_seconds=gpu).gpus
        assert bool(chosen) == (cpu >= gpu + starts)
        monkeypatch.setattr(devices, "_awake", awake)


def test_auto_leaves_large_pairs_to_the_cpu_and_keeps_every_value(monkeypatch):
    numpy_as_cupy.install(monkeypatch)
    monkeypatch.setattr(devices, "_awake", True)
    monkeypatch.setattr("asot.exact.auto.best_split", lambda *given: Split(1.0, 0.0, most_points=6))
    monkeypatch.setattr("asot.distances.few_distances", lambda *given: None)
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in (6, 5, 40, 6, 4, 6, 3)])
    found, expected = (asot.pairwise_exact(D, device=device) for device in ("auto", "cpu"))
    assert found.info["n_solved_on_cpu"] == 6
    assert np.allclose(found.values, expected.values, rtol=1e-12)
    named = asot.pairwise_exact(D, device="cuda")
    assert "n_solved_on_cpu" not in named.info
