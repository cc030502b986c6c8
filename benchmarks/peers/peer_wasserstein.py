"""Run by the peers' own interpreter: time ``wasserstein.PairwiseEMD`` on the histograms of a file.

``python peer_wasserstein.py PROBLEM.npz VALUES.npy`` reads masses (N, k) and anchors (k, d), writes the condensed
values, and prints its time as JSON. It imports nothing of this project, and this project imports nothing of it.
"""

import json
import sys
import time

import numpy as np
import wasserstein


def solve(events):
    """Seconds and matrix of all pairs. Making the events and reading the matrix are not timed."""
    solver = wasserstein.PairwiseEMD(R=1, beta=1, norm=True, num_threads=1, print_every=0, verbose=0)
    started = time.perf_counter()
    solver(events)
    return time.perf_counter() - started, solver.emds()


def main(problem, values):
    with np.load(problem) as file:
        masses, anchors = file["masses"], file["anchors"]
    # An event lists only what carries mass: its best form, since empty anchors would cost time for nothing.
    events = [np.column_stack([row[row > 0], anchors[row > 0]]) for row in masses]
    solve(events[:10])  # load and warm everything
    seconds, matrix = min((solve(events) for _ in range(2)), key=lambda attempt: attempt[0])
    np.save(values, np.asarray(matrix)[np.triu_indices(len(events), 1)])
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(json.dumps({"version": wasserstein.__version__}))
    else:
        main(*sys.argv[1:])
