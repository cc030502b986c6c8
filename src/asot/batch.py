"""`emd_batch`: many exact transport problems, each with a cost matrix of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float, Indices, Info
from asot.exact.batch import Costs, ExactBatch, Side, ranges, starts_of
from asot.results.sinks import distances_of
from asot.run.executors import ProgressLike, alone
from asot.run.pairs import ListedPairs
from asot.validation import to_float_array

BALANCE = 1e-6
"""By how much, relative to themselves, the totals of the two sides of a problem may differ."""


@dataclass(frozen=True)
class Batch:
    """Answers to the B problems of `asot.emd_batch`."""

    values: Float
    """(B,)"""
    status: NDArray[np.int8]
    """(B,) `asot.Status`"""
    n_iter: NDArray[np.int32]
    """(B,) bids and chains of assignments, or pivots"""
    info: Info
    solver: ExactBatch

    def __len__(self) -> int:
        return len(self.values)

    def plan(self, problem: int) -> Any:
        """The optimal plan of a problem, a sparse array (n, m). Only with ``plans=True``."""
        from scipy import sparse

        source, sink, mass = self.solver.arcs_of(problem)
        return sparse.csr_array((mass, (source, sink)), shape=self.solver.shape(problem))

    def potentials(self, problem: int) -> tuple[Float, Float]:
        """Potentials f (n,) and g (m,) of a problem: f_i + g_j ≤ cost_ij, and ⟨f, a⟩ + ⟨g, b⟩ is its value. Only with
        ``plans=True``."""
        return self.solver.potentials_of(problem)


def emd_batch(
    costs: ArrayLike | list[ArrayLike],
    a: Any = None,
    b: Any = None,
    *,
    n: ArrayLike | None = None,
    m: ArrayLike | None = None,
    plans: bool = False,
    n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> Batch:
    """Exact optimal transport costs of B problems, each with a cost matrix of its own.

    No cost is assumed to be a metric. Equal masses are solved as assignments, all others by a network simplex, both on
    integers, so that an answer is optimal without a tolerance and equal on every machine.

    Parameters
    ----------
    costs : array (B, n, m), or a list of B matrices (n_b, m_b)
        Finite; negative costs are allowed.
    a, b : arrays (B, n) and (B, m), or lists of vectors, optional
        Masses ≥ 0, with one total per problem; default: uniform of total 1. A problem of total 0 has value 0.
    n, m : int arrays (B,), optional
        With an array (B, n, m): how many rows and columns of each problem count; the rest is padding.
    plans : bool
        Keep the plans and potentials of all problems: `Batch.plan`, `Batch.potentials`.
    n_jobs, progress
        As in `asot.pairwise_exact`.

    Examples
    --------
    >>> import numpy as np, asot
    >>> r = asot.emd_batch([[[0.0, 2.0], [1.0, 4.0]], [[1.0, 3.0, 0.5]]], plans=True)
    >>> r.values
    array([1.5, 1.5])
    >>> r.plan(0).toarray()
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    rows, columns, prepared = read_problems(costs, a, b, n, m)
    B, solver = len(rows.sizes), ExactBatch(rows, columns, prepared, plans=plans, potentials=plans)
    if B == 0:
        return Batch(np.zeros(0), np.zeros(0, np.int8), np.zeros(0, np.int32), dict(solver.info), solver)
    r = distances_of(_each_with_itself(B), solver, n_jobs=n_jobs, progress=progress)
    return Batch(r.values, np.asarray(r.status, dtype=np.int8), r.n_iter, r.info, solver)


def read_problems(costs: Any, a: Any, b: Any, n: Any, m: Any) -> tuple[Side, Side, Costs]:
    """Check the arguments of `emd_batch`; whether costs are numbers is for the solver, who reads them all."""
    if isinstance(costs, (list, tuple)):
        if n is not None or m is not None:
            raise ValueError("n and m go with an array (B, n, m); matrices of a list have their own sizes")
        rows, columns, prepared = _from_list(costs, a, b)
    else:
        rows, columns, prepared = _from_array(costs, a, b, n, m)
    check_masses(rows, columns)
    return rows, columns, prepared


def values_of(solver: ExactBatch, count: int, *, n_jobs: int) -> Float:
    """The values of so many problems, and nothing else: what an engine tells about a run takes longer than a few."""
    if count == 0 or n_jobs == 1:
        each = np.arange(count)
        return alone(lambda stop: solver.solve(each, each, stop), solver.expected_seconds(count)).values
    return distances_of(_each_with_itself(count), solver, n_jobs=n_jobs, progress=False).values


def _each_with_itself(count: int) -> ListedPairs:
    return ListedPairs(np.repeat(np.arange(count), 2).reshape(count, 2), count, count, symmetric=False)


