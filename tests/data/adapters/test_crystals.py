"""Crystals as distributions: distances by brute force, and what must not change them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import asot
from asot import Distributions


def crystal(rng, n=3):
    """A lattice (3, 3) and Cartesian positions (n, 3)."""
    lattice = np.eye(3) * rng.uniform(2, 4, 3) + rng.normal(size=(3, 3)) * 0.4
    return lattice, rng.random((n, 3)) @ lattice


def by_brute_force(lattice, positions, k, reach=6):
    """Rows (n, k), from all copies within some cells."""
    shifts = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 3), axis=-1).reshape(-1, 3) @ lattice
    copies = (positions[:, None] + shifts).reshape(-1, 3)
    gaps = np.sort(np.linalg.norm(positions[:, None] - copies, axis=2), axis=1)
    return gaps[:, 1 : k + 1]


def apart(*structures, k=30, **options):
    D = Distributions.from_structures(list(structures), k=k, **options)
    return asot.pairwise_exact(D, metric="chebyshev").values


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 12, 60])
def test_rows_are_the_nearest_distances(seed, k):
    rng = np.random.default_rng(seed)
    lattice, positions = crystal(rng, n=int(rng.integers(1, 5)))
    (rows, masses) = Distributions.from_structures([(lattice, positions)], k=k)[0]
    expected = by_brute_force(lattice, positions, k)
    np.testing.assert_allclose(masses.sum(), 1.0)
    for row in expected:
        assert np.abs(rows - row).max(axis=1).min() < 1e-12


def test_the_choice_of_a_cell_changes_nothing():
    rng = np.random.default_rng(1)
    lattice, positions = crystal(rng)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    skewed = np.array([[1, 0, 0], [5, 1, 0], [-7, 3, 1]])
    doubled = np.concatenate([positions, positions + lattice[1]]), lattice * [[1], [2], [1]]
    same = [
        (lattice, positions),
        (lattice, positions[::-1] + np.array([0.3, -2.0, 11.0])),
        (lattice @ turned, positions @ turned),
        (skewed @ lattice, positions),
        doubled[::-1],
    ]
    assert apart(*same).max() < 1e-9


def test_moving_an_atom_a_little_changes_a_little():
    rng = np.random.default_rng(2)
    lattice, positions = crystal(rng)
    moved = positions + np.diag([0.01, 0.0, 0.0])
    assert 0 < apart((lattice, positions), (lattice, moved)).item() <= 0.02


def test_atoms_with_the_same_surroundings_are_one_point():
    salt = [[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0.5] * 3]
    D = Distributions.from_structures([(4.2 * np.eye(3), salt)], fractional=True, k=26)
    assert D.sizes.tolist() == [1]
    np.testing.assert_allclose(D.points[0, :6], 2.1)


def test_objects_of_pymatgen_and_ase_are_read():
    rng = np.random.default_rng(3)
    lattice, positions = crystal(rng)
    shares = positions @ np.linalg.inv(lattice)
    structure = SimpleNamespace(lattice=SimpleNamespace(matrix=lattice), frac_coords=shares)
    atoms = SimpleNamespace(cell=lattice, pbc=np.array([True] * 3), get_positions=lambda: positions)
    assert apart((lattice, positions), structure, atoms).max() < 1e-12
    assert apart((lattice, positions), structure, atoms, fractional=False).max() < 1e-12


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (SimpleNamespace(cell=np.eye(3), pbc=np.array([True, True, False]), get_positions=None), "three directions"),
        ((np.ones((3, 3)), [[0.0, 0.0, 0.0]]), "lie in a plane"),
        ((np.eye(3), np.empty((0, 3))), "has no atoms"),
        ((np.eye(3), [[0.0, 0.0]]), r"shape \(n, 3\); found \(1, 2\)"),
        ((np.eye(2), [[0.0, 0.0, 0.0]]), r"shape \(3, 3\); found \(2, 2\)"),
        ((np.eye(3), [[0.0, np.nan, 0.0]]), "finite"),
        (np.eye(3), "pass a pymatgen Structure"),
    ],
)
def test_what_is_no_crystal_is_refused_by_its_name(given, message):
    with pytest.raises(ValueError, match=message) as caught:
        Distributions.from_structures([(np.eye(3), [[0.0, 0.0, 0.0]]), given], ids=["good", "quartz"])
    assert "quartz" in str(caught.value)


def test_arguments_that_are_no_list_or_number_are_refused():
    with pytest.raises(ValueError, match="structures must be a list"):
        Distributions.from_structures("NaCl.cif")
    for k in (0, True, 2.5):
        with pytest.raises(ValueError, match="k must be a whole number"):
            Distributions.from_structures([(np.eye(3), [[0.0, 0.0, 0.0]])], k=k)


def test_copies_that_were_moved_are_found_by_a_radius():
    rng = np.random.default_rng(4)
    known = [crystal(rng) for _ in range(30)]
    moved = [(lattice, positions + rng.normal(scale=1e-3, size=(3, 3))) for lattice, positions in known]
    D = Distributions.from_structures(known + moved, k=20)
    found = asot.radius_neighbors(D, radius=0.02, metric="chebyshev")
    assert found.indices.tolist() == [*range(30, 60), *range(30)]


@pytest.mark.parametrize("scale", [1e-290, 1e-3, 1e290])
def test_rows_are_as_large_as_their_crystal(scale):
    lattice, positions = crystal(np.random.default_rng(5))
    plain, scaled = (Distributions.from_structures([(s * lattice, s * positions)], k=20) for s in (1.0, scale))
    same = Distributions(scaled.points / scale, scaled.offsets, scaled.masses)  # rows that nearly tie may change places
    assert asot.pairwise_exact(same, plain, metric="chebyshev").values[0] <= 1e-9 * plain.points.max()


def test_more_neighbors_than_memory_are_refused():
    with pytest.raises(MemoryError, match="use a smaller k"):
        Distributions.from_structures([(np.eye(3), [[0.0, 0.0, 0.0]])], k=10**12)
