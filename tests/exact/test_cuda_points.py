"""The kernels that solve the original problems on a GPU, run by the emulator: against the CPU's solver and HiGHS."""

from __future__ import annotations

import functools
import shutil
import subprocess

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import asot
from asot.data.distinct import sparse_histograms
from asot.exact.cuda.points import ExactPointsCuda, Kernels, Limits
from asot.exact.cuda.points_plan import (
    BLOCKS,
    CLASSES,
    CLASSES_FROM_COORDINATES,
    MOST_POINTS,
    REGISTERS,
    REGISTERS_PER_THREAD,
    BlockClass,
    classes_for,
    narrow_class,
    wide_class,
)
from asot.exact.points import ExactPoints
from asot.gpu import cuda
from asot.ground.metrics import prepare_metric
from asot.run.pairs import make_pairs
from asot.run.protocols import Status
from asot.search.on_gpus import profiles_of
from tests.oracles import highs_values
from tests.simt import host, numpy_as_cupy

NARROW, LONG, WIDE = CLASSES[0], narrow_class(2, low_is_near=True, most_warps=4), wide_class(2, 2, most_warps=4)
BLOCK, TWO_WARPS = BlockClass(64, 64, 32), BlockClass(64, 96, 64)
EVERY_KERNEL = pytest.mark.parametrize(
    ("own", "most"),
    [(NARROW, 32), (LONG, 32), (WIDE, 64), (BLOCK, 64), (TWO_WARPS, 64)],
    ids=["narrow", "long", "wide", "block", "two warps"],
)
KINDS = ("normal", "grid", "line", "uniform", "few")
SHARED_MEMORY = {"turing": 64 * 1024, "ada": 99 * 1024, "ampere": 163 * 1024, "hopper": 227 * 1024}
TOL = 1e-12
TABLE = {"TABLE": 1, "METRIC": 0, "BOUNDED": 0}


@pytest.fixture
def gpu(monkeypatch):
    if host.COMPILER is None:
        pytest.skip("g++ is not installed, and kernels are compiled with it")
    return functools.partial(numpy_as_cupy.install, monkeypatch)


