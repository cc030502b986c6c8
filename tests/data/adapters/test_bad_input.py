"""Bad input, one list for every adapter: each gets one sentence that names what is wrong, and the right call.

A case that an adapter cannot meet has a reason in place of a message: images have no keys, say.
"""

import re

import numpy as np
import pytest
from scipy import sparse

from asot.data.distributions import Distributions

NAN = np.nan
CASES = (
    "wrong key", "missing embedding", "nan", "empty group", "one point", "mixed dimensions", "duplicate ids",
    "object column", "sparse matrix", "object of another library",
)  # fmt: skip
WORKS = "works"


class Foreign:
    """An object of another library, which nobody may walk through element by element."""

    def __len__(self):
        return 10**12

    def __getitem__(self, i):
        raise AssertionError("was walked through")

    __iter__ = None


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"id": ["a", "b", "b"], "x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0], **columns})


def adata(points=None, obs=None, **more):
    pandas, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    about = {"sample": ["a", "b", "b"], **(obs or {})}
    new = anndata.AnnData(obs=pandas.DataFrame(about, index=["c0", "c1", "c2"]))
    new.obsm["X_pca"] = np.arange(6.0).reshape(3, 2) if points is None else points
    for key, values in more.items():
        new.obsm[key] = values
    return new


def graph(**attributes):
    nx = pytest.importorskip("networkx")
    path = nx.path_graph(2)
    for name, values in attributes.items():
        for node, value in enumerate(values):
            path.nodes[node][name] = value
    return path


def empty_graph():
    return pytest.importorskip("networkx").Graph()


VECTORS = {"cat": [0.0, 1.0], "dog": [2.0, 1.0]}
IMAGES = np.ones((2, 3, 3))
EVENTS = np.ones((2, 3, 4))
DIAGRAM = np.array([[0.0, 1.0]])
table, cells, graphs = Distributions.from_table, Distributions.from_anndata, Distributions.from_graphs
texts, images = Distributions.from_texts, Distributions.from_images
jets, diagrams = Distributions.from_jets, Distributions.from_diagrams


def changed(array, place, value):
    new = array.copy()
    new[place] = value
    return new


