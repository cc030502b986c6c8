"""The k-NN graph of scikit-learn's digits under W₁: exact here, beside ANNchor and PyNNDescent.

ANNchor's page publishes seconds and wrong neighbors for it. Here every method runs in one process, one after the other,
on the same images, and its neighbors are compared with those of brute force.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from asot_paper.elsewhere.table import arguments, finish

PUBLISHED = [  # ANNchor's page: seconds, wrong neighbors
    ["brute force (ANNchor's page)", "108", "0"],
    ["ANNchor (its page)", "21", "8"],
    ["PyNNDescent (ANNchor's page)", "71", "23"],
]
K = 25


def wrong(found: NDArray[np.int64], distances: NDArray[np.float64]) -> int:
    """Neighbors that are farther than the K-th nearest: ties are right either way."""
    limit = np.sort(distances, axis=1)[:, K - 1 : K] * (1 + 1e-9)
    return int(np.count_nonzero(np.take_along_axis(distances, found, axis=1) > limit))


def timed(work: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def rivals(images: NDArray[np.float64]) -> dict[str, Any]:
    """The graphs of other libraries, as functions, for those that are installed."""
    flat = images.reshape(len(images), -1)
    cost = np.linalg.norm(np.argwhere(np.ones((8, 8)))[:, None] - np.argwhere(np.ones((8, 8))), axis=2)
    found: dict[str, Any] = {}
    try:
        annchor = importlib.import_module("annchor")

        def by_annchor() -> NDArray[np.int64]:
            model = annchor.Annchor(
                flat, "wasserstein", func_kwargs={"cost_matrix": cost}, n_anchors=25, n_neighbors=K + 1
            )
            model.fit()
            return np.asarray(model.neighbor_graph[0])[:, 1:]

        found["ANNchor, here"] = by_annchor
    except ImportError:
        pass
    try:
        pynndescent = importlib.import_module("pynndescent")

        def by_pynndescent() -> NDArray[np.int64]:
            index = pynndescent.NNDescent(
                flat, metric="kantorovich", metric_kwds={"cost": cost}, n_neighbors=K + 1, random_state=0
            )
            return np.asarray(index.neighbor_graph[0])[:, 1:]

        found["PyNNDescent, here"] = by_pynndescent
    except ImportError:
        pass
    return found


def main() -> None:
    """The command."""
    given = arguments(__doc__ or "", data=False).parse_args()
    D, _, images = asot.datasets.load_digits()
    asot.kneighbors(D[:50], n_neighbors=3)  # compiles
    brute, seconds_brute = timed(lambda: asot.pairwise_exact(D, n_jobs=-1).matrix())
    np.fill_diagonal(brute, np.inf)
    found, seconds = timed(lambda: asot.kneighbors(D, n_neighbors=K, n_jobs=-1))
    rows = [*PUBLISHED, ["brute force, asot here", f"{seconds_brute:.1f}", "0"]]
    rows.append(["`asot.kneighbors` here, certain", f"{seconds:.1f}", str(wrong(found.indices, brute))])
    for name, work in rivals(images).items():
        graph, taken = timed(work)
        rows.append([name, f"{taken:.1f}", str(wrong(graph, brute))])
    notes = f"1,797 digits of 8 × 8 pixels, {K} neighbors each. Published numbers are of ANNchor's authors and machine."
    head = ["whose", "seconds", "wrong neighbors"]
    finish(given, "digits_graph", "The k-NN graph of the digits, run again", head, rows, notes)


if __name__ == "__main__":
    main()
