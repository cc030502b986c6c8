"""The result object: an order, a matrix where there is one, and a sentence for every status."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import squareform

import asot
from asot.run.pairs import make_pairs
from asot.run.result import Distances, Status

LINE = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))


def distances(values, n_rows, n_columns=None, listed=None, status=Status.OPTIMAL):
    values = np.asarray(values, dtype=float)
    return Distances(
        values,
        np.full(len(values), status, dtype=np.int8),
        np.zeros(len(values), dtype=np.int32),
        make_pairs(n_rows, n_columns, listed),
        info={"solver": "by hand"},
    )


def test_the_matrix_of_one_set_is_symmetric_with_a_zero_diagonal():
    result = asot.emd_many(np.eye(5), cost=LINE)
    np.testing.assert_array_equal(result.matrix(), LINE)
    np.testing.assert_array_equal(squareform(result.matrix()), result.values)


def test_the_matrix_of_two_sets_is_row_by_row():
    np.testing.assert_array_equal(distances([1, 2, 3, 4, 5, 6], 2, 3).matrix(), [[1, 2, 3], [4, 5, 6]])


def test_changing_a_matrix_leaves_the_values():
    for result in (distances([1, 2, 3], 3), distances([1, 2, 3], 1, 3)):
        result.matrix()[:] = 9
        assert result.values.tolist() == [1, 2, 3]


def test_a_list_of_pairs_has_no_matrix():
    with pytest.raises(ValueError, match="a list of 1 pairs does not fill a matrix"):
        distances([1], 3, listed=[(0, 2)]).matrix()


@pytest.mark.parametrize(
    ("arguments", "pairs"),
    [
        ((3,), [[0, 1], [0, 2], [1, 2]]),
        ((2, 2), [[0, 0], [0, 1], [1, 0], [1, 1]]),
        ((3, None, [(2, 0), (1, 1)]), [[2, 0], [1, 1]]),
        ((1,), []),
    ],
)
def test_pairs_are_in_the_order_of_the_values(arguments, pairs):
    assert distances(np.zeros(len(pairs)), *arguments).pairs.tolist() == pairs


def test_repr_tells_a_person_what_they_hold():
    assert repr(distances([1, 2, 6], 3)) == "Distances: 3 pairs, 1 to 6 (mean 3), by hand"
    assert repr(distances([1, 2, 6], 3, status=Status.MAX_ITER)).endswith("; 3 not converged")
    assert repr(distances([], 1)) == "Distances: no pairs"


def test_every_status_has_a_sentence():
    assert len({status.text for status in Status}) == len(Status)
    assert "raise max_iter" in Status.MAX_ITER.text


def test_a_result_cannot_be_changed():
    with pytest.raises(AttributeError):
        distances([1], 2).values = np.zeros(1)
