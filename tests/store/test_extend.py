"""Stores that grow into others."""

from __future__ import annotations

import numpy as np
import pytest

import asot
from tests.results.test_extend import D, N

pytest.importorskip("zarr")


@pytest.mark.parametrize(
    "call", [asot.pairwise_exact, lambda D, **rest: asot.pairwise(D, estimate="calibrated", **rest)]
)
def test_a_store_grows_into_another_and_resumes(call, tmp_path):
    stored = call(D, sink=asot.sinks.Store(tmp_path / "old"))
    wanted = call(D).extend(N).matrix()
    for own in (stored, asot.open_store(tmp_path / "old")):
        grown = own.extend(N, sink=asot.sinks.Store(tmp_path / "new"))
        assert grown.is_complete
        assert np.array_equal(np.asarray(grown), wanted)
    assert np.array_equal(stored.extend(N).matrix(), wanted)
    again = asot.open_store(tmp_path / "new").extend(N[:1])
    assert again.shape == (45, 45)


def test_a_store_does_not_grow_where_it_is(tmp_path):
    stored = asot.pairwise_exact(D[:5], sink=asot.sinks.Store(tmp_path / "old"))
    with pytest.raises(ValueError, match="cannot grow where it is"):
        stored.extend(N, sink=asot.sinks.Store(tmp_path / "old"))


def test_a_store_without_pairs_or_model_is_refused(tmp_path):
    nearest = asot.pairwise_exact(D[:5], sink=asot.sinks.Store(tmp_path / "near", keep=asot.sinks.TopK(2)))
    with pytest.raises(ValueError, match="only keeps the nearest"):
        nearest.extend(N)
    plain = asot.emd_many(np.eye(3), cost=1 - np.eye(3), sink=asot.sinks.Store(tmp_path / "plain"))
    with pytest.raises(ValueError, match="does not know what it was made with"):
        plain.extend(N)


def test_a_block_without_pairs_is_done(tmp_path):
    """65 rows are a block of 64 and one of a single row, which has no pairs of its own."""
    line = asot.Distributions.from_list(np.arange(65.0)[:, None, None])
    assert asot.pairwise_exact(line, sink=asot.sinks.Store(tmp_path / "run")).is_complete
