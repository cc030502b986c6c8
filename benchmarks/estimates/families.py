"""Collections that make it hard to know how wrong an estimate is: 25 families, each a law of random collections.

In each of them something is rare, heavy, alike, shared, far, or of many dimensions: what a small sample of pairs may
miss. A family makes a collection from a generator, so a seed names it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import asot

Float = NDArray[np.float64]
Family = Callable[[np.random.Generator], asot.Distributions]


def _listed(clouds: list[Float], masses: list[Float] | None = None) -> asot.Distributions:
    return asot.Distributions.from_list(clouds, masses)


def _cloud(rng: np.random.Generator, size: int, d: int, spread: float = 1.0) -> Float:
    return np.asarray(rng.normal(spread * rng.normal(size=d), 1.0, (size, d)))


def _own_places(dimensions: tuple[int, int], size: int, n: int, spread: float = 1.0) -> Family:
    """Clouds of one size around places of their own."""

    def make(rng: np.random.Generator) -> asot.Distributions:
        d = int(rng.integers(*dimensions))
        return _listed([_cloud(rng, size, d, spread) for _ in range(n)])

    return make


def far_outliers(rng: np.random.Generator) -> asot.Distributions:
    """A few distributions are 10 to 10,000 times as far away as the others are apart."""
    few, far = int(rng.integers(1, 5)), 10.0 ** rng.uniform(1, 4)
    places = [rng.normal(size=3) * (far if i < few else 1.0) for i in range(90)]
    return _listed([rng.normal(place, 1.0, (30, 3)) for place in places])


def outlying_points(rng: np.random.Generator) -> asot.Distributions:
    """One point in a hundred lies 30 spreads away."""
    clouds = [_cloud(rng, 40, 3) for _ in range(80)]
    return _listed([cloud + 30.0 * (rng.random((40, 1)) < 0.01) * rng.normal(size=(40, 3)) for cloud in clouds])


def one_wide(rng: np.random.Generator) -> asot.Distributions:
    """One distribution of 80 is wide: its pairs are one in forty, and have most of the error."""
    width = 10.0 ** rng.uniform(0.5, 1.5)
    return _listed([(width if i == 0 else 1.0) * _cloud(rng, 40, 3) for i in range(80)])


def cauchy(rng: np.random.Generator) -> asot.Distributions:
    """Points without a variance."""
    return _listed([rng.normal(size=2) + rng.standard_cauchy((30, 2)) for _ in range(90)])


def student(rng: np.random.Generator) -> asot.Distributions:
    """Points, and the widths of their distributions, with Student's t at two degrees of freedom."""
    widths = np.abs(rng.standard_t(2, size=90)) + 0.1
    return _listed([width * (rng.normal(size=3) + rng.standard_t(2, size=(30, 3))) for width in widths])


def pareto_masses(rng: np.random.Generator) -> asot.Distributions:
    """A few points have most of the mass."""
    return _listed([_cloud(rng, 40, 3) for _ in range(90)], [rng.pareto(1.0, 40) + 1e-3 for _ in range(90)])


def sizes(rng: np.random.Generator) -> asot.Distributions:
    """From one point to 400."""
    return _listed([_cloud(rng, int(np.rint(400.0 ** rng.random())), 3) for _ in range(90)])


def sizes_in_many_dimensions(rng: np.random.Generator) -> asot.Distributions:
    """From one point to 150, in 30 dimensions."""
    return _listed([_cloud(rng, int(np.rint(150.0 ** rng.random())), 30, 0.3) for _ in range(80)])


def near_duplicates(rng: np.random.Generator) -> asot.Distributions:
    """Each distribution four times, moved by a thousandth."""
    clouds = [_cloud(rng, 40, 3) for _ in range(22)]
    return _listed([cloud + 1e-3 * rng.normal(size=cloud.shape) for cloud in clouds for _ in range(4)])


def scales(rng: np.random.Generator) -> asot.Distributions:
    """Each distribution at a scale of its own, from 1/100 to 100."""
    return _listed([10.0 ** rng.uniform(-2, 2) * _cloud(rng, 30, 3) for _ in range(90)])


def two_kinds(rng: np.random.Generator) -> asot.Distributions:
    """Clouds, and rings of another scale."""
    scale = 10.0 ** rng.uniform(-1, 1)
    angles = [rng.uniform(0, 2 * np.pi, 40) for _ in range(20)]
    rings = [scale * (np.stack([np.cos(a), np.sin(a)], axis=1) + 0.3 * rng.normal(size=2)) for a in angles]
    return _listed([*(_cloud(rng, 40, 2) for _ in range(70)), *rings])


def rare_wide_kind(rng: np.random.Generator) -> asot.Distributions:
    """A hundred narrow distributions, and a few wide ones far away, in which nearly all of the error is."""
    few, width, place = int(rng.integers(6, 16)), 10.0 ** rng.uniform(0.5, 2), 10.0 ** rng.uniform(0, 3)
    clouds = [rng.normal(size=(25, 3)) for _ in range(90)]
    return _listed([*clouds, *(rng.normal(place, width, (25, 3)) for _ in range(few))])


