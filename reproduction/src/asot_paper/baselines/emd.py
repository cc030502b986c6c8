"""OT-EMD: the exact distance between the original distributions, under the name it has in comparisons."""

from __future__ import annotations

from numpy.typing import ArrayLike

from asot.data.distributions import Distributions
from asot.distances import pairwise_exact
from asot.results.distances import Distances
from asot.run.executors import ProgressLike


def ot_emd(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Exact W_1 of every pair, Euclidean: `asot.pairwise_exact`.

    Parameters
    ----------
    D : Distributions (N)
        Or a list of point arrays (n_i, d).
    E : Distributions (M), optional
        A second collection. Without it, distances are within D.
    pairs : array-like of int (P, 2), optional
        Which pairs to solve, (i, i) among them if you like. Default: all i < j within D, or all of D × E.
    n_jobs : int, optional
        Threads, with joblib's meaning (None: 1, -1: every core).
    memory : int or str, optional
        Budget for scratch memory, beside inputs and result, such as ``"2G"``.
    progress : bool, None or callable
        None shows a bar on a terminal or in a notebook when it takes longer than a second.

    Returns
    -------
    Distances

    Examples
    --------
    >>> from asot_paper.baselines import ot_emd
    >>> ot_emd([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]]).values
    array([1.5, 1.5, 1. ])
    """
    result: Distances = pairwise_exact(D, E, pairs=pairs, n_jobs=n_jobs, memory=memory, progress=progress)
    result.info["method"] = "OT-EMD"
    return result
