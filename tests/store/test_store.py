"""A store holds what the call would have returned, resumes, and refuses what is not its own."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import asot
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs
from asot.sinks import Store, TopK
from asot.store import files as store_files
from asot.store.grid import Grid, side_of_blocks

pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
POINTS = RNG.random((6, 2))
COST = np.sqrt(((POINTS[:, None] - POINTS) ** 2).sum(-1))
A = RNG.dirichlet(np.ones(6), 150)
B = RNG.dirichlet(np.ones(6), 70)
LISTED = RNG.integers(0, 150, (9000, 2))


@pytest.fixture(scope="module")
def matrix():
    return asot.emd_many(A, cost=COST).matrix()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.zarr"


@pytest.mark.parametrize(
    "pairs",
    [
        AllPairs(150),
        AllPairs(64),
        AllPairs(2),
        CrossPairs(130, 70),
        CrossPairs(3, 65),
        ListedPairs(LISTED, 150, 150, True),
    ],
    ids=str,
)
def test_the_blocks_of_a_grid_are_its_pairs_each_once(pairs):
    grid = Grid(pairs, 64)
    seen = []
    for number in range(len(grid)):
        assert grid.number(*grid.place(number)) == number
        block = grid.block(number)
        if len(block):
            seen += zip(*(index.tolist() for index in block.indices(0, len(block))), strict=True)
    assert sorted(seen) == sorted(zip(*(index.tolist() for index in pairs.indices(0, len(pairs))), strict=True))


def test_dear_pairs_make_small_blocks():
    cheap, dear = (side_of_blocks(AllPairs(100_000), seconds, 10.0, 1024) for seconds in (1e-7, 1e-3))
    assert (cheap, dear) == (1024, 64)


def test_a_store_holds_every_distance(path, matrix):
    stored = asot.emd_many(A, cost=COST, sink=Store(path), n_jobs=2)
    assert stored.is_complete
    assert stored.n_blocks == 6
    np.testing.assert_array_equal(np.asarray(stored), matrix)
    again = asot.open_store(path)
    assert again[17, 140] == again[140, 17] == matrix[17, 140]
    assert again[5, 5] == 0.0
    np.testing.assert_array_equal(again[99], matrix[99])
    np.testing.assert_array_equal(again[60:131, 3:70], matrix[60:131, 3:70])
    np.testing.assert_array_equal(again.values(), asot.emd_many(A, cost=COST).values)
    np.testing.assert_array_equal(again.condensed(path.parent / "all.npy"), again.values())
    with pytest.raises(IndexError):
        again[150]


def test_a_store_as_a_dask_array(path, matrix):
    pytest.importorskip("dask.array")
    stored = asot.emd_many(A, cost=COST, sink=Store(path))
    np.testing.assert_array_equal(stored.dask().compute(scheduler="synchronous"), matrix)


def test_two_sets_and_lists_of_pairs(tmp_path):
    rectangle = asot.emd_many(A, B, cost=COST, sink=Store(tmp_path / "two.zarr"))
    np.testing.assert_array_equal(np.asarray(rectangle), asot.emd_many(A, B, cost=COST).matrix())
    listed = asot.emd_many(A, cost=COST, pairs=LISTED, sink=Store(tmp_path / "list.zarr", fields=["values", "status"]))
    assert listed.n_blocks > 1
    np.testing.assert_array_equal(
        asot.open_store(tmp_path / "list.zarr").values(), asot.emd_many(A, cost=COST, pairs=LISTED).values
    )


def test_bounds_and_errors_are_stored(path):
    D = [RNG.normal(size=(7, 2)) for _ in range(70)]
    options = {"space": asot.KMeansAnchors(4, random_state=0).fit(D).space_, "bounds": True, "estimate": "calibrated"}
    stored = asot.pairwise(D, sink=Store(path), **options).distances()
    kept = asot.pairwise(D, **options)
    for name in ("values", "lower", "upper", "error"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(kept, name))


def test_float32_halves_the_store(path, matrix):
    stored = asot.emd_many(A, cost=COST, sink=Store(path, dtype="float32"))
    np.testing.assert_array_equal(np.asarray(stored), matrix.astype(np.float32))


@pytest.mark.parametrize("second", [None, B], ids=["within", "between"])
def test_stored_neighbors_are_those_of_the_sink(path, second):
    expected = asot.emd_many(A, second, cost=COST, sink=TopK(9))
    found = asot.emd_many(A, second, cost=COST, sink=Store(path, TopK(9))).top_k()
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    fewer = asot.open_store(path).top_k(2)
    np.testing.assert_array_equal(fewer.indices, expected.indices[:, :2])


@pytest.mark.parametrize("second", [None, A[:70]], ids=["one set", "two sets"])
@pytest.mark.parametrize("keep", [None, TopK(5)], ids=["values", "nearest"])
def test_a_last_row_of_blocks_may_be_alone(path, second, keep):
    found = asot.emd_many(A[:65], second, cost=COST, sink=Store(path, keep)).top_k(3)
    expected = asot.emd_many(A[:65], second, cost=COST, sink=TopK(3))
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_nearest_of_stored_values(path, matrix):
    expected = asot.emd_many(A, cost=COST, sink=TopK(4))
    found = asot.emd_many(A, cost=COST, sink=Store(path)).top_k(4)
    np.testing.assert_array_equal(found.indices, expected.indices)


# ------------------------------------------------------------------------------------------- resuming


class Counting:
    """Counts the pairs that are solved, by standing in for the solver's own method."""

    def __init__(self, monkeypatch):
        from asot.exact.shared_cost import ExactSharedCost

        self.pairs, original = 0, ExactSharedCost.solve

        def solve(solver, rows, columns, stop):
            self.pairs += len(rows)
            return original(solver, rows, columns, stop)

        monkeypatch.setattr(ExactSharedCost, "solve", solve)


