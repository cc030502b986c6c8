"""Tables: the same collection from pandas, polars and Arrow, and a sentence for what is wrong with a column."""

import numpy as np
import pytest

from asot.data.distributions import Distributions

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

COLUMNS = {
    "patient": ["eve", "adam", "eve", "bo", "adam"],
    "x": [0.0, 1.0, 2.0, 3.0, 4.0],
    "y": [5, 6, 7, 8, 9],
    "w": [1.0, 2.0, 3.0, 4.0, 5.0],
}
KINDS = {
    "pandas": pandas.DataFrame,
    "arrow-backed pandas": lambda c: pandas.DataFrame(c).convert_dtypes(dtype_backend="pyarrow"),
    "nullable pandas": lambda c: pandas.DataFrame(c).convert_dtypes(),
    "polars": polars.DataFrame,
    "arrow": arrow.table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_collection(kind):
    D = Distributions.from_table(KINDS[kind](COLUMNS), by="patient", points=["x", "y"], masses="w")
    frame = pandas.DataFrame(COLUMNS)
    assert Distributions.from_groups(frame[["x", "y"]], frame["patient"], frame["w"]) == D
    assert D.ids.tolist() == ["adam", "bo", "eve"]
    assert D["eve"][0].tolist() == [[0.0, 5.0], [2.0, 7.0]]
    assert Distributions.from_table(KINDS[kind](COLUMNS), "patient", "x").dim == 1


def test_categories_that_do_not_occur_make_no_distribution():
    frame = pandas.DataFrame(COLUMNS)
    frame["patient"] = pandas.Categorical(frame["patient"], categories=["adam", "nobody", "bo", "eve"])
    assert Distributions.from_table(frame, "patient", ["x"]).ids.tolist() == ["adam", "bo", "eve"]
    pl = polars.DataFrame(COLUMNS).with_columns(polars.col("patient").cast(polars.Categorical))
    assert Distributions.from_table(pl, "patient", ["x"]).ids.tolist() == ["adam", "bo", "eve"]


def test_small_floats_stay_small_and_whole_numbers_are_names():
    frame = pandas.DataFrame({"id": [2, 1, 2], "x": np.zeros(3, np.float32), "y": np.ones(3, np.float32)})
    D = Distributions.from_table(frame, "id", ["x", "y"])
    assert D.dtype == np.float32
    assert D.ids.tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["polars", "arrow"])
def test_lists_in_columns_are_distributions(kind):
    columns = {"id": ["b", "a"], "x": [[0.0, 1.0], [2.0]], "y": [[3.0, 4.0], [5.0]], "w": [[1.0, 3.0], [1.0]]}
    D = Distributions.from_table(KINDS[kind](columns), "id", ["x", "y"], "w")
    assert D.ids.tolist() == ["b", "a"]
    assert D["b"][0].tolist() == [[0.0, 3.0], [1.0, 4.0]]
    assert D.masses.tolist() == [0.25, 0.75, 1.0]
    whole = {"id": ["b", "a"], "points": [[[0.0, 3.0], [1.0, 4.0]], [[2.0, 5.0]]]}
    assert Distributions.from_table(KINDS[kind](whole), "id", "points").points.tolist() == D.points.tolist()
    with pytest.raises(ValueError, match="row 0 has 2 entries in column 'x' and 1 in 'y'; both must have"):
        Distributions.from_table(KINDS[kind]({**columns, "y": [[3.0], [5.0]]}), "id", ["x", "y"])
    with pytest.raises(ValueError, match="distribution 1 \\('a'\\) is empty"):
        Distributions.from_table(KINDS[kind]({"id": ["b", "a"], "x": [[0.0], []]}), "id", ["x"])
    ragged = {"id": ["a"], "points": [[[0.0, 3.0], [1.0]]]}
    with pytest.raises(ValueError, match="column 'points' holds points of different dimensions"):
        Distributions.from_table(KINDS[kind](ragged), "id", "points")


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_what_is_wrong_with_a_column_is_reported(kind):
    make = KINDS[kind]
    for arguments, message in (
        (("patent", ["x"]), "there is no column 'patent'; the columns are 'patient', 'x', 'y', 'w'"),
        (("patient", ["x", "z"]), "there is no column 'z'"),
        (("patient", ["x"], "mass"), "there is no column 'mass'"),
        (("x", ["patient"]), "column 'patient' holds String, not numbers"),
        (("patient", []), "points is empty: it must name the columns"),
    ):
        with pytest.raises(ValueError, match=message):
            Distributions.from_table(make(COLUMNS), *arguments)
    with pytest.raises(ValueError, match="column 'patient' is missing in row 1"):
        Distributions.from_table(make({"patient": ["a", None, "b"], "x": [0.0, 1.0, 2.0]}), "patient", ["x"])
    with pytest.raises(ValueError, match=r"column 'x' is missing in row 1|has the coordinate nan at point 1"):
        Distributions.from_table(make({"patient": ["a", "a"], "x": [0.0, None]}), "patient", ["x"])
    with pytest.raises(ValueError, match="the table is empty"):
        Distributions.from_table(make({"patient": [], "x": []}), "patient", ["x"])


def test_what_is_no_table_is_reported():
    with pytest.raises(ValueError, match="table must be a pandas, polars or Arrow table; found ndarray"):
        Distributions.from_table(np.zeros((3, 2)), "a", ["b"])
    with pytest.raises(ValueError, match="the table is lazy; collect it first"):
        Distributions.from_table(polars.DataFrame(COLUMNS).lazy(), "patient", ["x"])
    with pytest.raises(ValueError, match="column 'x' holds Object, not numbers; for lists of arrays use from_list"):
        Distributions.from_table(pandas.DataFrame({"id": ["a"], "x": [np.zeros(3)]}), "id", ["x"])
    frame = pandas.DataFrame({"id": pandas.array(["a", pandas.NA], dtype="string"), "x": [0.0, 1.0]})
    with pytest.raises(ValueError, match="column 'id' is missing in row 1"):
        Distributions.from_table(frame, "id", ["x"])