def checkerboards(rng: np.random.Generator) -> asot.Distributions:
    """Points on the black or on the white fields of a board: anchors coarser than a field see no difference."""
    fields = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2)
    color = fields.sum(axis=1) % 2
    clouds = []
    for i in range(90):
        own = fields[color == i % 2]
        clouds.append(own[rng.choice(len(own), 40, replace=False)] + 0.05 * rng.normal(size=(40, 2)))
    return _listed(clouds)


def one_law(rng: np.random.Generator) -> asot.Distributions:
    """All distributions are samples of one law, so distances are nothing but noise."""
    d = int(rng.integers(2, 5))
    return _listed([rng.normal(size=(50, d)) for _ in range(80)])


def one_law_in_many_dimensions(rng: np.random.Generator) -> asot.Distributions:
    """The same in 50 dimensions."""
    return _listed([rng.normal(size=(50, 50)) for _ in range(70)])


def needles(rng: np.random.Generator) -> asot.Distributions:
    """Thin lines in all directions."""
    clouds = []
    for _ in range(90):
        direction = rng.normal(size=3)
        along = rng.uniform(-1, 1, (40, 1)) * direction / np.linalg.norm(direction)
        clouds.append(rng.normal(size=3) + 5.0 * along + 1e-3 * rng.normal(size=(40, 3)))
    return _listed(clouds)


def few(rng: np.random.Generator) -> asot.Distributions:
    """Twelve to seventeen distributions: 66 to 136 pairs, of which the fit sees about half or more."""
    return _listed([_cloud(rng, 250, 3) for _ in range(int(rng.integers(12, 18)))])


def shifted_in_100_dimensions(rng: np.random.Generator) -> asot.Distributions:
    """Four of 70 distributions are moved away."""
    shift = rng.uniform(0.5, 3.0)
    return _listed([rng.normal(shift * (i < 4), 1.0, (50, 100)) for i in range(70)])


def sparse_mixtures(rng: np.random.Generator) -> asot.Distributions:
    """Documents: each has a few of eight topics, in 60 dimensions."""
    centers = rng.normal(size=(8, 60))
    clouds = []
    for _ in range(80):
        own = rng.choice(8, int(rng.integers(20, 60)), p=rng.dirichlet(np.full(8, 0.4)))
        clouds.append(centers[own] + 0.4 * rng.normal(size=(len(own), 60)))
    return _listed(clouds)


def bags_of_words(rng: np.random.Generator) -> asot.Distributions:
    """Documents that share their words: frequent ones are in all of them, others belong to one of twelve topics."""
    n_words = int(rng.integers(200, 1000))
    topic = rng.integers(12, size=n_words)
    words = rng.normal(size=(12, 50))[topic] + rng.uniform(0.3, 2.0) * rng.normal(size=(n_words, 50))
    weights = np.zeros((80, n_words))
    for row in weights:
        share = (rng.dirichlet(np.full(12, 0.3))[topic] + (np.arange(n_words) < 30)) / np.arange(3, n_words + 3)
        np.add.at(row, rng.choice(n_words, rng.integers(30, 120), p=share / share.sum()), 1.0)
    return asot.Distributions.from_weights(weights, words)


def low_rank(rng: np.random.Generator) -> asot.Distributions:
    """Three directions matter, and 100 dimensions hold noise."""
    basis = rng.normal(size=(3, 100))
    return _listed([_cloud(rng, 50, 3) @ basis + 0.3 * rng.normal(size=(50, 100)) for _ in range(70)])


FAMILIES: dict[str, Family] = {
    "far outliers": far_outliers,
    "outlying points": outlying_points,
    "one wide": one_wide,
    "Cauchy": cauchy,
    "Student": student,
    "Pareto masses": pareto_masses,
    "sizes 1 to 400": sizes,
    "sizes in 30-D": sizes_in_many_dimensions,
    "near duplicates": near_duplicates,
    "scales": scales,
    "two kinds": two_kinds,
    "rare wide kind": rare_wide_kind,
    "checkerboards": checkerboards,
    "one law": one_law,
    "one law in 50-D": one_law_in_many_dimensions,
    "needles": needles,
    "12 to 17": few,
    "4 of 70 shifted, 100-D": shifted_in_100_dimensions,
    "sparse mixtures, 60-D": sparse_mixtures,
    "bags of words, 50-D": bags_of_words,
    "low rank in 100-D": low_rank,
    "alike": _own_places((2, 6), 40, 90),
    "60 points in 20 to 200-D": _own_places((20, 201), 60, 60),
    "60 points, near, 20 to 200-D": _own_places((20, 201), 60, 60, 0.3),
    "60 points, far, 20 to 200-D": _own_places((20, 201), 60, 60, 3.0),
}
