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


def test_tests_and_neighbors_show_their_table():
    rng = np.random.default_rng(0)
    ids = ["<b>eve</b>", *(f"p{i}" for i in range(11))]
    D = asot.Distributions.from_list([rng.normal(size=(20, 2)) for _ in ids], ids=ids)
    r, groups = asot.pairwise_exact(D), np.arange(12) % 2
    kinds = np.tile(["B", "T"], 120)
    for thing, columns in (
        (asot.outliers(r), ("score", "ratio")),
        (asot.perturbation_test(D, "p0", n_permutations=19), ("null_mean", "q_value")),
        (asot.pairwise_columns(D), ("n_samples", "largest")),
        (asot.group_differences(r, groups, n_permutations=19), ("pseudo_f", "effect")),
        (asot.drivers(D, kinds, groups, n_permutations=19), ("noise_share",)),
        (asot.kneighbors(D, n_neighbors=2), ("1", "2")),
        (asot.radius_neighbors(D, radius=2.0), ("rank", "neighbor")),
    ):
        shown = thing._repr_html_()
        assert all(f"<th>{name}</th>" in shown for name in columns)
        assert "<b>eve" not in shown
        assert f"<p>{type(thing).__name__}: " in shown
