"""AnnData in and out, with real objects: in memory, views, sparse, layers, backed by a file."""

import numpy as np
import pytest
from scipy import sparse

import asot
from asot.data.distributions import Distributions

pandas = pytest.importorskip("pandas")
anndata = pytest.importorskip("anndata")
pytestmark = pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment'")  # anndata 0.12 with pandas 3.1


@pytest.fixture
def adata():
    rng = np.random.default_rng(0)
    levels = pandas.Index(["s1", "s10", "s2", "unused"], dtype=object)
    samples = pandas.Categorical(rng.choice(["s1", "s2", "s10"], 60), categories=levels)
    obs = pandas.DataFrame({"sample": samples, "w": rng.random(60) + 0.1, "type": rng.choice(["B", "T"], 60)})
    obs["type"] = pandas.Categorical(obs["type"].astype(object))
    obs.index = pandas.Index([f"cell{i}" for i in range(60)], dtype=object)
    var = pandas.DataFrame(index=pandas.Index([f"gene{i}" for i in range(8)], dtype=object))
    new = anndata.AnnData(X=sparse.random_array((60, 8), density=0.3, rng=rng, format="csr"), obs=obs, var=var)
    new.obsm["X_pca"] = rng.normal(size=(60, 4)).astype(np.float32)
    new.layers["counts"] = rng.integers(0, 5, size=(60, 8)).astype(np.float64)
    return new


def test_cells_become_the_distributions_of_their_samples(adata):
    D = Distributions.from_anndata(adata, "sample")
    assert D.ids.tolist() == ["s1", "s10", "s2"]
    assert D.dtype == np.float32
    assert Distributions.from_groups(adata.obsm["X_pca"], adata.obs["sample"]) == D
    np.testing.assert_array_equal(D["s2"][0], adata[adata.obs["sample"] == "s2"].obsm["X_pca"])
    weighted = Distributions.from_anndata(adata, "sample", masses="w")
    assert weighted == Distributions.from_anndata(adata, "sample", masses=adata.obs["w"][::-1])
    assert weighted == Distributions.from_groups(adata.obsm["X_pca"], adata.obs["sample"], adata.obs["w"])


def test_the_collection_is_its_own(adata):
    adata = adata[np.argsort(adata.obs["sample"].to_numpy(), kind="stable")].copy()
    D = Distributions.from_anndata(adata, "sample")
    adata.obsm["X_pca"][:] = np.nan
    assert np.isfinite(D.points).all()


def test_matrices_and_layers_may_be_used_and_sparse_ones_are_announced(adata):
    assert Distributions.from_anndata(adata, "sample", use_rep="counts").dim == 8
    with pytest.warns(UserWarning, match="'X' is sparse and is made dense: 60 × 8 numbers"):
        D = Distributions.from_anndata(adata, "sample", use_rep="X")
    assert Distributions.from_groups(adata.X.toarray(), adata.obs["sample"]) == D
    adata.obsm["frame"] = pandas.DataFrame(adata.obsm["X_pca"], index=adata.obs_names)
    assert Distributions.from_anndata(adata, "sample", use_rep="frame") == Distributions.from_anndata(adata, "sample")


def test_views_and_files_give_the_same(adata, tmp_path, monkeypatch):
    monkeypatch.setattr("asot.data.adapters.cells._BLOCK", 56)  # several blocks
    D = Distributions.from_anndata(adata, "sample")
    some = adata[adata.obs["sample"] != "s1"]
    assert Distributions.from_anndata(some, "sample") == D[[i == "s10" or i == "s2" for i in D.ids]]
    adata.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    assert Distributions.from_anndata(backed, "sample") == D
    with pytest.warns(UserWarning, match="is made dense"):
        stored = Distributions.from_anndata(backed, "sample", use_rep="X")
    assert Distributions.from_groups(adata.X.toarray(), adata.obs["sample"]) == stored
    backed.file.close()


def test_what_is_wrong_is_reported_at_once(adata):
    made = Distributions.from_anndata
    for call, message in (
        (lambda: made(adata, "patient"), "obs has no column 'patient'; it has 'sample', 'w', 'type'"),
        (lambda: made(adata, "sample", masses="z"), "obs has no column 'z'"),
        (lambda: made(adata, "sample", use_rep="X_umap"), "there is no 'X_umap' in obsm or layers"),
        (lambda: made(adata.obs, "sample"), r"adata must be an AnnData; found DataFrame.*from_table"),
        (
            lambda: Distributions.from_groups(adata, adata.obs["sample"]),
            r"use Distributions.from_anndata\(adata, groupby",
        ),
        (lambda: Distributions(adata, [0, 60]), "points is an AnnData"),
        (lambda: asot.pairwise(adata), r"Distributions.from_anndata\(adata"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    del adata.obsm["X_pca"]
    with pytest.raises(ValueError, match=r"use_rep may be 'counts', 'X'; compute it with scanpy.pp.pca\(adata\)"):
        Distributions.from_anndata(adata, "sample")
    adata.obs.loc["cell7", "sample"] = np.nan
    with pytest.raises(ValueError, match=r"cell 7 \('cell7'\) has no 'sample'; drop such cells"):
        Distributions.from_anndata(adata, "sample", use_rep="counts")
    adata.obsm["bad"] = np.full((60, 2), np.nan)
    adata.obs["sample"] = "one"
    with pytest.raises(ValueError, match=r"distribution 0 \('one'\) has the coordinate nan at point 0"):
        Distributions.from_anndata(adata, "sample", use_rep="bad")


def test_distances_go_back_with_their_names(adata, tmp_path):
    D = Distributions.from_anndata(adata, "sample")
    r = asot.pairwise_exact(D)
    about = pandas.DataFrame({"condition": ["x", "y", "z", "?"]}, index=["s2", "s10", "s1", "other"])
    new = r.to_anndata(about, n_neighbors=1)
    assert new.obs_names.tolist() == ["s1", "s10", "s2"]
    assert new.obs["condition"].tolist() == ["z", "y", "x"]
    np.testing.assert_array_equal(new.obsp["wasserstein"], r.matrix())
    assert new.obsp["distances"].nnz == 3
    assert abs(new.obsp["connectivities"] - new.obsp["connectivities"].T).max() == 0
    new.write_h5ad(tmp_path / "d.h5ad")
    again = anndata.read_h5ad(tmp_path / "d.h5ad")
    np.testing.assert_array_equal(again.obsp["wasserstein"], r.matrix())
    assert again.uns["neighbors"]["params"]["n_neighbors"] == 2
    assert again.uns["asot"]["metric"] == "euclidean"
    for options in ({"bounds": True}, {"estimate": "calibrated"}):
        result = asot.pairwise(D, random_state=0, **options)
        result.to_anndata().write_h5ad(tmp_path / "d.h5ad")
    with pytest.raises(ValueError, match="obs has no row for 's10'"):
        r.to_anndata(about.drop(index="s10"))
    with pytest.raises(ValueError, match="within one collection"):
        asot.pairwise_exact(D, D).to_anndata()
