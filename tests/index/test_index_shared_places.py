"""Columns that take little room: places kept once where points repeat, coarse means in steps; and those of format 1."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions
from asot.index import folder, frame, growing
from asot.index.search import Queries
from tests.index.histories import PlainList, check_neighbors

STOP = np.zeros(1, dtype=np.int64)
POOL = np.random.default_rng(0).normal(size=(3000, 5))


def bags(count, seed=0, pool=POOL):
    """Clouds of about eight points, of which more than half are nobody else's."""
    rng = np.random.default_rng(seed)
    return [pool[rng.integers(len(pool), size=rng.integers(4, 12))] for _ in range(count)]


def queries_of(index, Q):
    return Queries(index._snapshot, index._settings, Q, index._snapshot.alive, 2**30, 1)


def filled(members, **words):
    index = asot.Index(**words)
    index.add(members)
    return index


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
@pytest.mark.parametrize("p", [1, 2])
def test_bounds_of_shared_places_are_those_of_places(metric, p, monkeypatch):
    members, Q = bags(400), Distributions.from_list([*bags(4, 1), *bags(2, 2, 3.0 * POOL)])
    shared = filled(members, metric=metric, p=p)
    assert shared._frame.has_words
    assert shared._frame.has_places
    assert shared._columns.tables["vocabulary"].n < shared._columns.tables["words"].n
    monkeypatch.setattr(frame, "REPEATED", 0.0)
    apart = filled(members, metric=metric, p=p)
    assert not apart._frame.has_words
    matrix, every = asot.pairwise_exact(Q, members, metric=metric, p=p).matrix(), np.arange(400)
    for i in range(len(Q)):
        found = []
        for index in (shared, apart):
            query = queries_of(index, Q).one(i, STOP)
            found.append(query.fine_bounds(every, query.cheap_bounds())[0])
        np.testing.assert_array_equal(*found)
        assert (found[0] <= matrix[i] * (1 + 1e-12)).all()
    check_neighbors(shared.query(Q, 5), matrix, 5)


def test_words_that_a_file_cannot_mean_give_no_bound(tmp_path):
    path, members = tmp_path / "index", bags(400)
    filled(members).save(path)
    file = path / "g000001" / "words.bin"
    words = np.fromfile(file, dtype="<i4")
    words[::3] = [-7, 2**30] * (len(words[::3]) // 2) + [-1] * (len(words[::3]) % 2)
    words.tofile(file)
    Q = bags(3, 5)
    matrix = asot.pairwise_exact(Distributions.from_list(Q), members).matrix()
    check_neighbors(asot.Index.open(path).query(Q, 5), matrix, 5)


def test_a_history_of_shared_places_on_disk_ends_where_a_plain_list_does(tmp_path):
    path, plain, rng = tmp_path / "index", PlainList(), np.random.default_rng(3)
    asot.Index().save(path)
    for turn in range(8):
        with asot.Index.open(path, mode="r+") as index:
            ids = [f"m{i}" for i in rng.permutation(900)[:150].tolist()]
            clouds = bags(150, 10 + turn)
            clouds[0] = 1e6 * clouds[0]  # too far for places
            index.add(clouds, ids=ids, replace=True)
            plain.add(clouds, ids)
            gone = [list(plain.members)[i] for i in rng.permutation(len(plain.members))[:30]]
            index.remove(gone)
            plain.remove(gone)
            if turn == 5:
                index.compact()
    index = asot.Index.open(path)
    assert index._frame.has_words
    assert index._frame.has_places
    Q = bags(4, 99)
    matrix = asot.pairwise_exact(Distributions.from_list(Q), list(plain.members.values())).matrix()
    found = index.query(Q, 7)
    check_neighbors(found, matrix, 7)
    assert found.n_exact < matrix.size / 4


def test_an_index_of_format_1_opens_and_can_be_written(tmp_path, monkeypatch):
    path, members, Q = tmp_path / "index", bags(400), bags(4, 1)
    make = growing.make_frame
    with monkeypatch.context() as before:
        before.setattr(growing, "make_frame", lambda *given: replace(make(*given), is_brief=False, has_words=False))
        before.setattr(folder, "VERSION", 1)
        filled(members).save(path)
    manifest = path / "manifest.json"
    assert json.loads(manifest.read_text())["version"] == 1
    matrix = asot.pairwise_exact(Distributions.from_list(Q), members).matrix()
    check_neighbors(asot.Index.open(path).query(Q, 5), matrix, 5)
    assert json.loads(manifest.read_text())["version"] == 1
    with asot.Index.open(path, mode="r+") as index:
        assert json.loads(manifest.read_text())["version"] == 2
        index.add(Q)
        assert not index._frame.is_brief
        index.rebuild()
        assert index._frame.is_brief
        assert (index.query(Q, 1).distances == 0).all()


def test_means_in_steps_are_apart_by_no_more_than_before():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(50, 16)).astype(np.float32)
    means[7] = np.nan
    means[8, 3], means[9, 3] = 1e30, -1e30
    short = frame.in_steps(means, 1e-3).astype(float)
    assert short[7, 0] == frame.NONE
    assert (short[:7] != frame.NONE).all()
    kept = np.delete(np.arange(50), 7)
    gaps = np.abs(short[kept, None] - short[kept]) * 1e-3
    assert (gaps <= np.abs(means[kept, None].astype(float) - means[kept]) + 1.001e-3).all()
