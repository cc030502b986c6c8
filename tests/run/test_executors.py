"""Executors: answers in the order of the items, stops that are heard, and loops outside the engine that use them."""

from __future__ import annotations

import _thread
import itertools
import threading
import time

import numpy as np
import pytest

import asot
from asot.exact import batch, shared_cost
from asot.exact.points import ExactPoints
from asot.run import executors
from asot.run.executors import Threads, in_threads, kept_threads, meanwhile
from asot.spaces.solver import Gromov


def threads_left():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asot")]


@pytest.mark.parametrize("jobs", [1, 3])
def test_answers_come_in_the_order_of_the_items(jobs):
    assert list(Threads(jobs).map(lambda item, stop: item * item, range(50))) == [i * i for i in range(50)]


def test_closing_early_raises_stop_and_waits():
    seen = []

    def wait_for_stop(item, stop):
        if item > 0:
            while stop[0] == 0:
                threading.Event().wait(0.001)
            seen.append(item)
        return item

    answers = Threads(2).map(wait_for_stop, range(10))
    assert next(answers) == 0
    answers.close()
    assert seen
    assert threads_left() == []


def fail(item, stop):
    raise RuntimeError(f"item {item}")


def test_an_error_of_a_loop_comes_out():
    with pytest.raises(RuntimeError, match="item 0"):
        in_threads(fail, range(3), 2)


def test_loops_in_a_block_share_threads_that_end_with_it():
    def name(item, stop):
        threading.Event().wait(0.01)
        return threading.current_thread().name

    with kept_threads(3):
        first, second = (set(Threads(3).map(name, range(12))) for _ in range(2))
        assert first == second
        assert len(first) == 3
        with pytest.raises(RuntimeError, match="item 0"):
            in_threads(fail, range(30), 2)
        assert list(Threads(3).map(lambda item, stop: item, range(5))) == list(range(5))
    assert threads_left() == []


@pytest.mark.parametrize(("jobs", "elsewhere"), [(1, False), (2, True)])
def test_something_is_done_meanwhile(jobs, elsewhere):
    with kept_threads(jobs):
        answer = meanwhile(threading.current_thread)
        assert list(Threads(jobs).map(lambda item, stop: item, range(5))) == list(range(5))
        assert (answer() is not threading.current_thread()) == elsewhere
        late = meanwhile(lambda: fail(7, None))
        with pytest.raises(RuntimeError, match="item 7"):
            late()
    assert meanwhile(threading.current_thread)() is threading.current_thread()
    assert threads_left() == []


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_what_is_done_meanwhile_can_have_loops_that_share_the_threads(jobs):
    def name(item, stop):
        threading.Event().wait(0.01)
        return threading.current_thread().name

    with kept_threads(jobs):
        answer = meanwhile(lambda: set(Threads(jobs).map(name, range(12))), with_loops=True)
        found = answer()
        assert len(found) == max(1, jobs - 1)
    assert threads_left() == []


def test_what_is_done_meanwhile_ends_when_the_block_fails():
    begun = threading.Event()

    def item_by_item(item, stop):
        begun.set()
        threading.Event().wait(0.01)
        return item

    def block():
        with kept_threads(3):
            meanwhile(lambda: list(Threads(3).map(item_by_item, itertools.count())), with_loops=True)
            begun.wait()
            fail(3, None)

    with pytest.raises(RuntimeError, match="item 3"):
        block()  # would not end if the loop did not
    assert threads_left() == []


def test_a_loop_never_has_more_threads_than_it_asks_for():
    running, most, lock = [0], [0], threading.Lock()

    def count(item, stop):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.002)
        with lock:
            running[0] -= 1

    with kept_threads(4):
        in_threads(count, range(12), 4)
        assert most[0] > 1
        most[0] = 0
        in_threads(count, range(12), 1)
    assert most[0] == 1


# ------------------------------------------------------------------------------- loops before the first pair


class Interrupt:
    """A progress function that stands for a user who presses Ctrl-C at the first sign of a stage of ``total``."""

    def __init__(self, total):
        self.total, self.seen = total, []

    def __call__(self, done, total):
        self.seen.append((done, total))
        if total == self.total:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def large():
    """Histograms on 400 anchors: above the size up to which the triangle check takes only a moment."""
    rng = np.random.default_rng(0)
    points = rng.random((400, 3))
    return rng.dirichlet(np.ones(400), 30), np.sqrt(((points[:, None] - points) ** 2).sum(-1))


def test_the_check_of_the_triangles_shows_progress_and_hears_ctrl_c(large):
    histograms, cost = large
    hand = Interrupt(len(cost))
    with pytest.raises(KeyboardInterrupt):
        asot.emd_many(histograms, cost=cost, n_jobs=2, progress=hand)
    assert len(hand.seen) == 1
    assert threads_left() == []


