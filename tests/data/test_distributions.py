"""Collections: every way in leads to the same three flat arrays, and nothing is changed behind anybody's back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from asot import Distributions
from asot.data.distributions import as_distributions
from tests.strategies import ragged_lists


@pytest.fixture
def three():
    """Distributions of 2, 1 and 3 points in the plane, with masses and names."""
    points = np.arange(12.0).reshape(6, 2)
    return Distributions(points, [0, 2, 3, 6], masses=[1, 3, 5, 1, 1, 2], ids=["a", "b", "c"])


# ------------------------------------------------------------------------------------------- what it holds


def test_it_tells_its_sizes_dimension_and_totals(three):
    assert len(three) == 3
    assert three.dim == 2
    assert three.sizes.tolist() == [2, 1, 3]
    assert three.totals.tolist() == [4.0, 5.0, 4.0]
    assert three.ids.tolist() == ["a", "b", "c"]


def test_masses_are_scaled_to_total_one(three):
    np.testing.assert_allclose(three.masses, [0.25, 0.75, 1.0, 0.25, 0.25, 0.5], rtol=1e-15)


def test_without_masses_every_point_weighs_the_same():
    D = Distributions(np.zeros((5, 1)), [0, 1, 5])
    np.testing.assert_array_equal(D.masses, [1.0, 0.25, 0.25, 0.25, 0.25])
    np.testing.assert_array_equal(D.totals, [1.0, 1.0])


def test_without_ids_distributions_are_numbered():
    assert Distributions(np.zeros((5, 1)), [0, 1, 5]).ids.tolist() == [0, 1]


def test_messages_call_a_distribution_by_number_and_name(three):
    assert three.label(1) == "distribution 1 ('b')"
    assert Distributions(np.zeros((5, 1)), [0, 1, 5]).label(1) == "distribution 1"


def test_repr_tells_a_person_what_they_hold(three):
    expected = "Distributions: 3 distributions of 1 to 3 points (mean 2.0, 6 in all) in 2 dimensions, float64"
    assert repr(three) == expected
    one = Distributions(np.zeros((1500, 1), dtype=np.float32), [0, 1500])
    assert (
        repr(one) == "Distributions: 1 distribution of 1,500 points (mean 1500.0, 1,500 in all) in 1 dimension, float32"
    )


# ------------------------------------------------------------------------------------------- constructors


@given(ragged_lists())
def test_a_list_and_flat_arrays_make_the_same_collection(lists):
    points, masses = lists
    offsets = np.cumsum([0, *map(len, points)])
    flat = Distributions(np.concatenate(points), offsets, np.concatenate(masses))
    assert Distributions.from_list(points, masses) == flat


@given(ragged_lists(), st.randoms(use_true_random=False))
def test_groups_in_any_order_make_the_same_collection_as_a_list(lists, random):
    points, masses = lists
    labels = np.repeat(np.arange(len(points)), [len(p) for p in points])
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = Distributions.from_groups(np.concatenate(points)[order], labels[order], np.concatenate(masses)[order])
    assert len(shuffled) == len(points)
    for i, (own_points, own_masses) in enumerate(shuffled):
        within = [t for t in order if labels[t] == i]
        np.testing.assert_array_equal(own_points, np.concatenate(points)[within])
        np.testing.assert_allclose(own_masses, np.concatenate(masses)[within] / masses[i].sum(), rtol=1e-15)


@given(ragged_lists())
def test_groups_already_in_order_make_the_same_collection_as_a_list(lists):
    points, masses = lists
    labels = np.repeat(np.arange(len(points)), [len(p) for p in points])
    assert Distributions.from_groups(np.concatenate(points), labels, np.concatenate(masses)) == Distributions.from_list(
        points, masses
    )


@given(ragged_lists())
def test_weights_over_a_vocabulary_make_the_same_collection_as_a_list(lists):
    points, masses = lists
    weights = np.zeros((len(points), sum(map(len, points))))
    for i, start in enumerate(np.cumsum([0, *map(len, points[:-1])])):
        weights[i, start : start + len(points[i])] = masses[i]
    kept = [p[m > 0] for p, m in zip(points, masses, strict=True)]
    expected = Distributions.from_list(kept, [m[m > 0] for m in masses])
    assert Distributions.from_weights(weights, np.concatenate(points)) == expected
    assert Distributions.from_weights(sparse.csr_array(weights), np.concatenate(points)) == expected


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
def test_weights_may_be_any_sparse_matrix_of_counts(form):
    weights = np.array([[3, 0, 1], [0, 2, 0]])
    D = Distributions.from_weights(form(weights), np.eye(3))
    assert D.sizes.tolist() == [2, 1]
    assert D.totals.tolist() == [4.0, 2.0]
    np.testing.assert_array_equal(D[0][0], np.eye(3)[[0, 2]])


def test_repeated_entries_of_sparse_weights_are_added():
    weights = sparse.coo_array(([1.0, 2.0, 1.0], ([0, 0, 0], [1, 1, 0])), shape=(1, 2))
    D = Distributions.from_weights(weights, [[0.0], [1.0]])
    np.testing.assert_allclose(D.masses, [0.25, 0.75])


def test_stored_zeros_of_sparse_weights_stay_with_the_caller():
    weights = sparse.csr_array((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 2]), np.array([0, 2, 3])), shape=(2, 3))
    D = Distributions.from_weights(weights, np.eye(3))
    assert D.sizes.tolist() == [1, 1]
    assert weights.data.tolist() == [1.0, 0.0, 2.0]
    assert weights.indices.tolist() == [0, 1, 2]
    assert weights.indptr.tolist() == [0, 2, 3]


def test_groups_are_ordered_by_label_and_named_after_it():
    D = Distributions.from_groups([[0.0], [1.0], [2.0], [3.0]], ["wolf", "bear", "wolf", "bear"])
    assert D.ids.tolist() == ["bear", "wolf"]
    np.testing.assert_array_equal(D.points.ravel(), [1.0, 3.0, 0.0, 2.0])


def test_ids_may_be_tuples():
    D = Distributions.from_list([[[0.0]], [[1.0]]], ids=[("mouse", 1), ("mouse", 2)])
    assert D.ids.tolist() == [("mouse", 1), ("mouse", 2)]


def test_ids_may_be_a_series_with_an_index_of_its_own():
    pandas = pytest.importorskip("pandas")
    D = Distributions.from_list([[[0.0]], [[1.0]]], ids=pandas.Series(["a", "b"], index=[10, 20]))
    assert D.ids.tolist() == ["a", "b"]


def test_collections_are_read_from_lists_of_points_or_of_pairs(three):
    assert as_distributions(three) is three
    plain = Distributions.from_list([p for p, _ in three], [m for _, m in three])
    assert as_distributions(list(three)) == plain
    assert as_distributions([p for p, _ in three]) == Distributions.from_list([p for p, _ in three])


# ------------------------------------------------------------------------------------------- slicing and joining


def test_a_whole_number_gives_points_and_masses(three):
    points, masses = three[2]
    np.testing.assert_array_equal(points, [[6, 7], [8, 9], [10, 11]])
    np.testing.assert_allclose(masses, [0.25, 0.25, 0.5])


def test_negative_numbers_count_from_the_end(three):
    for i in range(3):
        np.testing.assert_array_equal(three[i - 3][0], three[i][0])


@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        ([2, 0], [2, 0]),
        ([-1, -1, 1], [2, 2, 1]),
        (np.array([False, True, True]), [1, 2]),
        ([True, False, True], [0, 2]),
        (np.array([1], dtype=np.uint8), [1]),
    ],
)
def test_other_keys_give_collections(three, key, chosen):
    part = three[key]
    assert part.ids.tolist() == [three.ids[i] for i in chosen]
    assert part.totals.tolist() == [three.totals[i] for i in chosen]
    for i, (points, masses) in zip(chosen, part, strict=True):
        np.testing.assert_array_equal(points, three[i][0])
        np.testing.assert_array_equal(masses, three[i][1])


@pytest.mark.parametrize("key", [3, -4, [0, 3], np.array([True, False])])
def test_keys_outside_the_collection_are_refused(three, key):
    with pytest.raises(IndexError):
        three[key]


@pytest.mark.parametrize("key", [slice(0, 0), [], np.zeros(3, dtype=bool)])
def test_an_empty_selection_is_refused(three, key):
    with pytest.raises(ValueError, match="the selection is empty"):
        three[key]


def test_iterating_gives_every_distribution(three):
    assert [len(points) for points, _ in three] == [2, 1, 3]
    assert all(np.isclose(masses.sum(), 1.0) for _, masses in three)


@given(ragged_lists(), st.data())
def test_cutting_and_joining_gives_the_collection_back(lists, data):
    D = Distributions.from_list(*lists)
    if len(D) > 1:
        cut = data.draw(st.integers(1, len(D) - 1))
        assert D[:cut] + D[cut:] == D


@given(ragged_lists(), st.data())
def test_selecting_twice_is_selecting_the_selection(lists, data):
    D = Distributions.from_list(*lists)
    first = np.array(data.draw(st.lists(st.integers(0, len(D) - 1), min_size=1, max_size=8)))
    second = np.array(data.draw(st.lists(st.integers(0, len(first) - 1), min_size=1, max_size=8)))
    named = Distributions(D.points, D.offsets, D.masses, ids=[f"d{i}" for i in range(len(D))])
    assert named[first][second] == named[first[second]]


def test_joining_keeps_names_and_totals(three):
    joined = three + Distributions([[0.0, 0.0]], [0, 1], masses=[7.0])
    assert joined.ids.tolist() == ["a", "b", "c", 0]
    assert joined.totals.tolist() == [4.0, 5.0, 4.0, 7.0]


def test_joining_with_something_else_is_refused(three):
    with pytest.raises(TypeError):
        three + 1
    with pytest.raises(ValueError, match="cannot join collections in 2 and 3 dimensions"):
        three + Distributions([[0.0, 0.0, 0.0]], [0, 1])


# ------------------------------------------------------------------------------------------- equality


def test_equality_looks_at_every_part(three):
    def same(**changed):
        parts = {"points": three.points, "offsets": three.offsets, "masses": [1, 3, 5, 1, 1, 2], "ids": ["a", "b", "c"]}
        return Distributions(**{**parts, **changed})

    assert same() == three
    assert same(points=three.points + 1) != three
    assert same(offsets=[0, 1, 3, 6]) != three
    assert same(masses=[1, 2, 5, 1, 1, 2]) != three
    assert same(masses=[2, 6, 10, 2, 2, 4]) != three  # the totals differ
    assert same(ids=["a", "b", "d"]) != three
    assert three != "a collection"


def test_collections_cannot_be_keys(three):
    with pytest.raises(TypeError, match="unhashable"):
        hash(three)


# ------------------------------------------------------------------------------------------- memory


def test_float32_points_stay_float32():
    points = np.random.default_rng(0).random((10, 3)).astype(np.float32)
    D = Distributions(points, [0, 4, 10])
    assert D.points.dtype == np.float32
    assert D[1:].points.dtype == np.float32
    assert (D + D).points.dtype == np.float32
    assert Distributions.from_list([points[:4], points[4:]]).points.dtype == np.float32
    assert Distributions.from_groups(points, np.arange(10) % 3).points.dtype == np.float32
    assert Distributions.from_weights(np.eye(10), points).points.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_masses_are_scaled_in_float64(dtype):
    masses = np.random.default_rng(1).random(1000).astype(dtype)
    D = Distributions(np.zeros((1000, 1)), [0, 1000], masses=masses)
    assert D.masses.dtype == np.float64
    np.testing.assert_allclose(D.masses.sum(), 1.0, rtol=0, atol=1e-14)


def test_the_collection_is_read_only_and_the_callers_arrays_are_not():
    points, offsets, masses = np.zeros((4, 2)), np.array([0, 1, 4]), np.ones(4)
    D = Distributions(points, offsets, masses)
    for array in (D.points, D.offsets, D.masses, D.totals, D[0][0], D[1:].points, (D + D).masses):
        assert not array.flags.writeable
    for array in (points, offsets, masses):
        assert array.flags.writeable
    assert masses.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_read_only_arrays_are_read():
    points, masses = np.arange(8.0).reshape(4, 2), np.ones(4)
    points.flags.writeable = masses.flags.writeable = False
    assert Distributions(points, [0, 1, 4], masses).sizes.tolist() == [1, 3]
    assert Distributions.from_groups(points, [1, 0, 1, 0], masses).sizes.tolist() == [2, 2]


def test_arrays_in_any_memory_order_are_read():
    table = np.arange(60.0).reshape(6, 10)
    expected = Distributions(np.ascontiguousarray(table[::2, 1::3]), [0, 1, 3])
    assert Distributions(table[::2, 1::3], [0, 1, 3]) == expected
    assert Distributions(np.asfortranarray(table)[::2, 1::3], np.array([0, 9, 1, 9, 3])[::2]) == expected


@pytest.mark.parametrize("scale", [1e-300, 1e300, 5e307])
def test_masses_of_any_scale_are_normalized(scale):
    D = Distributions(np.zeros((3, 1)), [0, 2, 3], masses=np.array([1.0, 2.0, 3.0]) * scale)
    np.testing.assert_allclose(D.masses, [1 / 3, 2 / 3, 1.0], rtol=1e-15)
    np.testing.assert_allclose(D.totals, [3 * scale, 3 * scale], rtol=1e-15)


def test_masses_whose_total_overflows_are_still_normalized():
    D = Distributions(np.zeros((4, 1)), [0, 4], masses=np.full(4, 1e308))
    np.testing.assert_array_equal(D.masses, np.full(4, 0.25))


# ------------------------------------------------------------------------------------------- other libraries


def test_whole_numbers_and_nested_lists_become_float64():
    D = Distributions([[1, 2], [3, 4]], [0, 1, 2], masses=[1, 2])
    assert D.points.dtype == np.float64


def test_torch_tensors_are_read():
    torch = pytest.importorskip("torch")
    points = torch.arange(12.0).reshape(6, 2)
    batch = torch.tensor([0, 0, 1, 2, 2, 2])
    D = Distributions.from_groups(points, batch, masses=torch.ones(6))
    assert D.points.dtype == np.float32
    assert D.sizes.tolist() == [2, 1, 3]
    assert Distributions(points, torch.tensor([0, 2, 3, 6])).points.tolist() == D.points.tolist()
    assert Distributions.from_list([points[:2], points[2:]]).sizes.tolist() == [2, 4]
    with pytest.raises(ValueError, match="points requires gradients, and this call has none"):
        Distributions(points.requires_grad_(), torch.tensor([0, 2, 3, 6]))


def test_pandas_frames_and_columns_are_read():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"x": [0.0, 1.0, 2.0], "y": [3.0, 4.0, 5.0], "w": [1, 2, 3], "who": ["b", "a", "b"]}, index=[7, 8, 9]
    )
    D = Distributions.from_groups(frame[["x", "y"]], frame["who"], frame["w"])
    assert D.ids.tolist() == ["a", "b"]
    assert D.totals.tolist() == [2.0, 4.0]
    np.testing.assert_array_equal(D[1][0], [[0.0, 3.0], [2.0, 5.0]])
    categories = frame["who"].astype("category")
    assert Distributions.from_groups(frame[["x", "y"]], categories, frame["w"]) == D


def test_arrow_columns_are_read():
    arrow = pytest.importorskip("pyarrow")
    points = np.arange(6.0).reshape(3, 2)
    labels, masses = arrow.array(["b", "a", "b"]), arrow.array([1.0, 2.0, 3.0])
    D = Distributions.from_groups(points, ["b", "a", "b"], [1.0, 2.0, 3.0])
    assert Distributions.from_groups(points, labels, masses) == D
    chunked = arrow.chunked_array([["b"], ["a", "b"]])
    assert Distributions.from_groups(points, chunked, masses) == D


def test_masses_do_not_depend_on_the_order_of_points_and_those_of_total_1_stay_as_they_are():
    rng = np.random.default_rng(0)
    for n in range(1, 200):
        a = rng.random(n) * 10.0 ** rng.uniform(-5, 5, n)
        order = rng.permutation(n)
        D = Distributions.from_list([np.zeros((n, 1))] * 2, [a, a[order]])
        assert np.array_equal(D[0][1][order], D[1][1])
        assert D.totals[0] == D.totals[1] == pytest.approx(math.fsum(a), rel=1e-15)
    dyadic = np.array([3, 5, 1, 7]) / 16
    D = Distributions.from_list([np.zeros((4, 1))] * 2, [dyadic, 2.0**1000 * dyadic])
    assert D[0][1].tolist() == D[1][1].tolist() == dyadic.tolist()
    assert D.totals.tolist() == [1.0, 2.0**1000]


def test_plain_arrays_are_joined_as_any_others_are():
    rng = np.random.default_rng(0)
    for dtype in ("float64", "float32"):
        arrays = [rng.normal(size=(n, 3)).astype(dtype) for n in (2, 1, 5)]
        joined, one_by_one = (
            Distributions.from_list(arrays),
            Distributions.from_list([*arrays[:2], arrays[2].tolist()]),
        )
        assert joined.points.dtype == dtype
        np.testing.assert_array_equal(joined.points, np.vstack(arrays))
        np.testing.assert_array_equal(joined.offsets, one_by_one.offsets)
        np.testing.assert_array_equal(joined.masses, one_by_one.masses)


def test_the_array_at_fault_is_named():
    good = np.zeros((2, 3))
    for bad, message in (
        (np.zeros((2, 2)), "1 has points in 2 dim"),
        (np.zeros((0, 3)), "1 is empty"),
        (np.zeros(3), "1 must be points"),
    ):
        with pytest.raises(ValueError, match=message):
            Distributions.from_list([good, bad, good])


def test_an_id_that_ends_in_a_nul_keeps_it(tmp_path):
    clouds = [np.zeros((1, 1)), np.ones((1, 1))]
    D = Distributions.from_list(clouds, ids=["a\0", "a"])
    assert D.ids.tolist() == ["a\0", "a"]
    assert D["a\0"][0][0, 0] == 0.0
    assert Distributions.from_groups(np.zeros((3, 1)), ["a\0", "a", "a"]).ids.tolist() == ["a", "a\0"]
    with pytest.raises(ValueError, match=r"the id 'a\\x00' ends in a NUL, which an array in a file cannot keep"):
        D.save(tmp_path / "ids.npz")
