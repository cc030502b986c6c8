"""Processor times of this source beside those of an earlier version of asot, and of kernels by another compiler.

``ASOT_BEFORE`` names the folder that holds the earlier package ``asot``, such as ``src`` of a worktree of an earlier
commit (and, after a colon, a folder with packages that it needs). ``ASOT_OTHER_KERNELS`` may name a folder of libraries
that another compiler made, as ``ASOT_NATIVE`` does. Each version runs in a process of its own with one thread; calls
take turns, and the best time counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import DisagreementError, Options, Report, Table, microseconds

NEEDS = {"before"}

SLOWER = 1.05
"""Ratios above this are slower; below, they are the noise of a machine."""

ROUNDS, MORE_ROUNDS = 3, 20
"""Turns that all versions take; where the last one seems slower, they take more."""

AGREE = 1e-9
"""Share of the largest answer, and of the sum of answers, within which they are the same."""

CASES = Path(__file__).with_name("before_after_cases.py")

KEPT_ANEW = {
    "strategy: calibrated": "its fit is another one",
    "every_distance: 20 points, unmatched": "masses are integers of the pair, not of the collection",
}
"""Cases whose answers were changed on purpose."""

UNEXPLAINED = "nobody knows why"


class Version:
    """A process that imports one version of asot and times cases on demand."""

    def __init__(self, label: str, path: str, kernels: str | None = None) -> None:
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment = {**os.environ, **alone, "PYTHONPATH": path}
        if kernels is not None:
            environment["ASOT_NATIVE"] = kernels
        self.label = label
        self._process = subprocess.Popen(
            [sys.executable, str(CASES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.names: list[str] = self._answer()

    def time(self, name: str) -> tuple[float, list[float]]:
        """Seconds of a case, and its answer in two numbers."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        seconds, answer = self._answer()
        return seconds, answer

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = json.loads(line) if line else "the process ended"
        if isinstance(found, str):
            raise RuntimeError(f"asot {self.label}: {found}")
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def run(options: Options) -> Report:
    """Time every case with every version and make the report."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    versions = [Version("before", os.environ["ASOT_BEFORE"]), Version("after", source)]
    if kernels := os.environ.get("ASOT_OTHER_KERNELS"):
        versions.append(Version("after, other kernels", source, kernels))
    names = versions[1].names[:: 12 if options.quick else 1]
    rows = [_row(name, versions, 2 if options.quick else ROUNDS) for name in names]
    for version in versions:
        version.close()
    columns = ["table: work", *(each.label for each in versions), *(f"{e.label} / before" for e in versions[1:])]
    slower = [row[0] for row, _, ratio in rows if ratio > SLOWER]
    verdict = f"{len(slower)} of {len(rows)} rows are slower than {SLOWER}×" + (
        f": {'; '.join(slower)}." if slower else "."
    )
    different = sorted({note for _, note, _ in rows if note})
    if unexplained := [note for note in different if UNEXPLAINED in note]:
        raise DisagreementError("\n".join(unexplained))
    table = Table("Microseconds of the processor for a call, one thread.", columns, [row for row, _, _ in rows])
    return Report("before_after", TITLE, INTRODUCTION, [table], [verdict, *different, *NOTES])


TITLE = "Before and after: kernels in numba, kernels in C++"

INTRODUCTION = (
    "Each row is a small piece of the work of one table in this folder, the same data in both versions: the last one "
    "whose kernels were compiled by numba, and this one. Answers must agree to 1e-9, unless a note names them."
)

NOTES = (
    "Ratios below 1: this version is faster. The best of three turns, of up to twenty where a row seems slower.",
    "Compiling (numba, before) and loading are outside the clock; `startup` has them.",
    "Tables without a row need a GPU, count errors (`coverage`, `published`, `faults`, `recall`, `power`, "
    "`null_tests`), run the calls of other rows (`coming_from`, `cluster`, `strategy_rivals`, `edges_search`), or did "
    "not exist.",
    "Other kernels: those of this version, compiled by zig (the compiler of the wheels) instead of GCC.",
)


def _row(name: str, versions: list[Version], rounds: int) -> tuple[list[str], str, float]:
    """The cells of a case, a note if its answers differ on purpose, and how much slower the last source is."""
    best, answers = dict.fromkeys(versions, float("inf")), {}
    for version in versions:
        version.time(name)  # whatever is done once per process
    for turn in range(MORE_ROUNDS):
        if turn >= rounds and best[versions[1]] <= SLOWER * best[versions[0]]:
            break
        for version in versions:
            seconds, answers[version] = version.time(name)
            best[version] = min(best[version], seconds)
    note = ""
    before, largest = answers[versions[0]], max(abs(answers[versions[0]][1]), 1e-300)
    for version in versions[1:]:
        off = [abs(x - y) for x, y in zip(answers[version], before, strict=True)]
        if off[0] > AGREE * max(abs(before[0]), 1e-300) or off[1] > AGREE * largest:
            note = f"{name}: answers are not those of before, since {KEPT_ANEW.get(name, UNEXPLAINED)}."
    ratios = [best[version] / best[versions[0]] for version in versions[1:]]
    print(name, *(f"{ratio:.2f}" for ratio in ratios), flush=True)
    cells = [name, *(microseconds(best[version]) for version in versions), *(f"{ratio:.2f}" for ratio in ratios)]
    return cells, note, ratios[0]
