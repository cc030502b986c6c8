"""Real processes that are killed: what the fault tests run, and what a person runs longer by hand.

``python tests/run/cluster_faults.py caller 20`` kills the caller of a stored run 20 times at random moments, and
``workers 10`` the workers of a Dask cluster; both end with a comparison with one uninterrupted run, bit for bit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

JOB = """
import sys, numpy as np, asot
rng = np.random.default_rng(0)
points = rng.random((12, 2))
cost = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
A = rng.dirichlet(np.ones(12), int(sys.argv[2]))
asot.emd_many(A, cost=cost, sink=asot.sinks.Store(sys.argv[1]), n_jobs=2)
"""


def problem(n):
    rng = np.random.default_rng(0)
    points = rng.random((12, 2))
    cost = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
    return rng.dirichlet(np.ones(12), n), cost


def kill_callers(times, n=1500, seed=0):
    """Kill -9 the caller at random moments; returns (kills that hit, blocks done after each, whether all is equal)."""
    import asot

    A, cost = problem(n)
    expected = asot.emd_many(A, cost=cost).values
    draw = random.Random(seed)
    hits, seen = 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.zarr"
        while hits < times:
            job = subprocess.Popen([sys.executable, "-c", JOB, str(path), str(n)], env=environment())
            before = n_chunks(path)
            while n_chunks(path) == before and job.poll() is None:  # until it is at work
                time.sleep(0.005)
            time.sleep(draw.random() * 0.3)
            if job.poll() is None:
                os.kill(job.pid, signal.SIGKILL)
                hits += 1
            job.wait()
            done = asot.open_store(path).n_done if (path / "zarr.json").exists() else 0
            seen.append(done)
            if done and asot.open_store(path).is_complete:
                lose_some_blocks(path, draw)
        subprocess.run([sys.executable, "-c", JOB, str(path), str(n)], check=True, env=environment())
        return hits, seen, bool(np.array_equal(asot.open_store(path).values(), expected))


def n_chunks(path):
    return sum(chunk.name.isdecimal() for chunk in (path / "values" / "c").glob("*/*"))


def lose_some_blocks(path, draw):
    """So that the next run has something to do."""
    for chunk in (path / "values" / "c").glob("*/*"):
        if chunk.name.isdecimal() and draw.random() < 0.7:
            chunk.unlink()


def kill_workers(times, n=1500, seed=0):
    """Kill -9 workers of a Dask cluster while a stored run is under way; returns (kills, whether all is equal)."""
    import threading

    import joblib
    from distributed import Client, LocalCluster

    import asot

    A, cost = problem(n)
    expected = asot.emd_many(A, cost=cost).values
    draw, over, kills = random.Random(seed), threading.Event(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = "50"
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
            ) as cluster,
            Client(cluster) as client,
        ):

            def killer():
                nonlocal kills
                while not over.is_set() and kills < times:
                    time.sleep(0.2 + draw.random())
                    pids = list(client.run(os.getpid).values())
                    if pids:
                        os.kill(draw.choice(pids), signal.SIGKILL)
                        kills += 1

            thread = threading.Thread(target=killer)
            thread.start()
            try:
                turn = 0
                with joblib.parallel_config(backend="dask"):
                    while turn == 0 or kills < times:
                        path = Path(folder) / f"run{turn}.zarr"
                        stored = asot.emd_many(A, cost=cost, sink=asot.sinks.Store(path))
                        equal = bool(np.array_equal(stored.values(), expected))
                        turn += 1
                        if not equal:
                            break
            finally:
                over.set()
                thread.join()
    return kills, equal


def environment():
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


if __name__ == "__main__":
    run = {"caller": kill_callers, "workers": kill_workers}[sys.argv[1]]
    sys.stdout.write(f"{sys.argv[1]}: {run(int(sys.argv[2]))}\n")
