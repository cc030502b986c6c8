"""Two randomized attacks: on collections through the arrays they were made from, and on memory through small files.

Each runs for a few seconds with fixed seeds; ``ASOT_ATTACK_SECONDS=600 pytest tests/data/test_attacks.py`` runs
longer.
"""

import contextlib
import copy
import csv
import io
import itertools
import json
import os
import pickle
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import sparse

import asot
from asot.data import expansion
from asot.data.distributions import Distributions

SECONDS = float(os.environ.get("ASOT_ATTACK_SECONDS", "4"))


def rounds():
    """Generators of random numbers, one for each round, until the time is up."""
    started, seed = time.monotonic(), 0
    while time.monotonic() - started < SECONDS or seed < 20:
        yield np.random.default_rng(seed)
        seed += 1


# ------------------------------------------------------------------------------------------------------------ aliasing


def disguised(rng, array):
    """The numbers of an array in one of the many ways to hold them, and what they may lie in."""
    pandas = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    base = np.empty((2 * array.shape[0], *array.shape[1:]), dtype=array.dtype)
    match rng.integers(9):
        case 0:
            held = array.copy()
        case 1:
            base[::2] = array
            held = base[::2]
        case 2:
            held = np.asfortranarray(array)
        case 3:
            held = array.copy()
            held.flags.writeable = False
        case 4:
            base[: len(array)] = array
            held = base[: len(array)]
            held.flags.writeable = False
        case 5:
            held = torch.from_numpy(array.copy())
        case 6:
            held = pandas.DataFrame(array) if array.ndim == 2 else pandas.Series(array)
        case 7:
            held = np.frombuffer(bytearray(array.tobytes()), dtype=array.dtype).reshape(array.shape)
        case _:
            held = np.ma.masked_array(array.copy(), mask=False)
    return held, base


def spoil(held, base):
    """Change the numbers wherever they can be changed."""
    base[...] = np.nan if base.dtype.kind == "f" else -7
    if type(held).__module__.startswith("torch"):
        held[...] = float("nan") if held.is_floating_point() else -7
        return
    if hasattr(held, "iloc"):
        held.iloc[...] = -7
        held = held.to_numpy()
    for array in (held, getattr(held, "base", None)):
        if isinstance(array, np.ndarray):
            try:
                array.flags.writeable = True
                array[...] = np.nan if array.dtype.kind == "f" else -7
            except ValueError:
                pass


def made_of(rng, points, masses, sizes):
    """A collection from disguised arrays, in one of the ways to make one, and what was handed over."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    names = np.array([f"p{i}" for i in range(len(sizes))])
    handed = [disguised(rng, part) for part in (points, masses, offsets)]
    ids = names.copy()
    (p, _), (m, _), (o, _) = handed
    match rng.integers(4):
        case 0:
            D = Distributions(p, o, m, ids)
        case 1:
            D = Distributions.from_groups(p, np.repeat(ids, sizes), m)
        case 2:
            blocks = [(points[a:b].copy(), masses[a:b].copy()) for a, b in itertools.pairwise(offsets)]
            handed += [(part, part) for block in blocks for part in block]
            D = Distributions.from_list(blocks, ids=ids)
        case _:
            table = sparse.csr_array((masses.copy(), np.arange(len(points)), offsets.copy()))
            handed += [(part, part) for part in (table.data, table.indices, table.indptr)]
            D = Distributions.from_weights(table, p, ids)
    return D, [*handed, (ids, ids)]


def test_no_collection_changes_with_the_arrays_it_was_made_from():
    for rng in rounds():
        sizes = rng.integers(1, 6, size=rng.integers(2, 6))
        points = rng.normal(size=(sizes.sum(), rng.integers(1, 4))).astype(rng.choice([np.float32, np.float64]))
        D, handed = made_of(rng, points, rng.random(sizes.sum()) + 0.1, sizes)
        again = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), lambda x: x[:], lambda x: x + x]
        E = again[rng.integers(len(again))](D)
        before = [pickle.dumps([x.points, x.offsets, x.masses, x.totals, x.ids]) for x in (D, E)]
        pairs = np.array([[0, 1], [1, 0]])
        values = asot.pairwise_exact(D).values
        r = asot.pairwise_exact(D, pairs=pairs)
        for held, base in [*handed, (pairs, pairs)]:
            if getattr(held, "dtype", None) is not None and str(held.dtype).startswith("<U"):
                held[:] = "?"
            else:
                spoil(held, base)
        for x in (D, E):
            for array in (x.points, x.offsets, x.masses, x.totals, x.ids, x[0][0]):
                with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
                    array.flags.writeable = True
        assert [pickle.dumps([x.points, x.offsets, x.masses, x.totals, x.ids]) for x in (D, E)] == before
        assert asot.pairwise_exact(D).values.tolist() == values.tolist()
        assert r.pairs.tolist() == [[0, 1], [1, 0]]


# ------------------------------------------------------------------------------------------------------- hostile files

KINDS = [np.int8, np.bool_, np.uint16, np.float16, np.float32, np.float64]


def zipped(path, arrays, level):
    """An .npz file, as small as it gets."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED, compresslevel=9) as target:
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            target.writestr(f"{name}.npy", stream.getvalue())


def header(kind, **more):
    return np.frombuffer(json.dumps({"format": "asot", "version": 1, "kind": kind, **more}).encode(), np.uint8)


