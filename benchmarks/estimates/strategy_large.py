"""Two thousand large distributions: the default call beside exact solves, whose time is extrapolated from a sample.

Three generated collections (`large_collections.py`), with 500 and with 2,000 points in a distribution. Seconds
are CPU seconds of one thread.
"""

from __future__ import annotations

import warnings
from functools import partial

from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table
from benchmarks.estimates.large_collections import cells, silhouettes, voxels
from benchmarks.estimates.strategy import prepare, timed, warm_up

NEEDS: set[str] = set()

TARGETS = {500: 300, 2000: 3000}
"""How many times faster than exact solves the call should be."""


def run(options: Options) -> Report:
    """Time the call on every collection and check its error."""
    n = 60 if options.quick else 2000
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        for size, target in ((100, 1),) if options.quick else TARGETS.items():
            for kind in (cells, voxels, silhouettes):
                one = prepare(f"{kind.__name__} of {size}", partial(kind, n, size), dear_pairs=40)
                seconds, r = timed(partial(asot.pairwise, one.D, n_jobs=1, progress=False))
                record, faster = r.info["strategy"], one.exact_seconds / seconds
                verdict = "met" if faster >= target else "**missed**"
                rows.append(
                    [
                        one.name, f"{n:,}", record["why"].partition(":")[0], f"{100 * record['relative_error']:.2f}",
                        f"{one.off(r.values):.2f}", f"{seconds:.1f} s", f"{one.exact_seconds / 3600:.1f} h",
                        f"{faster:,.0f}× (≥ {target:,}×: {verdict})",
                    ]
                )  # fmt: skip
    columns = ["collection", "N", "way", "measured, %", "true, %", "seconds", "exact", "faster by"]
    notes = ["*true* is the error on 40 random pairs, relative to their mean."]
    return Report(
        "strategy_large", "Two thousand large distributions", __doc__ or "", [Table("", columns, rows)], notes
    )
