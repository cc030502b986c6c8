"""Harm done to stored runs, with real processes: what is lost (nothing), and what the caller is told.

The tests run the same functions, shorter (`tests/run/cluster_faults.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial

from benchmarks.common import DisagreementError, Options, Report, Table
from tests.run import cluster_faults as faults

NEEDS = {"distributed", "zarr"}


def run(options: Options) -> Report:
    """Do harm of every kind, and report it; a result that is not equal is an error."""
    many, some, few = (2, 1, 1) if options.quick else (20, 10, 5)
    kinds: list[Callable[[], faults.Record]] = [
        partial(faults.kill_callers, many),
        partial(faults.kill_callers, few, job="search"),
        partial(faults.kill_workers, some),
        faults.kill_scheduler,
        partial(faults.two_callers, few),
        faults.full_disk,
        faults.read_only,
        partial(faults.torn_chunks, few),
        partial(faults.flipped_bits, few),
        partial(faults.jumping_clock, few),
        faults.other_version,
    ]
    rows = []
    for kind in kinds:
        started = time.perf_counter()
        record = kind()
        if not record.equal:
            raise DisagreementError(f"{record.harm}: the resumed result differs, or nothing was said: {record.said!r}")
        said = re.sub(r"/\S*/run\.zarr", "run.zarr", record.said)  # without the folders of this machine
        rows.append([record.harm, str(record.times), "equal", f"{time.perf_counter() - started:.0f} s", said])
        print(" | ".join(rows[-1]), flush=True)
    return Report(
        "faults",
        "Harm done to stored runs",
        "Real processes, files and file systems. After the harm the same call is made again, and the result compared "
        "with that of a run that nobody disturbed.",
        [Table("Each kind of harm, how often, and what came of it:", COLUMNS, rows)],
        NOTES,
    )


COLUMNS = ["harm", "times", "resumed result", "took", "what the caller was told"]

NOTES = (
    "Equal: bit for bit. The column of sentences is empty where there is nothing to tell: the same call goes on.",
    "Values: 1,124,250 pairs on 12 anchors, 300 blocks. Search: the 5 nearest of 1,500 clouds, 64 rows at a time.",
    "Callers are killed after their first new block; a store that is complete loses a random 70 % of its blocks first.",
    "Full disk: a file system of 1 MB in memory. Read-only: another user's process. Clock: times of files are moved by "
    "up to ten years either way, and the caller's clock jumps by days.",
)
