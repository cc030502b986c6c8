"""Pair sets describe an order; any range of it can be asked for without making the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, at_places, make_pairs, tiles


def listed(pairs, start, stop):
    return np.stack(pairs.indices(start, stop), axis=1).tolist()


@st.composite
def ranges(draw, size):
    start = draw(st.integers(0, size - 1))
    return start, draw(st.integers(start + 1, size))


@given(st.integers(2, 40), st.data())
def test_all_pairs_are_the_upper_triangle_row_by_row(n, data):
    pairs = AllPairs(n)
    rows, columns = np.triu_indices(n, 1)
    assert len(pairs) == len(rows)
    start, stop = data.draw(ranges(len(pairs)))
    assert listed(pairs, start, stop) == np.stack([rows, columns], axis=1)[start:stop].tolist()


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_cross_pairs_go_row_by_row(n, m, data):
    pairs = CrossPairs(n, m)
    start, stop = data.draw(ranges(n * m))
    assert listed(pairs, start, stop) == [[i, j] for i in range(n) for j in range(m)][start:stop]


@given(st.sampled_from([AllPairs(2), AllPairs(9), CrossPairs(1, 7), CrossPairs(6, 1), CrossPairs(5, 4)]), st.data())
def test_runs_are_the_same_pairs_row_by_row(pairs, data):
    start, stop = data.draw(ranges(len(pairs)))
    rows, columns, ends = pairs.runs(start, stop)
    assert listed(pairs, start, stop) == [
        [i, j] for i, a, b in zip(rows, columns, ends, strict=True) for j in range(a, b)
    ]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("n", [249_456, 2**31 + 11])
def test_billions_of_pairs_are_found_without_being_made(n):
    pairs = AllPairs(n)
    size = n * (n - 1) // 2
    assert AllPairs.__len__(pairs) == size
    assert listed(pairs, 0, 2) == [[0, 1], [0, 2]]
    assert listed(pairs, size - 3, size) == [[n - 3, n - 2], [n - 3, n - 1], [n - 2, n - 1]]
    for row in (1, 12_345, n // 2, n - 1000):
        start = row * n - row * (row + 1) // 2
        assert listed(pairs, start - 1, start + 2) == [[row - 1, n - 1], [row, row + 1], [row, row + 2]]


def test_listed_pairs_within_one_set_are_solved_as_smaller_and_larger():
    pairs = make_pairs(4, None, [(3, 1), (1, 3), (2, 2)])
    assert listed(pairs, 0, 3) == [[1, 3], [1, 3], [2, 2]]


def test_listed_pairs_of_two_sets_stay_as_given():
    pairs = make_pairs(4, 2, [(3, 1), (1, 0)])
    assert listed(pairs, 0, 2) == [[3, 1], [1, 0]]


@pytest.mark.parametrize(
    ("arguments", "kind", "symmetric"),
    [((3, None), AllPairs, True), ((3, 2), CrossPairs, False), ((3, None, [(0, 1)]), ListedPairs, True)],
)
def test_the_kind_of_pair_set_follows_from_the_call(arguments, kind, symmetric):
    pairs = make_pairs(*arguments)
    assert isinstance(pairs, kind)
    assert pairs.symmetric == symmetric


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_have_no_pairs(n):
    assert len(AllPairs(n)) == 0


@given(st.integers(0, 200), st.integers(1, 50))
def test_tiles_cover_everything_once_in_order(size, per_tile):
    cut = list(tiles(size, per_tile))
    assert [t for start, stop in cut for t in range(start, stop)] == list(range(size))
    assert all(0 < stop - start <= per_tile for start, stop in cut)


@given(st.data())
def test_pairs_at_any_places_are_those_of_the_order(data):
    n, m = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 12))
    within = ListedPairs(np.array([[1, 0], [0, 1], [1, 1]]), 2, 2, symmetric=True)
    for pairs in (AllPairs(n), CrossPairs(n, m), within):
        places = np.array(data.draw(st.lists(st.integers(0, len(pairs) - 1), max_size=6)), dtype=np.int64)
        expected = [listed(pairs, t, t + 1)[0] for t in places]
        found = at_places(pairs, places)
        assert listed(found, 0, len(places)) == expected
        assert (found.n_rows, found.n_columns, found.symmetric) == (pairs.n_rows, pairs.n_columns, pairs.symmetric)
