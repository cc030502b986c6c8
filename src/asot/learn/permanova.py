"""Analysis of variance by distances, with covariates: how much of all squared distances does a factor explain?

Squared distances, centered twice (Gower's matrix G), stand for the products of points that need not exist (McArdle and
Anderson 2001). With an orthonormal basis Q0 of what is known before (an intercept, covariates, earlier factors) and U
of what the factor adds, tr(UᵀGU) is the variation that the factor explains, and F compares it with what is left.
Permutations exchange what Q0 leaves unexplained (Freedman and Lane 1983), which without covariates is the exchange of
labels, and exact.
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
from asot.learn.shuffles import shuffled

BLOCKS = 40
"""Parts that are left out in turn for the interval of an effect."""


class Term(NamedTuple):
    """What one factor explains."""

    df: int
    squares: float
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
    rest = total - squares - float(np.einsum("ij,ij->", known, G @ known))
    df, left = added.shape[1], len(G) - known.shape[1] - added.shape[1]
    mean_rest = rest / left
    with np.errstate(divide="ignore", invalid="ignore"):
        pseudo_f = float(np.float64(squares / df) / np.float64(mean_rest))
    effect = (squares - df * mean_rest) / (total + mean_rest) if total > 0 else 0.0
    return Term(df, squares, pseudo_f, squares / total if total > 0 else 0.0, effect)


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
        squares, unexplained = each[:df].sum(), max(total - each.sum(), 0.0)
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