WALK = {
    "table": {
        "wrong key": (lambda: table(frame(), "patient", ["x"]), "there is no column 'patient'; the columns are 'id'"),
        "missing embedding": (lambda: table(frame(), "id", ["x", "z"]), "there is no column 'z'; the columns are"),
        "nan": (
            lambda: table(frame(x=[0.0, 1.0, NAN]), "id", ["x"]),
            "column 'x' is missing in row 2; drop or impute it",
        ),
        "empty group": (lambda: table(frame()[:0], "id", ["x"]), "the table is empty: it has no rows"),
        "one point": (lambda: table(frame()[:1], "id", ["x", "y"]), WORKS),
        "mixed dimensions": "a table has as many columns in every row",
        "duplicate ids": "rows of one id are points of one distribution",
        "object column": (lambda: table(frame(x=[{}, {}, {}]), "id", ["x"]), "column 'x' holds Object, not numbers"),
        "sparse matrix": (
            lambda: table(sparse.eye(3, format="csr"), "id", ["x"]),
            "table must be a pandas, polars or Arrow table",
        ),
        "object of another library": (
            lambda: table(Foreign(), "id", ["x"]),
            "table must be a pandas, polars or Arrow table",
        ),
    },
    "cells": {
        "wrong key": (lambda: cells(adata(), "patient"), "obs has no column 'patient'; it has 'sample'"),
        "missing embedding": (lambda: cells(adata(), "sample", use_rep="X_umap"), "there is no 'X_umap' in obsm"),
        "nan": (lambda: cells(adata(np.full((3, 2), NAN)), "sample"), "distribution 0 ('a') has the coordinate nan"),
        "empty group": (lambda: cells(adata()[:0], "sample"), "the AnnData has no cells"),
        "one point": (lambda: cells(adata()[:1], "sample"), WORKS),
        "mixed dimensions": "a matrix has as many columns in every row",
        "duplicate ids": "cells of one sample are points of one distribution",
        "object column": (
            lambda: cells(adata(obs={"w": ["1", "x", "2"]}), "sample", masses="w"),
            "masses must hold numbers",
        ),
        "sparse matrix": (lambda: cells(adata(S=sparse.eye(3, 2, format="csr")), "sample", use_rep="S"), WORKS),
        "object of another library": (lambda: cells(Foreign(), "sample"), "adata must be an AnnData; found Foreign"),
    },
    "graphs": {
        "wrong key": (lambda: graphs([graph(z=[1, 2])], attributes="q"), "node 0 has no attribute 'q'; its attributes"),
        "missing embedding": (lambda: graphs([graph()], edge_weight="w"), "the 'w' of edge (0, 1) is None"),
        "nan": (
            lambda: graphs([graph(z=[0.5, NAN])], attributes="z"),
            "graph 0: 'z' is nan at node 1; features must be finite",
        ),
        "empty group": (lambda: graphs([graph(), empty_graph()]), "graph 1 has no nodes; drop it"),
        "one point": (lambda: graphs([graph().subgraph([0])]), WORKS),
        "mixed dimensions": (
            lambda: graphs([graph(z=[[0.5], [0.5, 1.0]])], attributes="z"),
            "'z' must have the same type and length",
        ),
        "duplicate ids": (lambda: graphs([graph(), graph()], ids=["a", "a"]), WORKS),
        "object column": (
            lambda: graphs([graph(z=[0.5, {}])], attributes="z"),
            "'z' must have the same type and length",
        ),
        "sparse matrix": (lambda: graphs([sparse.eye(3)]), "graphs must be networkx or PyTorch Geometric graphs"),
        "object of another library": (lambda: graphs([Foreign()]), "entry 0 is a Foreign"),
    },
    "texts": {
        "wrong key": (lambda: texts([["cat"]], VECTORS, words=["cat"]), "words names the columns of a matrix"),
        "missing embedding": (
            lambda: texts([["yak"]], VECTORS, unknown="drop"),
            "document 0 has no word with a vector",
        ),
        "nan": (lambda: texts([["cat"]], {"cat": [NAN]}), "the vector of 'cat' is nan in column 0"),
        "empty group": (lambda: texts([["cat"], []], VECTORS), "document 1 has no words"),
        "one point": (lambda: texts([["cat"]], VECTORS), WORKS),
        "mixed dimensions": (
            lambda: texts([["cat", "dog"]], {**VECTORS, "dog": [1.0]}),
            "the vector of 'dog' has shape",
        ),
        "duplicate ids": (lambda: texts([["cat"], ["dog"]], VECTORS, ids=["a", "a"]), WORKS),
        "object column": (lambda: texts([[{}, {}]], VECTORS), "documents must hold words; found {}"),
        "sparse matrix": (lambda: texts(sparse.eye(2), VECTORS), "words must name the columns of the matrix"),
        "object of another library": (lambda: texts(Foreign(), VECTORS), "documents must be a list of token lists"),
    },
    "images": {
        "wrong key": "images have no keys",
        "missing embedding": "images have no keys",
        "nan": (lambda: images(changed(IMAGES, (1, 0, 2), NAN)), "image 1 has the ink nan at (0, 2)"),
        "empty group": (lambda: images(changed(IMAGES, 1, 0.0)), "image 1 is blank; drop it"),
        "one point": (lambda: images(IMAGES[:, :1, :1]), WORKS),
        "mixed dimensions": (lambda: images([IMAGES[0], IMAGES[0, :2]]), "stack cannot be read as an array"),
        "duplicate ids": (lambda: images(IMAGES, ids=["a", "a"]), WORKS),
        "object column": (lambda: images(np.full((1, 2, 2), {})), "stack must hold numbers"),
        "sparse matrix": (lambda: images(sparse.eye(3)), "stack is a sparse matrix"),
        "object of another library": (lambda: images(Foreign()), "stack cannot be read as an array: it is a"),
    },
    "jets": {
        "wrong key": (lambda: jets(EVENTS, coords="polar"), "coords must be one of 'hadronic', 'cartesian'"),
        "missing embedding": (lambda: jets(EVENTS[:, :, :2]), "events must be (N, M, 3 or more: pt, y, phi)"),
        "nan": (lambda: jets(changed(EVENTS, (1, 2, 1), NAN)), "event 1 has nan at particle 2, column 1"),
        "empty group": (lambda: jets(changed(EVENTS, 1, 0.0)), "event 1 has no particle with transverse momentum"),
        "one point": (lambda: jets(EVENTS[:, :1]), WORKS),
        "mixed dimensions": (lambda: jets([EVENTS[0], EVENTS[1, :, :2]]), "event 1 must be particles"),
        "duplicate ids": (lambda: jets(EVENTS, ids=["a", "a"]), WORKS),
        "object column": (lambda: jets(np.full((1, 2, 3), {})), "events must hold numbers"),
        "sparse matrix": (lambda: jets(sparse.eye(3)), "events is a sparse matrix"),
        "object of another library": (lambda: jets(Foreign()), "events cannot be read as an array: it is a"),
    },
    "diagrams": {
        "wrong key": (lambda: diagrams([DIAGRAM], infinity="keep"), "infinity must be None, 'drop' or a finite number"),
        "missing embedding": (lambda: diagrams([DIAGRAM[:, :1]]), "must be an array (n, 2) of birth and death"),
        "nan": (lambda: diagrams([DIAGRAM * NAN]), "distribution 0 has NaN at point 0"),
        "empty group": (lambda: diagrams([DIAGRAM, np.empty((0, 2))]), WORKS),
        "one point": (lambda: diagrams([DIAGRAM]), WORKS),
        "mixed dimensions": (lambda: diagrams([DIAGRAM, np.ones((1, 3))]), "distribution 1 must be an array (n, 2)"),
        "duplicate ids": (lambda: diagrams([DIAGRAM, DIAGRAM], ids=["a", "a"]), WORKS),
        "object column": (lambda: diagrams([np.full((1, 2), {})]), "diagram 0 must hold numbers"),
        "sparse matrix": (lambda: diagrams([sparse.eye(2)]), "diagram 0 is a sparse matrix"),
        "object of another library": (lambda: diagrams(Foreign()), "diagrams must be a list of arrays (n, 2)"),
    },
}


