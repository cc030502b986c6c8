"""POT's and CAJAL's Gromov–Wasserstein values of listed pairs, by asot's convention. CAJAL takes part if it is
installed; only its compiled core runs, on what its own loop over pairs prepares."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Rivals = dict[str, Callable[[], Any]]


def rivals(matrices: list[Any], pairs: Any, masses: list[Any] | None = None) -> Rivals:
    """What computes (P,) values of the pairs (2, P), by the name of the library."""
    import ot

    own = [np.full(len(x), 1.0 / len(x)) for x in matrices] if masses is None else [m / m.sum() for m in masses]

    def pot() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [
                ot.gromov_wasserstein2(matrices[i], matrices[j], own[i], own[j], symmetric=True) for i, j in pairs.T
            ]
        return 0.5 * np.sqrt(np.maximum(found, 0.0))

    contestants: Rivals = {"POT": pot}
    try:
        from cajal.gw_cython import gw_cython_core
    except ImportError:
        return contestants
    cells = [(x, m, x @ m, float(((x * x) @ m) @ m)) for x, m in zip(matrices, own, strict=True)]
    contestants["CAJAL"] = lambda: np.array([gw_cython_core(*cells[i], *cells[j])[1] for i, j in pairs.T])
    return contestants
