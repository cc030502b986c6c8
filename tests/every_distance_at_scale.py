"""Every distance against independent solvers, on tens of thousands of problems: too long for every day, so run by hand.

    python -m tests.every_distance_at_scale [family ...] [--problems 20000] [--pairs 1000000] [--wasserstein PYTHON]

Problems are random and degenerate (points on a lattice, on a line, in one place; masses over nine orders of magnitude).
Each family prints how many problems were compared with whom, and the largest relative difference; a difference above
1e-8 of the value, a bound that does not hold or a neighbor that brute force does not find ends the run with an error.
``--wasserstein`` names an interpreter that has EnergyFlow's package of this name, which needs a NumPy of its own.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

import asot
from tests.oracles import ot

TOLERANCE = 1e-8
AT_A_TIME = 100  # problems of one call


def distributions(rng, n, dim=2, most=9, totals=False):
    """2n distributions: pair t is (t, n + t)."""
    points, masses = [], []
    for t in range(2 * n):
        size = int(rng.integers(1, most))
        kind = rng.integers(6)
        x = rng.normal(size=(size, dim))
        if kind == 1:
            x = rng.integers(0, 3, size=(size, dim)).astype(float)  # a lattice: ties, common points
        elif kind == 2:
            x[:, 1:] = 0.0  # on a line
        elif kind == 3:
            x[:] = x[0]  # in one place
        elif kind == 4 and t >= n:
            x = points[t - n].copy()  # equal to its partner, up to masses
        mass = rng.random(len(x)) + 1e-3
        if kind == 5:
            mass = 10.0 ** rng.uniform(-9, 0, size)
        points.append(x)
        masses.append(mass * (rng.choice([0.1, 1.0, 5.0]) if totals else 1.0))
    return asot.Distributions.from_list(points, masses)


def pairs_of(n):
    return np.stack([np.arange(n), n + np.arange(n)], axis=1)


class Tally:
    """Comparisons with one solver."""

    def __init__(self, name):
        self.name, self.count, self.worst = name, 0, 0.0

    def add(self, found, expected, scale):
        """``scale`` is what a rounding error may be measured by: the largest cost of the problem."""
        difference = abs(found - expected) / max(abs(expected), 1e-6 * scale, 1e-300)
        self.count, self.worst = self.count + 1, max(self.worst, difference)
        if difference > TOLERANCE:
            raise SystemExit(f"{self.name}: {found!r} differs from {expected!r} by {difference:.3g}")

    def __str__(self):
        return f"{self.count:,} compared with {self.name}, largest relative difference {self.worst:.2g}"


def by_highs(cost, a, b, equal=True, moved=None):
    n, m = cost.shape
    sums = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    sides = np.concatenate([a, b])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    options = {"method": "highs", "options": tight}
    if equal:
        return linprog(cost.ravel(), A_eq=sums[:-1], b_eq=sides[:-1], **options).fun
    extra = {} if moved is None else {"A_eq": np.ones((1, n * m)), "b_eq": [moved]}
    return linprog(cost.ravel(), A_ub=sums, b_ub=sides, **extra, **options).fun


# ------------------------------------------------------------------------------------------------ families


def orders(problems, rng, _):
    """W_p for p = 1, 1.5, 2, 3 under three norms: POT for all, HiGHS for every tenth."""
    pot, highs = Tally("POT"), Tally("HiGHS")
    for call in range(-(-problems // AT_A_TIME)):
        p = (1, 1.5, 2, 3)[call % 4]
        metric = ("euclidean", "cityblock", "chebyshev")[call // 4 % 3]
        D = distributions(rng, AT_A_TIME, dim=int(rng.integers(1, 5)))
        values = asot.pairwise_exact(D, p=p, metric=metric, pairs=pairs_of(AT_A_TIME)).values
        for t in range(AT_A_TIME):
            (x, a), (y, b) = D[t], D[AT_A_TIME + t]
            cost = cdist(x, y, metric) ** p
            pot.add(values[t] ** p, ot.emd2(a, b, cost, numItermax=10**7), cost.max())
            if t % 10 == 0:
                highs.add(values[t] ** p, by_highs(cost, a, b), 1e3 * cost.max())  # HiGHS is feasible to 1e-10 only
    return pot, highs


def diagrams(problems, rng, _):
    """Persistence diagrams of orders 1, 1.5, 2, 3: an assignment solver for all, GUDHI for orders 1 and 2."""
    from gudhi.wasserstein import wasserstein_distance

    assigned, gudhi = Tally("an assignment solver"), Tally("GUDHI")
    for call in range(-(-problems // AT_A_TIME)):
        p, (metric, q) = (1, 1.5, 2, 3)[call % 4], (("chebyshev", np.inf), ("euclidean", 2.0))[call // 4 % 2]
        given = [_diagram(rng) for _ in range(2 * AT_A_TIME)]
        D = asot.Distributions.from_diagrams(given)
        values = asot.pairwise_exact(
            D, p=p, metric=metric, unmatched="diagonal", pairs=pairs_of(AT_A_TIME)
        ).values  # fmt: skip
        for t in range(AT_A_TIME):
            x, y = given[t], given[AT_A_TIME + t]
            expected, scale = _by_assignment(x, y, p, q)
            assigned.add(values[t] ** p, expected, scale)
            if p in (1, 2):
                gudhi.add(values[t], wasserstein_distance(x, y, order=p, internal_p=q), scale ** (1 / p))
    return assigned, gudhi


def _diagram(rng):
    size = int(rng.integers(0, 9))
    birth = rng.random((size, 1)) if rng.random() < 0.7 else rng.integers(0, 3, size=(size, 1)) / 2.0
    life = rng.exponential(0.3, (size, 1)) if rng.random() < 0.7 else rng.integers(0, 3, size=(size, 1)) / 4.0
    return np.hstack([birth, birth + life])


def _by_assignment(x, y, p, q):
    to_x, to_y = (np.abs(z[:, 1] - z[:, 0]) * 2 ** (1 / q - 1) for z in (x, y))
    n, m = len(x), len(y)
    costs = np.zeros((n + m, m + n))
    if n and m:
        costs[:n, :m] = (cdist(x, y, "chebyshev") if q == np.inf else cdist(x, y)) ** p
    costs[:n, m:], costs[n:, :m] = (to_x**p)[:, None], to_y**p
    rows, columns = linear_sum_assignment(costs)
    return costs[rows, columns].sum(), max(costs.max(initial=0.0), 1e-12)


def events(problems, rng, python):
    """Events of different energy, R = 1 in the unit square: the definition as a transport problem, and wasserstein."""
    pot, physics = Tally("POT with the excess on one more particle"), Tally("wasserstein.PairwiseEMD")
    for _ in range(-(-problems // 4950)):
        n = 100
        sizes = rng.integers(1, 9, size=n)
        places = [rng.random((s, 2)) if rng.random() < 0.7 else rng.integers(0, 2, size=(s, 2)) / 2.0 for s in sizes]
        energies = [rng.exponential(1.0, s) + 1e-3 for s in sizes]
        D = asot.Distributions.from_list(places, energies)
        values = asot.pairwise_exact(D, unmatched=1.0).matrix()
        for i in range(n):
            for j in range(i + 1, n):
                pot.add(values[i, j], _by_excess(places[i], energies[i], places[j], energies[j]), 1.0)
        if python is not None:
            theirs = _by_wasserstein(python, places, energies)
            for i in range(n):
                for j in range(i + 1, n):
                    physics.add(values[i, j], theirs[i, j], 1.0)
    return pot, physics


def _by_excess(x, a, y, b):
    excess = a.sum() - b.sum()
    cost = np.ones((len(a) + 1, len(b) + 1))
    cost[:-1, :-1], cost[-1, -1] = cdist(x, y), 0.0
    a, b = np.append(a, max(0.0, -excess)), np.append(b, max(0.0, excess))
    return a.sum() * ot.emd2(a / a.sum(), b / b.sum(), cost, numItermax=10**7)


THEIRS = """
import sys, numpy as np, wasserstein
data = np.load(sys.argv[1])
events = np.split(data["events"], data["offsets"][1:-1])
solver = wasserstein.PairwiseEMD(R=1, beta=1, norm=False, num_threads=1, print_every=0, verbose=0)
solver(events)
np.save(sys.argv[2], solver.emds())
"""


def _by_wasserstein(python, places, energies):
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "events.npz", Path(folder) / "values.npy"
        rows = np.vstack([np.column_stack([e, x]) for x, e in zip(places, energies, strict=True)])
        np.savez(given, events=rows, offsets=np.concatenate([[0], np.cumsum([len(e) for e in energies])]))
        subprocess.run([python, "-c", THEIRS, str(given), str(answer)], check=True)
        return np.load(answer)


def prices(problems, rng, _):
    """Prices of single points and partial transport, p = 1, 2: POT with reservoirs, HiGHS for every tenth."""
    pot, highs = Tally("POT with reservoirs"), Tally("HiGHS with inequalities")
    for call in range(-(-problems // AT_A_TIME)):
        p, share = (1, 2)[call % 2], (None, 0.3, 0.8)[call // 2 % 3]
        D = distributions(rng, AT_A_TIME, totals=share is None)
        rho = np.abs(D.points).sum(axis=1) * 0.3 + 0.1  # a function of the point
        wanted = {"unmatched": rho} if share is None else {"share": share}
        values = asot.pairwise_exact(D, p=p, pairs=pairs_of(AT_A_TIME), **wanted).values
        own = np.split(rho if share is None else 0.0 * rho, D.offsets[1:-1])
        for t in range(AT_A_TIME):
            (x, a), (y, b) = D[t], D[AT_A_TIME + t]
            if share is None:
                a, b = a * D.totals[t], b * D.totals[AT_A_TIME + t]
            f, g, cost = own[t] ** p, own[AT_A_TIME + t] ** p, cdist(x, y) ** p
            kept = 0.0 if share is None else share
            longer = np.block([[cost, f[:, None]], [g[None], np.zeros((1, 1))]])
            u, v = np.append(a, b.sum() - kept), np.append(b, a.sum() - kept)
            expected = u.sum() * ot.emd2(u / u.sum(), v / v.sum(), longer, numItermax=10**7)
            pot.add(values[t] ** p, expected, u.sum() * longer.max())
            if t % 10 == 0:
                saved = cost - f[:, None] - g
                expected = a @ f + b @ g + by_highs(saved, a, b, equal=False, moved=None if share is None else share)
                highs.add(values[t] ** p, expected, 1e3 * u.sum() * longer.max())
    return pot, highs


def bounds(pairs, rng, _):
    """Bounds of `pairwise` for p = 2, and for unmatched mass: never violated."""
    held = []
    for name, wanted in (
        ("p=2", {"p": 2}),
        ("unmatched=30", {"unmatched": 30.0}),
        ("p=2 and unmatched=30", {"p": 2, "unmatched": 30.0}),
    ):
        count, broken, seed = 0, 0, 0
        while count < pairs:
            n = min(200, int(np.sqrt(pairs)) + 2)
            D = distributions(rng, n, dim=1 + seed % 4, most=14, totals=True)
            exact = asot.pairwise_exact(D, **wanted).values
            scale = 1e-12 * (1.0 + exact.max())
            for estimate, k in (("calibrated", 4), ("anchor", 3)):
                r = asot.pairwise(D, estimate=estimate, n_anchors=k, bounds=True, random_state=seed, **wanted)
                broken += int((r.lower > exact * (1 + 1e-9) + scale).sum())
                broken += int((r.upper < exact * (1 - 1e-9) - scale).sum())
            count, seed = count + len(exact), seed + 1
        if broken:
            raise SystemExit(f"{broken} bounds do not hold for {name}")
        held.append(f"{count:,} pairs with {name}, two estimates each: all bounds hold")
    return held


def neighbors(problems, rng, _):
    """Neighbors equal brute force for every order, norm and price."""
    checked = 0
    cases = [
        {"p": 2},
        {"p": 3, "metric": "cityblock"},
        {"unmatched": 30.0},
        {"p": 2, "unmatched": 30.0},
        {"metric": "cosine"},
    ]
    while checked < problems:
        D = distributions(rng, 60, totals=True)
        D = asot.Distributions(np.abs(D.points) + 0.1, D.offsets, D.masses * np.repeat(D.totals, D.sizes))
        wanted = cases[checked // 120 % len(cases)]
        brute = asot.pairwise_exact(D, sink=asot.sinks.TopK(4), **wanted)
        found = asot.kneighbors(D, 4, **wanted)
        if not (np.array_equal(found.indices, brute.indices) and np.array_equal(found.distances, brute.distances)):
            raise SystemExit(f"neighbors differ from brute force for {wanted}")
        checked += 120
    return [f"{checked:,} queries of 4 neighbors: equal to brute force, to the last bit"]


FAMILIES = {f.__name__: f for f in (orders, diagrams, events, prices, bounds, neighbors)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help=", ".join(FAMILIES))
    parser.add_argument("--problems", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--wasserstein", metavar="PYTHON")
    options = parser.parse_args()
    for name in options.families or FAMILIES:
        started = time.perf_counter()
        size = options.pairs if name == "bounds" else options.problems
        for line in FAMILIES[name](size, np.random.default_rng(0), options.wasserstein):
            sys.stdout.write(f"{name}: {line}\n")
        sys.stdout.write(f"{name}: {time.perf_counter() - started:.0f} seconds\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
