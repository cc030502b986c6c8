"""What a notebook shows of results: their sentence and the first rows, with names that are no markup."""

from __future__ import annotations

import numpy as np

import asot


def test_collections_results_plans_and_kernels_have_a_page():
    rng = np.random.default_rng(0)
    ids = ["<b>eve</b>", *(f"p{i}" for i in range(9))]
    D = asot.Distributions.from_list([rng.normal(size=(5, 2)) for _ in ids], ids=ids)
    r = asot.pairwise_exact(D)
    for thing in (D, r):
        shown = thing._repr_html_()
        assert "&lt;b&gt;eve&lt;/b&gt;" in shown
        assert "<b>" not in shown
        assert "and 4 more" in shown
    assert f"{r.values[0]:.4g}" in r._repr_html_()
    assert "moves between 5 and 5 points, W = " in asot.plan(D, 1, 2)._repr_html_()
    assert "Kernel of 10 distributions" in asot.kernel(r)._repr_html_()
    assert asot.pairwise_exact(D[:2], D[2:])._repr_html_().startswith("<p>Distances: 16 pairs")
