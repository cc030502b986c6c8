"""Counts beside times: lower bounds above a plan, isometric spaces that are apart, values above those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from asot.data.spaces.reading import read_spaces
from asot.results.sinks import Condensed
from asot.run.engine import Resources, solve_work
from asot.run.pairs import AllPairs
from asot.run.protocols import Notes
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from asot.spaces.third_bound import CenteredBounds, FromThirdBound, third_bound_work
from benchmarks.common import Table
from benchmarks.gromov.made import mouse_neurons, neurons, small_masses, small_spaces
from benchmarks.gromov.rivals import rivals

GO_ON = np.zeros(1, dtype=np.int64)
BOTH = FROM_BOUND + FROM_PRODUCT
TOLERANCE = 1e-9

SETTINGS = (
    (2.0, 1.0, False), (2.0, 1.0, True), (2.0, 0.5, False), (2.0, 0.5, True), (1.0, 1.0, False), (1.0, 1.0, True),
    (1.0, 0.5, True),
)  # fmt: skip
"""p, alpha, and whether points have different masses."""

SPACES, MOST_POINTS = 540, 8


def counts(data: Path, quick: bool) -> list[Table]:
    """Bounds, isometric spaces, and values beside those of other libraries."""
    n_spaces = 60 if quick else SPACES
    return [_bounds(n_spaces), _isometric(20 if quick else 400), _values(data, quick)]


def every_pair(n: int) -> Any:
    """(2, P) of all pairs i < j."""
    return np.stack(AllPairs(n).indices(0, len(AllPairs(n))))


def _bounds(n_spaces: int) -> Table:
    rows, n_pairs, n_above, n_plans, n_centered = [], 0, 0, 0, 0
    for seed, (p, alpha, weighted) in enumerate(SETTINGS):
        rng = np.random.default_rng(seed)
        matrices = small_spaces(rng, n_spaces, MOST_POINTS)
        masses = small_masses(rng, matrices) if weighted else None
        features = None if alpha == 1 else [rng.integers(0, 3, size=(len(x), 2)) * 1.0 for x in matrices]
        pairs, spaces = every_pair(n_spaces), read_spaces(matrices, masses, features)
        centered = _centered(spaces) if p == 2 and alpha == 1 else None
        above, above_centered, plans = 0, 0, 0
        for starts in (0, FROM_BOUND, BOTH):
            solver = Gromov(spaces, p, alpha, starts)
            found = solver.energies(*pairs, GO_ON)
            prices = solver.bounds.distance(found.energy)
            above += int((solver.bounds.of(*pairs, found.third).max(axis=1) > prices).sum())
            above_centered += 0 if centered is None else int((centered > prices).sum())
            plans += pairs.shape[1]
        masses_are = "of all sizes" if weighted else "uniform"
        of_centered = "" if centered is None else str(above_centered)
        rows.append([f"{p:g}", f"{alpha:g}", masses_are, f"{pairs.shape[1]:,}", f"{plans:,}", str(above), of_centered])
        n_pairs, n_plans, n_above = n_pairs + pairs.shape[1], n_plans + plans, n_above + above
        n_centered += above_centered
    rows.append(["", "", "all together", f"{n_pairs:,}", f"{n_plans:,}", str(n_above), str(n_centered)])
    title = (
        f"Lower bounds beside the prices of plans (of the third bound, of one descent, of two), spaces of 1 to "
        f"{MOST_POINTS} points of nine kinds, ties and scales from 10⁻¹² to 10¹² among them:"
    )
    columns = ["p", "alpha", "masses", "pairs", "plans", "plans below a bound", "below the centered bound"]
    return Table(title, columns, rows)


def _centered(spaces: Any) -> Any:
    """The bounds (P,) behind searches for the nearest, of all pairs."""
    resources = Resources(1, None, False)
    work = third_bound_work(spaces, 0, None, "cpu", resources, Notes(), centered=True)
    kept = FromThirdBound(Condensed(), CenteredBounds(spaces))
    return solve_work(work, kept, resources).values


def _isometric(count: int) -> Table:
    rows = []
    for name, matrices in (
        ("generated neurons, 20 points", neurons(20, count)),
        ("the same with different masses", neurons(20, count, 1)),
        ("small spaces of nine kinds", small_spaces(np.random.default_rng(2), count, 12)),
    ):
        rng = np.random.default_rng(3)
        masses = [rng.random(len(x)) + 0.1 for x in matrices] if "masses" in name else None
        orders = [rng.permutation(len(x)) for x in matrices]
        copies = [x[np.ix_(order, order)] for x, order in zip(matrices, orders, strict=True)]
        moved = None if masses is None else [m[order] for m, order in zip(masses, orders, strict=True)]
        both = read_spaces(matrices + copies, None if masses is None or moved is None else masses + moved)
        solver = Gromov(both, 2.0, 1.0, BOTH)
        itself = np.arange(count, dtype=np.int64)
        size = np.array([max(float(x.max()), 1e-300) for x in matrices])
        own, other = (solver.solve(itself, columns, GO_ON).values for columns in (itself, itself + count))
        far = int((other > 1e-9 * size).sum())
        rows.append([name, str(count), str(int((own != 0).sum())), str(int((other != 0).sum())), str(far)])
    columns = ["spaces", "count", "not 0 from itself", "not 0 from a relabeled copy", "more than 1e-9 of its size away"]
    return Table("Isometric spaces:", columns, rows)


def _values(data: Path, quick: bool) -> Table:
    rows = []
    rng = np.random.default_rng(4)
    uneven = [neurons(int(n), 1, seed)[0] for seed, n in enumerate(rng.integers(15, 40, 40))]
    weighted = [rng.random(len(x)) + 0.1 for x in uneven]
    for name, matrices, masses in (
        ("neurons of mice, 50 points", mouse_neurons(data), None),
        ("generated, 20 points", neurons(20, 40), None),
        ("generated, 15 to 39 points", uneven, None),
        ("the same with different masses", uneven, weighted),
    ):
        pairs = every_pair(len(matrices))[:, : 40 if quick else None]
        spaces = read_spaces(matrices, masses)
        one, both = (Gromov(spaces, 2.0, 1.0, starts).solve(*pairs, GO_ON) for starts in (FROM_PRODUCT, BOTH))
        size = float(both.values.mean())
        for rival, solve in rivals(matrices, pairs, masses).items():
            theirs = solve()
            above = int((one.values > theirs + TOLERANCE * size).sum())
            below = 100 * (1 - both.values.mean() / theirs.mean())
            outside = int((both.lower > theirs * (1 + 1e-12)).sum())
            verdict = "met" if below >= 1 else "missed"
            rows.append(
                [name, rival, f"{pairs.shape[1]:,}", str(above), f"{below:.1f} % ({verdict}: ≥ 1 %)", str(outside)]
            )
    columns = [
        "spaces", "beside", "pairs", "one start: above theirs by 1e-9", "both starts: below theirs",
        "lower bounds above theirs",
    ]  # fmt: skip
    return Table("Values beside other libraries, which start at the product of the masses:", columns, rows)
