"""A collection never changes, whatever happens to the arrays it was made from; labels stay with their rows."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import asot
from asot.data.distributions import Distributions

POINTS = np.arange(12.0).reshape(6, 2)
MAKERS = {
    "flat": lambda p, m, i: Distributions(p, np.array([0, 2, 6]), m, i),
    "list": lambda p, m, i: Distributions.from_list([p[:2], p[2:]], [m[:2], m[2:]], i),
    "pairs": lambda p, m, i: Distributions.from_list([(p[:2], m[:2]), (p[2:], m[2:])], ids=i),
    "groups": lambda p, m, i: Distributions.from_groups(p, np.repeat(i, [2, 4]), m),
    "weights": lambda p, m, i: Distributions.from_weights(np.kron(np.eye(2), np.ones(3)) * m, p, i),
    "sparse": lambda p, m, i: Distributions.from_weights(sparse.csr_array(np.kron(np.eye(2), np.ones(3)) * m), p, i),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_happens_to_the_arrays_does_not_reach_the_collection(maker, dtype):
    points, masses, ids = POINTS.astype(dtype), np.ones(6), np.array(["a", "b"])
    D = MAKERS[maker](points, masses, ids)
    before = pickle.dumps([D.points, D.offsets, D.masses, D.totals, D.ids])
    points[:], masses[:], ids[:] = np.nan, -1.0, "?"
    assert pickle.dumps([D.points, D.offsets, D.masses, D.totals, D.ids]) == before
    assert np.isfinite(asot.pairwise_exact(D).values).all()


def test_an_array_that_is_only_flagged_as_read_only_is_copied():
    points = POINTS.copy()
    points.flags.writeable = False
    D = Distributions(points, [0, 2, 6])
    points.flags.writeable = True
    points[:] = np.nan
    assert np.isfinite(D.points).all()


def test_memory_that_nobody_can_write_to_is_not_copied(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    assert np.shares_memory(Distributions(mapped, [0, 2, 6]).points, mapped)
    constant = np.frombuffer(POINTS.tobytes()).reshape(6, 2)
    assert np.shares_memory(Distributions(constant, [0, 2, 6]).points, constant)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda D: pickle.loads(pickle.dumps(D))])
@pytest.mark.parametrize("maker", ["flat", "weights"])
def test_copies_are_as_constant_as_the_original(again, maker):
    D = MAKERS[maker](POINTS, np.ones(6), np.array(["a", "b"]))
    new = again(D)
    assert new == D
    for array in (new.points, new.offsets, new.masses, new.totals, new.ids, new[0][0], new[:1].points):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array
    with pytest.raises(ValueError, match="WRITEABLE"):
        new.points.flags.writeable = True


def test_parts_cannot_be_replaced():
    D = Distributions(POINTS, [0, 2, 6])
    with pytest.raises(AttributeError, match="a collection cannot be changed: make a new one with other masses"):
        D.masses = np.ones(6)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_copies_of_a_space_are_constant(again):
    space = again(asot.AnchorSpace(POINTS))
    assert not space.anchors.flags.writeable
    assert not space.cost.flags.writeable


def test_listed_pairs_are_the_results_own():
    pairs = np.array([[0, 1], [1, 2]])
    r = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), pairs=pairs)
    pairs[:] = 7
    assert r.pairs.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(ValueError, match="read-only"):
        r.pairs[0] = 9


# ----------------------------------------------------------------------------------------------- labels and their rows


def frames():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    points = pandas.DataFrame(rng.normal(size=(8, 2)), columns=["x", "y"], index=list("abcdefgh"))
    labels = pandas.Series(np.arange(8) % 2, index=points.index)
    masses = pandas.Series(1.0 + np.arange(8), index=points.index)
    return points, labels, masses


def test_labels_and_masses_in_another_order_find_their_rows():
    points, labels, masses = frames()
    D = Distributions.from_groups(points, labels, masses)
    assert Distributions.from_groups(points, labels[::-1], masses.sample(frac=1, random_state=0)) == D
    offsets = [0, 3, 8]
    assert Distributions(points, offsets, masses[::-1]) == Distributions(points, offsets, masses)
    halves = [points[:3], points[3:]]
    expected = Distributions.from_list(halves, [masses[:3], masses[3:]])
    assert Distributions.from_list(halves, [masses[:3][::-1], masses[3:][::-1]]) == expected
    assert Distributions.from_groups(points.to_numpy(), labels, masses[::-1]) == D  # labels and masses have one, too


def test_labels_of_other_rows_are_refused():
    points, labels, masses = frames()
    other = labels.set_axis(list("abcdefgz"))
    with pytest.raises(ValueError, match="the index of labels is not that of points"):
        Distributions.from_groups(points, other)
    with pytest.raises(ValueError, match=r"pass labels.to_numpy\(\) to go by position"):
        Distributions.from_groups(points, labels[:5])
    with pytest.raises(ValueError, match="the index of masses is not that of labels"):
        Distributions.from_groups(points.to_numpy(), labels, masses.reset_index(drop=True))
    with pytest.raises(ValueError, match="the index of masses is not that of points"):
        Distributions(points, [0, 3, 8], masses.reset_index(drop=True))
    with pytest.raises(ValueError, match=r"the index of the masses of distribution 0 \('p'\) is not"):
        Distributions.from_list([points], [masses.reset_index(drop=True)], ids=["p"])
    assert Distributions.from_groups(points, other.to_numpy()).sizes.tolist() == [4, 4]


def test_columns_of_weights_find_their_words():
    pandas = pytest.importorskip("pandas")
    vectors = pandas.DataFrame(np.eye(3), index=["cat", "dog", "bus"])
    counts = pandas.DataFrame({"bus": [0, 2], "cat": [1, 1], "dog": [3, 0]}, index=["first", "second"])
    D = Distributions.from_weights(counts, vectors)
    assert D.ids.tolist() == ["first", "second"]
    assert D["first"][0].tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match="the index of the columns of weights is not that of support"):
        Distributions.from_weights(counts.rename(columns={"bus": "car"}), vectors)


def test_a_column_name_is_a_label():
    points, labels, masses = frames()
    table = points.assign(patient=labels.map({0: "eve", 1: "adam"}), w=masses)
    D = Distributions.from_groups(table, "patient", "w")
    assert D.ids.tolist() == ["adam", "eve"]
    assert Distributions.from_groups(points, table["patient"], masses) == D
    with pytest.raises(ValueError, match="there is no column 'patent'; the columns are 'x', 'y', 'patient', 'w'"):
        Distributions.from_groups(table, "patent")
    with pytest.raises(ValueError, match=r"the column 'patient' holds .*, not numbers; choose the coordinates"):
        Distributions.from_groups(table, "w")
    with pytest.raises(ValueError, match="points is not a data frame"):
        Distributions.from_groups(POINTS, "patient")


def test_levels_that_do_not_occur_make_no_distribution_and_ordered_ones_keep_their_order():
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(pandas.Categorical(["t9", "t10", "t9"], categories=["t1", "t9", "t10"]))
    assert Distributions.from_groups(np.zeros((3, 1)), labels).ids.tolist() == ["t10", "t9"]
    ordered = labels.cat.as_ordered()
    assert Distributions.from_groups(np.zeros((3, 1)), ordered).ids.tolist() == ["t9", "t10"]


@pytest.mark.parametrize("missing", ["pandas", None, np.nan])
def test_a_missing_label_is_named(missing):
    pandas = pytest.importorskip("pandas")
    missing = pandas.NA if missing == "pandas" else missing
    for labels in (["a", missing, "b"], pandas.Series(["a", missing, "b"], dtype="category")):
        with pytest.raises(ValueError, match="label 1 is missing"):
            Distributions.from_groups(np.zeros((3, 1)), np.array(labels, dtype=object))
        if not isinstance(labels, list):
            with pytest.raises(ValueError, match="label 1 is missing"):
                Distributions.from_groups(np.zeros((3, 1)), labels)


# ------------------------------------------------------------------------------------------------- what is no array


def test_what_is_no_array_is_refused_at_once():
    class Walked:
        def __len__(self):
            return 10**9

        def __getitem__(self, i):
            raise AssertionError("walked through element by element")

    for call in (
        lambda x: Distributions(x, [0, 1]),
        lambda x: Distributions.from_groups(x, [0, 1]),
        lambda x: Distributions.from_list([x]),
        lambda x: Distributions.from_groups(np.zeros((2, 1)), x),
    ):
        with pytest.raises(ValueError, match=r"cannot be read as an array: it is a .*Walked; pass an array or a list"):
            call(Walked())
    with pytest.raises(ValueError, match="it is a dict"):
        Distributions({"a": 1}, [0, 1])


def test_sparse_points_are_refused_with_the_right_call():
    with pytest.raises(ValueError, match=r"points is a sparse matrix .*toarray\(\).*from_weights"):
        Distributions(sparse.csr_array(np.eye(3)), [0, 3])
    with pytest.raises(ValueError, match="distribution 0 is a sparse matrix"):
        Distributions.from_list([sparse.eye(3)])


def test_masked_entries_are_refused_and_an_empty_mask_is_not():
    masses = np.ma.masked_array(np.ones(6), mask=[0, 1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="masses has 1 masked entry; drop those rows, or fill them"):
        Distributions(POINTS, [0, 2, 6], masses)
    with pytest.raises(ValueError, match="distribution 0 has 2 masked entries"):
        Distributions.from_list([np.ma.masked_less(POINTS, 2.0)])
    with pytest.raises(ValueError, match="points has 2 masked entries"):
        Distributions([np.ma.masked_less(POINTS[0], 2.0), POINTS[1]], [0, 2])
    whole = np.ma.masked_array(POINTS, mask=False)
    assert Distributions(whole, [0, 2, 6]) == Distributions(POINTS, [0, 2, 6])


# ------------------------------------------------------------------------------------------------- names


def test_a_name_gives_its_distribution():
    D = Distributions.from_list([POINTS[:2], POINTS[2:]], ids=["p000", "p001"])
    np.testing.assert_array_equal(D["p001"][0], POINTS[2:])
    with pytest.raises(KeyError, match="no distribution is called 'p002'; the ids begin with 'p000'"):
        D["p002"]
    with pytest.raises(KeyError, match="2 distributions are called 'p000'; use an index, such as 0"):
        (D + D)["p000"]
    assert asot.plan(D, "p000", "p001", exact=True).ids == ("p000", "p001")
    with pytest.raises(KeyError, match="no distribution is called 'x'"):
        asot.plan(D, "p000", "x")


def test_what_iterating_gives_makes_a_collection_again():
    D = Distributions.from_list([POINTS[:2], POINTS[2:]], [[1, 3], [1, 1, 1, 5]])
    again = Distributions.from_list(list(D))
    np.testing.assert_array_equal(again.masses, D.masses)
    as_tuples = Distributions.from_list([((0.0, 1.0), (2.0, 3.0))])  # two points that were written as tuples
    assert as_tuples.points.tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_splitting_gives_collections_with_their_names():
    from sklearn.model_selection import train_test_split

    D = Distributions.from_list([POINTS[[i]] for i in range(6)], ids=list("abcdef"))
    train, test, y_train, _ = train_test_split(D, D.ids, random_state=0)
    assert isinstance(train, Distributions)
    assert isinstance(test, Distributions)
    assert train.ids.tolist() == list(y_train)


def test_a_vocabulary_is_held_once_and_its_points_are_looked_up():
    rng = np.random.default_rng(0)
    counts, vectors = sparse.random_array((40, 30), density=0.3, rng=rng, format="csr"), rng.normal(size=(30, 200))
    vectors[7] = vectors[8]  # two words with one vector
    D = Distributions.from_weights(counts, vectors)
    flat = Distributions(vectors[counts.tocsr().indices], counts.indptr, counts.data)
    whole = D + D[::-1]
    assert asot.pairwise_exact(D).values.tolist() == asot.pairwise_exact(flat).values.tolist()
    assert len(pickle.dumps(whole)) < 1.5 * vectors.nbytes + 40 * 30 * 16
    learner = asot.KMeansAnchors(5, random_state=0)
    assert learner.fit(whole).space_.anchors.tolist() == learner.fit(flat + flat[::-1]).space_.anchors.tolist()
    np.testing.assert_array_equal(learner.transform(D), learner.transform(flat))
    for collection in (D, whole):
        assert "points" not in vars(collection)  # nobody needed them all
    assert flat == D
    assert D[3:5] == flat[3:5]
    np.testing.assert_array_equal(D[3][0], flat[3][0])
    vectors[counts.tocsr().indices[0], 0] = np.inf
    with pytest.raises(ValueError, match="has the coordinate inf"):
        Distributions.from_weights(counts, vectors)
