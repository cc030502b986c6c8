"""The result object: an order, a matrix where there is one, and a sentence for every status."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import squareform

import asot
from asot.results.distances import Distances
from asot.run.pairs import make_pairs
from asot.run.protocols import Status

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


# ------------------------------------------------------------------------------------- results in the rest of the world


def named_distances():
    D = asot.Distributions.from_list([[[0.0]], [[1.0]], [[5.0]]], ids=["eve", "adam", "bo"])
    E = asot.Distributions.from_list([[[2.0]], [[7.0]]], ids=[10, 20])
    return asot.pairwise_exact(D), asot.pairwise_exact(D, E)


def test_a_result_is_its_matrix_for_everyone_else():
    from scipy.spatial.distance import squareform
    from sklearn.cluster import DBSCAN

    within, between = named_distances()
    np.testing.assert_array_equal(np.asarray(within), within.matrix())
    np.testing.assert_array_equal(squareform(within), within.values)
    assert DBSCAN(eps=1.5, min_samples=2, metric="precomputed").fit(within).labels_.tolist() == [0, 0, -1]
    assert np.asarray(between, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy=False is not possible"):
        np.asarray(within, copy=False)
    with pytest.raises(ValueError, match="does not fill a matrix"):
        np.asarray(asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), pairs=[[0, 1]]))


def test_results_keep_the_names_of_their_collections():
    within, between = named_distances()
    assert within.ids.tolist() == within.ids_columns.tolist() == ["eve", "adam", "bo"]
    assert between.ids_columns.tolist() == [10, 20]
    assert asot.emd_many(np.eye(3), cost=1.0 - np.eye(3)).ids.tolist() == [0, 1, 2]
    D = asot.Distributions.from_list([[[0.0]], [[1.0]], [[5.0]]], ids=["eve", "adam", "bo"])
    found = asot.kneighbors(D, 1)
    assert found.ids.tolist() == ["eve", "adam", "bo"]
    assert found.neighbor_ids.tolist() == [["adam"], ["eve"], ["adam"]]
    assert found.to_frame()["neighbor"].tolist() == ["adam", "eve", "adam"]
    assert asot.kneighbors(D[:1], D, 1).neighbor_ids.tolist() == [["eve"]]
    near = asot.radius_neighbors(D, radius=1.0)
    assert near.neighbor_ids.tolist() == ["adam", "eve"]
    assert asot.pairwise(D, random_state=0, estimate="anchor").ids.tolist() == D.ids.tolist()


def test_frames_are_labeled():
    within, between = named_distances()
    assert within.to_frame().loc["eve", "bo"] == 5.0
    assert between.to_frame().loc["bo", 20] == 2.0
    long = between.to_frame("long")
    assert long.columns.tolist() == ["id_i", "id_j", "distance"]
    assert long.iloc[5].tolist() == ["bo", 20, 2.0]
    listed = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), pairs=[[2, 0]]).to_frame("long")
    assert listed[["id_i", "id_j"]].to_numpy().tolist() == [[2, 0]]
    with pytest.raises(ValueError, match="form must be one of 'square', 'long'; found 'wide'"):
        within.to_frame("wide")


def test_a_number_in_the_place_of_a_collection_is_the_number_of_neighbors():
    D = asot.Distributions.from_list([[[float(i)]] for i in range(6)])
    np.testing.assert_array_equal(asot.kneighbors(D, 3).indices, asot.kneighbors(D, n_neighbors=3).indices)


def test_neighbors_are_reported_in_a_line():
    D = asot.Distributions.from_list([[[float(i)]] for i in range(6)])
    assert repr(asot.kneighbors(D, 3)).startswith("Neighbors: the 3 nearest of each of 6, 1 to 3; ")
    assert repr(asot.radius_neighbors(D, radius=1.0)).startswith("RadiusNeighbors: 10 neighbors of 6; ")
    assert len(repr(asot.kneighbors(D, 3))) < 100


def test_a_plan_is_read_by_groups():
    D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0], [3.5]]], ids=["eve", "adam"])
    T = asot.plan(D, "eve", "adam", exact=True)
    assert T.ids == ("eve", "adam")
    moved = T.by(["B", "T"], ["T", "T", "B"])
    assert moved.index.tolist() == moved.columns.tolist() == ["B", "T"]
    np.testing.assert_allclose(moved.to_numpy().sum(), 1.0)
    np.testing.assert_allclose(moved.sum(axis=1), [0.5, 0.5])
    np.testing.assert_allclose(moved.sum(axis=0), [1 / 3, 2 / 3])
    with pytest.raises(ValueError, match=r"groups_j must have one group for each of the 3 points; found shape \(2,\)"):
        T.by(["B", "T"], ["T", "T"])


def test_a_result_never_holds_what_is_no_number():
    r = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3))
    with pytest.raises(ArithmeticError, match=r"the distance of the pair \(0, 2\) is not a number"):
        Distances(np.array([1.0, np.nan, 0.0]), r.status, r.n_iter, r.pair_set)


def test_estimators_that_take_precomputed_distances_take_a_result():
    from sklearn.cluster import HDBSCAN, AgglomerativeClustering
    from sklearn.neighbors import KNeighborsClassifier

    D = asot.Distributions.from_list([[[float(i + 20 * (i % 2))]] for i in range(14)])
    r, groups = asot.pairwise_exact(D), np.arange(14) % 2
    by_density = HDBSCAN(min_cluster_size=3, metric="precomputed", copy=True)
    by_merging = AgglomerativeClustering(2, metric="precomputed", linkage="average")
    for model in (by_density, by_merging):
        labels = model.fit(r).labels_
        assert len(set(labels[groups == 0])) == len(set(labels[groups == 1])) == 1
    assert KNeighborsClassifier(3, metric="precomputed").fit(r, groups).score(r, groups) == 1.0
