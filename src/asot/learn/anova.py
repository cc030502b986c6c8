"""Analysis of variance by distances, with covariates, and what people test beside it: all by random orders.

*How much of all squared distances does a factor explain?* Squared distances, centered twice (Gower's matrix G), stand
for the products of points that need not exist (McArdle and Anderson 2001). With an orthonormal basis Q0 of what is
known before (an intercept, covariates, earlier factors) and U of what the factor adds, tr(UᵀGU) is the variation that
the factor explains, and F compares it with what is left. Permutations exchange what Q0 leaves unexplained (Freedman and
Lane 1983), which without covariates is the exchange of labels, and exact.

*Strata.* Under the null hypothesis labels could as well belong to others of the same stratum (a batch, a site, a
donor). So they are only exchanged within strata, and everything that differs between them stays as it is.

*Dispersion* (Anderson 2006): how far the members of a group are from its center, which squared distances tell without
any coordinates. If a test of dispersions is significant, groups may differ in spread instead of place. *Ranks* (ANOSIM,
Clarke 1993): are distances between groups of higher rank than those within? A few huge distances do not matter there.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.belonging import has_names, in_order_of_ids
from asot.data.reading import factorized, is_missing
from asot.data.squares import in_range

BLOCKS = 40
"""Parts that are left out in turn for the interval of an effect."""


UNEXPLAINED = 1e-12
"""Of the variation that is to be explained: what is left with less of it is rounding, and a factor explains all."""


class Term(NamedTuple):
    """What one factor explains."""

    df: int
    pseudo_f: float
    explained: float
    effect: float


def gower(matrix: Float) -> Float:
    """-½ J D² J (n, n): the products of points at these distances, from their center."""
    squares = matrix**2
    mean = squares.mean(axis=0)
    return np.asarray(-0.5 * (squares - mean - mean[:, None] + mean.mean()), dtype=np.float64)


def basis(columns: Float, before: Float | None = None) -> Float:
    """An orthonormal basis (n, r) of what columns (n, q) add to an orthonormal basis of those before."""
    rest = columns
    for _ in range(2):  # twice is enough
        rest = rest if before is None else rest - before @ (before.T @ rest)
    size = np.linalg.norm(columns, axis=0).max(initial=0.0)
    u, s, _ = np.linalg.svd(rest, full_matrices=False)
    return np.asarray(u[:, s > 1e-9 * max(size, np.finfo(float).tiny)], dtype=np.float64)


def indicators(label: Indices) -> Float:
    """One column of 0 and 1 per group (n, g)."""
    return np.eye(int(label.max()) + 1)[label]


def term(G: Float, known: Float, added: Float) -> Term:
    """What a factor with basis ``added`` explains after those in ``known`` (which include the intercept)."""
    total = float(np.trace(G))
    squares = float(np.einsum("ij,ij->", added, G @ added))
    explained = float(np.einsum("ij,ij->", known, G @ known))
    rest = left_over(total - squares - explained, total - explained)
    df, left = added.shape[1], len(G) - known.shape[1] - added.shape[1]
    mean_rest = rest / left
    with np.errstate(divide="ignore", invalid="ignore"):
        pseudo_f = float(np.float64(squares / df) / np.float64(mean_rest))
    effect = (squares - df * mean_rest) / (total + mean_rest) if total > 0 else 0.0
    return Term(df, pseudo_f, squares / total if total > 0 else 0.0, effect)


def left_over(rest: float, total: float) -> float:
    """What is not explained of the variation, 0 where that is rounding."""
    return rest if rest > UNEXPLAINED * total else 0.0


def permuted_f(
    G: Float, known: Float, added: Float, rng: Any, count: int, strata: list[Indices] | None
) -> Iterator[tuple[Indices, float]]:
    """Orders, and the pseudo-F of each, where what is not explained by ``known`` changes places."""
    rest = G - known @ (known.T @ G)
    rest = rest - (rest @ known) @ known.T
    total, both = float(np.trace(rest)), np.concatenate([added, known], axis=1)
    df, left = added.shape[1], len(G) - both.shape[1]
    for _ in range(count):
        order = shuffled(rng, len(G), strata)
        moved = both[order]
        each = np.einsum("ij,ij->j", moved, rest @ moved)
        squares, unexplained = each[:df].sum(), left_over(total - each.sum(), total)
        with np.errstate(divide="ignore", invalid="ignore"):
            yield order, float(np.float64(squares / df) / np.float64(unexplained / left))


def effect_interval(matrix: Float, known: Float, columns: Float, whole: float) -> tuple[float, float] | None:
    """A 95 % interval for ω², by leaving out parts of the collection in turn (jackknife); None if there are too few."""
    from scipy.stats import t

    n = len(matrix)
    parts = min(n, BLOCKS)
    block = np.random.default_rng(0).permutation(np.arange(n) % parts)
    found = []
    for left_out in range(parts):
        kept = block != left_out
        rest = basis(known[kept])
        added = basis(columns[kept], rest)
        if added.shape[1] == 0 or kept.sum() <= rest.shape[1] + added.shape[1]:
            continue
        found.append(term(gower(matrix[np.ix_(kept, kept)]), rest, added).effect)
    if len(found) < 3:
        return None
    spread = np.sqrt((len(found) - 1) / len(found) * np.sum((np.array(found) - np.mean(found)) ** 2))
    reach = float(t.ppf(0.975, len(found) - 1) * spread)
    return max(whole - reach, -1.0), min(whole + reach, 1.0)


def read_columns(values: Any, name: str, ids: NDArray[Any]) -> list[tuple[str, Any]]:
    """Named columns, each of N entries in the order of the ids: of a table, of one column, or of an array (N, q)."""
    n = len(ids)
    if hasattr(values, "columns") and hasattr(values, "reindex"):
        table = in_order_of_ids(values, name, ids)
        return [(str(column), table[column]) for column in table.columns]
    if has_names(values) and isinstance(values, dict) and _is_table(values, ids):
        return [(str(key), in_order_of_ids(column, name, ids)) for key, column in values.items()]
    found = in_order_of_ids(values, name, ids)
    array = np.asarray(found) if not hasattr(found, "iloc") else found
    if array.ndim == 2 and array.shape[0] == n:
        return [(f"{name}[{c}]", array[:, c]) for c in range(array.shape[1])]
    return [(str(getattr(found, "name", None) or name), found)]


def _is_table(values: dict[Any, Any], ids: NDArray[Any]) -> bool:
    """Whether a dictionary maps names of columns to columns, and not ids to entries."""
    return all(hasattr(column, "__len__") and not isinstance(column, str) for column in values.values()) and not any(
        one in values for one in ids.tolist()
    )


def design(column: Any, name: str, n: int) -> Float:
    """Columns (n, q) of a design: a number as it is, centered; anything else as indicators."""
    array = np.asarray(column)
    if array.dtype.kind == "O" and all(isinstance(one, Number) and not isinstance(one, bool) for one in array.ravel()):
        array = array.astype(np.float64)  # a column of a mixed table
    is_number = array.dtype.kind in "fiu" and not hasattr(column, "cat")
    if not is_number:
        return indicators(factorized(column, n, name, "distribution")[1])
    if array.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n:,} distributions; found shape {array.shape}")
    if is_missing(array).any() or not np.isfinite(array.astype(np.float64)).all():
        raise ValueError(
            f"{name} has a value that is not a finite number; leave out those distributions, or fill it in"
        )
    values, _ = in_range(array.astype(np.float64)[:, None])
    spread = float(values.std()) or 1.0
    return np.asarray((values - values.mean()) / spread, dtype=np.float64)


def from_centers(matrix: Float, label: Indices) -> Float:
    """How far each distribution is from the center of its group (n,), with small groups corrected for their size."""
    squares, found = matrix**2, np.zeros(len(matrix))
    for group in range(int(label.max()) + 1):
        own = np.flatnonzero(label == group)
        if len(own) < 2:
            continue
        inner = squares[np.ix_(own, own)]
        reach = np.maximum(inner.mean(axis=1) - 0.5 * inner.mean(), 0.0)
        found[own] = np.sqrt(reach * len(own) / (len(own) - 1))
    return found


def dispersion_test(
    G: Float, label: Indices, rng: Any, count: int, strata: list[Indices] | None
) -> tuple[float, float]:
    """F of an analysis of variance of the distances to centers, and its p-value by permutation.

    From Gower's matrix G, the centers of groups (and of strata) are taken out, so that all members could be of one
    group; then members change groups, and their distances to the new centers are measured as those to the true ones
    were. So the noise of the centers is in both.
    """
    sizes = np.bincount(label)
    counted = sizes[label] > 1  # groups of one member have no spread
    if len(np.unique(label[counted])) < 2:
        return float("nan"), float("nan")
    columns = [indicators(label)]
    if strata is not None:
        columns += [np.isin(np.arange(len(label)), own).astype(np.float64)[:, None] for own in strata]
    Q = basis(np.concatenate(columns, axis=1))
    rest = G - Q @ (Q.T @ G)
    rest = rest - (rest @ Q) @ Q.T
    free = 1.0 - (Q**2).sum(axis=1)  # what is left of the variance of a residual
    scale = np.where(free > 1e-9, 1.0 / np.sqrt(np.maximum(free, 1e-9)), 0.0)
    rest = rest * scale * scale[:, None]
    groups = np.flatnonzero(sizes > 1)
    own = np.diagonal(rest)
    observed = _f(np.sqrt(np.maximum(own, 0.0)), label, groups, counted)
    member = indicators(label) / sizes
    growth = np.sqrt(sizes / np.maximum(sizes - 1, 1))
    values = []
    for _ in range(count):
        order = shuffled(rng, len(label), strata)
        moved, mean = label[order], member[order]
        across = rest @ mean  # (n, groups)
        center = np.einsum("ij,ij->j", mean, across)
        squares = own - 2 * across[np.arange(len(label)), moved] + center[moved]
        reach = np.sqrt(np.maximum(squares, 0.0)) * growth[moved]
        values.append(_f(reach, moved, groups, sizes[moved] > 1))
    return observed, share_as_large(values, observed, max(observed, 1.0) if np.isfinite(observed) else 1.0)


def _f(values: Float, label: Indices, groups: Indices, counted: NDArray[np.bool_]) -> float:
    own = values[counted]
    sizes = np.bincount(label[counted], minlength=label.max() + 1)[groups]
    means = np.bincount(label[counted], weights=own, minlength=label.max() + 1)[groups] / sizes
    between = float((sizes * (means - own.mean()) ** 2).sum()) / (len(groups) - 1)
    within = float(((own - means[np.searchsorted(groups, label[counted])]) ** 2).sum()) / max(len(own) - len(groups), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(between) / np.float64(within)) if between > 0 else 0.0


class Ranks:
    """ANOSIM's R of labels: from -1 to 1, 0 by chance, 1 where all distances within are smaller than all between."""

    def __init__(self, matrix: Float) -> None:
        from scipy.spatial.distance import squareform
        from scipy.stats import rankdata

        n = len(matrix)
        ranks = rankdata(squareform(matrix, checks=False))
        self._ranks = squareform(ranks)
        self._total, self._pairs = float(ranks.sum()), n * (n - 1) / 2

    def statistic(self, label: Indices) -> float:
        member = np.eye(int(label.max()) + 1)[label]  # (n, g)
        sizes = member.sum(axis=0)
        within = 0.5 * float(np.einsum("ij,ij->", member, self._ranks @ member))
        inside = float((sizes * (sizes - 1) / 2).sum())
        between = (self._total - within) / (self._pairs - inside)
        return (between - within / inside) / (self._pairs / 2)


