"""Whether a GPU gives the answers of the CPU: exact values, estimates and neighbors, on every collection we have.

Nothing is timed. All pairs of each collection are solved on both, and each call on the GPU is made twice. A difference
above what is promised stops the benchmark, and no table is written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import DisagreementError, Options, Report, Table, largest_difference, require
from benchmarks.data import mnist_collection, tu_collection, zinc_test_collection
from benchmarks.estimates.strategy import events, tweets
from benchmarks.gpu.gpu import gpu_name

NEEDS = {"gpu", "graphs", "images", "molecules", "tweets"}

EXACT, ESTIMATED, WRONG = 1e-12, 1e-6, 0.1
"""What may differ: exact values, of the largest distance; estimates, of themselves; and what none may be off by."""

NEIGHBORS, ANCHORS = 10, 24
NEAR = 0.02
"""Share of the pairs within the radius that is searched."""

QUICK = 40
"""Distributions of a quick run."""

SOME = 120
"""Distributions of each collection under other distances than W₁ and its Euclidean metric."""

GRAPHS = ("MUTAG", "PTC_MR", "BZR", "COX2", "ENZYMES", "NCI1")


def run(options: Options) -> Report:
    """Compare everything and make the report."""
    assert options.data is not None
    most = QUICK if options.quick else None
    wrong: list[str] = []

    def compared(collections: dict[str, Load], estimates: bool) -> list[list[str]]:
        rows = []
        for name, load in collections.items():
            try:
                rows.append(_compare(name, load()[:most], estimates))
            except DisagreementError as error:  # the others are compared all the same
                wrong.append(str(error))
                print(wrong[-1], flush=True)
        return rows

    measured, degenerate = compared(_collections(options.data), True), compared(_degenerate(), False)
    others = _other_distances(options.data, most, wrong)
    if wrong:
        raise DisagreementError("; ".join(wrong))
    tables = [
        Table("**Collections**, all pairs.", COLUMNS, measured),
        Table("**Other distances**, all pairs: exact, as above.", ["distance", *_some(options.data)], others),
        Table("**Degenerate families**, all pairs.", [c for c in COLUMNS if "calibrated" not in c], degenerate),
    ]
    introduction = f"One {gpu_name()}, compared with the CPU of the same machine."
    return Report("gpu_agreement", "A GPU's answers beside those of the CPU", introduction, tables, NOTES)


COLUMNS = ["collection", "N", "points", "pairs", "exact", "on the CPU", "calibrated", "calibrated with bounds",
           "10 nearest", "within a radius", "run to run"]  # fmt: skip
NOTES = (
    "Exact: the largest difference between `pairwise_exact(D, device='cuda')` and `device='cpu'` over all pairs, in "
    "units of the largest distance; at most 1e-12, and every pair proven optimal, or there is no table. On the "
    "CPU: pairs that are too large for the GPU's kernels.",
    f"Calibrated: the largest relative difference of calibrated values on {ANCHORS} anchors, without and with bounds "
    "as features, fitted to 64 exact pairs; it should be at most 1e-6, and pairs above that are counted.",
    "10 nearest: `kneighbors` on the GPU against brute force over the CPU's values. Distances agree to 1e-12 of the "
    "largest. Identical: so do all indices. But for ties: they differ only where two distances are equal to that.",
    "Within a radius: pairs that `radius_neighbors` finds on the GPU, the same as those of brute force. The radius "
    "lies in a gap between two distances, with about a fiftieth of the pairs below it.",
    "Run to run: all of this a second time on the GPU, compared bit for bit.",
    "All collections are whole but MNIST, which is the first 500 images of the test set. Energies of events are "
    "divided by their total.",
    f"Other distances: the first {SOME} distributions of each collection; 'diagonal' in two dimensions.",
)


# ------------------------------------------------------------------------------------------------ what is compared

Load = Callable[[], asot.Distributions]


def _collections(folder: Path) -> dict[str, Load]:
    return {
        "digits": lambda: asot.datasets.load_digits().distributions,
        **{name: partial(tu_collection, folder, name) for name in GRAPHS},
        "ZINC, test split": partial(zinc_test_collection, folder, 5000),
        "MNIST": partial(mnist_collection, folder, 500),
        "tweets": partial(tweets, folder),
        "events": partial(events, folder),
    }


def _some(folder: Path) -> dict[str, Load]:
    """Collections for other distances: small and large clouds, long points, and diagrams."""
    rng = np.random.default_rng(1)

    def diagrams() -> asot.Distributions:
        births = [rng.random((n, 1)) for n in rng.integers(20, 200, SOME)]
        return asot.Distributions.from_diagrams([np.hstack([b, b + 0.3 * rng.random(b.shape)]) for b in births])

    return {
        "COX2": partial(tu_collection, folder, "COX2"),
        "MNIST": partial(mnist_collection, folder, SOME),
        "tweets": partial(tweets, folder),
        "diagrams": diagrams,
    }


OTHERS: dict[str, dict[str, Any]] = {
    "W₂": {"p": 2},
    "W₃, city-block": {"p": 3, "metric": "cityblock"},
    "W₂₀": {"p": 20},
    "squared Euclidean": {"metric": "sqeuclidean"},
    "a table (Bray–Curtis of |x|)": {"metric": "braycurtis", "memory": "8G"},
    "60 % of the mass": {"share": 0.6},
    "unmatched mass": {"unmatched": 1e3},
    "unmatched mass, W₂": {"unmatched": 1e3, "p": 2},
    "unmatched to the diagonal": {"unmatched": "diagonal", "metric": "chebyshev"},
    "unmatched to the diagonal, W₂": {"unmatched": "diagonal", "p": 2},
}


def _other_distances(folder: Path, most: int | None, wrong: list[str]) -> list[list[str]]:
    """Rows of errors: a distance, and its largest difference on each collection."""
    loaded = {name: load()[: most or SOME] for name, load in _some(folder).items()}
    rows = []
    for distance, options in OTHERS.items():
        cells = [distance]
        for name, D in loaded.items():
            if options.get("unmatched") == "diagonal" and D.dim != 2:
                cells.append("–")
                continue
            if options.get("metric") == "braycurtis":
                D = asot.Distributions(np.abs(D.points) + 1e-3, D.offsets, D.masses)
            gpu, again = (asot.pairwise_exact(D, device="cuda", **options) for _ in range(2))
            cpu = asot.pairwise_exact(D, device="cpu", n_jobs=-1, **options)
            error = largest_difference(gpu.values, cpu.values, cpu.values.max() or 1.0)
            try:
                require(f"{name}, {distance}", error, EXACT)
                _require_same_bits(name, gpu.values, again.values)
            except DisagreementError as found:
                wrong.append(str(found))
            cells.append(f"{error:.1e}")
        print(" ".join(cells), flush=True)
        rows.append(cells)
    return rows


def _degenerate() -> dict[str, Load]:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(60, 20, 3))
    return {
        "a grid, equal masses": lambda: _on_a_grid(rng, 4, 12),
        "a large grid, equal masses": lambda: _on_a_grid(rng, 16, 150),
        "corners of a simplex": lambda: _weights(rng.multinomial(30, np.ones(24) / 24, 60), np.eye(24)),
        "a line": lambda: asot.Distributions.from_list(list(rng.integers(0, 40, (60, 25, 1)).astype(float))),
        "single points": lambda: asot.Distributions.from_list(list(rng.integers(0, 5, (60, 1, 2)).astype(float))),
        "all equal": lambda: asot.Distributions.from_list([normal[0]] * 30),
        "all in one place": lambda: asot.Distributions.from_list([np.zeros((3, 2))] * 30),
        "twins": lambda: asot.Distributions.from_list([normal[i // 2] for i in range(60)]),
        "repeated points": lambda: asot.Distributions.from_list([np.repeat(x[:5], 8, axis=0) for x in normal]),
        "masses from 1 to 1e-12": lambda: _weights(10.0 ** rng.uniform(-12, 0, (60, 20)), normal[0]),
        "one point far away": lambda: asot.Distributions.from_list([*normal, 1e7 + normal[0]]),
        "huge coordinates": lambda: asot.Distributions.from_list(list(1e150 * normal)),
        "tiny coordinates": lambda: asot.Distributions.from_list(list(1e-150 * normal)),
        "1 to 700 points": lambda: asot.Distributions.from_list(
            [rng.normal(size=(n, 2)) for n in (1, 2, 31, 32, 33, 64, 65, 128, 129, 256, 257, 400, 512, 513, 700)]
        ),
    }


def _weights(weights: Any, support: Any) -> asot.Distributions:
    return asot.Distributions.from_weights(np.asarray(weights, dtype=np.float64), support)


def _on_a_grid(rng: np.random.Generator, side: int, size: int) -> asot.Distributions:
    """Sixty sets of ``size`` places of a square grid: most distances between them tie."""
    places = np.argwhere(np.ones((side, side))).astype(float)
    return asot.Distributions.from_list([places[rng.choice(len(places), size, replace=False)] for _ in range(60)])


# ------------------------------------------------------------------------------------------------ comparing


def _compare(name: str, D: asot.Distributions, estimates: bool) -> list[str]:
    """A row of the table."""
    gpu, again = (asot.pairwise_exact(D, device="cuda") for _ in range(2))
    cpu = asot.pairwise_exact(D, device="cpu", n_jobs=-1)
    error = largest_difference(gpu.values, cpu.values, cpu.values.max() or 1.0)
    require(f"{name}, exact", error, EXACT)
    if (gpu.status != asot.Status.OPTIMAL).any():
        raise DisagreementError(f"{name}: a pair is not proven optimal")
    _require_same_bits(name, gpu.values, again.values)
    print(f"{name}: exact {error:.1e}", flush=True)
    size = f"{D.sizes.min()}" if D.sizes.min() == D.sizes.max() else f"{D.sizes.min()}–{D.sizes.max()}"
    left = gpu.info.get("n_solved_on_cpu", 0)
    cells = [name, f"{len(D):,}", size, f"{len(gpu.values):,}", f"{error:.1e}", f"{left:,}"]
    if estimates:
        space = asot.KMeansAnchors(ANCHORS, random_state=0).fit(D).space_
        cells += [_estimated(name, D, space, bounds) for bounds in (False, True)]
    return [*cells, _nearest(name, D, cpu), _within(name, D, cpu.values), "identical"]


def _estimated(name: str, D: asot.Distributions, space: Any, bounds: bool) -> str:
    way = {"kind": "calibrated", "n_anchors": ANCHORS, "bounds": bounds, "n_exact": 64, "given_space": True}

    def values(device: str) -> Any:
        how: dict[str, Any] = {"strategy": way, "random_state": 0, "n_jobs": -1, "device": device}
        return asot.pairwise(D, space=asot.AnchorSpace(space.anchors), **how).values

    gpu, cpu = values("cuda"), values("cpu")
    apart = np.abs(gpu - cpu) / np.maximum(cpu, 1e-9 * cpu.max())
    require(f"{name}, calibrated", float(apart.max()), WRONG)
    _require_same_bits(name, gpu, values("cuda"))
    outliers = np.count_nonzero(apart > ESTIMATED)
    cell = f"{apart.max():.1e}" if outliers == 0 else f"{outliers:,} above 1e-6, up to {apart.max():.1e}"
    print(f"{name}: calibrated {cell}", flush=True)
    return cell


def _nearest(name: str, D: asot.Distributions, cpu: asot.Distances) -> str:
    """Nearest neighbors against brute force; where distances tie, any order will do."""
    count = min(NEIGHBORS, len(D) - 1)
    found, again = (asot.kneighbors(D, n_neighbors=count, device="cuda") for _ in range(2))
    _require_same_bits(name, found.distances, again.distances)
    _require_same_bits(name, found.indices, again.indices)
    matrix = cpu.matrix()
    np.fill_diagonal(matrix, np.inf)
    order = np.argsort(matrix, axis=1, kind="stable")[:, :count]
    expected = np.take_along_axis(matrix, order, axis=1)
    scale = cpu.values.max() or 1.0
    require(f"{name}, distances of neighbors", largest_difference(found.distances, expected, scale), EXACT)
    named = np.take_along_axis(matrix, found.indices, axis=1)
    require(f"{name}, neighbors", largest_difference(named, expected, scale), EXACT)
    return "identical" if np.array_equal(found.indices, order) else "identical but for ties"


def _within(name: str, D: asot.Distributions, values: Any) -> str:
    """Neighbors within a radius: exactly those of brute force."""
    ranked = np.unique(values)
    gaps = np.flatnonzero(np.diff(ranked) > 1e-9 * ranked[-1])
    if len(gaps) == 0:  # every distance is the same
        radius = float(2 * ranked[-1] + 1)
    else:
        gap = gaps[np.argmin(np.abs(ranked[gaps] - np.quantile(values, NEAR)))]
        radius = float((ranked[gap] + ranked[gap + 1]) / 2)
    found, again = (asot.radius_neighbors(D, radius=radius, device="cuda") for _ in range(2))
    _require_same_bits(name, found.distances, again.distances)
    rows, columns = np.triu_indices(len(D), 1)
    near = values <= radius
    expected = np.zeros((len(D), len(D)), dtype=bool)
    expected[rows[near], columns[near]] = expected[columns[near], rows[near]] = True
    seen = np.zeros_like(expected)
    seen[np.repeat(np.arange(len(D)), np.diff(found.indptr)), found.indices] = True
    if not np.array_equal(seen & ~np.eye(len(D), dtype=bool), expected):
        raise DisagreementError(f"{name}: other pairs within {radius:g} than those of brute force")
    return f"{np.count_nonzero(near):,}"


def _require_same_bits(name: str, first: Any, second: Any) -> None:
    if not np.array_equal(first, second):
        raise DisagreementError(f"{name}: a second run on the GPU gave another answer")
