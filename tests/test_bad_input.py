"""Every mistake gets an error that says what was found, where, and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import asot
from asot import Distributions
from asot.data.distributions import as_distributions
from asot.results.sinks import Callback, Dense, Radius, TopK

COST = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
THREE = np.eye(3)
NAN, INF = np.nan, np.inf


def raises_saying(message, kind=ValueError):
    return pytest.raises(kind, match=re.escape(message))


def changed(array, index, value):
    new = np.array(array, dtype=float)
    new[index] = value
    return new


def solve(A=THREE, B=None, *, cost=COST, **options):
    return asot.emd_many(A, B, cost=cost, **options)


# ------------------------------------------------------------------------------------------- collections


@pytest.mark.parametrize(("value", "text"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf")])
def test_points_that_are_not_finite(value, text):
    points = changed(np.zeros((5, 2)), (4, 1), value)
    with raises_saying(f"distribution 1 ('b') has the coordinate {text} at point 2, column 1; points must be finite"):
        Distributions(points, [0, 2, 5], ids=["a", "b"])
    with raises_saying(f"distribution 1 has the coordinate {text} at point 2"):
        Distributions.from_list([points[:2], points[2:]])
    with raises_saying(f"distribution 1 ('9') has the coordinate {text} at point 2"):
        Distributions.from_groups(points, [7, 7, 9, 9, 9])
    with raises_saying(f"distribution 4 has the coordinate {text} at point 0"):
        Distributions.from_weights(np.eye(5), points)


@pytest.mark.parametrize(("value", "text"), [(NAN, "nan"), (INF, "inf")])
def test_masses_that_are_not_finite(value, text):
    masses = changed(np.ones(5), 3, value)
    with raises_saying(f"distribution 1 has the mass {text} at point 1; masses must be finite"):
        Distributions(np.zeros((5, 2)), [0, 2, 5], masses)
    with raises_saying(f"distribution 0 has the mass {text} at point 1"):
        Distributions.from_weights([[1.0, value]], np.eye(2))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"p": 10**400}, "p must be a finite number ≥ 1; found 1000"),
        ({"unmatched": 10**400}, "unmatched must be a positive price; found 1000"),
        ({"memory": 10**400}, "memory must be a number of bytes or a string such as '2G'; found 1000"),
    ],
)
def test_options_that_no_float_can_hold(option, message):
    with raises_saying(message):
        asot.pairwise_exact(CLOUDS, **option)
    assert asot.pairwise_exact(CLOUDS, memory=2**70).values.shape == (3,)


def test_a_number_that_no_float_can_hold():
    with raises_saying("points must hold numbers: int too large to convert to float"):
        Distributions(np.array([[10**400]], dtype=object), [0, 1])


@pytest.mark.parametrize("ids", [["a", None], [0.0, NAN], ["a", NAN]], ids=repr)
def test_ids_that_are_missing(ids):
    with raises_saying(f"id 1 is missing ({ids[1]}); every distribution needs one, or leave out ids"):
        Distributions.from_list([[[0.0]], [[1.0]]], ids=ids)


def test_a_dictionary_of_arrays():
    with raises_saying("of a dictionary: from_list(list(d.values()), ids=list(d))", TypeError):
        Distributions.from_list({"a": [[0.0]], "b": [[1.0]]})


def test_a_negative_mass():
    with raises_saying("distribution 1 ('patient-17') has a negative mass (-0.2 at point 2); masses must be ≥ 0"):
        Distributions(np.zeros((5, 2)), [0, 2, 5], [1, 1, 1, 1, -0.2], ids=["patient-3", "patient-17"])
    with raises_saying("distribution 0 has a negative mass (-1 at point 1)"):
        Distributions.from_weights([[2.0, -1.0]], np.eye(2))


def test_a_zero_total():
    with raises_saying("distribution 1 ('b') has zero total mass; drop it or give it mass"):
        Distributions(np.zeros((5, 2)), [0, 2, 5], [1, 1, 0, 0, 0], ids=["a", "b"])
    with raises_saying("distribution 1 has zero total mass; drop row 1 of the weights"):
        Distributions.from_weights([[1.0, 1.0], [0.0, 0.0]], np.eye(2))


def test_an_empty_distribution():
    with raises_saying("distribution 1 is empty; drop it, a distribution needs at least one point"):
        Distributions(np.zeros((5, 2)), [0, 2, 2, 5])
    with raises_saying("distribution 1 ('b') is empty"):
        Distributions.from_list([np.zeros((2, 2)), np.zeros((0, 2))], ids=["a", "b"])


def test_an_empty_distribution_is_called_by_its_name_wherever_it_has_one():
    with raises_saying("distribution 1 ('b') is empty"):
        Distributions(np.zeros((5, 2)), [0, 2, 2, 5], ids=["a", "b", "c"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Distributions.from_list([]),
        lambda: Distributions(np.zeros((0, 2)), [0]),
        lambda: Distributions.from_groups(np.zeros((0, 2)), []),
        lambda: Distributions.from_weights(np.zeros((0, 2)), np.eye(2)),
    ],
    ids=["list", "flat", "groups", "weights"],
)
def test_an_empty_collection(make):
    with raises_saying("the collection is empty"):
        make()


def test_mixed_dimensions():
    message = "distribution 2 ('c') has points in 3 dimensions, but distribution 0 ('a') in 2; all distributions must"
    with raises_saying(message):
        Distributions.from_list([np.zeros((1, 2)), np.zeros((4, 2)), np.zeros((1, 3))], ids=["a", "b", "c"])


def test_points_of_the_wrong_shape():
    with raises_saying("distribution 0 must be points (n, d); found shape (3,); use x[:, None] for points on a line"):
        Distributions.from_list([np.zeros(3)])
    with raises_saying("points must be (n, d) with d ≥ 1; found shape (3,)"):
        Distributions(np.zeros(3), [0, 3])
    with raises_saying("points must be (n, d) with d ≥ 1; found shape (3, 0)"):
        Distributions(np.zeros((3, 0)), [0, 3])


@pytest.mark.parametrize("points", [[["a", "b"]], np.ones((2, 2), dtype=complex)])
def test_points_that_are_not_numbers(points):
    with raises_saying("points must hold numbers"):
        Distributions(points, [0, len(points)])


def test_points_of_ragged_rows():
    with raises_saying("points cannot be read as an array"):
        Distributions([[1.0, 2.0], [3.0]], [0, 2])


def test_offsets_that_do_not_increase():
    with raises_saying("offsets must increase, but offsets[2] = 1 follows 3"):
        Distributions(np.zeros((5, 2)), [0, 3, 1, 5])


@pytest.mark.parametrize(("offsets", "found"), [([1, 5], "1 and 5"), ([0, 4], "0 and 4"), ([0, 2, 9], "0 and 9")])
def test_offsets_that_do_not_match_the_points(offsets, found):
    with raises_saying(f"offsets must start at 0 and end at the number of points, 5; found {found}"):
        Distributions(np.zeros((5, 2)), offsets)


@pytest.mark.parametrize("offsets", [[0.0, 5.0], [[0, 5]], ["0", "5"]])
def test_offsets_that_are_not_a_row_of_whole_numbers(offsets):
    with raises_saying("offsets must be integers (N + 1,)"):
        Distributions(np.zeros((5, 2)), offsets)


def test_labels_of_the_wrong_length():
    with raises_saying("labels must hold one label for each of the 5 points; found shape (4,)"):
        Distributions.from_groups(np.zeros((5, 2)), [0, 0, 1, 1])


def test_labels_that_are_missing():
    with raises_saying("label 1 is missing (nan); every point needs one"):
        Distributions.from_groups(np.zeros((2, 2)), [0.0, NAN])
    with raises_saying("label 1 is missing (None); every point needs one"):
        Distributions.from_groups(np.zeros((2, 2)), np.array(["a", None], dtype=object))
    with raises_saying("labels cannot be ordered"):
        Distributions.from_groups(np.zeros((2, 2)), np.array(["a", 1], dtype=object))


def test_masses_of_the_wrong_length():
    with raises_saying("masses must hold one mass for each of the 5 points; found shape (4,)"):
        Distributions(np.zeros((5, 2)), [0, 5], np.ones(4))
    with raises_saying("masses must hold one mass for each of the 5 points; found shape (4,)"):
        Distributions.from_groups(np.zeros((5, 2)), np.zeros(5, dtype=int), np.ones(4))
    with raises_saying("distribution 0 has 5 points but masses of shape (4,)"):
        Distributions.from_list([np.zeros((5, 2))], [np.ones(4)])
    with raises_saying("masses has 2 entries for 1 distributions"):
        Distributions.from_list([np.zeros((5, 2))], [np.ones(5), np.ones(5)])


def test_ids_of_the_wrong_length():
    with raises_saying("ids must name each of the 2 distributions; found 1"):
        Distributions(np.zeros((5, 2)), [0, 2, 5], ids=["a"])
    with raises_saying("ids must name each of the 1 distributions; found 2"):
        Distributions.from_list([np.zeros((5, 2))], ids=["a", "b"])


def test_weights_of_another_vocabulary():
    with raises_saying("weights are over 3 points, but the support has 2"):
        Distributions.from_weights(np.eye(3), np.eye(2))
    with raises_saying("weights must be (N, V); found shape (3,)"):
        Distributions.from_weights(np.ones(3), np.eye(3))


@pytest.mark.parametrize("values", [3, "points", None])
def test_something_that_is_not_a_collection(values):
    with raises_saying("expected asot.Distributions or a list of point arrays (n_i, d)", TypeError):
        as_distributions(values)


def test_an_empty_list_is_an_empty_collection():
    with raises_saying("the collection is empty: from_list needs at least one distribution"):
        asot.pairwise_exact([])


# ------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        (np.ones(3), "cost must be a matrix (k, l); found shape (3,)"),
        (np.ones((0, 0)), "cost must be a matrix (k, l); found shape (0, 0)"),
        (np.ones((3, 2)), "cost has shape (3, 2); distances within one set need a square one"),
        (changed(COST, (1, 2), NAN), "cost[1, 2] is nan; costs must be finite"),
        (changed(COST, (0, 1), INF), "cost[0, 1] is inf; costs must be finite"),
        (changed(COST, (2, 0), -1), "cost[2, 0] is negative (-1); costs must be ≥ 0"),
        (changed(COST, (0, 2), 5), "cost is not symmetric: cost[0, 2] = 5 but cost[2, 0] = 2"),
        (changed(COST, (1, 1), 5), "cost[1, 1] = 5; distances within one set need a zero diagonal"),
        ([["a"]], "cost must hold numbers"),
    ],
)
def test_a_cost_that_is_not_a_cost(cost, message):
    with raises_saying(message):
        solve(cost=cost)


@pytest.mark.parametrize("cost", [np.ones(3), changed(COST, (1, 2), NAN), -COST])
def test_a_single_pair_checks_its_cost_too(cost):
    with raises_saying("cost"):
        asot.emd([1, 0, 0], [0, 1, 0], cost)


def test_an_asymmetric_cost_comes_with_its_remedy():
    cost = changed(COST, (0, 2), 5)
    with raises_saying("pass B=A to solve both directions"):
        solve(cost=cost)
    assert solve(THREE, THREE, cost=cost).matrix()[0, 2] == 5.0


# ------------------------------------------------------------------------------------------- histograms


def test_histograms_that_are_not_on_the_anchors_of_the_cost():
    with raises_saying(
        "A has histograms on 4 anchors, but the cost has 3; histograms and cost must be on the same anchors"
    ):
        solve(np.eye(4))
    with raises_saying("B has histograms on 3 anchors, but the cost has 2"):
        solve(np.eye(3), np.eye(3), cost=np.ones((3, 2)))
    with raises_saying("b has histograms on 2 anchors, but the cost has 3"):
        asot.emd([1, 0, 0], [0, 1], COST)


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (changed(THREE, (1, 2), NAN), "histogram 1 of A is nan at anchor 2; masses must be finite"),
        (changed(THREE, (0, 1), INF), "histogram 0 of A is inf at anchor 1; masses must be finite"),
        (changed(THREE, (2, 0), -0.5), "histogram 2 of A has a negative mass (-0.5 at anchor 0)"),
        (changed(THREE, 1, 0), "histogram 1 of A has zero total mass; drop it or give it mass"),
        (np.empty((0, 3)), "A is empty: it holds no histogram"),
        (np.ones(3), "A must be (N, k): one histogram per row; found shape (3,)"),
        ([["a", "b", "c"]], "A must hold numbers"),
    ],
)
def test_histograms_that_are_not_histograms(A, message):
    with raises_saying(message):
        solve(A)
    with raises_saying(message.replace("of A", "of B").replace("A ", "B ")):
        solve(THREE, A)


def test_a_single_pair_of_many():
    with raises_saying("a and b must be single histograms; found shapes (3, 3) and (3,)"):
        asot.emd(THREE, [1, 0, 0], COST)


def test_a_single_pair_names_the_histogram_at_fault():
    with raises_saying("histogram 0 of b is nan at anchor 1"):
        asot.emd([1, 0, 0], [1, NAN, 0], COST)


# ------------------------------------------------------------------------------------------- pairs


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((0, 3), "pair 1 is (0, 3), but its second index must be between 0 and 2"),
        ((5, 0), "pair 1 is (5, 0), but its first index must be between 0 and 2"),
        ((-1, 0), "pair 1 is (-1, 0), but its first index must be between 0 and 2"),
    ],
)
def test_pairs_out_of_range(pair, message):
    with raises_saying(message):
        solve(pairs=[(0, 1), pair])


def test_pairs_out_of_the_range_of_the_second_set():
    with raises_saying("pair 0 is (2, 1), but its second index must be between 0 and 0"):
        solve(THREE, THREE[:1], pairs=[(2, 1)])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([0, 1], "pairs must be an integer array (P, 2); found shape (2,)"),
        ([(0, 1, 2)], "pairs must be an integer array (P, 2); found shape (1, 3)"),
        ([(0.0, 1.0)], "pairs must hold integers, not float64"),
        (np.ones((2, 2), dtype=bool), "pairs must hold integers, not bool"),
    ],
)
def test_pairs_that_are_not_pairs(pairs, message):
    with raises_saying(message):
        solve(pairs=pairs)


# ------------------------------------------------------------------------------------------- sinks

CLOUDS = Distributions.from_list([[[0.0], [1.0]], [[2.0]], [[3.0]]], ids=["a", "b", "c"])


@pytest.mark.parametrize("sink", ["distances.npz", 42, [], print], ids=repr)
def test_what_is_no_sink(sink):
    message = "sink must be one of asot.sinks, such as asot.sinks.Store(path), or an object with open, accept and close"
    for call in (
        lambda: solve(sink=sink),
        lambda: asot.sinkhorn_many(THREE, cost=COST, reg=1.0, sink=sink),
        lambda: asot.pairwise(CLOUDS, sink=sink),
        lambda: asot.pairwise_exact(CLOUDS, sink=sink),
        lambda: asot.gromov([COST, COST], sink=sink),
    ):
        with raises_saying(f"{message}; found {sink!r}", TypeError):
            call()


def test_a_class_of_sinks():
    for call in (lambda: solve(sink=Dense), lambda: asot.pairwise(CLOUDS, sink=Dense)):
        with raises_saying("sink= takes a sink, not a class of them; found Dense without its parentheses", TypeError):
            call()


@pytest.mark.parametrize("path", [None, 3])
def test_a_path_of_a_store_that_is_none(path):
    with raises_saying(f"the path of a store must be text or a path; found {path!r}", TypeError):
        asot.sinks.Store(path)


def test_a_number_of_neighbors_that_is_given_twice():
    message = "n_neighbors is given twice, as 1 and as 2; leave out one of them"
    for call in (lambda: asot.kneighbors(CLOUDS, 1, 2), lambda: asot.kneighbors(CLOUDS, 1, n_neighbors=2)):
        with raises_saying(message):
            call()
    with raises_saying("n_neighbors must be a whole number ≥ 1; found True"):
        asot.kneighbors(CLOUDS, True)
    assert asot.kneighbors(CLOUDS, np.int64(2)).indices.shape == (3, 2)


@pytest.mark.parametrize("price", [NAN, INF, -1.0])
def test_prices_of_unmatched_mass_name_the_point(price):
    prices = changed(np.ones(4), 2, price)
    with raises_saying(f"unmatched is {price:g} at point 0 of distribution 1 ('b'); prices must be finite and ≥ 0"):
        asot.pairwise_exact(CLOUDS, unmatched=prices)


def test_more_neighbors_than_there_are():
    with raises_saying("n_neighbors=3, but there are only 2 candidates for each row"):
        solve(sink=TopK(3))
    with raises_saying("n_neighbors=2, but there are only 1 candidates for each row"):
        solve(THREE, THREE[:1], sink=TopK(2))


@pytest.mark.parametrize("n_neighbors", [0, -1, 1.5, True, "3"])
def test_a_number_of_neighbors_that_is_none(n_neighbors):
    with raises_saying(f"n_neighbors must be a whole number ≥ 1; found {n_neighbors!r}"):
        TopK(n_neighbors)


@pytest.mark.parametrize("radius", [-1.0, NAN, INF])
def test_a_radius_that_is_none(radius):
    with raises_saying(f"radius must be a finite number ≥ 0; found {radius!r}"):
        Radius(radius)


def test_a_callback_that_cannot_be_called():
    with raises_saying("Callback needs a function of (rows, columns, values); found 3"):
        Callback(3)


@pytest.mark.parametrize(
    ("sink", "message"),
    [(Dense(), "a list of pairs does not fill a matrix"), (TopK(1), "nearest neighbors need all pairs or two sets")],
)
def test_a_list_of_pairs_where_all_are_needed(sink, message):
    with raises_saying(message):
        solve(pairs=[(0, 1)], sink=sink)


# ------------------------------------------------------------------------------------------- how to run


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "", None, 0])
def test_an_unknown_device(device):
    with raises_saying(f"unknown device {device!r}"):
        solve(device=device)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_a_number_of_threads_that_is_none(n_jobs):
    with raises_saying(f"n_jobs must be None, a positive number of threads, or -1 for all cores; found {n_jobs!r}"):
        solve(n_jobs=n_jobs)


@pytest.mark.parametrize("memory", ["much", "2X", "G", "-1G", "1e3", [1], True])
def test_an_amount_of_memory_that_is_none(memory):
    with raises_saying("memory must be a number of bytes or a string such as '2G'"):
        solve(memory=memory)


@pytest.mark.parametrize("memory", [0, -5, "0G", NAN, INF])
def test_no_memory_at_all(memory):
    with raises_saying(f"memory must be a positive amount; found {memory!r}"):
        solve(memory=memory)


@pytest.mark.parametrize("progress", ["yes", 1, 0.5])
def test_a_progress_value_that_is_none(progress):
    with raises_saying(f"progress must be True, False, None or a function of (done, total); found {progress!r}"):
        solve(progress=progress)


# ------------------------------------------------------------------------------------------- objects of other libraries


def of_class(library, name):
    """An object that calls itself so, without the library."""
    return type(name, (), {"__module__": library})()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (of_class("anndata._core.anndata", "AnnData"), "Use Distributions.from_anndata(adata, "),
        ([of_class("anndata._core.anndata", "AnnData")], "Distributions.from_anndata(adata, groupby)"),
        (of_class("pandas.core.frame", "DataFrame"), "Use Distributions.from_table(table, by="),
        (of_class("polars.dataframe.frame", "DataFrame"), "Use Distributions.from_table(table, by="),
        ([of_class("networkx.classes.graph", "Graph")], "Graphs are read by Distributions.from_graphs(graphs)"),
        (of_class("networkx.classes.graph", "Graph"), "Distributions.from_graphs([graph, …])"),
        ([of_class("torch_geometric.data.data", "Data")], "Distributions.from_graphs(graphs)"),
        (np.zeros((4, 2)), "One distribution is a list of one, [points]"),
        (np.zeros((3, 4, 2)), "Distributions.from_list(list(array))"),
        (np.zeros(4), "Points on a line are arrays (n, 1)"),
        ({"eve": np.zeros((3, 2))}, "Distributions.from_list(list(given.values()), ids=list(given))"),
        ("patients.csv", "asot.load_collection(path)"),
        ([["a", "word"]], "Distributions.from_texts(documents, vectors)"),
    ],
)
def test_an_object_of_another_library_is_told_its_constructor(given, words):
    for call in (asot.pairwise, asot.pairwise_exact, asot.noise_floor):
        with raises_saying(words, TypeError):
            call(given)
