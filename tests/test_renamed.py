"""Old names keep working for one release: each warns, tells the new name, and gives the new name's answer."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import asot
from asot.renamed import GONE_IN

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    return asot.Distributions.from_list([rng.normal(size=(6, 2)) for _ in range(20)])


@contextlib.contextmanager
def warns(old, new):
    """That it warns, and at a line of this file: a line of asot would tell nobody what to change."""
    wanted = re.escape(f"{old} is now {new}; the old name goes in asot {GONE_IN}")
    with pytest.warns(FutureWarning, match=wanted) as told:
        yield
    assert [warning.filename for warning in told] == [__file__]


def test_barycentre():
    with warns("asot.barycentre", "asot.barycenter"):
        assert asot.barycentre is asot.barycenter
    assert "barycentre" not in dir(asot)


@pytest.mark.parametrize("bounds", ["projections", True, False])
def test_bounds_of_a_search(clouds, bounds):
    with warns("bounds=", "prune="):
        old = asot.kneighbors(clouds, 3, bounds=bounds)
    np.testing.assert_array_equal(old.indices, asot.kneighbors(clouds, 3).indices)
    with warns("bounds=", "prune="):
        near = asot.radius_neighbors(clouds, radius=0.8, bounds=bounds)
    assert (near.graph() != asot.radius_neighbors(clouds, radius=0.8).graph()).nnz == 0


def test_bounds_of_an_estimator(clouds):
    old = clone(asot.WassersteinNeighbors(3, bounds="relaxed"))
    with warns("bounds=", "prune="):
        old.fit(clouds)
    assert old.prune == "relaxed"
    np.testing.assert_array_equal(old.kneighbors()[1], asot.WassersteinNeighbors(3).fit(clouds).kneighbors()[1])


def test_an_old_value_is_refused_where_the_new_one_would_be(clouds):
    with warns("bounds=", "prune="), pytest.raises(ValueError, match="prune must be"):
        asot.kneighbors(clouds, 3, bounds="cheap")


def test_regularised():
    call = {"cost": 1.0 - np.eye(3), "reg": 0.1}
    with warns("value='regularised'", "'regularized'"):
        old = asot.sinkhorn_many(np.eye(3), value="regularised", **call)
    np.testing.assert_array_equal(old.values, asot.sinkhorn_many(np.eye(3), value="regularized", **call).values)


def test_names_are_gone_when_their_release_comes():
    """Whoever raises the version takes out the names whose time is over, or fails here."""
    now, gone = (tuple(map(int, text.split(".")[:2])) for text in (asot.__version__, GONE_IN))
    assert now < gone


def test_every_kept_name_is_in_the_changelog():
    upgrading = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("### Upgrading")[1].split("###")[0]
    assert all(old in upgrading for old in ("bounds=", "barycentre", "regularised"))