def test_the_same_call_again_solves_nothing(path, matrix, monkeypatch):
    asot.emd_many(A, cost=COST, sink=Store(path))
    count = Counting(monkeypatch)
    np.testing.assert_array_equal(np.asarray(asot.emd_many(A, cost=COST, sink=Store(path))), matrix)
    assert count.pairs <= 1  # the one that tells what there is to store


def test_a_torn_or_missing_chunk_is_not_done(path, matrix, monkeypatch):
    asot.emd_many(A, cost=COST, sink=Store(path))
    (path / "values" / "c" / "0" / "1").unlink()
    torn = path / "values" / "c" / "2" / "2"
    torn.write_bytes(torn.read_bytes()[:100])
    assert asot.open_store(path).n_done == 4
    count = Counting(monkeypatch)
    stored = asot.emd_many(A, cost=COST, sink=Store(path))
    np.testing.assert_array_equal(np.asarray(stored), matrix)
    assert count.pairs == 64 * 64 + 22 * 21 // 2 + 1


def test_a_damaged_chunk_is_named(path):
    stored = asot.emd_many(A, cost=COST, sink=Store(path, TopK(3)))
    chunk = path / "distances" / "c" / "0" / "0" / "0"
    contents = bytearray(chunk.read_bytes())
    contents[5] ^= 255
    chunk.write_bytes(contents)
    with pytest.raises(ValueError, match=r"distances/c/0/0/0 is damaged .* run the same call again to solve it anew"):
        stored.top_k()


def test_ctrl_c_leaves_whole_blocks_and_the_next_call_goes_on(path, matrix):
    def press(done, total):
        if done > 5000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asot.emd_many(A, cost=COST, sink=Store(path), progress=press)
    assert 0 < asot.open_store(path).n_done < 6
    np.testing.assert_array_equal(np.asarray(asot.emd_many(A, cost=COST, sink=Store(path))), matrix)


def test_the_parts_bars_together_count_every_pair_once(path):
    totals = []
    for number in (1, 2, 3):
        seen = []
        sink = Store(path, part=(number, 3))
        asot.emd_many(A, cost=COST, sink=sink, progress=lambda done, total, seen=seen: seen.append((done, total)))
        assert seen[-1][0] == seen[-1][1]
        totals.append(seen[-1][1])
    assert sum(totals) == len(A) * (len(A) - 1) // 2


def test_parts_in_any_order_and_twice_make_the_whole(path, matrix):
    for number in (3, 1, 3, 4, 2):
        stored = asot.emd_many(A, cost=COST, sink=Store(path, part=(number, 4)))
    assert stored.is_complete
    np.testing.assert_array_equal(np.asarray(stored), matrix)


def test_what_is_not_done_is_not_a_number(path):
    stored = asot.emd_many(A, cost=COST, sink=Store(path, part=(1, 3)))
    assert not stored.is_complete
    assert np.isnan(np.asarray(stored)).any()
    for ask in (stored.distances, lambda: stored.top_k(2)):
        with pytest.raises(ValueError, match="blocks are done; run the same call again first"):
            ask()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"A": A + 1.0}, "inputs.A has changed"),
        ({"cost": 2 * COST}, "inputs.cost.exponent was 1 and is now 2"),
        ({"A": A[:99]}, "pairs.n_rows was 150 and is now 99"),
        ({"sink": TopK(3)}, "n_neighbors was None and is now 3"),
        ({"dtype": "float32"}, "fields"),
    ],
    ids=["other inputs", "another cost", "fewer rows", "another sink", "another precision"],
)
def test_another_call_is_refused_with_the_difference(path, change, says):
    asot.emd_many(A, cost=COST, sink=Store(path))
    sink = Store(path, change.get("sink"), dtype=change.get("dtype", "float64"))
    with pytest.raises(ValueError, match=f"holds the result of another call: .*{says}"):
        asot.emd_many(change.get("A", A), cost=change.get("cost", COST), sink=sink)


