"""``python -m benchmarks.start.before_after OLD``: processor times of this source beside those of another one of asot.

OLD is a folder that holds another version's package ``asot``, such as ``src`` of a worktree of an earlier commit. Each
version runs the same cases in processes of its own, one thread each, twice in turn, and the best time counts. Sums of
the answers must agree. It prints a Markdown table; a ratio below 1 means that this source is faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TOLERANCE = 1e-9

CASES = """
import json, time
import numpy as np
import asot

rng = np.random.default_rng(0)
one = {"n_jobs": 1, "device": "cpu"}

def histograms(k, n):
    x = rng.normal(size=(k, 8))
    return rng.dirichlet(np.full(k, 0.3), n), np.linalg.norm(x[:, None] - x, axis=-1)

def clouds(n, points, dim, equal=False, weighted=False):
    sizes = np.full(n, points) if equal else rng.integers(max(2, points // 2), points * 3 // 2 + 1, n)
    masses = [rng.random(size) + 0.01 for size in sizes] if weighted else None
    return asot.Distributions.from_list([rng.normal(size=(size, dim)) for size in sizes], masses=masses)

cases = {}
for k, n in ((18, 600), (30, 500), (60, 300), (150, 130)):
    A, C = histograms(k, n)
    cases[f"emd_many, k = {k}"] = lambda A=A, C=C: asot.emd_many(A, cost=C, **one).values
A, C = histograms(30, 300)
cases["emd_many with plans, k = 30"] = lambda: asot.emd_many(A[:120], cost=C, plans=True, **one).values
cases["sinkhorn_many, k = 30, 50 sweeps"] = lambda: asot.sinkhorn_many(
    A, cost=C, reg=0.05 * C.max(), max_iter=50, tol=None, **one).values
cases["sinkhorn_many, k = 30, to 1e-9"] = lambda: asot.sinkhorn_many(
    A[:150], cost=C, reg=0.1 * C.max(), max_iter=5000, tol=1e-9, **one).values
A3, C3 = histograms(300, 12)
cases["sinkhorn_many, k = 300, small ε"] = lambda: asot.sinkhorn_many(
    A3, cost=C3, reg=0.005 * C3.max(), max_iter=5000, tol=1e-9, **one).values
for label, shape in {
    "20 points, 2-D": (250, 20, 2), "50 points, 3-D": (120, 50, 3), "30 points, 64-D": (150, 30, 64),
    "150 points, 10-D": (40, 150, 10), "150 points, 30-D, equal": (40, 150, 30, True),
    "20 points, 2-D, equal": (250, 20, 2, True), "50 points, 3-D, weighted": (120, 50, 3, False, True),
    "600 points, 5-D": (8, 600, 5), "1,000 points, 3-D, weighted": (5, 1000, 3, False, True),
}.items():
    D = clouds(*shape)
    cases["pairwise_exact, " + label] = lambda D=D: asot.pairwise_exact(D, **one).values
D20 = clouds(150, 20, 3)
for metric in ("canberra", "cityblock", "chebyshev", "angular"):
    cases[f"pairwise_exact, 20 points, {metric}"] = lambda m=metric: asot.pairwise_exact(D20, metric=m, **one).values
for p in (2, 3):
    cases[f"pairwise_exact, 20 points, p = {p}"] = lambda p=p: asot.pairwise_exact(D20, p=p, **one).values
cases["pairwise_exact, 20 points, unmatched"] = lambda: asot.pairwise_exact(D20, unmatched=10.0, **one).values
for equal in (False, True):
    for weighted in (False, True):
        L = clouds(1000, 50, 1, equal, weighted)
        label = f"line, 50 {'equal sizes' if equal else 'points'}{', weighted' if weighted else ''}"
        cases[f"pairwise_exact, {label}"] = lambda L=L: asot.pairwise_exact(L, **one).values
K, K30 = clouds(1500, 20, 5), clouds(800, 30, 30)
cases["kneighbors, 1,500 of 20 points, 5-D"] = lambda: asot.kneighbors(K, 5, **one).distances
cases["kneighbors, 800 of 30 points, 30-D"] = lambda: asot.kneighbors(K30, 5, **one).distances
P = clouds(250, 60, 3)
given = {"n_anchors": 30, "random_state": 0, **one}
cases["pairwise, anchors with bounds"] = lambda: asot.pairwise(P, estimate="anchor", bounds=True, **given).values
cases["pairwise, calibrated"] = lambda: asot.pairwise(P, estimate="calibrated", **given).values
cases["pairwise, max_error"] = lambda: asot.pairwise(P, max_error="5%", **given).values
cases["sliced"] = lambda: asot.baselines.sliced(P, n_projections=100, random_state=0, n_jobs=1).values

found = {}
for name, call in cases.items():
    answer, best = call(), np.inf
    for _ in range(5):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    found[name] = best, float(np.sum(answer))
print("FOUND " + json.dumps(found))
"""


def measured(folder: Path) -> dict[str, tuple[float, float]]:
    """Best seconds, and the sum of the answers, of every case under the package in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CASES], capture_output=True, text=True, env=environment, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        raise RuntimeError(f"the cases failed with {folder}:\n{done.stderr[-2000:]}")
    return {name: (seconds, total) for name, (seconds, total) in json.loads(lines[0][6:]).items()}


def main() -> None:
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "asot").is_dir():
        sys.exit(__doc__)
    here, there = Path(__file__).resolve().parents[2] / "src", Path(sys.argv[1])
    rounds = [(measured(there), measured(here)) for _ in range(2)]
    print("| case | before, ms | after, ms | after / before |\n|---|---:|---:|---:|")
    for name in rounds[0][1]:
        before, after = (min(each[side][name][0] for each in rounds) for side in (0, 1))
        sums = [each[side][name][1] for each in rounds for side in (0, 1)]
        if max(sums) - min(sums) > TOLERANCE * max(map(abs, sums)):
            raise RuntimeError(f"{name}: the answers differ, so their times mean nothing: {sums}")
        print(f"| {name} | {1e3 * before:.1f} | {1e3 * after:.1f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
