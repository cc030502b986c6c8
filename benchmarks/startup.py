"""How long until the first answer: measured in fresh processes, inside which the clock starts before ``import asot``.

The first process of all fills numba's cache and is not counted. Data are made after the import, so that loading NumPy
is part of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.common import Options, Report, Table, below, largest_difference, require

TOLERANCE = 1e-12

IMPORT = """
value = []
"""

EMD_MANY = """
import numpy as np
rng = np.random.default_rng(0)
anchors = rng.normal(size=(20, 3))
cost = np.linalg.norm(anchors[:, None] - anchors, axis=-1)
value = asot.emd_many(rng.dirichlet(np.ones(20), 100), cost=cost).values
"""

EVERY_NAME = """
value = [len(repr(getattr(asot, name))) for name in asot.__all__]
"""

PAIRWISE_EXACT = """
import numpy as np
rng = np.random.default_rng(0)
D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in rng.integers(5, 30, 50)])
value = asot.pairwise_exact(D).values
"""

PAIRWISE = """
import numpy as np
rng = np.random.default_rng(0)
D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in rng.integers(5, 30, 50)])
value = asot.pairwise(D, random_state=0, estimate="anchor").values
"""

FRAME = """
import time
started = time.perf_counter()
import asot
{body}
seconds = time.perf_counter() - started
import json
print(json.dumps([seconds, list(map(float, value))]))
"""


@dataclass(frozen=True)
class Job:
    """What a process does after ``import asot``, and how many seconds both may take."""

    label: str
    body: str
    limit: float | None = None


JOBS = (
    Job("`import asot`", IMPORT, 0.5),
    Job("`emd_many` on 100 histograms, k = 20", EMD_MANY, 2.0),
    Job("every public name loaded", EVERY_NAME),
    Job("`pairwise_exact` on 50 small distributions", PAIRWISE_EXACT),
    Job("`pairwise` on 50 small distributions", PAIRWISE),
)


def run(options: Options) -> Report:
    """Measure every job and make the report."""
    rows = [_row(job, 2 if options.quick else 5) for job in JOBS]
    columns = ["after `import asot`", "best", "median", "first run ever, nothing compiled"]
    return Report(
        "startup",
        "Time to the first answer",
        "Seconds from before `import asot` to the answer, in a fresh process each time.",
        [Table("With numba's cache warm, and the target; beside it once with an empty cache:", columns, rows)],
        NOTES,
    )


NOTES = (
    "Loading NumPy is part of the time, starting the interpreter is not.",
    "`import asot` loads no solver: names are loaded when first used. The row below the targets loads all of them.",
    "Every process must give the same answer.",
)


def _row(job: Job, repeats: int) -> list[str]:
    _, expected = _fresh(job)  # fills the cache
    times = []
    for _ in range(repeats):
        seconds, value = _fresh(job)
        _require_same(job, value, expected)
        times.append(seconds)
    cold, value = _with_empty_cache(job)
    _require_same(job, value, expected)
    best = f"{min(times):.3f} s" if job.limit is None else below(min(times), job.limit, "s")
    return [job.label, best, f"{median(times):.3f} s", f"{cold:.1f} s"]


def _require_same(job: Job, value: list[float], expected: list[float]) -> None:
    if expected:
        require(job.label, largest_difference(value, expected, 1.0 + np.abs(expected).max()), TOLERANCE)


def _with_empty_cache(job: Job) -> tuple[float, list[float]]:
    with tempfile.TemporaryDirectory(prefix="asot-cache-") as folder:
        return _fresh(job, NUMBA_CACHE_DIR=folder)


def _fresh(job: Job, **environment: str) -> tuple[float, list[float]]:
    """Seconds and answer of a job in a new process."""
    command = [sys.executable, "-c", FRAME.format(body=job.body)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{job.label} failed:\n{done.stderr}")
    seconds, value = json.loads(done.stdout)
    return seconds, value
