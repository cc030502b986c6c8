"""The k-NN graph of scikit-learn's digits under W₁: exact here, beside ANNchor and PyNNDescent.

ANNchor's page publishes seconds and wrong neighbors for it. Here every method runs in one process, one after the other,
on the same images, and its neighbors are compared with those of brute force.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from asot_paper.elsewhere.table import arguments, finish, timed

PUBLISHED = [  # ANNchor's page: seconds, wrong neighbors
    ["brute force (ANNchor's page)", "108", "0"],
    ["ANNchor (its page)", "21", "8"],
    ["PyNNDescent (ANNchor's page)", "71", "23"],
]
K = 25
RIVALS = ("annchor", "pynndescent")
WARM_UP = 500
"""Digits that everything is compiled on."""


def wrong(found: NDArray[np.int64], distances: NDArray[np.float64]) -> int:
    """Neighbors farther away than the K-th nearest: ties are right either way."""
    limit = np.sort(distances, axis=1)[:, K - 1 : K] * (1 + 1e-9)
    return int(np.count_nonzero(np.take_along_axis(distances, found, axis=1) > limit))


_OLD_NAME = "infty"


@contextlib.contextmanager
def _old_numpy_names() -> Iterator[None]:
    """ANNchor 1.0 uses a name that NumPy 2 no longer has."""
    missing = not hasattr(np, _OLD_NAME)
    if missing:
        setattr(np, _OLD_NAME, np.inf)
    try:
        yield
    finally:
        if missing:
            delattr(np, _OLD_NAME)


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
            with _old_numpy_names():
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


def notes(count: int, installed: Sequence[str]) -> list[str]:
    """Whose numbers are whose, and why they differ."""
    missing = [name for name in RIVALS if not any(name in one.lower() for one in installed)]
    return [
        f"{count:,} digits of 8 × 8 pixels, {K} neighbors each. A neighbor is wrong if it is farther than the {K}-th "
        "nearest of brute force, so ties are right either way.",
        "Whose numbers: the rows with a page are published in ANNchor's user guide, for a MacBook Pro with a 2 GHz "
        "quad-core Intel i5; everything else is measured here, in one process, one after the other, on all cores. "
        + (f"Not installed here: {', '.join(missing)}. " if missing else ""),
        "Where they differ: wrong neighbors of ANNchor and PyNNDescent depend on their random starts and versions, "
        f"seconds on the machine. Everything ran on {WARM_UP} digits beforehand, so that no compiling is timed.",
    ]


def main() -> None:
    """The command."""
    parser = arguments(__doc__ or "", data=False)
    parser.add_argument(
        "--digits", type=int, default=1797, help="How many of the 1,797 digits to take, from the first."
    )
    given = parser.parse_args()
    D, _, about = asot.datasets.load_digits()
    D, images = D[: given.digits], about["images"][: given.digits]
    few = min(WARM_UP, len(D))
    asot.kneighbors(D[:few], n_neighbors=min(K, few - 1))
    for work in rivals(images[:few]).values():
        work()
    brute, seconds_brute = timed(lambda: asot.pairwise_exact(D, n_jobs=-1).matrix())
    np.fill_diagonal(brute, np.inf)
    found, seconds = timed(lambda: asot.kneighbors(D, n_neighbors=K, n_jobs=-1))
    rows = [*PUBLISHED, ["brute force, asot here", f"{seconds_brute:.1f}", "0"]]
    rows.append(["`asot.kneighbors` here, certain", f"{seconds:.1f}", str(wrong(found.indices, brute))])
    others = rivals(images)
    for name, work in others.items():
        graph, taken = timed(work)
        rows.append([name, f"{taken:.1f}", str(wrong(graph, brute))])
    head = ["whose", "seconds", "wrong neighbors"]
    finish(
        given,
        "digits_graph",
        "The k-NN graph of the digits, run again",
        head,
        rows,
        notes(len(D), list(others)),
        RIVALS,
    )


if __name__ == "__main__":
    main()