def walk():
    for adapter, cases in WALK.items():
        assert tuple(cases) == CASES, f"{adapter} has not met every case"
        for case, met in cases.items():
            if not isinstance(met, str):
                yield pytest.param(*met, id=f"{adapter}: {case}")


@pytest.mark.filterwarnings("ignore:The 'mode.chained_assignment'", "ignore:.*is made dense", "ignore:Transforming to")
@pytest.mark.parametrize(("call", "message"), walk())
def test_every_adapter_meets_every_case(call, message):
    if message == WORKS:
        D = call()
        assert np.isfinite(D.points).all()
        assert D.sizes.min() > 0
        return
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [table, cells, graphs, texts, images, jets, diagrams])
@pytest.mark.parametrize("values", [None, 7, "text", {}])
def test_what_is_no_data_at_all_is_told(make, values):
    more = {table: ("id", ["x"]), cells: ("sample",), texts: (VECTORS,)}.get(make, ())
    with pytest.raises(ValueError, match=r"must be|must hold|cannot be read|is empty|has no") as caught:
        make(values, *more)
    assert "\n" not in str(caught.value)


def test_ids_that_occur_twice_are_told_when_they_are_asked_for():
    D = images(IMAGES, ids=["a", "a"])
    with pytest.raises(KeyError, match="2 distributions are called 'a'; use an index"):
        D["a"]


@pytest.mark.parametrize("make", [graphs, texts, images, jets, diagrams])
def test_ids_of_a_wrong_number_are_told(make):
    listed = [graph()] if make == graphs else [["cat"]] if make == texts else [DIAGRAM]
    good = {images: IMAGES[:1], jets: EVENTS[:1]}.get(make, listed)
    more = (VECTORS,) if make == texts else ()
    with pytest.raises(ValueError, match="ids must name each of the 1 distributions; found 2"):
        make(good, *more, ids=["a", "b"])
