"""The same script on threads, loky and Dask: the same numbers, small tasks, and faults that are told or mended."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import pickle
import re
import signal
import threading

import joblib
import numpy as np
import pytest

import asot
from asot.run.cluster import Cluster, run_task
from asot.run.engine import active_cluster
from asot.sinks import Store, TopK
from tests.run.cluster_faults import (
    flipped_bits,
    jumping_clock,
    kill_callers,
    kill_workers,
    problem,
    read_only,
    torn_chunks,
)

A, COST = problem(200)


@pytest.fixture(scope="module")
def expected():
    return asot.emd_many(A, cost=COST)


@pytest.fixture(scope="module")
def dask_workers():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture(params=["loky", "dask"])
def backend(request):
    """A joblib backend of two processes."""
    if request.param == "dask":
        request.getfixturevalue("dask_workers")
    with joblib.parallel_config(backend=request.param, n_jobs=2):
        yield request.param


CLOUDS = asot.Distributions.from_list([np.random.default_rng(i).normal(i % 3, 1.0, size=(5, 2)) for i in range(40)])


def test_a_search_is_shared_by_the_workers_and_finds_the_same(backend):
    found = asot.kneighbors(CLOUDS, 4)
    assert found.info["executor"] == backend
    assert found.n_exact == found.info["n_exact"] > 0
    with joblib.parallel_config(backend="threading"):
        alone = asot.kneighbors(CLOUDS, 4)
    assert "executor" not in alone.info
    np.testing.assert_array_equal(found.indices, alone.indices)
    np.testing.assert_array_equal(found.distances, alone.distances)
    np.testing.assert_array_equal(found.ids, alone.ids)


def test_baselines_are_shared_by_the_workers(backend):
    from asot.baselines import sliced

    found = sliced(CLOUDS, n_projections=20, random_state=0)
    assert found.info["executor"] == backend
    with joblib.parallel_config(backend="threading"):
        np.testing.assert_array_equal(found.values, sliced(CLOUDS, n_projections=20, random_state=0).values)


def test_without_a_backend_there_are_threads():
    assert active_cluster() is None
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert active_cluster() is None


@pytest.mark.filterwarnings("ignore")
def test_every_backend_gives_the_same_numbers(backend, expected, tmp_path):
    calls = []
    found = asot.emd_many(A, cost=COST, progress=lambda done, total: calls.append(done))
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.info["executor"] == backend
    assert calls[-1] == len(expected)
    nearest = asot.emd_many(A, cost=COST, sink=TopK(3))
    assert isinstance(nearest, asot.Neighbors)
    stored = asot.emd_many(A, cost=COST, sink=Store(tmp_path / "run.zarr"))
    np.testing.assert_array_equal(stored.values(), expected.values)


@pytest.mark.filterwarnings("ignore")
def test_every_kind_of_call_travels(backend, tmp_path):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(6, 2)) for _ in range(30)])
    space = asot.KMeansAnchors(4, random_state=0).fit(D).space_
    calls = [
        lambda **more: asot.pairwise_exact(D, **more),
        lambda **more: asot.pairwise(D, space=space, estimate="calibrated", bounds=True, **more),
        lambda **more: asot.sinkhorn_many(A[:40], cost=COST, reg=0.1, value="divergence", **more),
    ]
    for number, call in enumerate(calls):
        there, stored = call(), call(sink=Store(tmp_path / f"{number}.zarr"))
        with joblib.parallel_config(backend="threading"):
            here = call()
        np.testing.assert_allclose(there.values, here.values, rtol=1e-12)
        np.testing.assert_allclose(stored.values(), here.values, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_a_worker_arrives(backend):
    with pytest.raises(ZeroDivisionError, match="item 3"):
        list(active_cluster().map(fail_at_three, range(8)))


def fail_at_three(item, stop):
    if item == 3:
        raise ZeroDivisionError(f"item {item}")
    return item


def test_plans_stay_in_this_process(expected):
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert len(asot.emd_many(A[:5], cost=COST, plans=True).plans) == 10


@pytest.mark.parametrize("error", [asyncio.CancelledError, concurrent.futures.CancelledError])
def test_a_scheduler_that_is_lost_is_told(error, monkeypatch):
    def lost(self, tasks):
        yield 0
        raise error

    monkeypatch.setattr(Cluster, "_answers", lost)
    with joblib.parallel_config(backend="loky", n_jobs=2):
        answers = active_cluster().map(fail_at_three, range(8))
        assert next(answers) == 0
        with pytest.raises(ConnectionError, match=r"scheduler \(loky\) is lost with 7 tasks to go"):
            next(answers)


class Dies:
    """The first worker that meets item 2 kills itself."""

    def __init__(self, flag):
        self.flag = flag

    def __call__(self, item, stop):
        if item == 2 and not os.path.exists(self.flag):
            open(self.flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_a_worker_that_dies_costs_only_its_tasks(backend, tmp_path):
    assert list(active_cluster().map(Dies(str(tmp_path / backend)), range(6))) == [0, 1, 4, 9, 16, 25]


# ------------------------------------------------------------------------------------------- what travels


class Recorded(Cluster):
    """Runs tasks here, and keeps what would have traveled."""

    def __init__(self):
        self.jobs, self.name, self.folder, self.sizes = 2, "recorded", None, []

    def _answers(self, tasks):
        for task in tasks:
            self.sizes.append(len(pickle.dumps(task)))
            yield run_task(pickle.loads(pickle.dumps(task)))


def test_a_task_is_a_name_and_a_number_never_an_array(expected, tmp_path, monkeypatch):
    recorded = Recorded()
    monkeypatch.setattr("asot.run.engine.active_cluster", lambda: recorded)
    np.testing.assert_array_equal(asot.emd_many(A, cost=COST).values, expected.values)
    asot.emd_many(A, cost=COST, sink=Store(tmp_path / "run.zarr"))
    assert max(recorded.sizes) < 1000  # beyond that joblib's Dask backend scatters
    assert not list(tmp_path.glob(".asot-*"))


def test_a_worker_refuses_another_version_and_a_changed_file(tmp_path):
    file = tmp_path / "job"
    file.write_bytes(pickle.dumps(fail_at_three))
    with pytest.raises(RuntimeError, match=r"a worker has asot .*, but the call was made with 99.0"):
        run_task((str(file), "0" * 64, "99.0", 1))
    with pytest.raises(RuntimeError, match="is not what the caller wrote, so it was not used"):
        run_task((str(file), "0" * 64, asot.__version__, 1))
    with pytest.raises(RuntimeError, match="set JOBLIB_TEMP_FOLDER to a folder that caller and workers share"):
        run_task((str(tmp_path / "gone"), "0" * 64, asot.__version__, 1))


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_a_caller_that_is_killed_loses_nothing():
    record = kill_callers(2, n=400)
    assert (record.times, record.equal) == (2, True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_dask_workers_that_are_killed_lose_nothing():
    pytest.importorskip("distributed")
    record = kill_workers(2, n=600)
    assert record.times >= 2
    assert record.equal


@pytest.mark.skipif(os.name == "nt", reason="another user is for Unix")
def test_a_store_of_another_user_is_told():
    record = read_only(n=400)
    assert record.equal
    assert re.search(r"be written \(Permission denied\); \d+ of 28 blocks are done and will be kept", record.said)


def test_chunks_that_end_too_soon_are_done_again_and_wrong_ones_are_named():
    assert torn_chunks(1, n=400).equal
    record = flipped_bits(1, n=400)
    assert record.equal
    assert "is damaged" in record.said


def test_a_clock_that_jumps_changes_nothing():
    assert jumping_clock(1, n=400).equal


def test_two_callers_on_one_store_share_the_work(expected, tmp_path):
    stored = []

    def call():
        stored.append(asot.emd_many(A, cost=COST, sink=Store(tmp_path / "run.zarr")))

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for result in stored:
        np.testing.assert_array_equal(result.values(), expected.values)
    assert len(stored) == 2
