"""What drives a difference: the same question, asked of every kind of point alone.

Groups of patients differ; is it all of their cells, or one type? Each cell type is a collection of its own, the cells
of that type of every patient who has enough of them, and groups are compared by its distances above noise. Many
types are many tests, so p-values come with q-values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.belonging import per_distribution
from asot.data.distributions import Distributions, as_distributions, check_mass
from asot.data.reading import factorized
from asot.distances import pairwise
from asot.learn import noise
from asot.learn.anova import q_values
from asot.learn.groups import GroupDifferences, check_groups, group_differences
from asot.results.distances import Distances
from asot.results.frames import ShownAsFrame, need_pandas
from asot.run.executors import Progress, ProgressLike
from asot.validation import as_positive_int

COLUMNS = ("pseudo_f", "p_value", "q_value", "effect", "mean_distance", "noise_share", "n_samples")
"""Of the table of kinds."""

FEWEST = 3
"""Distributions that a group must have for a kind to be compared."""


@dataclass(frozen=True, eq=False)
class Drivers(ShownAsFrame):
    """How much groups differ in each kind of point.

    Attributes
    ----------
    kinds : tuple
        The kinds that could be compared, those with small p-values first.
    tests : dict
        The `GroupDifferences` of every kind.
    distances : dict
        The `Distances` of every kind, above noise, among the distributions that have enough of its points.
    q_value : dict
        Adjusted for the number of kinds (Benjamini and Hochberg).
    left_out : dict
        Kinds that could not be compared, and why.
    """

    kinds: tuple[Any, ...]
    tests: dict[Any, GroupDifferences] = field(repr=False)
    distances: dict[Any, Distances] = field(repr=False)
    q_value: dict[Any, float] = field(repr=False)
    left_out: dict[Any, str]

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per kind, those with small p-values first."""
        rows = []
        for kind in self.kinds:
            test, own = self.tests[kind], self.distances[kind]
            tested = test.pseudo_f, test.p_value, self.q_value[kind], test.effect
            rows.append((*tested, float(own.values.mean()), own.info["noise_share"], own.pair_set.n_rows))
        pandas = need_pandas("to_frame")
        return pandas.DataFrame(rows, index=pandas.Index(list(self.kinds), name="kind"), columns=list(COLUMNS))

    def __repr__(self) -> str:
        found = [kind for kind in self.kinds if self.q_value[kind] <= 0.05]
        shown = ", ".join(f"{kind} (q = {self.q_value[kind]:.2g})" for kind in found[:5]) or "none"
        tail = f"; {len(self.left_out):,} left out" if self.left_out else ""
        return f"Drivers: of {len(self.kinds):,} kinds of points, groups differ in {shown}{tail}"


def drivers(
    D: Distributions,
    labels: Any,
    groups: Any,
    *,
    min_size: int | None = None,
    strata: Any = None,
    error: float | str | None = "2%",
    n_permutations: int = 999,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> Drivers:
    """In which kinds of points do groups of distributions differ? One test per kind, noise subtracted.

    Parameters
    ----------
    D : Distributions (N)
    labels : array-like (n,)
        The kind of every point, such as its cell type, in the order of ``D.points``.
    groups, strata : array-like (N,)
        The group, and the batch, of every distribution, as in `group_differences`.
    min_size : int, optional
        A distribution enters the comparison of a kind if it has at least so many points of it. Default: 10.
    error : float or str
        As in `pairwise`.
    n_permutations : int
        Of each test.
    n_jobs, progress
        As in `pairwise`.
    random_state : int, RandomState or None
        Seed of the permutations; None is a fixed one.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> kinds = np.tile(np.repeat(["B cell", "T cell"], 30), 16)
    >>> ill = np.arange(16) % 2
    >>> points = rng.normal(size=(960, 2)) + 1.0 * (kinds == "T cell")[:, None] * np.repeat(ill, 60)[:, None]
    >>> D = asot.Distributions(points, 60 * np.arange(17))
    >>> asot.drivers(D, kinds, ill, random_state=0)
    Drivers: of 2 kinds of points, groups differ in T cell (q = 0.002)
    """
    D = as_distributions(D)
    check_mass(D)
    least = 10 if min_size is None else as_positive_int(min_size, "min_size")
    if least < noise.FEWEST:
        raise ValueError(f"min_size must be at least {noise.FEWEST}, or the noise cannot be told; found {least}")
    names, kind = factorized(labels, len(D.masses))
    groups = np.asarray(per_distribution(groups, "groups", D.ids))
    check_groups(*factorized(groups, len(D), "groups", "distribution"))
    batches = None
    if strata is not None:
        batches = factorized(per_distribution(strata, "strata", D.ids), len(D), "strata", "distribution")[1]
    tests: dict[Any, GroupDifferences] = {}
    distances: dict[Any, Distances] = {}
    left_out: dict[Any, str] = {}
    with Progress(progress, len(names), "kinds of points", unit="kind") as shown:
        for code, name in enumerate(names.tolist()):
            chosen = (kind == code) & (D.masses > 0)
            has = np.flatnonzero(np.add.reduceat(chosen, D.offsets[:-1]) >= least)
            own = None if batches is None else batches[has]
            reason = _why_not(groups[has], own, least)
            if reason is None:
                C = _of_kind(D, chosen, has)
                r = pairwise(C, error=error, n_jobs=n_jobs, progress=False)
                distances[name] = r = r.above_noise(noise.noise_floor(C, n_jobs=n_jobs))
                seed = 0 if random_state is None else random_state
                how: dict[str, Any] = {"strata": own, "n_permutations": n_permutations, "random_state": seed}
                tests[name] = group_differences(r, groups[has], **how)
            else:
                left_out[name] = reason
            shown.advance(1)
    order = sorted(tests, key=lambda one: (tests[one].p_value, -tests[one].pseudo_f))
    adjusted = q_values([tests[one].p_value for one in order])
    return Drivers(tuple(order), tests, distances, dict(zip(order, adjusted.tolist(), strict=True)), left_out)


def _of_kind(D: Distributions, chosen: NDArray[np.bool_], has: NDArray[np.int64]) -> Distributions:
    """The chosen points (n,) of some distributions."""
    points, masses = [], []
    for i in has:
        x, a = D[int(i)]
        own = chosen[D.offsets[i] : D.offsets[i + 1]]
        points.append(np.asarray(x)[own])
        masses.append(a[own])
    return Distributions.from_list(points, masses, ids=D.ids[has].tolist())


def _why_not(groups: NDArray[Any], strata: NDArray[Any] | None, least: int) -> str | None:
    """Why groups cannot be compared by these distributions, or None if they can."""
    found, counts = np.unique(groups, return_counts=True)
    if len(found) < 2 or counts.min() < FEWEST:
        return f"fewer than {FEWEST} distributions of a group have {least} such points"
    if strata is not None and all(len(np.unique(groups[strata == one])) == 1 for one in np.unique(strata)):
        return "groups do not differ within any stratum there"
    return None
