"""Files of other programs as collections, in Python and on the command line: .h5ad, and folders of files."""

import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.cli import COMMANDS, cli


def asot_command(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="asot")


@pytest.fixture
def cells(tmp_path):
    pandas, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    names = pandas.Index(["s1", "s2", "s3"], dtype=object)  # anndata 0.12 cannot write the texts of pandas 3
    sample = pandas.Categorical.from_codes(rng.integers(3, size=30), categories=names)
    obs = pandas.DataFrame({"sample": sample, "age": rng.random(30)})
    obs.index = pandas.Index([f"cell{i}" for i in range(30)], dtype=object)
    var = pandas.DataFrame(index=pandas.Index([f"gene{i}" for i in range(4)], dtype=object))
    adata = anndata.AnnData(X=rng.random((30, 4)), obs=obs, var=var)
    adata.obsm["X_pca"] = rng.normal(size=(30, 2)).astype(np.float32)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    return adata


@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment'", "ignore:Transforming to str index")
def test_cells_of_a_file_are_those_of_its_anndata(cells, tmp_path):
    path = tmp_path / "cells.h5ad"
    D = asot.Distributions.from_anndata(cells, "sample")
    assert asot.load_collection(path, groupby="sample") == D
    stored = asot.load_collection(path, groupby="sample", use_rep="X")
    assert stored == asot.Distributions.from_anndata(cells, "sample", use_rep="X")
    done = asot_command("exact", path, "--groupby", "sample", "-o", tmp_path / "d.npz", "--n-jobs", 1)
    assert done.exit_code == 0, done.output
    r = asot.load_distances(tmp_path / "d.npz")
    np.testing.assert_array_equal(r.values, asot.pairwise_exact(D).values)
    assert r.ids.tolist() == ["s1", "s2", "s3"]
    said = asot_command("info", path).output
    assert "AnnData: samples by --groupby sample | age; cells at --use-rep X_pca | X" in said.replace(
        "age | sample", "sample | age"
    )
    converted = asot_command("convert", path, "--groupby", "sample", "--use-rep", "X", "-o", tmp_path / "c.npz")
    assert converted.exit_code == 0, converted.output
    assert asot.load_collection(tmp_path / "c.npz") == stored


@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment'", "ignore:Transforming to str index")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "holds cells; groupby must name the column of obs with their samples: "),
        (["--groupby", "patient"], "obs has no column 'patient'; it has 'sample', 'age'"),
        (
            ["--groupby", "sample", "--use-rep", "X_umap"],
            "there is no 'X_umap' in obsm or layers; use_rep may be 'X_pca'",
        ),
        (["--groupby", "sample", "--attributes", "x"], "attributes belongs to a folder of .graphml files"),
    ],
)
def test_what_is_wrong_with_cells_is_one_line(cells, tmp_path, options, message):
    done = asot_command("exact", tmp_path / "cells.h5ad", *options, "-o", tmp_path / "d.npz")
    assert done.exit_code == 1
    assert message in done.output
    assert done.output.count("\n") == 1


def test_every_command_shows_an_example():
    for name in COMMANDS.keys() - {"paper"}:  # which another package brings
        said = asot_command(name, "--help").output
        assert f"Example: asot {name} " in " ".join(said.split()), name


def test_files_that_are_no_anndata_are_told(tmp_path):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("anndata")
    (tmp_path / "a.h5ad").write_text("id,x\n")
    with h5py.File(tmp_path / "b.h5ad", "w") as file:
        file["x"] = [1]
    with h5py.File(tmp_path / "c.h5ad", "w") as file:  # a few bytes that stand for a terabyte
        file.create_group("obs").attrs["_index"] = "_index"
        file["obs"].create_dataset("_index", shape=(2**37,), dtype="f8", chunks=(2**16,))
        file["obs"]["sample"] = file["obs"]["_index"]
    for name, message in (("a", "not an HDF5 file"), ("b", "it has no obs"), ("c", "takes about"), ("d", "no file")):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            asot.load_collection(tmp_path / f"{name}.h5ad", groupby="sample")


