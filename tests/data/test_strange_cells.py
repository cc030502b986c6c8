"""Files of cells from strangers: no link, reference or claim leads out of the file or to more memory than it accounts
for."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest

import asot

h5py = pytest.importorskip("h5py")
pytest.importorskip("anndata")
pytestmark = pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment'", "ignore:Transforming to str index")

N = 6
MUCH = 2 * 10**8


def array(group, name, data, kind="array", **options):
    node = group.create_dataset(name, data=data, **options)
    node.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
    return node


def frame(file, name, columns, index="_index"):
    group = file.create_group(name)
    told = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": index}
    group.attrs.update(told)
    group.attrs["column-order"] = np.array(columns, dtype=h5py.string_dtype())
    return group


def bomb(file, name="bomb", shape=(MUCH,), dtype="f8"):
    """A data set that was never written."""
    node = file.create_dataset(name, shape, dtype, chunks=tuple(min(n, 1000) for n in shape))
    node.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    return node


@pytest.fixture
def path(tmp_path):
    """Six cells of two samples in the plane."""
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        obs = frame(file, "obs", ["sample"])
        array(obs, "_index", [f"c{i}" for i in range(N)], "string-array", dtype=h5py.string_dtype())
        array(obs, "sample", list("aabbbb"), "string-array", dtype=h5py.string_dtype())
        array(file.create_group("obsm"), "X_pca", np.arange(2.0 * N).reshape(N, 2))
    return tmp_path / "cells.h5ad"


def load(path):
    return asot.load_collection(path, groupby="sample")


def other_file(path):
    other = path.with_name("secret.h5")
    with h5py.File(other, "w") as file:
        array(file, "sample", list("xxyyzz"), "string-array", dtype=h5py.string_dtype())
        array(file, "X_pca", np.ones((N, 2)))
    return other


def replaced(node, name):
    del node[name]
    return node


def test_such_a_file_is_read(path):
    assert load(path).ids.tolist() == ["a", "b"]
    with h5py.File(path, "a") as file:
        bomb(file)
        for column in "uvw":
            file["obs"][column] = h5py.SoftLink("/bomb")  # of no interest
    assert load(path).sizes.tolist() == [2, 4]


def test_a_link_within_the_file_is_followed(path):
    with h5py.File(path, "a") as file:
        file.move("obs/sample", "elsewhere")
        file["obs"]["sample"] = h5py.SoftLink("/elsewhere")
    assert load(path).ids.tolist() == ["a", "b"]


def soft(file):
    bomb(file)
    for name in ("_index", "sample"):
        replaced(file["obs"], name)[name] = h5py.SoftLink("/bomb")


def hard(file):
    data = bomb(file, shape=(N, 10**7))
    group = frame(replaced(file["obsm"], "X_pca"), "X_pca", list("abcdefgh"))
    for name in ("_index", *"abcdefgh"):
        group[name] = data


def never_written(file):
    bomb(replaced(file["obsm"], "X_pca"), "X_pca", (N, 10**8))


def wide_texts(file):
    for name in ("sample", "_index"):
        bomb(replaced(file["obs"], name), name, (N,), "S400000000")


def large_chunk(file):
    node = replaced(file["obsm"], "X_pca").create_dataset(
        "X_pca", (N, 2), "f8", chunks=(10**4, 4 * 10**4), maxshape=(None, None), compression="gzip"
    )
    node.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})


def wide_and_sparse(file):
    group = replaced(file["obsm"], "X_pca").create_group("X_pca")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [N, 10**9]})
    for name, data in {"data": np.empty(0), "indices": np.empty(0, "i4"), "indptr": np.zeros(N + 1, "i4")}.items():
        group.create_dataset(name, data=data)


LARGE = [soft, hard, never_written, wide_texts, large_chunk, wide_and_sparse]


@pytest.mark.parametrize("change", LARGE, ids=lambda change: change.__name__)
def test_small_files_take_little_memory(path, change):
    with h5py.File(path, "a") as file:
        change(file)
    assert path.stat().st_size < 10**6
    script = f"""
import resource, asot
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    asot.load_collection({str(path)!r}, groupby="sample")
except ValueError as error:
    print(error)
