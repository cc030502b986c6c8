"""What belongs to a distribution is found by its name, wherever it has one; what does not match is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import asot
from asot import Distributions
from asot.data.belonging import check_same_ids, ids_of, in_order_of_ids, per_distribution

IDS = np.array(["p3", "p1", "p2"])
GROUPS = pd.Series(["x", "y", "x"], index=["p1", "p2", "p3"])


def cohort(n=12, shift=3.0):
    """Patients p00, p01, …, of which every second is shifted; and a table of cells in another order."""
    rng = np.random.default_rng(0)
    names = [f"p{i:02d}" for i in range(n)]
    cells = pd.DataFrame(
        {
            "patient": np.repeat(rng.permutation(names), 8),
            "x": rng.normal(size=8 * n),
        },
        index=[f"cell-{c}" for c in range(8 * n)],
    )
    cells["group"] = np.where(cells["patient"].str[1:].astype(int) % 2 == 0, "ill", "well")
    cells["x"] += shift * (cells["group"] == "ill")
    D = Distributions.from_table(cells.reset_index(drop=True), by="patient", points=["x"])
    return D, cells


def test_data_frames_of_a_list_have_the_columns_of_the_first_one():
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(4, 2)), columns=["x", "y"]) for _ in range(3)]
    turned = [frames[0], frames[1][["y", "x"]], frames[2]]
    expected = Distributions.from_list(frames)
    np.testing.assert_array_equal(Distributions.from_list(turned).points, expected.points)
    np.testing.assert_array_equal(asot.pairwise_exact(turned).values, asot.pairwise_exact(expected).values)
    np.testing.assert_array_equal(
        asot.pairwise_exact(frames[:1], turned[1:]).values, asot.pairwise_exact(frames[:1], frames[1:]).values
    )
    masses = [pd.Series([1.0, 2.0, 3.0, 4.0])] * 3
    np.testing.assert_array_equal(Distributions.from_list(turned, masses).points, expected.points)
    np.testing.assert_array_equal(
        Distributions.from_list(list(zip(turned, masses, strict=True))).points, expected.points
    )
    other = [frames[0], frames[1].set_axis(["u", "v"], axis=1), frames[2].to_numpy()]  # names of other things
    np.testing.assert_array_equal(Distributions.from_list(other).points, expected.points)
    pl = pytest.importorskip("polars")
    of_polars = [pl.DataFrame(dict(frame)) for frame in turned]
    np.testing.assert_array_equal(Distributions.from_list(of_polars).points, expected.points)


ANCHORS = list("abc")
COST = pd.DataFrame([[0.0, 1.0, 4.0], [1.0, 0.0, 2.0], [4.0, 2.0, 0.0]], index=ANCHORS, columns=ANCHORS)


@pytest.mark.parametrize(
    "call",
    [
        lambda A, B, cost: asot.emd_many(A, cost=cost).values,
        lambda A, B, cost: asot.emd_many(A, B, cost=cost).values,
        lambda A, B, cost: asot.emd_many(A, B, cost=cost, plans=True).values,
        lambda A, B, cost: asot.sinkhorn_many(A, B, cost=cost, reg=0.5).values,
        lambda A, B, cost: asot.emd(A.iloc[0], B.iloc[1], cost).value,
        lambda A, B, cost: asot.barycenter(A, cost, reg=0.5).masses,
    ],
    ids=["one set", "two sets", "plans", "entropic", "one pair", "barycenter"],
)
def test_histograms_with_named_anchors_are_in_the_order_of_a_named_cost(call):
    rng = np.random.default_rng(0)
    A = pd.DataFrame(rng.dirichlet(np.ones(3), 4), columns=ANCHORS)
    B = pd.DataFrame(rng.dirichlet(np.ones(3), 2), columns=ANCHORS)
    expected = call(A, B, COST)
    np.testing.assert_array_equal(call(A[["c", "a", "b"]], B[["b", "a", "c"]], COST), expected)
    plain = pd.DataFrame(COST.to_numpy())  # names that pandas made up
    np.testing.assert_array_equal(call(A, B, plain), expected)
    np.testing.assert_array_equal(call(A, B, COST.to_numpy()), expected)
    with pytest.raises(ValueError, match=r"the index of the anchors of .* is not that of the rows of cost"):
        call(A.rename(columns={"a": "z"}), B, COST)


def test_an_index_and_keys_are_looked_up_by_id():
    assert in_order_of_ids(GROUPS, "groups", IDS).tolist() == ["x", "x", "y"]
    assert in_order_of_ids(GROUPS.to_dict(), "groups", IDS) == ["x", "x", "y"]
    assert in_order_of_ids(["a", "b", "c"], "groups", IDS) == ["a", "b", "c"]
    more = pd.concat([GROUPS, pd.Series(["z"], index=["p9"])])
    assert in_order_of_ids(more, "groups", IDS).tolist() == ["x", "x", "y"]


def test_numbers_and_their_texts_are_the_same_names():
    assert in_order_of_ids(pd.Series(["x", "y"], index=["1", "0"]), "groups", np.array([0, 1])).tolist() == ["y", "x"]
    assert in_order_of_ids({0: "x", 1: "y"}, "groups", np.array(["1", "0"])) == ["y", "x"]


def test_repeated_ids_are_accepted_in_the_order_of_the_collection_only():
    twice = np.array(["a", "a", "b"])
    assert in_order_of_ids(pd.Series([1, 2, 3], index=["a", "a", "b"]), "groups", twice).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="several entries for distribution 'a'"):
        in_order_of_ids(pd.Series([1, 2, 3], index=["a", "b", "a"]), "groups", twice)
    with pytest.raises(ValueError, match="ids repeat, so groups cannot be looked up by name"):
        in_order_of_ids({"a": 1, "b": 2}, "groups", twice)


def test_what_is_not_one_entry_per_distribution_is_refused():
    for wrong in ("abc", 3, ["a"], np.zeros((3, 2))):
        with pytest.raises(ValueError, match="labels must have one entry for each of the 3 distributions"):
            per_distribution(wrong, "labels", IDS)


def test_a_square_frame_has_its_index_as_ids():
    r = asot.pairwise_exact(Distributions.from_list([[[0.0]], [[3.0]]], ids=["eve", "adam"]))
    assert ids_of(r.to_frame(), 2).tolist() == ["eve", "adam"]
    with pytest.raises(ValueError, match="different names"):
        ids_of(r.to_frame().set_axis(["a", "b"], axis=1), 2)


def test_two_orders_that_disagree_are_named():
    with pytest.raises(ValueError, match="of another day: distribution 1 is 'b' here and 'c' there"):
        check_same_ids(np.array(["a", "b"]), np.array(["a", "c"]), "of another day")
    check_same_ids(np.array(["a", "b"]), np.arange(2), "nothing to compare")


# ------------------------------------------------------------------------------------------------------ every argument


def refused(call, name):
    message = f"{name} has no entry for distribution 'p00' (12 of 12 are missing); its names begin with 'cell-"
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_groups_of_a_table_of_cells_are_refused_and_those_of_patients_found():
    D, cells = cohort()
    r = asot.pairwise_exact(D)
    truth = np.where(np.arange(12) % 2 == 0, "ill", "well")
    expected = asot.group_differences(r, truth, random_state=0)
    patients = cells.drop_duplicates("patient")
    refused(lambda: asot.group_differences(r, patients["group"]), "groups")
    by_name = patients.set_index("patient")["group"]
    for distances, groups in (
        (r, by_name),
        (r, by_name.astype("category")),
        (r, by_name.to_dict()),
        (r.to_frame(), by_name),
    ):
        found = asot.group_differences(distances, groups, random_state=0)
        assert replace(found, factors=()) == replace(expected, factors=())
    assert expected.p_value < 0.01


def test_a_plain_count_as_index_is_no_name_of_a_patient():
    D, cells = cohort()
    with pytest.raises(ValueError, match=re.escape("pass an array to go by position")):
        asot.group_differences(asot.pairwise_exact(D), cells.drop_duplicates("patient").reset_index()["group"])


@pytest.mark.parametrize("picture", [asot.plots.map, asot.plots.matrix])
def test_pictures_find_labels_by_id(picture):
    D, cells = cohort()
    r = asot.pairwise_exact(D)
    patients = cells.drop_duplicates("patient")
    refused(lambda: picture(r, labels=patients["group"]), "labels")
    named = picture(r, labels=patients.set_index("patient")["group"])
    given = picture(r, labels=np.where(np.arange(12) % 2 == 0, "ill", "well"))
    for one, other in zip(named.collections, given.collections, strict=True):
        np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())
    assert [t.get_text() for t in named.get_xticklabels()] == [t.get_text() for t in given.get_xticklabels()]


def test_a_page_finds_labels_by_id_and_refuses_another_collection():
    from asot.view.page import page_data

    D, cells = cohort()
    r = asot.pairwise_exact(D)
    patients = cells.drop_duplicates("patient")
    refused(lambda: page_data(r, D, labels=patients["group"], title=None), "labels")
    found = page_data(r, D, labels=patients.set_index("patient")["group"], title=None)
    assert found["groups"] == ["ill", "well"] * 6
    with pytest.raises(ValueError, match="of another collection than the one given: distribution 0 is 'p00' here"):
        page_data(r, D[::-1], labels=None, title=None)


def test_a_mask_by_name_selects_by_name():
    D, cells = cohort()
    patients = cells.drop_duplicates("patient").set_index("patient")
    assert D[patients["group"] == "ill"].ids.tolist() == [f"p{i:02d}" for i in range(0, 12, 2)]
    refused(lambda: D[cells.drop_duplicates("patient")["group"] == "ill"], "the mask")
    assert D[pd.Series([2, 0])].ids.tolist() == ["p02", "p00"]  # numbers of distributions


def test_noise_of_another_collection_is_refused():
    D, _ = cohort()
    r = asot.pairwise_exact(D)
    groups = np.arange(12) % 2
    floor = asot.noise_floor(D[::-1])
    with pytest.raises(ValueError, match="the noise is of another collection than the distances"):
        asot.group_differences(r, groups, noise=floor)
    assert asot.group_differences(r, groups, noise=asot.noise_floor(D)).noise_share is not None


def test_a_kernel_refuses_columns_in_another_order():
    D, _ = cohort()
    K = asot.kernel(asot.pairwise_exact(D[:8]))
    with pytest.raises(ValueError, match="the columns are not the distributions of the kernel"):
        K.between(asot.pairwise_exact(D[8:], D[:8][::-1]))
    assert K.between(asot.pairwise_exact(D[8:], D[:8])).shape == (4, 8)


def test_weights_of_a_barycenter_follow_the_rows_of_a_frame():
    cost = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    rows = pd.DataFrame(np.eye(3), index=["a", "b", "c"])
    found = asot.barycenter(rows, cost, pd.Series([5.0, 1.0, 1.0], index=["c", "b", "a"]))
    np.testing.assert_allclose(found.masses, [0.0, 0.0, 1.0])


def test_a_list_of_ids_selects_in_its_order():
    D = asot.Distributions.from_list([[[float(i)]] for i in range(4)], ids=["a", "b", "c", "d"])
    assert D[["c", "a"]].ids.tolist() == ["c", "a"]
    assert D[np.array(["d"])].points.tolist() == [[3.0]]
    for wanted in (["a", "e"], np.array(["a", "e"])):
        with pytest.raises(ValueError, match="no distribution is called 'e'"):
            D[wanted]


def test_a_pandas_index_selects_by_id():
    points = [[[float(i)]] for i in range(4)]
    frame = pd.DataFrame({"group": ["ill", "well"]}, index=["c", "a"])
    D = asot.Distributions.from_list(points, ids=["a", "b", "c", "d"])
    text = (frame.index, pd.Series(["c", "a"]), pd.Categorical(["c", "a"]), pd.array(["c", "a"]))
    for key in text:
        assert D[key].ids.tolist() == ["c", "a"]
    numbered = asot.Distributions.from_list(points, ids=[10, 20, 30, 2])
    assert numbered[pd.Index([20, 2])].ids.tolist() == [20, 2]
    assert numbered[pd.Index([True, False, True, False])].ids.tolist() == [10, 30]
    assert asot.Distributions.from_list(points)[pd.RangeIndex(2)].points.tolist() == [[0.0], [1.0]]
    for key, name in ((pd.Index(["e"]), "'e'"), (pd.RangeIndex(2), "0"), (pd.DatetimeIndex(["2020"]), "datetime")):
        with pytest.raises(ValueError, match=f"no distribution is called {name}"):
            D[key]
    with pytest.raises(ValueError, match="2 distributions are called 'a'"):
        (D + D[:1])[frame.index]


@pytest.mark.parametrize("key", [None, {"a"}, ("a", "b"), 1.5, [1.5], [[0, 1]], object(), np.array(1)])
def test_what_selects_nothing_is_refused_in_one_sentence(key):
    D = asot.Distributions.from_list([[[float(i)]] for i in range(4)], ids=["a", "b", "c", "d"])
    with pytest.raises(IndexError, match="distributions are selected by a slice, a list of indices or ids"):
        D[key]


# ------------------------------------------------------------------------------------------------ columns of arrays


def column(index):
    return pd.Series([np.zeros((2, 1)), np.ones((3, 1)), np.ones((1, 1))], index=index)


@pytest.mark.parametrize(
    ("index", "ids"),
    [
        (["b", "a", "c"], ["b", "a", "c"]), ([7, 3, 5], [7, 3, 5]), ([2, 0, 1], [2, 0, 1]),
        (["a", "a", "b"], ["a", "a", "b"]),
        (pd.CategoricalIndex(["u", "v", "u"]), ["u", "v", "u"]),
        (pd.MultiIndex.from_product([["ward"], [1, 2, 3]]), [("ward", 1), ("ward", 2), ("ward", 3)]),
    ],
)  # fmt: skip
def test_the_index_of_a_column_of_arrays_becomes_the_ids(index, ids):
    D = asot.Distributions.from_list(column(index))
    assert D.ids.tolist() == ids
    assert D.sizes.tolist() == [2, 3, 1]
    assert asot.Distributions.from_list(column(index), ids=["x", "y", "z"]).ids.tolist() == ["x", "y", "z"]
    assert asot.Distributions.from_list(column(index), ids=column(index).index).ids.tolist() == ids


@pytest.mark.parametrize("index", [None, [0, 1, 2], ["a", None, "b"], [1.0, np.nan, 2.0]])
def test_an_index_that_names_nothing_becomes_no_ids(index):
    assert asot.Distributions.from_list(column(index)).given_ids is None


def test_days_of_a_column_of_arrays_become_the_ids():
    days = pd.date_range("2020-01-01", periods=3)
    assert (asot.Distributions.from_list(column(days)).ids == days.to_numpy()).all()


def test_errors_of_a_column_of_arrays_name_its_rows():
    wrong = column(["b", "a", "c"])
    wrong["a"] = np.zeros((0, 1))
    with pytest.raises(ValueError, match=r"distribution 1 \('a'\) is empty"):
        asot.Distributions.from_list(wrong)


def test_groups_of_a_plan_keep_the_order_of_their_categories():
    D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]]])
    kinds = pd.Categorical(["low", "high", "low", "high"], categories=["low", "mid", "high"], ordered=True)
    groups = pd.Series(kinds, index=list("wxyz"))
    found = asot.plan(D, 0, 1).by(groups)
    assert found.index.tolist() == found.columns.tolist() == ["low", "high"]
    pd.testing.assert_frame_equal(found, asot.plan(D, 0, 1).by(groups[:2], groups[2:]))
