"""On the real data, where they are at hand: what a condition makes of a set is what the paper's text or code says."""

import os

import numpy as np
import pytest
from asot_paper.names import DESCRIBED, PUBLISHED, SETS
from asot_paper.problems import Problems
from asot_paper.scale import FULL

import asot

pytestmark = pytest.mark.skipif(
    "ASOT_DATA" not in os.environ, reason="needs the data sets, in the folder that the variable ASOT_DATA names"
)

N_AND_K = {"MUTAG": (188, 18), "PTC_MR": (344, 14), "ENZYMES": (600, 33), "BZR": (405, 36), "COX2": (467, 41)}


@pytest.fixture(scope="module")
def everything():
    return Problems(FULL, download=False)


@pytest.mark.parametrize("name", N_AND_K)
def test_k_is_the_mean_size_and_anchors_are_learned_on_nine_tenths(everything, name):
    n, k = N_AND_K[name]
    problem = everything.problem(DESCRIBED, name, 0, 0)
    assert (len(problem.D), problem.k) == (n, k)
    assert len(problem.train) == pytest.approx(0.9 * n, abs=1)


def test_as_published_distances_are_total_variations_of_label_histograms(everything):
    D = everything.problem(PUBLISHED, "MUTAG", 0, 0).D
    counts = np.add.reduceat(D.points[:, :7] * D.masses[:, None], D.offsets[:-1])
    i, j = np.triu_indices(len(D), 1)
    expected = np.sqrt(10.0) * 0.5 * np.abs(counts[i] - counts[j]).sum(axis=1)
    np.testing.assert_allclose(asot.pairwise_exact(D, progress=False).values, expected, atol=1e-6)


def test_as_published_there_is_a_column_for_every_number_up_to_the_last_label(everything):
    columns = {name: everything.problem(PUBLISHED, name, 0, 0).D.dim // 5 for name in ("MUTAG", "BZR", "COX2")}
    assert columns == {"MUTAG": 7, "BZR": 53, "COX2": 35}


def test_as_described_distances_are_in_the_tens(everything):
    D = everything.problem(DESCRIBED, "MUTAG", 0, 0).D
    assert asot.pairwise_exact(D, progress=False).values.mean() == pytest.approx(32.5, abs=0.05)


def test_digits_are_five_hundred_of_the_test_images(everything):
    problem = everything.problem(DESCRIBED, "MNIST", 3, 0)
    assert len(problem.D) == 500
    assert problem.D.points.min() >= 0.0
    assert problem.D.points.max() < 1.0
    assert 140 <= problem.k <= 160
    assert "MNIST" in SETS
