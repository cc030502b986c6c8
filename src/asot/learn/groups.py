"""Do groups of distributions differ? The usual question once you have distances: patients and controls, classes of
graphs.

A permutation test (PERMANOVA: Anderson 2001) says whether groups are farther apart than expected by chance, after
covariates and within strata if there are any; beside it are a test that sees ranks only, a test of dispersions, and an
effect size. Two simple numbers say how well groups are separated: the silhouette, and how often the nearest neighbors
have the right label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from asot._typing import Float, Indices
from asot.data.belonging import ids_of, per_distribution
from asot.data.reading import factorized
from asot.data.squares import in_range
from asot.learn import anova
from asot.learn.kernel import as_matrix
from asot.learn.noise import warn_of_sizes
from asot.results.frames import ShownAsFrame, need_pandas
from asot.results.noise import noise_matrix
from asot.validation import as_choice, as_positive_int, as_seed


@dataclass(frozen=True)
class Factor:
    """What one factor explains: degrees of freedom, pseudo-F, its p-value, R², and the effect size ω²."""

    name: str
    df: int
    pseudo_f: float
    p_value: float
    explained: float
    effect: float


@dataclass(frozen=True)
class GroupDifferences(ShownAsFrame):
    """How far apart groups of distributions are. With several factors, all but `factors` is about the first.

    Attributes
    ----------
    pseudo_f : float
        Variation between groups over variation within them, each divided by its degrees of freedom; about 1 by chance.
    p_value : float
        The share of permutations, including the observed one, whose pseudo-F is at least as large.
    explained : float
        R²: the share of all squared distances that is between groups.
    effect, effect_interval : float, (float, float) or None
        ω², which is R² less what chance explains, 0 on average without any difference; and its 95 % interval by leaving
        out parts of the collection in turn (None with too few distributions).
    rank_statistic, rank_p_value : float
        ANOSIM's R, which only sees the ranks of distances, from -1 to 1 and 0 by chance; covariates do not enter.
    dispersion_f, dispersion_p_value : float
        Whether groups differ in spread: a small p-value says that a difference may be one of spread and not of place.
    dispersions : dict
        The mean distance of a group's members from its center.
    silhouette : float
        scikit-learn's, from -1 to 1.
    neighbor_accuracy : float
        How often the nearest neighbors vote for the right group, each distribution left out in turn.
    chance : float
        What always guessing the largest group would get right.
    n_permutations : int
    noise_share : float or None
        How far apart finite samples alone would be, as a share of the mean distance; None without a noise floor.
    factors : tuple of Factor
        Every factor, in the order in which they were tested.
    order : str
        What each factor was tested after.
    """

    pseudo_f: float
    p_value: float
    explained: float
    silhouette: float
    neighbor_accuracy: float
    chance: float
    n_permutations: int
    noise_share: float | None = None
    effect: float = 0.0
    effect_interval: tuple[float, float] | None = None
    rank_statistic: float = 0.0
    rank_p_value: float = 1.0
    dispersion_f: float = 0.0
    dispersion_p_value: float = 1.0
    dispersions: dict[Any, float] | None = None
    factors: tuple[Factor, ...] = ()
    order: str = ""

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per factor, in the order in which they were tested."""
        rows = [vars(factor) for factor in self.factors]
        return need_pandas("to_frame").DataFrame(rows).set_index("name")

    def __repr__(self) -> str:
        said = (
            f"GroupDifferences: pseudo-F {self.pseudo_f:.3g} (p = {self.p_value:.3g}, {self.n_permutations:,} "
            f"permutations), R² {self.explained:.2f}, silhouette {self.silhouette:.2f}, neighbors right "
            f"{self.neighbor_accuracy:.0%} (chance {self.chance:.0%})"
        )
        if self.dispersion_p_value <= 0.05:
            said += f"; groups differ in spread, too (p = {self.dispersion_p_value:.3g})"
        if self.noise_share is not None:
            said += f"; {self.noise_share:.0%} of the mean distance is noise"
        if len(self.factors) > 1:
            said += f"; {self.order}: " + ", ".join(f"{f.name} (p = {f.p_value:.3g})" for f in self.factors)
        return said


