"""`gromov`: Gromov–Wasserstein distances of a collection of spaces, with a proven bound beside each."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot.exact.wanted import as_order
from asot.run import devices, dispatch, engine
from asot.run.pairs import ListedPairs, PairSet, make_pairs
from asot.run.progress import ProgressLike
from asot.run.result import named
from asot.run.sinks import Condensed, Kept, Sink, Tile, TopK
from asot.run.strategy import as_aim
from asot.run.work import Work
from asot.spaces.estimate import GromovEstimate, fit_sample
from asot.spaces.reading import Spaces, joined_spaces, read_spaces
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from asot.validation import as_bytes, as_n_jobs


def gromov(
    X: Any,
    Y: Any = None,
    *,
    p: float = 2,
    masses: Any = None,
    features: Any = None,
    alpha: float = 1.0,
    error: float | str | None = None,
    bounds: bool = True,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Gromov–Wasserstein distances between spaces that are known by their distances only.

    Finding the best plan is NP-hard, so no value is called exact. A value is the price of the best plan that descents
    from two starts found, which is an upper bound; ``lower`` is proven. Together they are an interval.

    Parameters
    ----------
    X : list of (n_i, n_i) matrices, of graphs (networkx, PyTorch Geometric: shortest paths), or a Distributions
        Spaces of any sizes. The points of a `Distributions` are compared by their Euclidean distances within each
        distribution, with its masses.
    Y : the same, optional
        A second collection; every space of X with every space of Y.
    p : float ≥ 1
        GW_p = ½ (min Σ |d_X(i, i') - d_Y(j, j')|^p T_ij T_i'j')^(1/p). For p = 2 a step is a product of matrices; other
        orders cost n times more.
    masses : list of vectors (n_i,), optional
        Masses of the points of X (a pair of lists for X and Y); default: uniform.
    features : list of (n_i, d) arrays, optional
        Features of the points, for fused distances (a pair of lists for X and Y).
    alpha : float in (0, 1]
        Share of the distances in a fused energy; less than 1 needs features.
    error : float or "5%", optional
        Accept estimates: a fit of the bounds to solved pairs, if held-out pairs show that it is this good. Otherwise,
        and for few pairs, plans are searched as without it.
    bounds : bool
        Keep ``lower`` and ``upper`` with every pair.
    pairs, n_jobs, memory, progress, sink
        As in `asot.pairwise_exact`. With ``sinks.TopK``, pairs that a bound rules out are not solved.
    device : {"auto", "cpu"}
    random_state : int or None
        Of the sample for ``error``; None is a fixed one.

    Returns
    -------
    Distances, or what the sink returns. ``error`` of a pair is how far its two starts disagree (or, for estimates, the
    measured error); ``info["convention"]`` says which number it is.

    Examples
    --------
    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> r = asot.gromov([line, 2 * line, line[::-1, ::-1]])
    >>> r.values.round(6)
    array([0.790569, 0.      , 0.790569])
    >>> bool((r.lower <= r.values).all())
    True
    """
    if devices.parse(device)[0] == "cuda":
        raise ValueError(f"device={str(device)!r}: gromov runs on the CPU; use device='auto' or 'cpu'")
    order, share = as_order(p), _as_alpha(alpha, features)
    spaces, column_start, n_columns = _read(X, Y, masses, features)
    pair_set = make_pairs(len(spaces) if Y is None else column_start, n_columns, pairs)
    limits: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    info: dict[str, Any] = {"distance": "Gromov–Wasserstein", "rooted": True}
    work, info = _choose(pair_set, spaces, order, share, column_start, error, random_state, info, limits)
    if isinstance(sink, TopK) and "calibration" not in info:
        result: Any = _nearest(work, spaces, order, share, column_start, sink, info, limits)
    else:
        kept = sink if sink is not None else Condensed(extras=("lower", "upper", "error") if bounds else ("error",))
        result = dispatch.solve(replace(work, info=info), kept, **limits)
    rows = spaces.ids if Y is None else spaces.ids[:column_start]
    found: Kept = named(result, rows, rows if Y is None else spaces.ids[column_start:])
    return found


