"""Classification with the kernel exp(-γ W): ten stratified folds, with γ and C chosen inside each training part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib
import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

Float = NDArray[np.float64]

FOLDS, INNER_FOLDS = 10, 3
GAMMAS = 10.0 ** np.arange(-4, 2)
PENALTIES = 10.0 ** np.arange(-3, 4)


def accuracies(matrices: Sequence[Float], y: NDArray[Any], seeds: Sequence[int], n_jobs: int = 1) -> list[float]:
    """Shares of correct answers over ten folds, one for each seed of the folds.

    Parameters
    ----------
    matrices : list of (N, N)
        Distances of all pairs, one matrix for each setting to choose from.
    y : (N,)
        Classes.
    seeds : list of int
        Seeds of the folds.
    n_jobs : int
        Processes.
    """
    folds = [
        (train, test, seed)
        for seed in seeds
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(y, y)
    ]
    found = joblib.Parallel(n_jobs)(joblib.delayed(_tried)(matrix, y, *fold) for fold in folds for matrix in matrices)
    right = [
        max(found[start : start + len(matrices)], key=lambda tried: tried[0])[1]  # the first of the best
        for start in range(0, len(found), len(matrices))
    ]
    return [float(sum(right[start : start + FOLDS]) / len(y)) for start in range(0, len(folds), FOLDS)]


def _tried(matrix: Float, y: NDArray[Any], train: Any, test: Any, seed: int) -> tuple[float, int]:
    """The best score on inner folds of ``train``, and how many of ``test`` are right with the settings that gave it."""
    inner = list(StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed).split(train, y[train]))
    best, choice = -1.0, (GAMMAS[0], PENALTIES[0])
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):  # checks are slower than most fits
        for gamma in GAMMAS:
            kernel = np.exp(-gamma * matrix[np.ix_(train, train)])
            for penalty in PENALTIES:
                score = float(np.mean([_score(kernel, fit, held, y[train], penalty) for fit, held in inner]))
                if score > best:
                    best, choice = score, (gamma, penalty)
        gamma, penalty = choice
        return best, round(_score(np.exp(-gamma * matrix), train, test, y, penalty) * len(test))


def _score(kernel: Float, fit: Any, held: Any, y: Any, penalty: float) -> float:
    model = SVC(kernel="precomputed", C=penalty, max_iter=100_000).fit(kernel[np.ix_(fit, fit)], y[fit])
    return float(model.score(kernel[np.ix_(held, fit)], y[held]))
