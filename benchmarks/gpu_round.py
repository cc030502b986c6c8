"""``python -m benchmarks --gpu``: a round of the benchmarks that need a GPU, for machines that are lent for minutes.

Those that tell most come first. Each runs in a process of its own and is stopped when it takes three times as long as
it should, or when the minutes are over; its table is written as soon as it is done, whatever becomes of the others, and
all that it prints goes to a file in `LOGS`. A table names the code that it was made with, so the next round goes on
where this one stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import CODE, RESULTS, code_state
from benchmarks.needs import benchmarks, missing

ORDER = {
    "layer_gpu": 60, "gpu_estimates": 90, "gpu_points": 90, "gpu": 60, "gpu_startup": 150, "gpu_agreement": 200,
    "gpu_sizes": 240, "perturbations_gpu": 150, "index_gpu": 120, "gpu_neighbors": 400, "anchors_zinc": 150,
    "gromov_gpu": 200, "gromov_nearest_gpu": 180, "gpu_million": 400,
}  # fmt: skip
"""About how many seconds each takes on an H200 and sixteen threads, data and comparisons with the CPU included."""

PATIENCE = 3
"""How many times as long it may take."""

SHOWN = 2000
"""Characters of the output of one that failed."""

LOGS = Path("build") / "gpu_round"
"""What each of them printed, in the folder where the command runs."""


@dataclass(frozen=True)
class Round:
    """Where data and tables are, how long a round takes, and whether sizes are small."""

    data: Path | None
    results: Path | None
    seconds: float
    quick: bool

    def run(self, names: Sequence[str]) -> int:
        """Run what there is time for, with a line for each. The exit code is 1 if one failed."""
        end, failed = time.monotonic() + self.seconds, False
        for name in sorted(names, key=list(ORDER).index):
            begun = time.monotonic()
            if reason := self._reason_against(name, end - begun):
                _say(f"{name}: {reason}")
                continue
            code, output = self._in_process(name, min(PATIENCE * ORDER[name], end - begun))
            failed |= code != 0
            took = f"{time.monotonic() - begun:.0f} s"
            _say("; ".join([f"{name}: {took}", *verdicts(output)]) if code == 0 else _told(name, took, code, output))
        return int(failed)

    def _reason_against(self, name: str, seconds_left: float) -> str | None:
        """Why a benchmark is not run, as a sentence without its subject."""
        module, needs = benchmarks()[name]
        if reason := missing(needs, self.data):
            return reason
        table = (self.results or RESULTS) / f"{name}.md"
        if not self.quick and table.exists() and f"- {CODE}: {code_state(module)}\n" in table.read_text("utf-8"):
            return "has a table of this code"
        needed = 1 if self.quick else ORDER[name]
        return f"not begun: about {needed} s, and {seconds_left:.0f} s are left" if seconds_left < needed else None

    def _in_process(self, name: str, seconds: float) -> tuple[int | None, str]:
        """Exit code, None for one that was stopped, and output of a benchmark."""
        command = [sys.executable, "-u", "-m", "benchmarks", name]
        command += ["--quick"] if self.quick else []
        command += ["--data", str(self.data)] if self.data else []
        command += ["--results", str(self.results)] if self.results else []
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{name}.log"
        with (
            log.open("w", encoding="utf-8") as out,
            subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=os.setpgrp) as process,
        ):
            code: int | None = None
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:  # whatever ended it, nothing of it keeps the GPU
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return code, log.read_text(encoding="utf-8")


def _told(name: str, took: str, code: int | None, output: str) -> str:
    """How a benchmark ended that made no table, after the end of its output."""
    how = f"stopped after {took}" if code is None else f"failed after {took}, exit code {code}"
    return f"{output[-SHOWN:].rstrip()}\n{name}: {how}"


def verdicts(text: str) -> Iterator[str]:
    """How many targets of the tables in a text were met, and each cell that missed one, after the row's label."""
    if met := text.count("(met"):
        yield f"{met} met"
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for cell in cells[1:]:
            if re.search(r"\(missed", cell) and line.startswith("|"):
                yield f"{cells[0]}: {cell}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