def shuffled(rng: Any, n: int, strata: list[Indices] | None) -> Indices:
    """A random order (n,) that maps every stratum to itself; strata None is one stratum of all."""
    if strata is None:
        return np.asarray(rng.permutation(n), dtype=np.int64)
    order = np.arange(n)
    for members in strata:
        order[members] = members[rng.permutation(len(members))]
    return order


def members_of(label: Indices) -> list[Indices]:
    """Where each stratum (0, 1, 2, …) has its members."""
    return [np.flatnonzero(label == stratum) for stratum in range(int(label.max()) + 1)]


def check_strata_vary(label: Indices, strata: list[Indices] | None, words: str) -> None:
    """Refuse strata within which nothing can change places."""
    if strata is not None and all(len(np.unique(label[own])) == 1 for own in strata):
        raise ValueError(f"{words} do not differ within any stratum, so there is nothing to exchange; leave out strata")


def q_values(p_values: Any) -> NDArray[np.float64]:
    """Benjamini and Hochberg's adjusted p-values (n,): the false discovery rate of calling this one and all smaller.

    >>> q_values([0.01, 0.04, 0.03, 0.5]).round(4)
    array([0.04  , 0.0533, 0.0533, 0.5   ])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty(len(p))
    found[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return found


def share_as_large(permuted: Any, observed: float, scale: float) -> float:
    """p = (1 + #{permuted ≥ observed}) / (1 + B), where rounding (in units of ``scale``) does not break ties."""
    values = np.asarray(permuted, dtype=np.float64)
    as_large = np.count_nonzero(values >= observed - 1e-9 * scale) + np.count_nonzero(np.isnan(values))
    return float((1 + as_large) / (1 + len(values)))
