"""The calls on the pages "Coming from …", timed: theirs and ours, on the same data, with the same numbers.

``python -m benchmarks coming_from`` measures; ``python -m benchmarks.peers.coming_from docs/coming-from`` then puts the
rows of the table into the pages, in a section of their own, so that no time on a page is written by hand.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import RESULTS, Options, Report, SelfTimed, Table, largest_difference, race, ratio
from benchmarks.peers.peers import Unavailable, checked, environment, pot

NEEDS: set[str] = set()

Float = NDArray[np.float64]
RUNNER = Path(__file__).with_name("peer_library.py")
TABLE = RESULTS / "coming_from.md"
COLUMNS = ["page", "their call", "pairs", "theirs", "asot", "asot is faster by", "largest difference"]


@dataclass(frozen=True)
class Case:
    """Theirs and ours: functions without arguments that return the same distances."""

    page: str
    call: str
    theirs: Callable[[], Any]
    ours: Callable[[], Float]
    n_pairs: int
    tolerance: float = 1e-9


def run(options: Options) -> Report:
    """Race every library that can be had, and say why the others are missing."""
    rows, missing = [], []
    makers = (_pot, _scipy_line, _scipy_plane, _gudhi, _gensim, _scanpy, _wwl, _energyflow, _ott)
    with tempfile.TemporaryDirectory(prefix="asot-coming-") as folder:
        for maker in makers:
            try:
                case = maker(np.random.default_rng(0), options, Path(folder))
            except (ImportError, Unavailable) as reason:
                missing.append(f"{maker.__name__.strip('_')}: not measured ({reason})")
                continue
            rows.append(_row(case))
    table = Table("Times of all pairs:", COLUMNS, rows)
    return Report("coming_from", "Coming from other libraries", INTRODUCTION, [table], [*NOTES, *missing])


INTRODUCTION = (
    "All pairs of small collections, by the call of another library and by ours, one thread each. Times are for "
    "whole calls, from the objects that a user has to distances; best of three interleaved repeats."
)

NOTES = (
    "Where a library solves one pair per call, its time is that of a loop over all pairs.",
    "EnergyFlow and OTT run in processes and environments of their own; compiling is not counted for anybody.",
    "scanpy has no distance between samples; people loop over POT, which is what is timed.",
    "Largest difference: relative to the largest distance. gensim and OTT answer to their own precision.",
)


def _row(case: Case) -> list[str]:
    case.ours()  # compile
    outcome = race(
        {"theirs": case.theirs, "asot": case.ours},
        lambda answers: {case.page: largest_difference(answers["theirs"], answers["asot"], np.max(answers["asot"]))},
        repeats=3,
        tolerance=case.tolerance,
    )
    theirs, ours = outcome.seconds["theirs"], outcome.seconds["asot"]
    print(f"{case.page}: {theirs:.3g} s and {ours:.3g} s", flush=True)
    return [
        case.page,
        f"`{case.call}`",
        f"{case.n_pairs:,}",
        _time(theirs),
        _time(ours),
        ratio(theirs / ours),
        f"{outcome.deviations[case.page]:.0e}",
    ]


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _loop(function: Callable[[Any, Any], float], things: list[Any]) -> Callable[[], Float]:
    n = len(things)
    return lambda: np.array([function(things[i], things[j]) for i in range(n) for j in range(i + 1, n)])


def _exact(things: Any, **how: Any) -> Float:
    return asot.pairwise_exact(things, progress=False, device="cpu", **how).values


def _count(n: int) -> int:
    return n * (n - 1) // 2


# ---------------------------------------------------------------------------------------------------------- in process


def _clouds(rng: np.random.Generator, n: int, sizes: tuple[int, int], d: int) -> list[Float]:
    return [rng.normal(rng.normal(size=d), 1.0, size=(rng.integers(*sizes), d)) for _ in range(n)]


def _pot(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    ot = pot()
    clouds = _clouds(rng, 10 if options.quick else 100, (30, 60), 3)
    theirs = _loop(lambda x, y: ot.emd2([], [], ot.dist(x, y, metric="euclidean")), clouds)
    return Case("pot", "ot.emd2([], [], ot.dist(x, y, metric=…))", theirs, lambda: _exact(clouds), _count(len(clouds)))


def _scipy_line(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    from scipy.stats import wasserstein_distance

    samples = [rng.normal(size=rng.integers(40, 60)) for _ in range(10 if options.quick else 150)]
    theirs, n = _loop(wasserstein_distance, samples), _count(len(samples))
    ours = lambda: _exact([sample[:, None] for sample in samples])  # noqa: E731
    return Case("scikit-learn", "scipy.stats.wasserstein_distance(x, y)", theirs, ours, n)


def _scipy_plane(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    from scipy.stats import wasserstein_distance_nd

    clouds = _clouds(rng, 4 if options.quick else 12, (15, 25), 2)
    theirs, n = _loop(wasserstein_distance_nd, clouds), _count(len(clouds))
    return Case("scikit-learn", "scipy.stats.wasserstein_distance_nd(x, y)", theirs, lambda: _exact(clouds), n, 1e-7)


def _gudhi(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    pot()
    from gudhi.wasserstein import wasserstein_distance

    births = [rng.random(rng.integers(20, 50)) for _ in range(8 if options.quick else 60)]
    diagrams = [np.column_stack([b, b + rng.gamma(2.0, 0.1, size=len(b))]) for b in births]
    theirs = _loop(lambda x, y: wasserstein_distance(x, y, order=1.0, internal_p=np.inf), diagrams)

    def ours() -> Float:
        D = asot.Distributions.from_diagrams(diagrams)
        return _exact(D, metric="chebyshev", unmatched="diagonal")

    return Case("gudhi", "gudhi.wasserstein.wasserstein_distance(X, Y)", theirs, ours, _count(len(diagrams)))


def _gensim(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    from gensim.models import KeyedVectors

    words = [f"word{i}" for i in range(1000)]
    vectors = KeyedVectors(50)
    vectors.add_vectors(words, rng.normal(size=(1000, 50)).astype(np.float32))
    n = 8 if options.quick else 40
    documents = [[words[i] for i in rng.integers(1000, size=rng.integers(20, 40))] for _ in range(n)]
    ours = lambda: _exact(asot.Distributions.from_texts(documents, vectors, norm=True))  # noqa: E731
    return Case("gensim", "vectors.wmdistance(x, y)", _loop(vectors.wmdistance, documents), ours, _count(n), 1e-5)


def _scanpy(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    import anndata
    import pandas as pd

    ot = pot()
    n = 4 if options.quick else 12
    sample = np.sort(rng.integers(n, size=200 * n))
    cells = anndata.AnnData(obs=pd.DataFrame({"sample": sample.astype(str)}, index=np.arange(len(sample)).astype(str)))
    cells.obsm["X_pca"] = rng.normal(size=(len(sample), 10)) + sample[:, None] % 3
    names = sorted(set(cells.obs["sample"]))
    bags = [cells.obsm["X_pca"][(cells.obs["sample"] == name).to_numpy()] for name in names]
    theirs = _loop(lambda x, y: ot.emd2([], [], ot.dist(x, y, metric="euclidean")), bags)
    ours = lambda: _exact(asot.Distributions.from_anndata(cells, "sample"))  # noqa: E731
    return Case("scanpy", "ot.emd2 on adata.obsm['X_pca'], sample by sample", theirs, ours, _count(n))


def _wwl(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    pot()
    import igraph
    import networkx as nx
    from wwl import pairwise_wasserstein_distance

    n = 8 if options.quick else 60
    graphs = [nx.gnm_random_graph(int(m), 2 * int(m), seed=int(m)) for m in rng.integers(15, 35, size=n)]
    for graph in graphs:
        nx.set_node_attributes(graph, {node: int(rng.integers(4)) for node in graph}, "label")
    copies = [igraph.Graph.from_networkx(graph) for graph in graphs]
    upper = np.triu_indices(n, 1)
    theirs = lambda: pairwise_wasserstein_distance(copies, num_iterations=2)[upper]  # noqa: E731

    def ours() -> Float:
        D = asot.Distributions.from_graphs(graphs, features="wl", rounds=2, attributes="label")
        return _exact(D, metric="hamming")

    return Case("wwl", "wwl.pairwise_wasserstein_distance(graphs, num_iterations=2)", theirs, ours, _count(n))


# ---------------------------------------------------------------------------------------------------------- elsewhere


def _energyflow(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    n = 8 if options.quick else 100
    sizes = rng.integers(20, 60, size=n)
    points = rng.uniform(-0.35, 0.35, size=(sizes.sum(), 2))
    masses, offsets = rng.gamma(1.0, size=sizes.sum()), np.concatenate([[0], np.cumsum(sizes)])
    problem = {"points": points, "masses": masses, "offsets": offsets, "R": 1.0}
    theirs = _elsewhere("energyflow", ("numpy<2", "energyflow"), problem, options, folder)
    D = asot.Distributions(points, offsets, masses)
    return Case("energyflow", "energyflow.emd.emds(events, R=1.0)", theirs, lambda: _exact(D, unmatched=1.0), _count(n))


def _ott(rng: np.random.Generator, options: Options, folder: Path) -> Case:
    n = 8 if options.quick else 24
    anchors = rng.random((30, 2))
    cost = np.linalg.norm(anchors[:, None] - anchors[None], axis=2)
    A = rng.dirichlet(np.ones(30), size=n)
    problem = {"A": A, "cost": cost, "reg": 0.05, "tol": 1e-7}
    theirs = _elsewhere("ott", ("ott-jax",), problem, options, folder)
    ours = lambda: asot.sinkhorn_many(A, cost=cost, reg=0.05, tol=1e-7, device="cpu", progress=False).values  # noqa: E731
    return Case("ott", "jit(vmap(ott.solvers.linear.solve))", theirs, ours, _count(n), 1e-4)


def _elsewhere(library: str, packages: tuple[str, ...], problem: dict[str, Any], options: Options, folder: Path) -> Any:
    """A contestant in an environment of its own, which is kept in ``--peers`` if that is given."""
    file = folder / f"{library}.npz"
    np.savez(file, **problem)
    python = environment((options.peers or folder).resolve(), f".venv-{library}", packages)
    values = file.with_suffix(".values.npy")

    def call() -> SelfTimed:
        report = json.loads(checked([str(python), str(RUNNER), library, str(file), str(values)]).splitlines()[-1])
        return SelfTimed(report["seconds"], np.load(values))

    call()  # whether it works at all
    return call


# ---------------------------------------------------------------------------------------------------------- the pages


def measured(text: str | None = None) -> dict[str, list[list[str]]]:
    """The rows of the committed table, by page."""
    text = TABLE.read_text(encoding="utf-8") if text is None else text
    found: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == len(COLUMNS) and cells[0] != COLUMNS[0] and "---" not in cells[0]:
            found.setdefault(cells[0], []).append(cells)
    return found


def block(rows: list[list[str]]) -> str:
    """What a page shows of its rows."""
    lines = [
        "| their call | pairs | theirs | asot | faster by |",
        "|---|--:|--:|--:|--:|",
        *(f"| {call} | {pairs} | {theirs} | {ours} | {by} |" for _, call, pairs, theirs, ours, by, _ in rows),
    ]
    return "\n".join(lines)


SECTION = """## Times

All pairs of a small collection, one thread each, the same numbers on both sides:

{table}

The data, the machine and the command are in [the table](../../benchmarks/results/coming_from.md).

"""


def pages(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every page with measured times, and its text with them: a section before "What … has and asot does not"."""
    for name, rows in measured().items():
        path = folder / f"{name}.md"
        before, heading, after = path.read_text("utf-8").partition("## What ")
        yield path, before.partition("## Times\n")[0] + SECTION.format(table=block(rows)) + heading + after


if __name__ == "__main__":
    for path, text in pages(Path(sys.argv[1])):
        path.write_text(text, encoding="utf-8")
