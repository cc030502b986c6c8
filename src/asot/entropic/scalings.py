"""What an entropic solver knows about a tile besides its values: enough to prove bounds."""

from __future__ import annotations

from typing import NamedTuple

from asot._typing import Float


class Scalings(NamedTuple):
    """Histograms and log-scalings of the P pairs of a tile; -inf where there is no mass."""

    a: Float  # (P, k)
    b: Float  # (P, l)
    phi: Float  # (P, k)
    psi: Float  # (P, l)
    M: Float  # (k, l) cost in units of ε
    reg: float