def hostile_collection(rng, path):
    n, d = int(10 ** rng.uniform(1, 5.8)), int(rng.integers(1, 4))
    N = int(rng.choice([1, 2, min(n, 1000), n]))
    arrays = {"points": np.zeros((n, d), rng.choice(KINDS)), "offsets": np.r_[np.arange(N), n].astype(np.int64)}
    if rng.random() < 0.5:
        arrays["masses"] = np.ones(n, rng.choice([np.int8, np.float64]))
    if rng.random() < 0.5 and N <= 1000:
        arrays["ids"] = np.array(["a"] * (N - 1) + ["b" * int(10 ** rng.uniform(0, 4))])
    zipped(path, arrays, rng.integers(2))
    return asot.load_collection


def hostile_space(rng, path):
    k = int(10 ** rng.uniform(0.5, 3.7))
    arrays = {
        "header": header("anchor-space"),
        "anchors": np.zeros((k, int(rng.integers(1, 3))), rng.choice(KINDS[2:])),
    }
    zipped(path, arrays, 1)
    return asot.AnchorSpace.load


def hostile_distances(rng, path):
    n = int(10 ** rng.uniform(0.5, 3))
    count = n * (n - 1) // 2
    pairs = {"which": "all", "n_rows": n, "n_columns": n, "symmetric": True}
    arrays = {"header": header("distances", pairs=pairs, info={}), "values": np.zeros(count, rng.choice(KINDS[3:]))}
    arrays |= {"status": np.zeros(count, np.int8), "n_iter": np.zeros(count, np.int8)}
    if rng.random() < 0.3:
        arrays["plans_f"] = np.zeros((count, 30))
    zipped(path, arrays, 1)
    return asot.load_distances


def hostile_csv(rng, path):
    lines, length = int(10 ** rng.uniform(0, 4)), int(10 ** rng.uniform(0, 5))
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", *(f"x{c}" for c in range(rng.integers(1, 4)))][:2])
        writer.writerow(["b" * length, 0])
        writer.writerows([i if rng.random() < 0.5 else "a", 0] for i in range(lines))
    return asot.load_collection


def hostile_distance_csv(rng, path):
    with open(path, "w") as stream:
        stream.write("id_i,id_j,distance\n" + f"{'b' * int(10 ** rng.uniform(0, 5))},c,1\n")
        stream.writelines(f"a,{i},1\n" for i in range(int(10 ** rng.uniform(0, 4))))
    return asot.load_distances


def hostile_parquet(rng, path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    n = int(10 ** rng.uniform(0, 5.8))
    ids = arrow.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["a" * int(10 ** rng.uniform(0, 4))])
    table = arrow.table({"id": ids if rng.random() < 0.5 else np.zeros(n, np.int8), "x": np.zeros(n, np.int8)})
    parquet.write_table(table, path, compression=str(rng.choice(["zstd", "snappy"])))
    return asot.load_collection


HOSTILE = {
    "c.npz": hostile_collection,
    "s.npz": hostile_space,
    "d.npz": hostile_distances,
    "c.csv": hostile_csv,
    "d.csv": hostile_distance_csv,
    "c.parquet": hostile_parquet,
}


def test_no_file_takes_more_memory_than_its_size_accounts_for(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "FLOOR", 2**20)  # so that small files show it
    asot.AnchorSpace(np.eye(2))  # which imports what costs are computed with, whatever becomes of the first file
    for name, hostile in HOSTILE.items():  # what is imported on first use is no part of the file
        with contextlib.suppress(ValueError):
            hostile(np.random.default_rng(0), tmp_path / name)(tmp_path / name)
    accepted = refused = 0
    for rng in rounds():
        name = str(rng.choice(list(HOSTILE)))
        path = tmp_path / name
        load = HOSTILE[name](rng, path)
        limit = max(expansion.FLOOR, expansion.FACTOR * path.stat().st_size) + 2**22  # and what Python itself takes
        tracemalloc.start()
        try:
            load(path)
            accepted += 1
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
            refused += 1
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak <= limit, (name, path.stat().st_size, peak)
    assert accepted > 3
    assert refused > 3


@pytest.mark.parametrize("name", HOSTILE)
def test_the_files_that_took_gigabytes_are_refused_with_a_way_out(tmp_path, name, monkeypatch):
    path = tmp_path / name
    if name == "c.npz":
        zipped(path, {"points": np.zeros((30_000_000, 1), np.int8), "offsets": np.array([0, 30_000_000])}, 1)
    elif name == "s.npz":
        zipped(path, {"header": header("anchor-space"), "anchors": np.zeros((20_000, 1), np.float16)}, 1)
    elif name == "c.parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        n = 20_000_000
        parquet.write_table(arrow.table({"id": np.zeros(n, np.int8), "x": np.zeros(n, np.int8)}), path)
    else:
        pytest.skip("tables of text take what they hold: the attack above measures it")
    with pytest.raises(ValueError, match=r"takes about .* of memory to read; .* ASOT_MAX_EXPANSION=\d+"):
        (asot.AnchorSpace.load if name == "s.npz" else asot.load_collection)(path)
    monkeypatch.setenv("ASOT_MAX_EXPANSION", "lots")
    with pytest.raises(ValueError, match="ASOT_MAX_EXPANSION must be a number ≥ 1; found 'lots'"):
        (asot.AnchorSpace.load if name == "s.npz" else asot.load_collection)(path)


def test_a_trusted_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "c.npz"
    monkeypatch.setattr(expansion, "FLOOR", 2**20)
    zipped(path, {"points": np.zeros((300_000, 1), np.int8), "offsets": np.array([0, 300_000])}, 1)
    with pytest.raises(ValueError, match="ASOT_MAX_EXPANSION"):
        asot.load_collection(path)
    monkeypatch.setenv("ASOT_MAX_EXPANSION", "100000")
    assert len(asot.load_collection(path)) == 1
