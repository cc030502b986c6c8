"""`kernel`: exp(-γ W), positive semidefinite in the way asked for, and honest about it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

import asot
from asot.datasets import load_digits


def indefinite(n=12, seed=0):
    """Distances whose kernel has negative eigenvalues: shortest ways in a graph are no Euclidean ones."""
    star = np.full((n, n), 2.0)
    half = n // 2
    star[:half, half:] = star[half:, :half] = 1.0  # a complete bipartite graph
    np.fill_diagonal(star, 0.0)
    return star * (1.0 + 0.01 * np.random.default_rng(seed).random())


def test_the_kernel_is_the_exponential_of_the_distances():
    digits, _, _ = load_digits(30)
    r = asot.pairwise_exact(digits)
    K = asot.kernel(r, 3.0)
    assert np.allclose(K.matrix, np.exp(-3.0 * r.matrix()))
    assert K.done.startswith("nothing: the kernel is positive semidefinite")
    assert np.array_equal(np.asarray(K), K.matrix)
    assert K.shape == (30, 30)
    assert len(K) == 30


def test_gamma_is_by_default_one_over_the_median_distance():
    r = asot.pairwise_exact(load_digits(30)[0])
    assert np.isclose(asot.kernel(r).gamma, 1.0 / np.median(r.values))
    assert asot.kernel(np.zeros((3, 3))).gamma == 1.0


def test_negative_eigenvalues_are_clipped_shifted_or_left_and_it_is_said():
    W = indefinite()
    plain, clipped, shifted = (asot.kernel(W, 0.3, psd=psd) for psd in (None, "clip", "shift"))
    smallest = np.linalg.eigvalsh(np.exp(-0.3 * W))[0]
    assert smallest < -0.1
    assert plain.smallest_eigenvalue is None
    for K in (clipped, shifted):
        assert np.isclose(K.smallest_eigenvalue, smallest)
    assert np.allclose(plain.matrix, np.exp(-0.3 * W))
    assert plain.done.startswith("nothing, as requested")
    assert np.linalg.eigvalsh(clipped.matrix)[0] > -1e-12
    assert clipped.done.startswith("clipped: 1 of 12 eigenvalues negative, down to -")
    assert np.allclose(shifted.matrix, np.exp(-0.3 * W) - smallest * np.eye(12))
    assert "added to the diagonal" in shifted.done


def test_new_rows_are_projected_as_the_kernel_was():
    W = indefinite()
    K = asot.kernel(W, 0.3, psd="clip")
    assert np.allclose(K.between(W), K.matrix)  # those it was made from
    plain = asot.kernel(W, 0.3, psd="shift")
    assert np.allclose(plain.between(W[:3]), np.exp(-0.3 * W[:3]))


def test_a_support_vector_machine_reads_it():
    digits, labels, _ = load_digits(150)
    train, test = digits[:110], digits[110:]
    K = asot.kernel(asot.pairwise_exact(train))
    model = SVC(kernel="precomputed", C=10.0).fit(K, labels[:110])
    assert model.score(K.between(asot.pairwise_exact(test, train)), labels[110:]) > 0.8


@given(st.integers(2, 12), st.integers(0, 10**6), st.sampled_from(["clip", "shift"]), st.floats(0.01, 10.0))
def test_a_repaired_kernel_is_always_positive_semidefinite(n, seed, psd, gamma):
    W = np.random.default_rng(seed).random((n, n)) * 3.0
    W = np.triu(W, 1) + np.triu(W, 1).T
    eigenvalues = np.linalg.eigvalsh(asot.kernel(W, gamma, psd=psd).matrix)
    assert eigenvalues[0] >= -1e-12 * max(1.0, eigenvalues[-1]) * n


@pytest.mark.parametrize(
    ("distances", "options", "message"),
    [
        (np.zeros((2, 3)), {}, "a kernel needs the distances of all pairs of one collection; found shape"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), {}, "distances are not symmetric"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), {}, r"distance \(0, 1\) is -1.0; distances must be finite and ≥ 0"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), {}, r"distance \(0, 1\) is nan"),
        (np.zeros(3), {}, "distances must be a matrix or a Distances"),
        (np.zeros((2, 2)), {"gamma": 0.0}, "gamma must be None or a number > 0"),
        (np.zeros((2, 2)), {"psd": "hide"}, "psd must be one of 'clip', 'shift'"),
    ],
)
def test_what_is_no_kernel_is_refused(distances, options, message):
    with pytest.raises(ValueError, match=message):
        asot.kernel(distances, **options)


def test_distances_to_other_distributions_are_refused():
    with pytest.raises(ValueError, match="distances are to 5 distributions, but the kernel has 3"):
        asot.kernel(np.zeros((3, 3))).between(np.zeros((2, 5)))


def test_without_a_repair_no_eigenvalue_is_computed(monkeypatch):
    monkeypatch.setattr(np.linalg, "eigh", None)
    assert asot.kernel(indefinite(), 0.3, psd=None).matrix.shape == (12, 12)


def test_a_kernel_behaves_as_its_matrix():
    K = asot.kernel(indefinite(), 0.3)
    assert K.shape == (12, 12)
    assert K.ndim == 2
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K[:3][:, [1, 2]], K.matrix[:3, [1, 2]])
    np.testing.assert_array_equal(K[np.ix_([0, 4], [0, 4])], np.asarray(K)[np.ix_([0, 4], [0, 4])])
