"""One entropic problem in the log domain: stable for every ε, and quadratically convergent at the end.

Everything is in units of ε: potentials φ, ψ and costs M = C/ε, with the plan T = exp(φ_i + ψ_j - M_ij). Three pieces:

* a *sweep* is Sinkhorn's iteration with log-sum-exp, so nothing can overflow or vanish. A fixed number of them is made
  by ``native/entropic/own_kernel.hpp``;
* a *Newton step* climbs the semi-dual J(φ) = ⟨a, φ⟩ + ⟨b, ψ(φ)⟩, where ψ(φ) makes the column sums exact. Its gradient
  is a - T1 and its Hessian -(diag(T1) - T diag(1/b) Tᵀ). Where Sinkhorn needs 10⁵ sweeps (small ε), it needs a few;
* *annealing* starts at a large ε and lowers it, each level from the last one's potentials.

With loose marginals (σ = ε/ρ, see `asot.entropic.options`) column sums become b e^(-σ d) and row sums should be a e^(-σ
c), where φ = log a + c and ψ = log b + d; in the Hessian (1 + σ) Tᵀ1 takes the place of b, and its diagonal gains σ
times the row sums that are wanted. σ = 0 is the problem with exact marginals.

Only the anchors that carry mass take part. A Newton step counts as one iteration. The pairs of a tile are solved one
after the other inside compiled code, so that threads do not wait for each other.
"""

from __future__ import annotations

from asot.native import Double, Doubles, Int, Ints, Record, ShortInts, entry

# The loops are in native/entropic/log_newton.cpp, which has these numbers, too (a test compares them).

LARGEST_MOVE = 4.0
"""A Newton step changes no potential by more than this many ε, no matter what a nearly singular matrix suggests."""

TRIALS = 16
"""Lengths tried along a Newton step."""

ANNEALING_FACTOR = 4.0

COARSE_TOLERANCE = 1e-2
"""Marginal error at which an annealing level is left for the next."""

STALLED = 50
"""Steps without a smaller marginal error after which only rounding is left."""


class LogPairs(
    Record, n=Int, which=Ints, k=Int, l=Int, A=Doubles, B=Doubles, M=Doubles, answers=Doubles, error=Doubles,
    phi=Doubles, psi=Doubles, stop=Ints,
):  # fmt: skip
    """Pairs to solve, and where their answers go (``native/entropic/log_newton.cpp``).

    ``which`` (n,) are rows of A (P, k), B (P, l) and error (P,); M is (k, l). ``answers`` (n, 3) receives ⟨T, M⟩, the
    objective and the mass of T, and ``phi`` (n, k), ``psi`` (n, l) the potentials of the anchors with mass.
    """


sweep_pairs = entry("sweep_pairs", LogPairs, Doubles, Int, Int)
"""(pairs, first, start_at_target, count): exactly ``count`` iterations, from V = B, or V = 1 if not `start_at_target`.

That counts every column, also those without mass: the first update of φ needs ``first`` (k,), log Σ_j exp(-M_ij).
"""

anneal_pairs = entry("anneal_pairs", LogPairs, Double, Double, Int, ShortInts)
"""(pairs, sigma, tol, max_steps, n_steps): solve until marginal errors are at most ``tol``, or ``n_steps`` (P,) is
``max_steps``."""
