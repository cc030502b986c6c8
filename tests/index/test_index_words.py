"""Members that share points: kept once, bounded together, and found as brute force finds them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions
from asot.index import words
from asot.index.search import Queries
from tests.index.histories import PlainList, check_neighbors

WORDS = np.random.default_rng(0).normal(size=(60, 6))
STOP = np.zeros(1, dtype=np.int64)


def documents(count, seed=0, most=12):
    rng = np.random.default_rng(seed)
    return [WORDS[rng.permutation(len(WORDS))[: rng.integers(1, most)]] for _ in range(count)]


def queries_of(index, Q):
    return Queries(index._snapshot, index._settings, Q, index._snapshot.alive, 2**30, 1)


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev", "minkowski"])
def test_no_bound_of_words_exceeds_its_distance(metric):
    members, others = documents(300), np.random.default_rng(5).normal(size=(7, 6))
    index = asot.Index(metric=metric)
    index.add(members)
    assert index.info["bounds"] == ["words"]
    Q = Distributions.from_list([*documents(4, 1), others, np.concatenate([others, WORDS[:30]])])
    matrix = asot.pairwise_exact(Q, members, metric=metric).matrix()
    queries = queries_of(index, Q)
    for i in range(len(Q)):
        cheap = queries.one(i, STOP).cheap_bounds()
        fine = queries.one(i, STOP).fine_bounds(np.arange(300), cheap)[0]
        assert (cheap <= fine).all()
        assert (fine <= matrix[i] * (1 + 1e-12)).all()
        assert np.median(fine / np.maximum(matrix[i], 1e-9)) > 0.6
    check_neighbors(index.query(Q, 5), matrix, 5)


def test_relaxed_transport_of_words_is_what_its_formula_says():
    members = documents(300)
    index = asot.Index()
    index.add(members)
    Q = Distributions.from_list([np.random.default_rng(5).normal(size=(20, 6))])
    queries = queries_of(index, Q)
    bounds = queries.one(0, STOP).cheap_bounds()
    for member, bound in zip(members, bounds, strict=True):
        cost = np.linalg.norm(member[:, None] - Q.points, axis=2)
        assert bound == pytest.approx(max(cost.min(axis=1).mean(), cost.min(axis=0).mean()), rel=1e-4)


def test_room_for_few_rows_changes_no_bound(monkeypatch):
    index = asot.Index()
    index.add(documents(300))
    Q = Distributions.from_list(documents(1, 9))
    queries = queries_of(index, Q)
    before = queries.one(0, STOP).cheap_bounds()
    monkeypatch.setattr("asot.index.words._ROOM", 4 * 16 * 3)
    assert (queries.one(0, STOP).cheap_bounds() == before).all()


def test_a_history_of_documents_on_disk_ends_where_a_plain_list_does(tmp_path):
    path, plain, rng = tmp_path / "index", PlainList(), np.random.default_rng(3)
    asot.Index().save(path)
    index = asot.Index.open(path, mode="r+")
    for turn in range(24):
        ids = [f"m{i}" for i in rng.permutation(500)[:60].tolist()]
        clouds = documents(60, 10 + turn)
        clouds[0] = clouds[0] + rng.normal()  # words that nobody has had
        index.add(clouds, ids=ids, replace=True)
        plain.add(clouds, ids)
        gone = [list(plain.members)[i] for i in rng.permutation(len(plain.members))[:20]]
        index.remove(gone)
        plain.remove(gone)
        if turn % 5 == 4:
            (index.compact, index.rebuild)[turn % 2]()
        if turn % 4 == 3:
            plain.check(index, documents(2, turn), 4)
            index.close()
            plain.check(asot.Index.open(path), documents(2, turn), 4)
            index = asot.Index.open(path, mode="r+")
    assert index.info["bounds"] == ["words"]
    assert len(index._snapshot.tables["vocabulary"]) < len(index._snapshot.masses) / 3
    index.compact()
    used = np.unique(index._snapshot.tables["words"])
    assert used.tolist() == list(range(len(index._snapshot.tables["vocabulary"])))
    index.close()


def test_words_of_one_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(words, "_hashes", lambda rows: np.zeros(len(rows), dtype=np.uint64))
    members = documents(300)
    index = asot.Index()
    index.add(members)
    index.add(documents(20, 4))
    snapshot = index._snapshot
    kept = np.ldexp(snapshot.tables["vocabulary"][snapshot.tables["words"]].astype(float), snapshot.frame.exponent)
    np.testing.assert_allclose(kept + snapshot.frame.center, snapshot.points, atol=1e-5)


def test_a_failed_change_leaves_the_vocabulary_as_it_was(monkeypatch):
    index = asot.Index()
    index.add(documents(300))
    before = len(index._snapshot.tables["vocabulary"])
    columns = index._columns
    monkeypatch.setattr(type(columns), "append", lambda *_: (_ for _ in ()).throw(MemoryError("no room")))
    with pytest.raises(MemoryError):
        index.add([WORDS[:3] + 1.0])
    monkeypatch.undo()
    assert columns.tables["vocabulary"].n == before
    index.add([WORDS[:2] + 2.0], ids=["new"])
    everyone = [index[name][0] for name in index.ids.tolist()]
    Q = [WORDS[:2] + 2.1]
    check_neighbors(index.query(Q, 4), asot.pairwise_exact(Q, everyone).matrix(), 4)
    assert index.query(Q, 1).neighbor_ids.tolist() == [["new"]]


def test_members_and_queries_far_away_have_no_words():
    members, far = documents(300), WORDS[:3] * 1e15
    index = asot.Index()
    index.add(members)
    index.add([far], ids=["far"])
    Q = Distributions.from_list([WORDS[:5], far * 1.5])
    matrix = asot.pairwise_exact(Q, [*members, far]).matrix()
    check_neighbors(index.query(Q, 3), matrix, 3)


@pytest.mark.parametrize("number", [-7, 60, 2**31 - 1])
def test_numbers_of_words_that_never_were_are_no_bounds(tmp_path, number):
    members = documents(300)
    index = asot.Index()
    index.add(members)
    index.save(tmp_path / "index")
    generation = tmp_path / "index" / json.loads((tmp_path / "index" / "manifest.json").read_text())["generation"]
    words = np.fromfile(generation / "words.bin", dtype=np.int32)
    words[::3] = number
    words.tofile(generation / "words.bin")
    Q = documents(2, 1)
    found = asot.Index.open(tmp_path / "index").query(Q, 4)
    check_neighbors(found, asot.pairwise_exact(Q, members).matrix(), 4)
    (generation / "vocabulary.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="the folder is damaged"):
        asot.Index.open(tmp_path / "index")
