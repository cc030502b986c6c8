"""The loop on GPUs, with a stand-in for CuPy: tiles in order, sinks that get what they need, memory that runs out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from asot.results.sinks import Callback, Condensed, Counts, Dense, Radius, TopK, default_sink
from asot.run import gpu_engine as device_engine
from asot.run import gpu_transfer
from asot.run.devices import Choice
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs
from asot.run.protocols import OPEN, DeviceSolution, DeviceSolver, OnDevice, Solution, Solver, Status
from tests.simt import host, numpy_as_cupy

pytestmark = host.needs_compiler

N = 40
TABLE = np.random.default_rng(0).integers(0, 50, size=(N, N)) / 10.0  # full of ties
TABLE = np.triu(TABLE, 1) + np.triu(TABLE, 1).T


class Lookup(DeviceSolver, OnDevice):
    """A GPU solver whose answers stand in `TABLE`. Every seventh column does not converge."""

    def __init__(self, per_tile=100):
        self.info = {"solver": "lookup"}
        self.per_tile = per_tile
        self.tiles = []

    def pairs_per_tile(self, memory):
        return self.per_tile

    def on(self, device):
        self.device = device
        return self

    def solve(self, pairs, start, stop):
        import cupy

        rows, columns = pairs.indices(start, stop)
        self.tiles.append((numpy_as_cupy.Device.current, start, stop))
        status = np.where(columns % 7 == 0, Status.MAX_ITER, Status.OPTIMAL).astype(np.int8)
        error = cupy.asarray(np.full(len(rows), 0.5))
        return DeviceSolution(
            cupy.asarray(TABLE[rows, columns]), cupy.asarray(status), cupy.asarray(rows.astype(np.int32)), error
        )


class OnCpu(Lookup, Solver):
    def solve(self, rows, columns, stop):
        n = len(rows)
        return Solution(TABLE[rows, columns], np.zeros(n, np.int8), np.zeros(n, np.int32), np.zeros(n))


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    numpy_as_cupy.install(monkeypatch, gpus=2)
    monkeypatch.setattr(device_engine, "FILLS_A_GPU", 1)
    monkeypatch.setattr(device_engine, "FEWEST_OF_SEVERAL", 4)
    monkeypatch.setattr(device_engine, "SMALLEST_TILE", 8)


def solve(pairs, sink=None, *, solver=None, gpus=(0,), required=False, **options):
    solver = Lookup() if solver is None else solver
    choice = Choice(gpus, "a test", required)
    return solve_work(Work(pairs, OnCpu, Ready(solver), choice), default_sink(sink), Resources(**options))


LISTED = ListedPairs(np.array([[3, 1], [0, 5], [7, 7], [0, 5]]), N, N, symmetric=True)


@pytest.mark.parametrize("pairs", [AllPairs(N), CrossPairs(N, N), LISTED])
@pytest.mark.parametrize("sink", [None, "plain"])
def test_every_answer_arrives_in_its_place(pairs, sink):
    r = solve(pairs, Condensed() if sink else None)
    rows, columns = pairs.indices(0, len(pairs))
    assert np.array_equal(r.values, TABLE[rows, columns])
    assert np.array_equal(r.n_iter, rows)
    assert np.array_equal(r.status == Status.MAX_ITER, columns % 7 == 0)
    assert (r.marginal_error == 0.5).all()
    assert r.info["n_not_converged"] == np.count_nonzero(columns % 7 == 0)
    assert r.info["device"] == "cuda:0"
    assert r.info["device_reason"] == "a test"


class Early(Lookup):
    """Notes where tiles were begun, and where the run asked for them."""

    bytes_per_pair = 1

    def __init__(self, per_tile=100):
        super().__init__(per_tile)
        self.under_way = []

    def begin(self, pairs, start, stop):
        self.under_way.append((*self._here(), start, stop))

    def solve(self, pairs, start, stop):
        solution = super().solve(pairs, start, stop)
        self.tiles[-1] = (*self._here(), start, stop)
        return solution

    def _here(self):
        import cupy

        return numpy_as_cupy.Device.current, cupy.cuda.get_current_stream().ptr


@pytest.mark.parametrize("gpus", [(0,), (0, 1)])
@pytest.mark.parametrize(("room", "begun"), [(10**6, 9), (779, 8), (350, 3), (91, 0), (89, 0)])
def test_tiles_are_begun_where_the_run_asks_for_them(monkeypatch, gpus, room, begun):
    monkeypatch.setattr(device_engine, "WORTH_BEGINNING", 0.2)
    monkeypatch.setattr(device_engine, "AT_FIRST", 2)
    work, pairs = Early(per_tile=90), AllPairs(N)  # 780 pairs
    rest = device_engine.begin(pairs, work, Choice(gpus, "a test", required=False), 2 * room)
    assert (rest is not None) == (begun > 1)
    assert len(work.under_way) == min(begun, 2 * len(gpus))
    for _ in range(2):  # the second time, nothing is left
        if rest is not None:
            rest()
    assert work.begun == min(90 * begun, len(pairs))
    solve(pairs, solver=work, gpus=gpus, memory=2 * room)
    assert len(work.tiles) == 9
    assert work.under_way == work.tiles[:begun]


def test_what_does_not_fit_is_not_begun():
    import cupy

    class Full(Early):
        def begin(self, pairs, start, stop):
            if start > 0:
                raise cupy.cuda.memory.OutOfMemoryError("full")
            super().begin(pairs, start, stop)

    work = Full()
    rest = device_engine.begin(AllPairs(N), work, Choice((0,), "a test", required=False), 2**30)
    rest()
    assert [tile[2:] for tile in work.under_way] == [(0, 100)]


def test_no_pairs_at_all():
    assert len(solve(AllPairs(1))) == 0


def test_dense():
    assert np.array_equal(solve(AllPairs(N), Dense()), TABLE)
    assert np.array_equal(solve(CrossPairs(N, N), Dense()), TABLE)


@pytest.mark.parametrize("pairs", [AllPairs(N), CrossPairs(N, N)])
@pytest.mark.parametrize("per_tile", [7, 100, 10**6])
def test_nearest_neighbors_are_those_of_the_cpu(pairs, per_tile):
    from asot.run import engine

    expected = engine.run(pairs, OnCpu(), TopK(5))
    found = solve(pairs, TopK(5), solver=Lookup(per_tile))
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.distances, expected.distances)
    assert found.info["n_not_converged"] > 0


def test_only_near_pairs_travel():
    class Counting(TopK):
        received = 0

        def accept(self, tile):
            self.received += len(tile.solution.values)
            super().accept(tile)

    sink = Counting(1)
    solve(AllPairs(N), sink, solver=Lookup(50))
    assert sink.received < 0.6 * len(AllPairs(N))


@pytest.mark.parametrize("pairs", [AllPairs(N), CrossPairs(N, N), LISTED])
def test_radius_graph(pairs):
    from asot.run import engine

    expected = engine.run(pairs, OnCpu(), Radius(1.0))
    found = solve(pairs, Radius(1.0))
    assert sparse.issparse(found)
    assert (found != expected).nnz == 0
    assert found.nnz == expected.nnz


def test_counts_between_edges():
    edges = [0.0, 0.5, 1.0, 3.3, 4.9]
    values = TABLE[np.triu_indices(N, 1)]
    assert np.array_equal(solve(AllPairs(N), Counts(edges)), np.histogram(values, edges)[0])


def test_a_callback_sees_pairs_in_order():
    seen = []
    solve(AllPairs(N), Callback(lambda i, j, w: seen.extend(zip(i, j, w, strict=True))), gpus=(0, 1))
    rows, columns = np.triu_indices(N, 1)
    assert seen == list(zip(rows, columns, TABLE[rows, columns], strict=True))


def test_several_gpus_take_tiles_in_turn():
    solver = Lookup(100)
    r = solve(AllPairs(N), solver=solver, gpus=(0, 1))
    assert {device for device, _, _ in solver.tiles} == {0, 1}
    assert np.array_equal(r.values, TABLE[np.triu_indices(N, 1)])
    assert r.info["device"] == "cuda:0 + cuda:1"


class Unequal(Lookup):
    """Two GPUs, the second of which solves a pair in a third of the time."""

    MILLISECONDS = (0.3, 0.1)

    def solve(self, pairs, start, stop):
        solution = super().solve(pairs, start, stop)
        device = numpy_as_cupy.Device
        device.clocks[device.current] = device.clocks.get(device.current, 0.0) + self.MILLISECONDS[device.current] * (
            stop - start
        )
        return solution

    def solved_on(self, gpu):
        return sum(stop - start for device, start, stop in self.tiles if device == gpu)


@pytest.mark.parametrize("sink", [Condensed, Dense, lambda: TopK(5), lambda: Radius(1.0), lambda: Counts([0, 1, 9])])
def test_the_faster_of_two_gpus_takes_more_and_answers_are_those_of_one(sink):
    pairs, together, alone = AllPairs(N), Unequal(30), Unequal(30)
    found = solve(pairs, sink(), solver=together, gpus=(0, 1))
    clocks = list(numpy_as_cupy.Device.clocks.values())
    expected = solve(pairs, sink(), solver=alone)
    covered = np.concatenate([np.arange(start, stop) for _, start, stop in together.tiles])
    assert np.array_equal(covered, np.arange(len(pairs)))  # every pair once, in order
    assert together.solved_on(1) > 1.8 * together.solved_on(0) > 0
    assert max(clocks) < 2 * min(clocks)  # in equal parts it would be three times the other's
    assert alone.solved_on(1) == 0
    for name in ("values", "status", "indices", "distances", "data"):
        if hasattr(expected, name) and not callable(getattr(expected, name)):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
    if isinstance(expected, np.ndarray):
        assert np.array_equal(found, expected)


def test_an_error_of_one_of_two_gpus_names_it():
    class Broken(Unequal):
        def solve(self, pairs, start, stop):
            if numpy_as_cupy.Device.current == 1 and start > 200:
                raise RuntimeError("an illegal memory access was encountered")
            return super().solve(pairs, start, stop)

    with pytest.raises(RuntimeError, match=r"cuda:1, one of cuda:0 \+ cuda:1: an illegal memory access"):
        solve(AllPairs(N), solver=Broken(30), gpus=(0, 1))


def test_ctrl_c_stops_all_gpus(monkeypatch):
    class Interrupted(Unequal):
        def solve(self, pairs, start, stop):
            if start >= 300:
                waited.clear()
                raise KeyboardInterrupt
            return super().solve(pairs, start, stop)

    waited = set()
    monkeypatch.setattr(numpy_as_cupy.Stream, "synchronize", lambda stream: waited.add(stream.ptr))
    solver = Interrupted(30)
    with pytest.raises(KeyboardInterrupt):
        solve(AllPairs(N), solver=solver, gpus=(0, 1))
    assert max(start for _, start, _ in solver.tiles) < 300
    for gpu in (0, 1):  # what was under way on either of them has ended
        assert waited & {stream.ptr for stream in device_engine._streams(gpu)}


class LeavesOpen(Lookup):
    """Leaves every pair with row 3 to the CPU: a large distribution."""

    leaves_open = True

    def __init__(self, per_tile=100):
        super().__init__(per_tile)
        self.mended = 0

    def solve(self, pairs, start, stop):
        solution = super().solve(pairs, start, stop)
        open_ = (pairs.indices(start, stop)[0] == 3) & (solution.status != Status.MAX_ITER)
        solution.values[open_], solution.status[open_] = 0.0, OPEN
        return solution

    def solve_open(self, pairs):
        self.mended += len(pairs)
        return OnCpu().solve(*pairs.indices(0, len(pairs)), np.zeros(1, np.int64))


@pytest.mark.parametrize("pairs", [AllPairs(N), CrossPairs(N, N)])
@pytest.mark.parametrize("sink", [lambda: TopK(5), lambda: Radius(1.0), lambda: Counts([0.0, 0.5, 3.3])])
def test_one_large_distribution_does_not_keep_a_sink_from_what_it_needs(monkeypatch, pairs, sink):
    """Most answers still stay on the GPU, and what the CPU solves is counted among the others."""
    monkeypatch.delattr(gpu_transfer.FetchAll, "deliver")
    solver, expected = LeavesOpen(50), solve(pairs, sink())
    found = solve(pairs, sink(), solver=solver)
    rows, columns = pairs.indices(0, len(pairs))
    assert solver.mended == np.count_nonzero((rows == 3) & (columns % 7 != 0))
    if sparse.issparse(found):
        assert (found != expected).nnz == 0
    elif isinstance(found, np.ndarray):
        assert np.array_equal(found, expected)
    else:
        assert np.array_equal(found.indices, expected.indices)
        assert np.array_equal(found.distances, expected.distances)
        assert found.info["n_solved_on_cpu"] == solver.mended


def test_progress_is_reported():
    seen = []
    solve(AllPairs(N), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (780, 780)
    assert len(seen) > 1


# ------------------------------------------------------------------------------------------- memory


def test_a_tile_that_does_not_fit_is_cut(monkeypatch):
    numpy_as_cupy.install(monkeypatch, memory=8 * 60)
    solver = Lookup(780)
    r = solve(AllPairs(N), solver=solver, required=True)
    assert np.array_equal(r.values, TABLE[np.triu_indices(N, 1)])
    assert solver.tiles[0][2] - solver.tiles[0][1] > 60
    assert solver.tiles[-1][2] - solver.tiles[-1][1] <= 60


class TooLarge(Lookup):
    """Fits until pair 200, and then not at all."""

    def solve(self, pairs, start, stop):
        import cupy

        if stop > 200:
            raise cupy.cuda.memory.OutOfMemoryError("no memory")
        return super().solve(pairs, start, stop)


def test_the_cpu_goes_on_where_the_gpu_ran_out_of_memory():
    r = solve(AllPairs(N), solver=TooLarge(100))
    assert np.array_equal(r.values, TABLE[np.triu_indices(N, 1)])
    assert r.info["device"] == "cuda:0, then cpu"
    assert "ran out of memory after" in r.info["device_reason"]


def test_a_gpu_that_was_insisted_on_fails_with_a_reason():
    with pytest.raises(MemoryError, match="cuda:0 has too little free memory for tiles of 8 pairs"):
        solve(AllPairs(N), solver=TooLarge(100), required=True)


class NoRoom(Lookup):
    def on(self, device):
        import cupy

        raise cupy.cuda.memory.OutOfMemoryError("no memory")


def test_data_that_do_not_fit_are_solved_on_the_cpu():
    r = solve(AllPairs(N), solver=NoRoom())
    assert np.array_equal(r.values, TABLE[np.triu_indices(N, 1)])
    assert r.info["device"] == "cpu"


def test_another_error_of_the_gpu_comes_out():
    class Broken(Lookup):
        def solve(self, pairs, start, stop):
            raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        solve(AllPairs(N), solver=Broken())