def _from_array(costs: Any, a: Any, b: Any, n: Any, m: Any) -> tuple[Side, Side, Costs]:
    array = np.ascontiguousarray(to_float_array(costs, "costs"), dtype=np.float64)
    if array.ndim != 3:
        raise ValueError(f"costs must be an array (B, n, m), or a list of matrices; found shape {array.shape}")
    B, rows, columns = array.shape
    each = np.arange(B, dtype=np.int64)
    sides = [
        Side(each * k, as_sizes(size, k, B, name), _padded_masses(mass, B, k, mass_name), padded=k)
        for size, k, name, mass, mass_name in ((n, rows, "n", a, "a"), (m, columns, "m", b, "b"))
    ]
    return *sides, Costs(array.reshape(-1), each * (rows * columns), np.full(B, columns, dtype=np.int64))  # type: ignore[return-value]


def as_sizes(given: Any, most: int, B: int, name: str) -> Indices:
    """True sizes (B,) of the padded problems of a batch."""
    if given is None:
        return np.full(B, most, dtype=np.int64)
    sizes = np.asarray(given)
    if sizes.shape != (B,) or not np.issubdtype(sizes.dtype, np.integer):
        raise ValueError(f"{name} must hold {B} integers, one size per problem; found {sizes.dtype} {sizes.shape}")
    wrong = (sizes < 0) | (sizes > most)
    if wrong.any():
        t = int(wrong.argmax())
        raise ValueError(f"problem {t}: {name} is {int(sizes[t])}, but its costs have room for 0 to {most}")
    return np.ascontiguousarray(sizes, dtype=np.int64)


def _padded_masses(mass: Any, B: int, k: int, name: str) -> Float | None:
    if mass is None:
        return None
    array = np.asarray(to_float_array(mass, name), dtype=np.float64)
    if array.shape == (k,):
        array = np.broadcast_to(array, (B, k))
    if array.shape != (B, k):
        raise ValueError(f"{name} must be an array ({B}, {k}); found shape {array.shape}")
    return np.ascontiguousarray(array).reshape(-1)


def _from_list(costs: Any, a: Any, b: Any) -> tuple[Side, Side, Costs]:
    matrices = [np.asarray(to_float_array(each, f"costs[{t}]"), dtype=np.float64) for t, each in enumerate(costs)]
    for t, matrix in enumerate(matrices):
        if matrix.ndim != 2:
            raise ValueError(f"problem {t}: its cost must be a matrix; found shape {matrix.shape}")
    shapes = np.array([matrix.shape for matrix in matrices], dtype=np.int64).reshape(-1, 2)
    flat = np.concatenate([np.zeros(0), *(matrix.reshape(-1) for matrix in matrices)])
    sides = [
        Side(starts_of(sizes), np.ascontiguousarray(sizes), _listed_masses(mass, sizes, name))
        for sizes, mass, name in zip(shapes.T, (a, b), "ab", strict=True)
    ]
    return *sides, Costs(flat, starts_of(shapes.prod(axis=1)), np.ascontiguousarray(shapes[:, 1]))  # type: ignore[return-value]


def _listed_masses(masses: Any, sizes: Indices, name: str) -> Float | None:
    if masses is None:
        return None
    vectors = [np.asarray(to_float_array(each, f"{name}[{t}]"), dtype=np.float64) for t, each in enumerate(masses)]
    if len(vectors) != len(sizes):
        raise ValueError(f"{name} must hold a vector for each of the {len(sizes)} problems; found {len(vectors)}")
    for t, (vector, size) in enumerate(zip(vectors, sizes, strict=True)):
        if vector.shape != (size,):
            raise ValueError(f"problem {t}: {name} must have shape ({size},); found {vector.shape}")
    return np.concatenate([np.zeros(0), *vectors])


def check_masses(rows: Side, columns: Side, balance: float = BALANCE) -> None:
    """Refuse masses that are negative or not finite, and problems whose sides differ in their totals, or of which one
    is empty."""
    lone = (rows.sizes > 0) != (columns.sizes > 0)
    if lone.any():
        t = int(lone.argmax())
        n, m = int(rows.sizes[t]), int(columns.sizes[t])
        raise ValueError(f"problem {t} has {n} rows and {m} columns; an empty problem has neither")
    totals = []
    for side, name in ((rows, "a"), (columns, "b")):
        if side.masses is None:
            totals.append((side.sizes > 0).astype(np.float64))
            continue
        which, place = ranges(side.starts, side.sizes)
        masses = side.masses[place]
        wrong = ~np.isfinite(masses) | (masses < 0)
        if wrong.any():
            first = int(wrong.argmax())
            t = int(which[first])
            raise ValueError(
                f"problem {t}: {name} holds the mass {masses[first]} at {int(place[first] - side.starts[t])}; masses "
                "must be finite and ≥ 0"
            )
        total = np.bincount(which, masses, minlength=len(side.sizes))
        if not np.isfinite(total).all():
            raise ValueError(f"problem {int((~np.isfinite(total)).argmax())}: the total of {name} overflows; scale it")
        totals.append(np.asarray(total, dtype=np.float64))
    off = np.abs(totals[0] - totals[1]) > balance * np.maximum(*totals)
    if off.any():
        t = int(off.argmax())
        raise ValueError(
            f"problem {t}: the masses of its rows have the total {totals[0][t]:.9g}, those of its columns "
            f"{totals[1][t]:.9g}; scale them to one total"
        )