def test_arguments_are_named_before_what_follows_from_them(path):
    D = asot.Distributions(POINTS, [0, 2, 4, 6])
    asot.pairwise_exact(D, sink=Store(path))
    with pytest.raises(ValueError, match=r"the result of another call: p was 1 and is now 2; "):
        asot.pairwise_exact(D, p=2, sink=Store(path))


def test_another_version_of_asot_is_refused(path, monkeypatch):
    asot.emd_many(A, cost=COST, sink=Store(path))
    monkeypatch.setattr(asot, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"begun by asot .*, and this is asot 99\.0: last digits may differ"):
        asot.emd_many(A, cost=COST, sink=Store(path))


def test_a_file_is_left_alone(tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("dear")
    with pytest.raises(NotADirectoryError, match=r"letter\.txt is a file, and a store is a folder"):
        asot.emd_many(A, cost=COST, sink=Store(file))


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="other things in it"):
        asot.emd_many(A, cost=COST, sink=Store(tmp_path))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_store_is_reported(path):
    asot.emd_many(A, cost=COST, sink=Store(path, part=(1, 2)))
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o500)
    try:
        with pytest.raises(OSError, match="cannot be written"):
            asot.emd_many(A, cost=COST, sink=Store(path))
    finally:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)


def test_a_full_disk_is_reported_and_nothing_is_lost(path, matrix, monkeypatch):

    asot.emd_many(A, cost=COST, sink=Store(path, part=(1, 2)))
    full = monkeypatch.context()
    with full as patch:

        class Full:
            def __init__(self, array):
                self.array = array

            def __getitem__(self, index):
                return self.array[index]

            def __setitem__(self, index, values):
                raise OSError(28, "No space left on device")

        original = store_files.StoreFiles.array
        patch.setattr(store_files.StoreFiles, "array", lambda files, name: Full(original(files, name)))
        with pytest.raises(OSError, match=r"No space left on device\); 3 of 6 blocks are done and will be kept"):
            asot.emd_many(A, cost=COST, sink=Store(path))
    np.testing.assert_array_equal(np.asarray(asot.emd_many(A, cost=COST, sink=Store(path))), matrix)


# ------------------------------------------------------------------------------------------- from strangers


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(side=0),
        lambda m: m.update(side=2**30),
        lambda m: m.update(format=99),
        lambda m: m["pairs"].update(n_rows=-1),
        lambda m: m["pairs"].update(kind="everything"),
        lambda m: m.update(fields={"../../etc/passwd": "float64"}),
        lambda m: m.update(fields={"values": "object"}),
        lambda m: m.pop("pairs"),
    ],
)
def test_a_manifest_that_is_not_sound_is_refused(path, change):
    asot.emd_many(A, cost=COST, sink=Store(path))
    file = path / "zarr.json"
    whole = json.loads(file.read_text())
    change(whole["attributes"]["asot"])
    file.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=r"another format of asot|not an asot store"):
        asot.open_store(path)


def test_a_store_that_claims_much_allocates_little(path):
    asot.emd_many(A, cost=COST, sink=Store(path))
    file = path / "zarr.json"
    whole = json.loads(file.read_text())
    whole["attributes"]["asot"]["pairs"].update(n_rows=2**30, n_columns=2**30)
    file.write_text(json.dumps(whole))
    described = path / "values" / "zarr.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"shape": [2**30, 2**30]}))
    stored = asot.open_store(path)
    assert "6 of 140,737,496,743,936 blocks done" in repr(stored)  # by a look at the files
    with pytest.raises((MemoryError, ValueError, IndexError)):
        np.asarray(stored)


def test_there_must_be_a_store(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a store"):
        asot.open_store(tmp_path / "nothing.zarr")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="is not a store"):
        asot.open_store(tmp_path / "empty")


@pytest.mark.parametrize(
    "arguments",
    [{"dtype": "int8"}, {"fields": ["lower"]}, {"fields": ["values", "color"]}, {"part": (0, 3)}, {"keep": 5}],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(path, arguments):
    with pytest.raises(ValueError, match=r"must be|fields are|keeps every value"):
        Store(path, **arguments)


def test_a_store_keeps_the_names_of_rows_and_columns(path, tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.random((4, 2)) for _ in range(8)], ids=[f"P{i}" for i in range(8)])
    asot.pairwise_exact(D, sink=Store(path))
    r = asot.open_store(path)
    assert r.ids.tolist() == D.ids.tolist()
    assert r.distances().ids.tolist() == D.ids.tolist()
    assert r.top_k(2).neighbor_ids.tolist() == asot.kneighbors(D, 2).neighbor_ids.tolist()
    pandas.testing.assert_frame_equal(r.to_frame(), asot.pairwise_exact(D).to_frame())
    cross = asot.pairwise_exact(D[:3], D[3:], sink=Store(tmp_path / "cross.zarr"))
    assert cross.to_frame().columns.tolist() == D.ids[3:].tolist()
    plain = asot.emd_many(A[:5], cost=COST, sink=Store(tmp_path / "plain.zarr"))
    assert plain.ids.tolist() == [0, 1, 2, 3, 4]
    assert plain.names == (None, None)
