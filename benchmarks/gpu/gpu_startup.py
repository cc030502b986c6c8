"""How long until the first answer of a GPU, in fresh processes: with empty caches, again with what those left behind,
and with empty caches and without the kernels of asot-cuda.

The clock starts before ``import asot``. Creating the CUDA context is measured by itself and subtracted: it is the same
for any library. A process of its own profiles each call with empty caches, and what took longest is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import Options, Report, Table, below, largest_difference, require
from benchmarks.gpu.gpu import gpu_name

NEEDS = {"gpu"}

LIMIT = 2.0
"""Seconds of a first answer with empty caches, beyond the CUDA context."""

TOLERANCE = 1e-9

CACHES = ("CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")

HISTOGRAMS = """
anchors = rng.normal(size=({k}, 3))
cost = np.linalg.norm(anchors[:, None] - anchors, axis=-1)
A = rng.dirichlet(np.ones({k}), {n})
"""
CLOUDS = """
D = asot.Distributions.from_list([rng.normal(size=(m, {dim})) for m in rng.integers({least}, {most}, {n})])
"""


@dataclass(frozen=True)
class Job:
    """A call whose answer is ``value``, and what it needs."""

    label: str
    data: str
    call: str
    limit: float | None = LIMIT
    tolerance: float = TOLERANCE


JOBS = (
    Job("`emd_many`, k = 20", HISTOGRAMS.format(k=20, n=100), "asot.emd_many(A, cost=cost, device=device).values"),
    Job("`emd_many`, k = 150", HISTOGRAMS.format(k=150, n=100), "asot.emd_many(A, cost=cost, device=device).values"),
    Job("`pairwise_exact`, 5–30 points, 3-D", CLOUDS.format(least=5, most=31, n=100, dim=3),
        "asot.pairwise_exact(D, device=device).values"),
    Job("`pairwise_exact`, 20–150 points, 100-D", CLOUDS.format(least=20, most=151, n=40, dim=100),
        "asot.pairwise_exact(D, device=device).values"),
    Job("`pairwise`, 20–60 points, 14-D", CLOUDS.format(least=20, most=61, n=300, dim=14),
        "asot.pairwise(D, random_state=0, device=device).values", tolerance=0.1),
    Job("`pairwise`, calibrated", CLOUDS.format(least=20, most=61, n=300, dim=14),
        "asot.pairwise(D, estimate='calibrated', random_state=0, device=device).values", tolerance=1e-3),
    Job("`kneighbors`, 5–30 points, 3-D", CLOUDS.format(least=5, most=31, n=500, dim=3),
        "asot.kneighbors(D, 3, device=device).distances.ravel()"),
    Job("`sinkhorn_many`, k = 20", HISTOGRAMS.format(k=20, n=100),
        "asot.sinkhorn_many(A, cost=cost, reg=0.1 * cost.max(), device=device).values", None, 1e-3),
)  # fmt: skip

FRAME = """
import sys, time
started = time.perf_counter()
{before}
import asot
import numpy as np
loaded = time.perf_counter()
device = {device!r}
import cupy
imported = time.perf_counter()
cupy.cuda.runtime.free(0)
context = time.perf_counter()
rng = np.random.default_rng(0)
{data}
made = time.perf_counter()
{start}
value = {call}
{stop}
done = time.perf_counter()
import json
parts = [loaded - started, imported - loaded, context - imported, done - made]
print("FOUND " + json.dumps([parts, done - started - (context - imported), np.asarray(value).tolist()]))
"""
START = "import cProfile; profile = cProfile.Profile(); profile.enable()"
STOP = "profile.disable(); import pstats; pstats.Stats(profile).sort_stats('tottime').print_stats(14)"
WITHOUT = "sys.modules['asot_cuda'] = None"


def run(options: Options) -> Report:
    """Measure every job and make the report."""
    rows = []
    for job in JOBS:
        rows.append(_row(job))
        print(f"{' | '.join(rows[-1])}", flush=True)
    return Report("gpu_startup", "Time to the first answer of a GPU", f"One {gpu_name()}; seconds.", [
        Table("A fresh process, less what it takes to create the CUDA context:", COLUMNS, rows)], NOTES)  # fmt: skip


COLUMNS = [
    "call", "empty caches", "imports of asot and CuPy", "the call", "again", "without asot-cuda", "CUDA context"
]  # fmt: skip
NOTES = (
    "Empty caches: `CUPY_CACHE_DIR`, `TRITON_CACHE_DIR` and `CUDA_CACHE_PATH` are empty folders; again: a process with "
    "what the first one left there. Imports and the call are parts of the first column.",
    "Without asot-cuda: empty caches, and CuPy compiles all kernels.",
    "Answers are compared with those of the CPU.",
)


def _row(job: Job) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        cold, again = _fresh(job, folder), _fresh(job, folder)
    with tempfile.TemporaryDirectory() as folder:
        without = _fresh(job, folder, before=WITHOUT)
    with tempfile.TemporaryDirectory() as folder:
        _fresh(job, folder, start=START, stop=STOP)
    expected = np.asarray(_fresh(job, None, device="cpu")[2])
    for _, _, value in (cold, again, without):
        require(job.label, largest_difference(value, expected, np.abs(expected).max()), job.tolerance)
    (loaded, imported, context, call), total, _ = cold
    first = f"{total:.2f} s" if job.limit is None else below(total, job.limit, "s")
    others = (loaded + imported, call, again[1], without[1], context)
    return [job.label, first, *(f"{each:.2f} s" for each in others)]


def _fresh(
    job: Job, caches: str | None, *, device: str = "cuda", before: str = "", start: str = "", stop: str = ""
) -> tuple[list[float], float, list[float]]:
    """Seconds of the parts and of all but the context, and the answer, of a job in a new process."""
    text = FRAME.format(before=before, device=device, data=job.data, start=start, call=job.call, stop=stop)
    folders = {} if caches is None else {name: str(Path(caches) / name) for name in CACHES}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | folders
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not found:
        raise RuntimeError(f"{job.label} failed:\n{done.stderr[-3000:]}")
    if stop:
        print(
            f"--- where the time of {job.label} went\n{done.stdout[: done.stdout.index('FOUND ')][:3500]}", flush=True
        )
    parts, total, value = json.loads(found[0][6:])
    return parts, total, value