def group_differences(
    distances: Any,
    groups: Any,
    *,
    strata: Any = None,
    covariates: Any = None,
    by: str = "terms",
    n_permutations: int = 999,
    n_neighbors: int = 3,
    noise: Any = None,
    random_state: Any = None,
) -> GroupDifferences:
    """Whether groups of distributions differ, and how well they are separated.

    Whatever is given per distribution goes by position, or is found by id where it has a pandas index or keys.

    Parameters
    ----------
    distances : Distances, or array-like (N, N)
        All pairs of one collection.
    groups : array-like (N,), pandas Series, dict, or DataFrame (N, factors)
        The group of every distribution; a table has several factors, one per column. Numbers are groups in a single
        column, and measurements (a slope) in a table, unless they are made text or categories.
    strata : array-like (N,), optional
        Batches, sites or donors: labels are only exchanged within them.
    covariates : array-like (N,) or (N, q), or DataFrame, optional
        What is explained first, such as age or batch; numbers have a slope, everything else has levels. The residuals
        are then permuted, which is exact without covariates and approximate with them.
    by : {"terms", "margin"}
        With several factors: each is tested after those before it, in the order of the columns, or after all others.
    n_permutations : int
        Of the permutation tests; the smallest p-value they can give is 1 / (n_permutations + 1).
    n_neighbors : int
        Neighbors that vote; in a tie, the group of the nearest wins.
    noise : NoiseFloor or array-like (N, N), optional
        How far apart two samples of one distribution are: ``asot.noise_floor(D)``.
    random_state : int, RandomState or None
        Seed of the permutations.

    Notes
    -----
    Small samples are far from everything, so groups of different sample sizes differ even where their distributions do
    not. A warning says so where the result knows the sizes; `asot.size_matched` compares at one size.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(i % 2, 1.0, size=(30, 2)) for i in range(20)])
    >>> asot.group_differences(asot.pairwise_exact(D), np.arange(20) % 2, random_state=0)
    GroupDifferences: pseudo-F ... (p = 0.001, 999 permutations), R² ..., neighbors right 100% (chance 50%)
    """
    matrix, exponent = in_range(as_matrix(distances))
    n = len(matrix)
    if matrix.shape != (n, n) or np.abs(matrix - matrix.T).max() > 1e-9 * matrix.max():
        raise ValueError("groups are compared by the distances of all pairs of one collection, which must be symmetric")
    own = np.diagonal(matrix)
    if own.max() > 1e-6 * matrix.max():
        i = int(np.argmax(own))
        raise ValueError(
            f"distance ({i}, {i}) is {np.ldexp(own[i], exponent):.6g}, but everything is at distance 0 from itself; "
            "pass distances within one collection, not similarities"
        )
    ids = ids_of(distances, n)
    columns = anova.read_columns(groups, "groups", ids)
    as_choice(by, "by", ("terms", "margin"))
    first_name = columns[0][0] if len(columns) > 1 else "groups"
    names, label = factorized(columns[0][1], n, first_name, "distribution")
    check_groups(names, label)
    within = None
    if strata is not None:
        within = anova.members_of(factorized(per_distribution(strata, "strata", ids), n, "strata", "distribution")[1])
        anova.check_strata_vary(label, within, first_name)
    warn_of_sizes(getattr(distances, "sizes", None), names, label)
    votes = as_positive_int(n_neighbors, "n_neighbors")
    count = as_positive_int(n_permutations, "n_permutations")
    more = () if covariates is None else anova.read_columns(covariates, "covariates", ids)
    known = np.concatenate([np.ones((n, 1)), *(anova.design(column, name, n) for name, column in more)], axis=1)
    bases = [(columns[0][0], anova.indicators(label))]  # where there is one column, numbers are groups, too
    if len(columns) > 1:
        bases = [(name, anova.design(column, name, n)) for name, column in columns]

    def known_before(place: int) -> Float:
        """A basis of what a factor is tested after: the covariates, and other factors."""
        others = bases[:place] if by == "terms" else bases[:place] + bases[place + 1 :]
        return anova.basis(np.concatenate([known, *(columns for _, columns in others)], axis=1))

    G = anova.gower(matrix)
    tests = [
        _tested(name, G, known_before(place), own, check_random_state(random_state), count, within)
        for place, (name, own) in enumerate(bases)
    ]
    factors, orders = [factor for factor, _ in tests], tests[0][1]
    by_rank = anova.Ranks(matrix)
    rank = by_rank.statistic(label)
    rank_p = anova.share_as_large([by_rank.statistic(label[order]) for order in orders], rank, 1.0)
    reach = anova.from_centers(matrix, label)
    spread_f, spread_p = anova.dispersion_test(G, label, check_random_state(as_seed(random_state)), count, within)
    return GroupDifferences(
        pseudo_f=factors[0].pseudo_f,
        p_value=factors[0].p_value,
        explained=factors[0].explained,
        silhouette=_silhouette(matrix, label),
        neighbor_accuracy=_left_out_accuracy(matrix, label, min(votes, n - 1)),
        chance=float(np.bincount(label).max() / n),
        n_permutations=count,
        noise_share=None if noise is None else _share_of_noise(matrix, noise, ids, exponent),
        effect=factors[0].effect,
        effect_interval=anova.effect_interval(matrix, known_before(0), bases[0][1], factors[0].effect),
        rank_statistic=rank,
        rank_p_value=rank_p,
        dispersion_f=spread_f,
        dispersion_p_value=spread_p,
        dispersions={
            name: float(np.ldexp(reach[label == g].mean(), exponent)) for g, name in enumerate(names.tolist())
        },
        factors=tuple(factors),
        order=("each after those before it" if by == "terms" else "each after all others")
        + ("" if covariates is None else ", all after the covariates"),
    )


