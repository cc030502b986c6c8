"""What other libraries do with our distances, as ``metric="precomputed"``: HDBSCAN, UMAP, openTSNE and scikit-learn."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering
from sklearn.manifold import MDS, TSNE
from sklearn.metrics import adjusted_rand_score, silhouette_score

import asot


@pytest.fixture(scope="module")
def groups():
    """Three groups of ten clouds, far from each other; the collection, the groups and the distances."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 10)
    D = asot.Distributions.from_list([rng.normal(6.0 * g, 1.0, size=(int(rng.integers(5, 12)), 2)) for g in group])
    return D, group, asot.pairwise_exact(D)


def apart(places, group):
    """Whether the groups are apart on a map."""
    return silhouette_score(places, group) > 0.5


def test_scikit_learns_clusterings_read_a_result_as_it_is(groups):
    _, group, r = groups
    for model in (
        HDBSCAN(min_cluster_size=5, metric="precomputed", copy=True),
        DBSCAN(eps=3.0, metric="precomputed"),
        AgglomerativeClustering(3, metric="precomputed", linkage="average"),
    ):
        assert adjusted_rand_score(group, model.fit_predict(np.asarray(r))) == 1.0


def test_scikit_learns_maps_read_a_result_as_it_is(groups):
    _, group, r = groups
    assert apart(TSNE(metric="precomputed", init="random", perplexity=5, random_state=0).fit_transform(r), group)
    options = {"n_init": 1, "random_state": 0}
    try:
        places = MDS(metric="precomputed", init="random", **options).fit_transform(r)
    except (TypeError, ValueError):  # the argument had another name before scikit-learn 1.8
        places = MDS(dissimilarity="precomputed", **options).fit_transform(r)
    assert apart(places, group)


def test_hdbscan_reads_a_matrix(groups):
    hdbscan = pytest.importorskip("hdbscan")
    _, group, r = groups
    found = hdbscan.HDBSCAN(min_cluster_size=5, metric="precomputed").fit_predict(np.asarray(r))
    assert adjusted_rand_score(group, found) == 1.0


@pytest.mark.filterwarnings("ignore")
def test_umap_reads_a_matrix_and_our_neighbors(groups):
    umap = pytest.importorskip("umap")
    D, group, r = groups
    places = umap.UMAP(metric="precomputed", n_neighbors=6, random_state=0).fit_transform(np.asarray(r))
    assert apart(places, group)
    model = asot.WassersteinNeighbors(6).fit(D)
    distances, indices = model.kneighbors(D)  # a query finds itself first, as UMAP wants it
    known = umap.UMAP(n_neighbors=6, precomputed_knn=(indices, distances, None), random_state=0)
    assert apart(known.fit_transform(np.zeros((len(D), 1), np.float32)), group)


def test_opentsne_reads_a_matrix_and_our_neighbors(groups):
    openTSNE = pytest.importorskip("openTSNE")
    affinity = pytest.importorskip("openTSNE.affinity")
    nearest = pytest.importorskip("openTSNE.nearest_neighbors")
    D, group, r = groups
    options = {"initialization": "random", "random_state": 0, "n_jobs": 1}
    places = openTSNE.TSNE(metric="precomputed", perplexity=5, **options).fit(np.asarray(r))
    assert apart(np.asarray(places), group)
    distances, indices = asot.WassersteinNeighbors(15).fit(D).kneighbors()
    known = nearest.PrecomputedNeighbors(indices, distances)
    similar = affinity.PerplexityBasedNN(knn_index=known, perplexity=5, n_jobs=1)
    assert apart(np.asarray(openTSNE.TSNE(perplexity=5, **options).fit(affinities=similar)), group)