print("MB:", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "of memory to read; files that expand by more than 200 times are refused" in done.stdout, done.stderr[-500:]
    assert int(done.stdout.split("MB: ")[1]) < 700  # anndata itself takes 300
    assert resource.RLIMIT_AS  # which this test is about


def external_column(file, other):
    replaced(file["obs"], "sample")["sample"] = h5py.ExternalLink(str(other), "/sample")


def external_matrix(file, other):
    replaced(file["obsm"], "X_pca")["X_pca"] = h5py.ExternalLink(str(other), "/X_pca")


def external_group(file, other):
    replaced(file, "obsm")["obsm"] = h5py.ExternalLink(str(other), "/")


def soft_to_external(file, other):
    """Two steps: the first stays within the file."""
    file["out"] = h5py.ExternalLink(str(other), "/X_pca")
    replaced(file["obsm"], "X_pca")["X_pca"] = h5py.SoftLink("/out")


def through_a_group(file, other):
    file["out"] = h5py.ExternalLink(str(other), "/")
    replaced(file["obsm"], "X_pca")["X_pca"] = h5py.SoftLink("/out/X_pca")


def virtual(file, other):
    layout = h5py.VirtualLayout((N, 2), "f8")
    layout[:] = h5py.VirtualSource(str(other), "X_pca", (N, 2))
    replaced(file["obsm"], "X_pca").create_virtual_dataset("X_pca", layout)


def raw_bytes(file, other):
    replaced(file["obsm"], "X_pca").create_dataset("X_pca", (N, 2), "f8", external=[(str(other), 0, 16 * N)])


@pytest.mark.parametrize(
    "change",
    [external_column, external_matrix, external_group, soft_to_external, through_a_group, virtual, raw_bytes],
    ids=lambda change: change.__name__,
)
def test_nothing_is_read_from_other_files(path, change):
    other = other_file(path)
    with h5py.File(path, "a") as file:
        change(file, other)
    with pytest.raises(ValueError, match=r"such files are not read: write the cells again with anndata"):
        load(path)


def cycle(file):
    group = frame(replaced(file["obsm"], "X_pca"), "X_pca", ["again"])
    group["again"] = group
    array(group, "_index", ["c"] * N, "string-array", dtype=h5py.string_dtype())


def doubling(file):
    group = frame(replaced(file["obsm"], "X_pca"), "X_pca", [])
    array(group, "_index", ["c"] * N, "string-array", dtype=h5py.string_dtype())
    for _ in range(30):
        below = group.create_group("a")
        group["b"] = below
        group = below


def columns_outside(file):
    group = frame(replaced(file["obsm"], "X_pca"), "X_pca", ["/obs/sample"])
    array(group, "_index", ["c"] * N, "string-array", dtype=h5py.string_dtype())


def index_outside(file):
    file["obs"].attrs["_index"] = "/obsm/X_pca"


def dangling(file):
    replaced(file["obs"], "sample")["sample"] = h5py.SoftLink("/nowhere")


def endless(file):
    replaced(file["obs"], "sample")["sample"] = h5py.SoftLink("/obs/sample")


def references(file):
    node = replaced(file["obs"], "sample").create_dataset("sample", (N,), h5py.ref_dtype)
    node.attrs["encoding-type"] = "array"


def named_type(file):
    replaced(file["obs"], "sample")["sample"] = np.dtype("f8")


def matrix_of_no_kind(file):
    replaced(file["obsm"], "X_pca")["X_pca"] = np.dtype("f8")


def dangling_categories(file):
    node = array(replaced(file["obs"], "sample"), "sample", np.zeros(N, "i1"))
    node.attrs["categories"] = h5py.Reference()


def indices_outside(file):
    group = replaced(file["obsm"], "X_pca").create_group("X_pca")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [N, 2]})
    for name, data in {"data": np.ones(N), "indices": np.full(N, 10**6), "indptr": np.arange(N + 1)}.items():
        group.create_dataset(name, data=data)


def lengths_differ(file):
    array(replaced(file["obs"], "sample"), "sample", np.zeros(N + 1, "i1"))


def no_shape(file):
    replaced(file["obsm"], "X_pca").create_dataset("X_pca", data=h5py.Empty("f8"))


def another_kind(file):
    file["obs/sample"].attrs["encoding-type"] = "awkward-array"


@pytest.mark.parametrize(
    "change",
    [matrix_of_no_kind, cycle, doubling, columns_outside, index_outside, dangling, endless, references,
     named_type, dangling_categories, indices_outside, lengths_differ, no_shape, another_kind],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_what_makes_no_sense_is_a_sentence(path, change):
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=r"^.*cells\.h5ad: .*") as told:
        load(path)
    assert "\n" not in str(told.value)


def test_categories_elsewhere_are_found(path):
    """As anndata wrote them before 0.8."""
    with h5py.File(path, "a") as file:
        names = array(file["obs"].create_group("__categories"), "sample", list("ab"), dtype=h5py.string_dtype())
        node = array(replaced(file["obs"], "sample"), "sample", np.array([0, 0, 1, 1, 1, 1], "i1"))
        node.attrs["categories"] = names.ref
        names.attrs["encoding-type"] = "string-array"
    D = load(path)
    assert (D.ids.tolist(), D.sizes.tolist()) == (["a", "b"], [2, 4])


def test_long_texts_are_counted(path, monkeypatch):
    monkeypatch.setattr("asot.data.expansion.FLOOR", 2**20)
    monkeypatch.setattr("asot.data.h5ad.FLOOR", 2**20)
    with h5py.File(path, "a") as file:
        node = replaced(file["obs"], "sample").create_dataset("sample", (N,), h5py.string_dtype())
        node[:] = "x"
        node.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    assert len(load(path)) == 1
    with h5py.File(path, "a") as file:
        file["obs/sample"][:] = "x" * 300_000
    monkeypatch.setenv("ASOT_MAX_EXPANSION", "1")
    with pytest.raises(ValueError, match="of memory to read"):
        load(path)


def test_a_damaged_table_of_names_is_a_sentence(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"SNOD", b"SNOW"))
    with pytest.raises(ValueError, match=r"is damaged: .*signature"):
        load(path)