def _tested(
    name: str, G: Float, known: Float, columns: Float, rng: Any, count: int, strata: list[Indices] | None
) -> tuple[Factor, list[Indices]]:
    """What a factor explains after what is known, and the orders in which that was permuted."""
    added = anova.basis(columns, known)
    if added.shape[1] == 0:
        raise ValueError(f"{name} is determined by the covariates or by other factors; there is nothing to test")
    spent = known.shape[1] + added.shape[1]
    if len(G) <= spent:
        raise ValueError(f"{len(G)} distributions are too few for {spent - 1} degrees of freedom")
    one = anova.term(G, known, added)
    permuted = list(anova.permuted_f(G, known, added, rng, count, strata))
    ratio = one.pseudo_f if np.isfinite(one.pseudo_f) else 1.0
    scale = ratio * max(1.0, 1e-4 * (1.0 + ratio * one.df / (len(G) - spent)))  # where little is left, it is rounding
    p_value = anova.share_as_large([value for _, value in permuted], one.pseudo_f, max(scale, 1e-300))
    return Factor(name, p_value=p_value, **one._asdict()), [order for order, _ in permuted]


def check_groups(names: NDArray[Any], label: Indices) -> None:
    if len(names) < 2:
        raise ValueError(f"there is only one group, {str(names[0])!r}; comparing takes two or more")
    if np.bincount(label).max() == 1:
        raise ValueError("every group has one member; there is nothing to compare within them")


def _silhouette(matrix: Float, label: Indices) -> float:
    from sklearn.metrics import silhouette_score

    clean = matrix.copy()
    np.fill_diagonal(clean, 0.0)
    return float(silhouette_score(clean, label, metric="precomputed"))


def _share_of_noise(matrix: Float, noise: Any, ids: NDArray[Any], exponent: int) -> float:
    floor = noise_matrix(noise, len(matrix), ids)
    pairs = np.triu_indices(len(matrix), 1)
    return float(np.ldexp(floor[pairs], -exponent).mean() / max(matrix[pairs].mean(), np.finfo(float).tiny))


def _left_out_accuracy(matrix: Float, label: Indices, votes: int) -> float:
    others = matrix + np.diag(np.full(len(matrix), np.inf))
    nearest = label[np.argsort(others, axis=1, kind="stable")[:, :votes]]  # (n, votes)
    counts = np.stack([(nearest == group).sum(axis=1) for group in range(label.max() + 1)], axis=1)
    most = counts.max(axis=1, keepdims=True)
    is_leader = np.take_along_axis(counts, nearest, axis=1) == most
    voted = np.take_along_axis(nearest, is_leader.argmax(axis=1)[:, None], axis=1)[:, 0]
    return float(np.mean(voted == label))
