"""How long until the first answer: measured in fresh processes, inside which the clock starts before ``import asot``.

Kernels are compiled ahead, so there is no cache to fill: every process is a first one. Data are made after the import,
so that loading NumPy is part of the time. Both the clock and the processor's time are told, since the latter does not
depend on what else the machine does. Python may keep its bytecode, as it does for installed packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.common import Options, Report, Table, below, largest_difference, require

NEEDS: set[str] = set()

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
value = asot.pairwise(D, random_state=0).values
"""

KNEIGHBORS = """
import numpy as np
rng = np.random.default_rng(0)
D = asot.Distributions.from_list([rng.normal(size=(n, 3)) for n in rng.integers(5, 30, 200)])
value = asot.kneighbors(D, 3).distances.ravel()
"""

NUMPY = """
import numpy
value = []
"""

FRAME = """
import time
started = time.perf_counter(), time.process_time()
{first}
{body}
seconds = time.perf_counter() - started[0], time.process_time() - started[1]
import json
print(json.dumps([seconds, list(map(float, value))]))
"""


@dataclass(frozen=True)
class Job:
    """What a process does after ``import asot``, and how many seconds of the processor both may take."""

    label: str
    body: str
    limit: float | None = None
    first: str = "import asot"


JOBS = (
    Job("`import numpy` alone", NUMPY, first=""),
    Job("`import asot`", IMPORT, 0.25),
    Job("`emd_many` on 100 histograms, k = 20", EMD_MANY, 0.45),
    Job("`pairwise_exact` on 50 small distributions", PAIRWISE_EXACT, 0.45),
    Job("`pairwise` on 50 small distributions", PAIRWISE, 0.9),
    Job("`kneighbors` among 200 small distributions", KNEIGHBORS, 0.9),
    Job("every public name loaded", EVERY_NAME),
)


def run(options: Options) -> Report:
    """Measure every job and make the report."""
    _fresh(JOBS[-1])
    rows = [_row(job, 2 if options.quick else 7) for job in JOBS]
    rows.append(_help_row(2 if options.quick else 7))
    columns = ["after `import asot`", "processor, best", "processor, median", "clock, median"]
    return Report(
        "startup",
        "Time to the first answer",
        "Seconds from before `import asot` to the answer, in a fresh process each time; nothing is cached.",
        [Table("Beside the best, the target:", columns, rows)],
        NOTES,
    )


NOTES = (
    "Before that, asot was imported once, so that Python has its bytecode; pip writes it when it installs.",
    "Loading NumPy is part of the time, starting the interpreter is not, but for `asot --help`.",
    "`import asot` loads no solver: names are loaded when first used. The last row but one loads all of them.",
    "Every process must give the same answer.",
)


def _row(job: Job, repeats: int) -> list[str]:
    seen = [_fresh(job) for _ in range(repeats)]
    for _, value in seen:
        _require_same(job, value, seen[0][1])
    clock, processor = ([seconds[part] for seconds, _ in seen] for part in (0, 1))
    best = f"{min(processor):.3f} s" if job.limit is None else below(min(processor), job.limit, "s")
    return [job.label, best, f"{median(processor):.3f} s", f"{median(clock):.3f} s"]


def _help_row(repeats: int) -> list[str]:
    command = [sys.executable, "-c", "import sys; sys.argv = ['asot', '--help']; from asot.cli import main; main()"]
    seconds = []
    for _ in range(repeats):
        before = os.times()
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=_environment())
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        seconds.append((time.perf_counter() - started, used))
    processor = [used for _, used in seconds]
    clock = median(elapsed for elapsed, _ in seconds)
    return ["`asot --help`", below(min(processor), 0.25, "s"), f"{median(processor):.3f} s", f"{clock:.3f} s"]


def _require_same(job: Job, value: list[float], expected: list[float]) -> None:
    if expected:
        require(job.label, largest_difference(value, expected, 1.0 + np.abs(expected).max()), TOLERANCE)


def _fresh(job: Job) -> tuple[tuple[float, float], list[float]]:
    """Seconds by the clock and of the processor, and the answer, of a job in a new process."""
    command = [sys.executable, "-c", FRAME.format(first=job.first, body=job.body)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode != 0:
        raise RuntimeError(f"{job.label} failed:\n{done.stderr}")
    seconds, value = json.loads(done.stdout)
    return (seconds[0], seconds[1]), value


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
