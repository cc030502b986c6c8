"""The loop of tiles, threads and sinks: errors come out, and no thread stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import asot
from asot.results.sinks import Callback, Dense, distances_of
from asot.run import engine
from asot.run.pairs import AllPairs, CrossPairs
from asot.run.protocols import Notes, Solution, Solver


class Sums(Solver):
    """A solver whose answer to (i, j) is 100·i + j, so that a misplaced value shows. Tiles are ``per_tile`` pairs."""

    def __init__(self, per_tile=3):
        self.info = {"solver": "sums"}
        self.per_tile = per_tile
        self.memory = None

    def pairs_per_tile(self, memory):
        self.memory = memory
        return self.per_tile

    def solve(self, rows, columns, stop):
        n = len(rows)
        return Solution(100.0 * rows + columns, np.zeros(n, np.int8), np.zeros(n, np.int32))


class Failing(Sums):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def solve(self, rows, columns, stop):
        if rows[0] >= 2:
            raise self.error
        return super().solve(rows, columns, stop)


class Slow(Sums):
    """Answers the pair (0, 1) at once, and works on any other until ``stop`` is raised."""

    def __init__(self):
        super().__init__(per_tile=1)
        self.busy = threading.Event()
        self.stopped = threading.Event()

    def solve(self, rows, columns, stop):
        while columns[0] > 1:
            self.busy.set()
            if stop[0]:
                self.stopped.set()
                break
        return super().solve(rows, columns, stop)


def threads_left():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asot")]


@pytest.mark.parametrize("per_tile", [1, 4, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_every_pair_gets_its_own_value(per_tile, n_jobs):
    result = distances_of(CrossPairs(6, 7), Sums(per_tile), n_jobs=n_jobs)
    np.testing.assert_array_equal(result.matrix(), 100.0 * np.arange(6)[:, None] + np.arange(7))
    assert threads_left() == []


def test_threads_share_the_memory_budget():
    solver = Sums()
    distances_of(AllPairs(5), solver, n_jobs=4, memory="1M")
    assert solver.memory == 2**20 // 4


def test_the_result_records_the_run():
    info = distances_of(AllPairs(5), Sums(), n_jobs=2, notes=Notes({"metric": "euclidean"})).info
    assert info.pop("seconds") >= info.pop("seconds_on_pairs") >= 0
    assert info == {"solver": "sums", "metric": "euclidean", "n_pairs": 10, "n_not_converged": 0, "n_jobs": 2}


@pytest.mark.parametrize("error", [ZeroDivisionError("in the solver"), TimeoutError("in the solver")])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_solver_comes_out(error, n_jobs):
    with pytest.raises(type(error), match="in the solver"):
        distances_of(AllPairs(20), Failing(error), n_jobs=n_jobs)
    assert threads_left() == []


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_sink_comes_out_and_leaves_no_thread(n_jobs):
    def refuse(rows, columns, values):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        engine.run(AllPairs(200), Sums(), Callback(refuse), engine.Resources(n_jobs))
    assert threads_left() == []


def test_an_error_while_threads_are_busy_stops_them():
    solver = Slow()

    def refuse(rows, columns, values):
        solver.busy.wait()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        engine.run(AllPairs(20), solver, Callback(refuse), engine.Resources(2))
    assert solver.stopped.is_set()
    assert threads_left() == []


def test_an_error_in_the_progress_function_comes_out_and_leaves_no_thread():
    def refuse(done, total):
        raise KeyError("display")

    with pytest.raises(KeyError, match="display"):
        distances_of(AllPairs(200), Sums(), n_jobs=2, progress=refuse)
    assert threads_left() == []


def test_ctrl_c_in_a_sink_leaves_no_thread():
    def interrupt(rows, columns, values):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(AllPairs(200), Sums(), Callback(interrupt), engine.Resources(2))
    assert threads_left() == []


def test_tiles_are_solved_only_a_few_ahead_of_the_sink():
    solved, taken, ahead = [], [], []

    class Counting(Sums):
        def solve(self, rows, columns, stop):
            solved.append(len(rows))
            return super().solve(rows, columns, stop)

    def take(rows, columns, values):
        taken.append(len(rows))
        ahead.append(len(solved) - len(taken))

    engine.run(AllPairs(100), Counting(per_tile=1), Callback(take), engine.Resources(2))
    assert len(taken) == 4950
    assert max(ahead) <= 6


def test_calls_may_run_inside_each_other():
    inner = []
    sink = Callback(
        lambda rows, columns, values: inner.append(engine.run(AllPairs(4), Sums(), Dense(), engine.Resources(2)))
    )
    engine.run(AllPairs(4), Sums(), sink, engine.Resources(2))
    assert all(np.array_equal(matrix, inner[0]) for matrix in inner)


# ------------------------------------------------------------------------------------------- Ctrl-C

HEAD = """
import signal
import threading
import numpy as np
import asot

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell inherits deaf ears

rng = np.random.default_rng(0)
"""
TAIL = """
except KeyboardInterrupt:
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("asot")]
    print("interrupted, threads left:", left, flush=True)
"""
MANY_PAIRS = f"""{HEAD}
points = rng.random((30, 2))
cost = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
first = True

def started(done, total):
    global first
    if first:
        print("started", flush=True)
        first = False

sink = asot.sinks.Callback(lambda rows, columns, values: None)
try:
    asot.emd_many(rng.dirichlet(np.ones(30), 40_000), cost=cost, n_jobs=2, progress=started, sink=sink)
{TAIL}"""
LARGE_PAIRS = f"""{HEAD}
clouds = rng.normal(size=(60, 3000, 2))
try:
    print("started", flush=True)
    asot.pairwise_exact(list(clouds), n_jobs=2)
{TAIL}"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to another process on Windows")
@pytest.mark.parametrize(("script", "wait"), [(MANY_PAIRS, 0.0), (LARGE_PAIRS, 1.0)], ids=["many pairs", "large pairs"])
def test_ctrl_c_stops_the_first_call_of_a_process_and_leaves_no_thread(script, wait):
    source = str(Path(asot.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as job:
        try:
            assert job.stdout.readline() == "started\n"
            time.sleep(wait)
            job.send_signal(signal.SIGINT)
            out, errors = job.communicate(timeout=10)  # the job itself takes minutes
        finally:
            job.kill()
    assert out == "interrupted, threads left: []\n", errors
    assert job.returncode == 0


class _Named(Solver):
    """A solver that tells in which thread it was called."""

    def __init__(self, seconds):
        self._seconds, self.threads, self.info = seconds, [], {}

    def expected_seconds(self, n_pairs):
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory):
        return 4

    def solve(self, rows, columns, stop):
        self.threads.append(threading.current_thread())
        return Solution(rows + 0.5, np.zeros(len(rows), np.int8), np.zeros(len(rows), np.int32))


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize("n", [2, 3, 9])
def test_short_work_starts_no_thread_and_gives_the_same_result(n, n_jobs):
    short, long = _Named(1e-6), _Named(1.0)
    results = [distances_of(AllPairs(n), solver, n_jobs=n_jobs, notes=Notes({"p": 1})) for solver in (short, long)]
    assert set(short.threads) == {threading.current_thread()}
    assert threading.current_thread() not in long.threads
    assert np.array_equal(results[0].values, results[1].values)
    assert np.array_equal(results[0].matrix(), results[1].matrix())
    assert results[0].info.keys() == results[1].info.keys()
