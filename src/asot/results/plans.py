"""Plans and potentials as results: of one problem (`Transport`) and of every pair of a run (`Plans`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Transport(NamedTuple):
    """The solution of one problem: ``value, plan, (f, g) = asot.emd(a, b, cost)``."""

    value: float
    """The cheapest total cost ⟨T, C⟩."""
    plan: Any
    """An optimal plan T as scipy.sparse.csr_array (k, l)."""
    potentials: tuple[NDArray[np.float64], NDArray[np.float64]]
    """Optimal dual potentials f (k,) and g (l,): f_i + g_j ≤ cost_ij everywhere, ⟨f, a⟩ + ⟨g, b⟩ = value."""


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
