"""The bound from centered distances: below every plan, whoever found it, and 0 for relabelled copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asot
from asot.data.spaces.reading import read_spaces
from asot.run.engine import Resources, solve_work
from asot.run.protocols import Notes
from asot.spaces.third_bound import CenteredBounds, FromThirdBound, third_bound_work

from .made import energy, masses_of, neuron, random_plan


def centered(matrices: list[Any], masses: Any = None) -> Any:
    """(N, N) of the bound."""
    spaces, resources = read_spaces(matrices, masses), Resources(1, None, False)
    work = third_bound_work(spaces, 0, None, "cpu", resources, Notes(), True)
    return solve_work(work, FromThirdBound(asot.sinks.Condensed(), CenteredBounds(spaces)), resources).matrix()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [[9] * 6, [1, 2, 5, 9, 7, 3]])
def test_no_plan_is_below_the_centered_bound(sizes: list[int], weighted: bool) -> None:
    rng = np.random.default_rng(0)
    half = [rng.random((n, n)) for n in sizes]
    for matrices in ([neuron(rng, n) for n in sizes], [x + x.T for x in half], [1e6 * (1 - np.eye(n)) for n in sizes]):
        masses = [masses_of(rng, n) if weighted else np.full(n, 1 / n) for n in sizes]
        bound = centered(matrices, masses if weighted else None)
        assert (bound <= asot.gromov(matrices, masses=masses if weighted else None).matrix()).all()
        for i in range(len(sizes)):
            for j in range(i):
                plan = random_plan(rng, masses[i], masses[j])
                assert bound[i, j] <= 0.5 * energy(plan, matrices[i], matrices[j], 2) ** 0.5


def test_values_of_pot_are_not_below_the_centered_bound() -> None:
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(1)
    matrices = [neuron(rng, n) for n in (8, 12, 12, 15)]
    bound = centered(matrices)
    for i in range(4):
        for j in range(i):
            assert bound[i, j] <= 0.5 * np.sqrt(ot.gromov_wasserstein2(matrices[i], matrices[j])) * (1 + 1e-12)


def test_relabelled_copies_are_not_told_apart_and_neurons_better_than_by_the_third_bound() -> None:
    rng = np.random.default_rng(2)
    matrices = [neuron(rng, 20) for _ in range(12)]
    order = rng.permutation(20)
    bound = centered([*matrices, matrices[0][np.ix_(order, order)]])
    assert bound[0, 12] == 0.0
    third = asot.pairwise_exact(asot.Distributions.from_spaces(matrices), p=2).matrix()
    off = ~np.eye(12, dtype=bool)
    assert (bound[:12, :12] / np.where(off, third, 1.0))[off].mean() > 1.0