def test_no_tile_of_the_check_takes_long():
    from asot.exact.cost_check import TRIANGLES_PER_TILE, _row_tiles

    for k in (300, 5000):
        rows = list(_row_tiles(k))
        assert [first for first, _ in rows] == [0, *(last for _, last in rows[:-1])]
        assert rows[-1][1] == k
        for first, last in rows:
            assert last - first == 1 or k * (last**2 - first**2) / 2 <= 1.01 * TRIANGLES_PER_TILE


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_broken_triangle_is_found_in_any_row(large, n_jobs):
    from asot.exact.cost_check import is_metric

    cost = large[1].copy()
    assert is_metric(cost, n_jobs=n_jobs)
    cost[390, 7] = cost[7, 390] = 10.0
    assert not is_metric(cost, n_jobs=n_jobs)


@pytest.fixture(scope="module")
def D():
    rng = np.random.default_rng(1)
    return asot.Distributions.from_list([rng.normal(rng.normal(), 1.0, size=(9, 2)) for _ in range(20)])


def test_calibration_shows_progress_and_hears_ctrl_c(D):
    space = asot.KMeansAnchors(5, random_state=0).fit(D).space_
    everything = 20 * 19 // 2
    hand = Interrupt(64)  # the pairs that are solved exactly
    with pytest.raises(KeyboardInterrupt):
        asot.pairwise(D, space=space, estimate="calibrated", n_jobs=2, progress=hand)
    assert hand.seen[0][1] == everything  # the anchor plans of all candidates come first
    assert threads_left() == []


def test_calibration_does_not_depend_on_threads_or_memory(D):
    space = asot.KMeansAnchors(5, random_state=0).fit(D).space_
    one = asot.pairwise(D, space=space, estimate="calibrated", bounds=True)
    two = asot.pairwise(D, space=space, estimate="calibrated", bounds=True, n_jobs=3, memory="2M")
    for name in ("values", "lower", "upper", "error"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_potentials_do_not_depend_on_threads(D):
    found = [asot.kneighbors(D, n_neighbors=3, prune="all", n_jobs=n, random_state=0) for n in (1, 3)]
    assert found[0].n_exact == found[1].n_exact
    np.testing.assert_array_equal(found[0].distances, found[1].distances)


# ------------------------------------------------------------------------------------------- one long problem

MASSES = np.random.default_rng(2).dirichlet(np.ones(80), 2)
PLACES = np.random.default_rng(3).normal(size=(80, 2))
BETWEEN = np.sqrt(((PLACES[:, None] - PLACES) ** 2).sum(-1))
EQUAL = np.full(80, 1 / 80)
ALONE = {
    "emd": (shared_cost.ExactSharedCost, "solve_plans", lambda D, path: asot.emd(*MASSES, BETWEEN)),
    "emd of equal masses": (batch.ExactBatch, "solve", lambda D, path: asot.emd(EQUAL, EQUAL, BETWEEN)),
    "plan": (shared_cost.ExactSharedCost, "solve_plans", lambda D, path: asot.plan(D, 0, 1)),
    "plan between anchors": (
        shared_cost.ExactSharedCost, "solve_trees", lambda D, path: asot.plan(D, 0, 1, space=asot.KMeansAnchors(5))
    ),
    "plan between spaces": (Gromov, "energies", lambda D, path: asot.gromov_plan([BETWEEN, BETWEEN[:9, :9]], 0, 1)),
    "landmarks of an index": (ExactPoints, "solve", lambda D, path: asot.Index().add(D)),
    "the first pair of a store": (
        ExactPoints, "solve", lambda D, path: asot.pairwise_exact(D, sink=asot.sinks.Store(path))
    ),
}  # fmt: skip


@pytest.mark.parametrize(("solver", "method", "call"), ALONE.values(), ids=ALONE)
def test_one_long_problem_hears_ctrl_c(monkeypatch, tmp_path, solver, method, call):
    """While a kernel runs, the calling thread hears nothing; so it waits for another thread, and raises its flag."""
    if method == "solve":
        pytest.importorskip("zarr")
    monkeypatch.setattr(executors, "SHORT_SECONDS", 0.0)
    rng = np.random.default_rng(4)
    D = asot.Distributions.from_list([rng.normal(size=(9, 2)) for _ in range(260)])
    usual, told = getattr(solver, method), []

    def kernel(self, rows, columns, stop, *more):
        if not told:
            time.sleep(0.1)  # the calling thread is still busy with starting this one
            _thread.interrupt_main()
            end = time.monotonic() + 20
            while stop[0] == 0 and time.monotonic() < end:
                time.sleep(0.001)
            told.append(int(stop[0]))
        return usual(self, rows, columns, stop, *more)

    monkeypatch.setattr(solver, method, kernel)
    with pytest.raises(KeyboardInterrupt):
        call(D, tmp_path / "s.zarr")
    assert told == [1]
    assert threads_left() == []