def _as_alpha(alpha: Any, features: Any) -> float:
    number = isinstance(alpha, (int, float, np.number)) and not isinstance(alpha, bool)
    if not number or not 0 < float(alpha) <= 1:
        raise ValueError(f"alpha must be a number in (0, 1]; found {alpha!r}. Features alone are asot.pairwise_exact")
    if float(alpha) == 1 and features is not None:
        raise ValueError("features count for nothing where alpha is 1; give alpha < 1, such as 0.5, or leave them out")
    if float(alpha) < 1 and features is None:
        raise ValueError(f"alpha={alpha} shares the energy with features; pass features=, or leave alpha at 1")
    return float(alpha)


def _read(X: Any, Y: Any, masses: Any, features: Any) -> tuple[Spaces, int, int | None]:
    """All spaces, where the second collection begins, and how many it has."""
    if Y is None:
        return read_spaces(X, masses, features), 0, None
    both = []
    for name, given in (("masses", masses), ("features", features)):
        if given is not None and len(given) != 2:
            raise ValueError(f"with two collections, {name} must be a pair: ({name} of X, {name} of Y)")
        both.append((None, None) if given is None else given)
    first = read_spaces(X, both[0][0], both[1][0], "X")
    second = read_spaces(Y, both[0][1], both[1][1], "Y")
    return joined_spaces(first, second), len(first), len(second)


def _choose(
    pairs: PairSet, spaces: Spaces, p: float, alpha: float, column_start: int, error: Any, random_state: Any,
    info: dict[str, Any], limits: dict[str, Any],
) -> tuple[Work, dict[str, Any]]:  # fmt: skip
    """Estimates, if they were asked for and measure as good as that; else descents from both starts."""
    descents = functools.partial(Gromov, spaces, p, alpha, FROM_BOUND + FROM_PRODUCT, column_start)
    aim = as_aim(error)
    if aim is None:
        return Work(pairs, descents), info
    fit = fit_sample(pairs, spaces, p, alpha, column_start, random_state, {**limits, "progress": False})
    if fit is None:
        return Work(pairs, descents), {**info, "why": "few pairs: searching their plans costs no more than a fit"}
    measured = f"estimates are {100 * fit.interval[1] / fit.mean:.1f} percent off at most (95 percent sure)"
    if not aim.met(fit.interval[1], fit.mean):
        return Work(pairs, descents), {**info, "why": f"{measured}, which is more than {aim}"}
    estimate = functools.partial(GromovEstimate, spaces, p, alpha, fit, column_start)
    return Work(pairs, estimate), {**info, "why": f"{measured}; asked for was {aim}", "calibration": True}


def _nearest(
    work: Work, spaces: Spaces, p: float, alpha: float, column_start: int, sink: TopK, info: dict[str, Any],
    limits: dict[str, Any],
) -> Any:  # fmt: skip
    """The nearest of each row. A pair is solved only if its lower bound is at most the price of the k-th plan of one of
    its rows: k others are at least as near as that."""
    pairs = work.pairs
    quick = functools.partial(Gromov, spaces, p, alpha, 0, column_start)
    seen = dispatch.solve(Work(pairs, quick), Condensed(extras=("lower", "upper")), **limits)
    rows, columns = pairs.indices(0, len(pairs))
    limit = _kth_price(rows, columns, seen.upper, pairs, sink.n_neighbors)
    needed = seen.lower <= limit[rows]
    if pairs.symmetric:
        needed |= seen.lower <= limit[columns]
    listed = ListedPairs(
        np.stack([rows[needed], columns[needed]], axis=1), pairs.n_rows, pairs.n_columns, pairs.symmetric
    )
    solver = work.cpu()
    sink.open(pairs, info)
    jobs, budget = as_n_jobs(limits["n_jobs"]), as_bytes(limits["memory"], engine.DEFAULT_MEMORY)
    for tile in engine.solved_tiles(listed, solver, jobs, budget):
        own = listed.indices(tile.start, tile.start + len(tile.solution.values))
        sink.accept(Tile(tile.start, tile.solution, listed, own))
    counted = {"n_pairs": len(pairs), "n_solved": int(needed.sum()), "n_jobs": jobs}
    return sink.close({**solver.info, **info, **counted})


def _kth_price(rows: Any, columns: Any, prices: Any, pairs: PairSet, k: int) -> Any:
    """(N,) the k-th smallest price of a plan in each row."""
    ends = np.concatenate([rows, columns]) if pairs.symmetric else rows
    both = np.concatenate([prices, prices]) if pairs.symmetric else prices
    order = np.lexsort((both, ends))
    starts = np.searchsorted(ends[order], np.arange(pairs.n_rows))
    return both[order][np.minimum(starts + k - 1, len(order) - 1)]