def collection(kind, n, fewest, most, seed=0):
    """Distributions with trouble of a kind: ties of distances or masses, points in common. The first two are equal."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    arrays, masses = [], []
    for size in rng.integers(fewest, most + 1, n):
        points = rng.normal(size=(size, 3))
        if kind == "grid":
            points = rng.integers(0, 5, size=(size, 3)).astype(float)
        if kind == "line":
            points = np.round(rng.normal(size=(size, 1)) * [20.0, 0.0, 0.0])
        if kind == "few":
            points = rng.integers(0, 2, size=(size, 3)).astype(float)
        arrays.append(points)
        masses.append(np.ones(size) if kind in ("uniform", "grid") else rng.dirichlet(np.full(size, 0.3)) + 1e-13)
    arrays[1], masses[1] = arrays[0], masses[0]
    return asot.Distributions.from_list(arrays, masses=masses)


def solve(D, classes, *, metric="euclidean", table=True, pairs=None):
    """Answers of the kernels and of the CPU for all pairs of a collection."""
    histograms = sparse_histograms(D)
    ground = prepare_metric(histograms.points, metric)
    pairs = make_pairs(len(D), None, pairs)
    solver = ExactPointsCuda(
        histograms, ground, n_pairs=10**9, kernels=Kernels(table_bytes=None if table else 0, classes=classes)
    )
    found = solver.on(numpy_as_cupy.DEVICE).solve(pairs, 0, len(pairs))
    expected = ExactPoints(histograms, ground).solve(*pairs.indices(0, len(pairs)), np.zeros(1, np.int64))
    return found, expected.values


def assert_optimal(found, expected):
    assert (found.status.get() == Status.OPTIMAL).all()
    assert np.abs(found.values.get() - expected).max() <= TOL * expected.max()


@pytest.mark.parametrize("kind", KINDS)
@EVERY_KERNEL
def test_values_are_the_cpus(gpu, kind, own, most):
    gpu()
    found, expected = solve(collection(kind, 8, 1, most), (own,))
    assert_optimal(found, expected)
    assert found.values[0] == 0.0  # of twins


def test_values_are_those_of_highs(gpu):
    gpu()
    D = collection("normal", 6, 2, 20)
    found, _ = solve(D, (NARROW,))
    pooled, owner = D.points, np.repeat(np.arange(len(D)), D.sizes)
    A = np.zeros((len(D), len(pooled)))
    A[owner, np.arange(len(pooled))] = D.masses
    pairs = np.stack(make_pairs(len(D), None).indices(0, 15), axis=1)[1:]
    np.testing.assert_allclose(found.values.get()[1:], highs_values(A, A, cdist(pooled, pooled), pairs), rtol=1e-9)


def test_size_classes_run_side_by_side_where_memory_allows(gpu, monkeypatch):
    gpu()
    streams, launch = [], host.launch

    def recorded(*arguments):
        streams.append(numpy_as_cupy.get_current_stream().ptr)
        launch(*arguments)

    monkeypatch.setattr(host, "launch", recorded)
    histograms = sparse_histograms(collection("normal", 8, 10, 64))
    ground = prepare_metric(histograms.points, "euclidean")
    pairs = make_pairs(8, None, None)
    values = []
    for memory, n_streams in ((None, 3), (1, 1)):
        streams.clear()
        solver = ExactPointsCuda(
            histograms, ground, n_pairs=10**9, kernels=Kernels(memory, classes=(NARROW, LONG, BLOCK))
        )
        values.append(solver.on(numpy_as_cupy.DEVICE).solve(pairs, 0, len(pairs)).values.get())
        assert len(set(streams)) == n_streams
    np.testing.assert_array_equal(*values)


def test_arcs_that_improve_little_wait_for_a_look(gpu):
    """There are 143 pivots per pair if all arcs are taken that improve, and 123 if they must improve enough."""
    gpu()
    rng = np.random.default_rng(0)
    births = [rng.random(60) for _ in range(6)]
    points = [np.stack([birth, birth + rng.exponential(0.05, 60)], axis=1) for birth in births]
    found, expected = solve(asot.Distributions.from_list(points), (BLOCK,))
    assert_optimal(found, expected)
    assert found.n_iter.get()[1:].mean() < 133


@pytest.mark.parametrize("classes", [(LONG, WIDE), (BLOCK,), (TWO_WARPS,)], ids=["wide", "block", "two warps"])
def test_one_side_may_be_much_longer(gpu, classes):
    gpu()
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (1, 3, 30, 60, 64, 2)])
    assert_optimal(*solve(D, classes))


def test_a_deep_tree(gpu):
    """Points along a line, nearly: subtrees that move are long paths."""
    gpu()
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list(
        [np.sort(rng.random((60, 1)), axis=0) + 1e-4 * rng.random((60, 2)) for _ in range(4)]
    )
    D = asot.Distributions(D.points, D.offsets, np.concatenate([rng.dirichlet(np.ones(60)) for _ in range(4)]))
    assert_optimal(*solve(D, (TWO_WARPS,)))


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(
    "metric",
    ["cityblock", "chebyshev", "minkowski", "canberra", "hamming", "seuclidean", "mahalanobis", "jaccard",
     "rogerstanimoto", "sokalsneath", "jensenshannon"],
)  # fmt: skip
def test_every_metric(gpu, metric, table):
    gpu()
    truth = metric in ("jaccard", "rogerstanimoto", "sokalsneath")
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, size=(60, 6)).astype(float) if truth else np.abs(rng.normal(size=(60, 6)))
    points[:, :2] *= rng.random((60, 2)) < 0.5
    D = asot.Distributions(points, np.array([0, 20, 41, 50, 60]))
    assert_optimal(*solve(D, (NARROW,), metric=metric, table=table))


def test_coordinates_serve_where_a_table_does_not_fit(gpu):
    gpu()
    for classes in ((NARROW,), (WIDE,), (BLOCK,)):
        assert_optimal(*solve(collection("normal", 5, 10, 32), classes, table=False))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "canberra", "minkowski", "hamming"])
def test_long_points(gpu, metric):
    gpu()
    rng = np.random.default_rng(0)
    points = rng.integers(0, 3, size=(60, 45)) + (0.0 if metric == "hamming" else 0.1) * rng.normal(size=(60, 45))
    D = asot.Distributions(points, np.array([0, 20, 41, 50, 60]))
    assert_optimal(*solve(D, (TWO_WARPS,), metric=metric, table=False))


@pytest.mark.parametrize("p", [1.0, 3.0, 100.0])
def test_any_order_of_minkowski(gpu, p):
    gpu()
    D = collection("normal", 4, 5, 20)
    r = [asot.pairwise_exact(D, metric="minkowski", metric_params={"p": p}, device=d).values for d in ("cuda", "cpu")]
    np.testing.assert_allclose(*r, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_points_of_any_size(gpu, scale):
    gpu()
    D = collection("normal", 4, 5, 20)
    D = asot.Distributions(D.points * scale, D.offsets, D.masses)
    r = [asot.pairwise_exact(D, device=device).values for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*r, rtol=1e-12)


def test_an_outlier_takes_no_digits_from_other_pairs(gpu):
    gpu()
    D = collection("normal", 5, 5, 20)
    points = D.points.copy()
    points[-1] = 1e9
    D = asot.Distributions(points, D.offsets, D.masses)
    r = [asot.pairwise_exact(D, device=device).values for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*r, rtol=1e-12)


@EVERY_KERNEL
def test_the_order_of_threads_does_not_matter(gpu, own, most):
    D = collection("grid", 6, 10, 32)
    found = []
    for order in host.ORDERS:
        gpu(order_seed=order)
        found.append(solve(D, (own,))[0])
    assert all(np.array_equal(found[0].values, other.values) for other in found[1:])
    assert all(np.array_equal(found[0].n_iter, other.n_iter) for other in found[1:])


def test_a_pair_has_one_answer_whichever_set_and_tile_it_is_in(gpu):
    gpu()
    D = collection("normal", 7, 5, 32)
    histograms = sparse_histograms(D)
    solver = ExactPointsCuda(histograms, prepare_metric(histograms.points, "euclidean"), n_pairs=10**9)
    device, pairs = solver.on(numpy_as_cupy.DEVICE), make_pairs(len(D), None)
    whole = device.solve(pairs, 0, len(pairs)).values.get()
    assert np.array_equal(device.solve(pairs, 4, 11).values.get(), whole[4:11])
    across = asot.pairwise_exact(D, D, device="cuda").matrix()
    assert np.array_equal(across[np.triu_indices(len(D), 1)], whole)
    listed = asot.pairwise_exact(D, device="cuda", pairs=[[5, 2], [0, 1], [3, 3]]).values
    assert np.array_equal(listed, [across[2, 5], 0.0, 0.0])


def test_pairs_that_are_too_large_are_solved_on_the_cpu(gpu, monkeypatch):
    gpu()
    D = collection("normal", 6, 20, 50)
    monkeypatch.setattr("asot.exact.cuda.points.classes_for", lambda *_: [NARROW])
    expected = asot.pairwise_exact(D, device="cpu")
    r = asot.pairwise_exact(D, device="cuda")
    assert np.abs(r.values - expected.values).max() <= TOL * expected.values.max()
    assert (r.status == Status.OPTIMAL).all()
    assert 0 < r.info["n_solved_on_cpu"] < len(r.values)
    assert f"it left {r.info['n_solved_on_cpu']} pairs to the CPU" in r.info["device_reason"]
    nearest = [asot.pairwise_exact(D, device=d, sink=asot.sinks.TopK(2)).indices for d in ("cuda", "cpu")]
    assert np.array_equal(*nearest)


@pytest.mark.parametrize("n_columns", [10, 10**6])  # mean points, sorted projections
@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "canberra"])
@pytest.mark.parametrize(
    ("own", "most"), [(NARROW, 25), (WIDE, 50), (TWO_WARPS, 50)], ids=["narrow", "wide", "two warps"]
)
def test_only_pairs_above_their_limits_are_left_out(gpu, own, most, metric, n_columns):
    gpu()
    D = collection("grid" if own is NARROW else "normal", 12, most - 15, most)
    histograms = sparse_histograms(D)
    ground = prepare_metric(histograms.points, metric)
    pairs = make_pairs(len(D), None)
    rows, columns = pairs.indices(0, len(pairs))
    expected = ExactPoints(histograms, ground).solve(rows, columns, np.zeros(1, np.int64)).values
    limits = np.quantile(expected, np.linspace(0.0, 0.4, len(D))) * np.where(np.arange(len(D)) % 3, 0.3, 1.0)
    known = Limits(lambda: (limits, limits), *profiles_of(histograms, ground, n_columns, 1))
    solver = ExactPointsCuda(histograms, ground, n_pairs=66, limits=known, kernels=Kernels(classes=(own,)))
    values = solver.on(numpy_as_cupy.DEVICE).solve(pairs, 0, len(pairs)).values.get()
    left_out = np.isinf(values)
    assert left_out.any()
    assert (expected > np.maximum(limits[rows], limits[columns]))[left_out].all()
    assert np.abs(values - expected)[~left_out].max() <= TOL * expected.max()
    assert solver.n_solved() == np.count_nonzero(~left_out & (values > 0))


@pytest.mark.parametrize("within", [True, False])
def test_neighbors_are_those_of_the_cpu(gpu, monkeypatch, within):
    gpu()
    monkeypatch.setattr("asot.run.gpu_engine.FILLS_A_GPU", 40)  # many tiles, so that limits matter
    monkeypatch.setattr("asot.exact.cuda.points.FIRST_TILE_SECONDS", 1e-6)
    monkeypatch.setattr("asot.search.on_gpus.FIRST_COLUMNS", 8)
    D, E = collection("normal", 30, 5, 20), collection("normal", 7, 5, 20, seed=1)
    sides = (D, None) if within else (E, D)
    gpu_found, cpu_found = (asot.kneighbors(*sides, 3, device=device) for device in ("cuda", "cpu"))
    assert np.array_equal(gpu_found.indices, cpu_found.indices)
    np.testing.assert_allclose(gpu_found.distances, cpu_found.distances, rtol=1e-12, atol=1e-14)
    assert gpu_found.info["device"] == "cuda:0"
    assert 0 < gpu_found.n_exact < gpu_found.info["n_pairs"]
    radius = 1.0001 * float(np.median(cpu_found.distances))
    gpu_found, cpu_found = (asot.radius_neighbors(*sides, radius=radius, device=d) for d in ("cuda", "cpu"))
    assert np.array_equal(gpu_found.indptr, cpu_found.indptr)
    assert np.array_equal(gpu_found.indices, cpu_found.indices)
    assert len(gpu_found.indices) > 0


def test_bounds_of_the_cpu_are_refused_on_a_gpu(gpu):
    gpu()
    with pytest.raises(ValueError, match=r"device='cuda' cannot be used: .* takes neither prune= nor space="):
        asot.kneighbors(collection("few", 5, 2, 3), n_neighbors=1, prune="potentials", device="cuda")


def test_a_bound_on_pivots_leaves_a_feasible_plan(gpu, monkeypatch):
    gpu()
    text = {name: cuda.source(name) for name in ("points_narrow", "points_wide", "points_prepare")}
    bound = "MOST_PIVOTS = 64 * NODES * NODES"
    monkeypatch.setattr(cuda, "source", lambda name: text[name].replace(bound, "MOST_PIVOTS = 2"))
    monkeypatch.setattr(cuda, "_load", functools.cache(cuda._load.__wrapped__))
    for own in (NARROW, WIDE):
        assert bound in text[own.kernel]
        found, expected = solve(collection("normal", 8, 1, 25), (own,))
        stopped = found.status.get() == Status.MAX_ITER
        assert 0 < np.count_nonzero(stopped) < len(stopped)
        assert (found.n_iter.get()[stopped] == 2).all()
        assert np.abs(found.values.get() - expected)[~stopped].max() <= TOL * expected.max()
        assert (found.values.get() >= expected - TOL * expected.max()).all()


# ---------------------------------------------------------------------------------------------------- host

LAUNCHED = (*CLASSES, CLASSES_FROM_COORDINATES[0])


@pytest.mark.parametrize("shared_memory", SHARED_MEMORY.values(), ids=SHARED_MEMORY)
@pytest.mark.parametrize("own", LAUNCHED, ids=lambda own: f"{own.most_rows}x{own.most_columns}")
def test_blocks_fit_into_memory(shared_memory, own):
    if own.least_bytes > shared_memory:
        assert own.most_rows > 1024
        return
    launch = own.launch(shared_memory, 2**27, 132, TABLE)
    assert 1 <= launch.blocks <= 132 * (32 if own in BLOCKS else 1)
    assert 32 <= launch.threads <= 1024
    assert launch.shared_bytes <= shared_memory
    assert 4 * launch.far_words <= max(2**27, 4 * own.far_words)
    assert launch.far_words > 0
    assert 4 * launch.far_words % 128 == 0  # a cache line: the rows of the next class begin with one, too


@pytest.mark.parametrize("shared_memory", SHARED_MEMORY.values(), ids=SHARED_MEMORY)
@pytest.mark.parametrize("own", BLOCKS, ids=lambda own: f"{own.most_rows}x{own.most_columns}")
def test_threads_have_their_registers(shared_memory, own):
    beside = own.launch(shared_memory, 2**27, 132, TABLE).defines["BLOCKS"]
    warps = beside * own.threads // 32
    given_out = -(-warps // 4) * 4  # by each part of a multiprocessor to as many
    assert beside == 1 or REGISTERS // (32 * given_out) >= REGISTERS_PER_THREAD


def test_kernels_that_are_loaded_need_no_threads(gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(cuda, "_loaded", set())
    D = collection("normal", 4, 1, 20)
    expected = solve(D, (NARROW,))[0].values
    monkeypatch.setattr(cuda, "ThreadPoolExecutor", None)
    np.testing.assert_array_equal(solve(D, (NARROW,))[0].values, expected)


def test_classes_go_from_small_to_large():
    assert CLASSES[-1].most_rows == CLASSES[-1].most_columns == MOST_POINTS
    nodes = [own.most_rows + own.most_columns for own in CLASSES]
    assert nodes[0] == min(nodes)
    hopper = SHARED_MEMORY["hopper"]
    assert classes_for(MOST_POINTS, hopper, CLASSES) == classes_for(10**6, hopper, CLASSES) == list(CLASSES)
    assert [own.most_columns for own in classes_for(33, hopper, CLASSES)] == [32, 64, 64]
    assert classes_for(20, hopper, CLASSES) == [CLASSES[0]]
    assert classes_for(10**6, SHARED_MEMORY["turing"], CLASSES)[-1].most_rows == 1024


def test_a_table_must_be_worth_its_memory():
    D = collection("normal", 4, 20, 30)
    histograms = sparse_histograms(D)
    ground = prepare_metric(histograms.points, "euclidean")
    assert ExactPointsCuda(histograms, ground, n_pairs=10**4).wants_table
    assert not ExactPointsCuda(histograms, ground, n_pairs=1).wants_table


@pytest.mark.parametrize("own", [CLASSES[0], CLASSES[1], wide_class(2, 2, 20), BLOCKS[4], BLOCKS[-1]], ids=str)
def test_nvcc_compiles_kernels_for_old_and_new_gpus(tmp_path, own):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    path = tmp_path / "kernel.cu"
    path.write_text(cuda.source(own.kernel), encoding="utf-8")
    for arch, name in (("sm_75", "turing"), ("sm_90", "hopper")):
        defines = own.launch(SHARED_MEMORY[name], 2**28, 100, TABLE).defines
        options = ["-std=c++17", "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-o", str(tmp_path / arch)]
        command = [nvcc, *options, *(f"-D{key}={value}" for key, value in defines.items()), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert " 0 bytes spill stores" in done.stdout + done.stderr, done.stderr