@pytest.mark.parametrize("kind", ["npy", "csv", "csv with masses"])
def test_a_folder_holds_one_distribution_per_file(tmp_path, kind):
    rng = np.random.default_rng(0)
    arrays = {f"p{i}": rng.random((i + 2, 2)).round(3) for i in range(4)}
    masses = {name: np.arange(1.0, len(points) + 1) for name, points in arrays.items()}
    folder = tmp_path / "patients"
    folder.mkdir()
    for name, points in arrays.items():
        if kind == "npy":
            np.save(folder / f"{name}.npy", points)
        elif kind == "csv":
            np.savetxt(folder / f"{name}.csv", points, delimiter=",", header="x,y", comments="")
        else:
            table = np.column_stack([points[:, 0], masses[name], points[:, 1]])
            np.savetxt(folder / f"{name}.csv", table, delimiter=",", header="x,mass,y", comments="")
    (folder / ".hidden").write_text("")
    weights = list(masses.values()) if kind.endswith("masses") else None
    expected = asot.Distributions.from_list(list(arrays.values()), weights, ids=list(arrays))
    assert asot.load_collection(folder) == expected
    assert asot_command("info", folder).output.endswith(f"{expected!r}\n")
    done = asot_command("cluster", folder, "--n-clusters", 2, "-o", tmp_path / "c.csv", "--n-jobs", 1)
    assert done.exit_code == 0, done.output


def test_what_is_wrong_with_a_folder_names_the_file(tmp_path):
    def load(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        return asot.load_collection(folder)

    for files, message in (
        ({}, "holds no files"),
        ({"a_csv": "x\n1\n", "b_txt": ""}, "holds .csv, .txt; it must hold one file per distribution"),
        ({"a_csv": "x\n1\n", "b_csv": "x\n"}, r"b\.csv is empty"),
        ({"a_csv": "x\n1\n", "b_csv": ""}, r"b\.csv is empty"),
        ({"a_csv": "x\n1\n", "b_csv": "x\nb\n"}, r"b\.csv, line 2: 'b' in column 'x' is not a number"),
        ({"a_csv": "x\n1\n", "b_csv": "x,y\n1,2\n"}, r"\('b'\) has points in 2 dimensions"),
        ({"a_csv": "x\n1\n", "b_csv": "x,mass\n1,2\n"}, r"a\.csv has no column 'mass', but .*b\.csv has"),
        ({"a_csv": "id,x\ne,1\n"}, "has a column 'id': it is a collection of its own"),
        ({"a_npy": "text"}, r"a\.npy"),
        ({"a_graphml": "text"}, r"a\.graphml is not GraphML"),
    ):
        with pytest.raises(ValueError, match=message):
            load(**files)


def test_a_folder_of_graphs_is_read_with_its_labels(tmp_path):
    nx = pytest.importorskip("networkx")
    graphs = [nx.path_graph(3), nx.cycle_graph(4), nx.star_graph(3)]
    for folder in ("some", "others"):
        (tmp_path / folder).mkdir()
    for i, graph in enumerate(graphs):
        nx.set_node_attributes(graph, {node: "CNO"[(node + i) % (2 + i % 2)] for node in graph}, "element")
        nx.write_graphml(graph, tmp_path / ("others" if i == 2 else "some") / f"g{i}.graphml")
    some = asot.Distributions.from_graphs(graphs[:2], attributes="element", ids=["g0", "g1"])
    assert asot.load_collection(tmp_path / "some", attributes="element") == some
    both = ["exact", tmp_path / "some", tmp_path / "others", "--attributes", "element", "--n-jobs", 1]
    done = asot_command(*both, "-o", tmp_path / "d.npz")
    assert done.exit_code == 0, done.output
    D = asot.Distributions.from_graphs(graphs, attributes="element")
    expected = asot.pairwise_exact(D[:2], D[2:]).matrix()  # columns mean the same in both
    np.testing.assert_allclose(asot.load_distances(tmp_path / "d.npz").matrix(), expected, rtol=1e-12)
    nx.write_graphml(nx.DiGraph([(0, 1)]), tmp_path / "some" / "g9.graphml")
    with pytest.raises(ValueError, match=r"g9\.graphml holds a directed graph"):
        asot.load_collection(tmp_path / "some")
