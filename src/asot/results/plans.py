"""Plans and potentials as results: of one problem (`Transport`) and of every pair of a run (`Plans`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class PackedSolution(NamedTuple):
    """Plan and potentials of k × l anchors before they are arrays of their own: making a scipy.sparse.csr_array takes
    ten times as long as a small problem."""

    numbers: NDArray[np.float64]  # (1 + k + l + E,) the value, f, g, masses
    places: NDArray[np.int32]  # (k + 1 + E,) where the entries of each row begin, and their columns
    k: int
    l: int

    def matrix(self) -> Any:
        from scipy import sparse

        k, l = self.k, self.l
        entries = self.numbers[1 + k + l :], self.places[k + 1 :], self.places[: k + 1]
        return sparse.csr_array(entries, shape=(k, l))

    def potentials(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        end = 1 + self.k
        return self.numbers[1:end], self.numbers[end : end + self.l]


class _Transport(NamedTuple):
    value: float
    plan: Any
    potentials: Any


class Transport(_Transport):
    """The solution of one problem: ``value, plan, (f, g) = asot.emd(a, b, cost)``.

    Attributes
    ----------
    value : float
        The cheapest total cost ⟨T, C⟩.
    plan : scipy.sparse.csr_array (k, l)
        An optimal plan T, made when it is first asked for.
    potentials : (f (k,), g (l,))
        Optimal dual potentials: f_i + g_j ≤ cost_ij everywhere, ⟨f, a⟩ + ⟨g, b⟩ = value.
    """

    @functools.cached_property
    def plan(self) -> Any:
        given = tuple.__getitem__(self, 1)
        return given.matrix() if isinstance(given, PackedSolution) else given

    @functools.cached_property
    def potentials(self) -> Any:
        given, own = tuple.__getitem__(self, 1), tuple.__getitem__(self, 2)
        return given.potentials() if isinstance(given, PackedSolution) else own

    def __iter__(self) -> Iterator[Any]:
        return iter((self.value, self.plan, self.potentials))

    def __getitem__(self, which: Any) -> Any:
        return (self.value, self.plan, self.potentials)[which]

    def __repr__(self) -> str:
        return f"Transport(value={self.value!r}, plan={self.plan!r}, potentials={self.potentials!r})"


@dataclass(frozen=True, eq=False)
class Plans:
    """Optimal plans and potentials of P pairs. ``plans[t]`` is the `Transport` of pair t, as `asot.emd` gives it.

    Attributes
    ----------
    source, sink : (E,) int64
        Row and column of every entry of every plan; those of pair t are ``start[t]:start[t + 1]``.
    mass : (E,) float64
    start : (P + 1,) int64
    f : (P, k), g : (P, l) float64
        Potentials: f_i + g_j ≤ cost_ij everywhere, and ⟨f, a⟩ + ⟨g, b⟩ is the value of the pair. By the envelope
        theorem, they are the gradients of the values with respect to the histograms; the plans are those with respect
        to the cost.

    Examples
    --------
    >>> import numpy as np, asot
    >>> r = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), plans=True)
    >>> value, plan, (f, g) = r.plans[1]
    >>> plan.toarray()
    array([[0., 0., 1.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """

    source: NDArray[np.int64]
    sink: NDArray[np.int64]
    mass: NDArray[np.float64]
    start: NDArray[np.int64]
    f: NDArray[np.float64]
    g: NDArray[np.float64]
    values: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, t: int) -> Transport:
        from scipy import sparse

        t = range(len(self))[t]
        own = slice(self.start[t], self.start[t + 1])
        shape = (self.f.shape[1], self.g.shape[1])
        plan = sparse.csr_array((self.mass[own], (self.source[own], self.sink[own])), shape=shape)
        return Transport(float(self.values[t]), plan, (self.f[t], self.g[t]))
