"""Run by a library's own interpreter: time its call on the problem of a file.

``python peer_library.py LIBRARY PROBLEM.npz VALUES.npy`` writes the condensed values of all pairs and prints the time
as JSON. It imports nothing of this project, and this project imports neither library: EnergyFlow needs NumPy 1, and OTT
brings JAX.
"""

import json
import sys
import time

import numpy as np


def energyflow(file):
    """`energyflow.emd.emds` of all pairs of events, as its documentation shows it."""
    from energyflow.emd import emds

    parts = np.split(np.column_stack([file["masses"], file["points"]]), file["offsets"][1:-1])
    R = float(file["R"])
    first = np.triu_indices(len(parts), 1)

    def call():
        return np.asarray(emds(parts, R=R, n_jobs=1, verbose=0, print_every=0))[first]

    return call


def ott(file):
    """`ott.solvers.linear.solve` for all pairs, compiled once and vectorized over pairs."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from ott.geometry.geometry import Geometry
    from ott.solvers import linear

    A, geometry = jax.numpy.asarray(file["A"]), Geometry(cost_matrix=file["cost"], epsilon=float(file["reg"]))
    rows, columns = np.triu_indices(len(A), 1)

    @jax.jit
    @jax.vmap
    def solve(a, b):
        return linear.solve(geometry, a=a, b=b, threshold=float(file["tol"]), max_iterations=10_000).primal_cost

    return lambda: np.asarray(solve(A[rows], A[columns]))


LIBRARIES = {"energyflow": energyflow, "ott": ott}


def main(library, problem, values):
    with np.load(problem) as file:
        call = LIBRARIES[library](dict(file))
    call()  # load, compile and warm everything
    best = np.inf
    for _ in range(2):
        started = time.perf_counter()
        answer = call()
        best = min(best, time.perf_counter() - started)
    np.save(values, answer)
    print(json.dumps({"seconds": best}))


if __name__ == "__main__":
    main(*sys.argv[1:])
