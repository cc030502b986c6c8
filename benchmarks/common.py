"""What all benchmarks share: a fair race, a description of the machine, and tables.

A race repeats its contestants alternately in one process and takes each one's best time, so that whatever else the
machine does meets all of them alike. Their answers are compared in every round, outside the clock.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

T = TypeVar("T")
RESULTS = Path(__file__).parent / "results"
"""Where tables go."""


class DisagreementError(AssertionError):
    """Two methods gave different answers, so their times mean nothing."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    quick: bool = False
    data: Path | None = None
    peers: Path | None = None


# ---------------------------------------------------------------------------------------------------------- the race


@dataclass(frozen=True)
class SelfTimed:
    """The answer of a contestant that runs, and reads the clock, in a process of its own."""

    seconds: float
    answer: Any


@dataclass(frozen=True)
class Race:
    """Best time and last answer of every contestant, and the largest deviation that was seen for each comparison."""

    seconds: dict[str, float]
    answers: dict[str, Any]
    deviations: dict[str, float]


def race(
    contestants: dict[str, Callable[[], Any]],
    deviations: Callable[[dict[str, Any]], dict[str, float]],
    *,
    repeats: int,
    tolerance: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Race:
    """Run the contestants in turn, ``repeats`` times, and compare their answers in every round.

    ``clock=time.process_time`` counts the time that the processor worked, for contestants with one thread.

    ``deviations`` gets the answers of a round by name and returns named deviations; one above ``tolerance`` (or NaN)
    raises `DisagreementError`.
    """
    best = dict.fromkeys(contestants, np.inf)
    worst: dict[str, float] = {}
    answers: dict[str, Any] = {}
    with threadpool_limits(1):
        for _ in range(repeats):
            for name, contestant in contestants.items():
                seconds, answers[name] = _timed(contestant, clock)
                best[name] = min(best[name], seconds)
            for name, deviation in deviations(answers).items():
                require(name, deviation, tolerance)
                worst[name] = max(worst.get(name, 0.0), deviation)
    return Race(best, answers, worst)


def _timed(contestant: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    started = clock()
    answer = contestant()
    seconds = clock() - started
    return (answer.seconds, answer.answer) if isinstance(answer, SelfTimed) else (seconds, answer)


def require(name: str, deviation: float, tolerance: float) -> None:
    """Refuse a deviation above the tolerance."""
    if not deviation <= tolerance:
        raise DisagreementError(f"{name}: answers differ by {deviation:.2e}, more than {tolerance:.0e}")


def largest_difference(values: Any, reference: Any, scale: float) -> float:
    """max |values - reference| / scale; NaN anywhere makes it NaN."""
    return float(np.abs(np.asarray(values) - np.asarray(reference)).max() / scale)


# ---------------------------------------------------------------------------------------------------------- processes


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new Python, where nothing was imported or allocated before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def in_processes(function: Callable[..., T], tasks: Sequence[tuple[Any, ...]]) -> list[T]:
    """``function(*task)`` of every task, in order, on all cores: for counts that no clock takes part in."""
    with ProcessPoolExecutor(initializer=_one_thread) as pool:
        return list(pool.map(function, *zip(*tasks, strict=True)))


def _one_thread() -> None:
    warnings.simplefilter("ignore")
    threadpool_limits(1)


def with_peak_memory(function: Callable[[], Any]) -> tuple[Any, int]:
    """The answer of a function, and by how many bytes this process grew at most while it ran."""
    before = _start_peak()
    answer = function()
    return answer, max(0, _peak() - before)


def _start_peak() -> int:
    """The memory in use now, in bytes; on Linux the recorded peak is set back to it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _memory_line("VmRSS")
    except OSError:
        return _peak()


def _peak() -> int:
    try:
        return _memory_line("VmHWM")
    except OSError:
        import resource

        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _memory_line(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


# ---------------------------------------------------------------------------------------------------------- machine


RIVALS = ("lapjv", "lapx", "ortools", "faiss-cpu", "gudhi", "gensim", "wwl", "cajal", "geomloss")
"""Packages whose version is told where they are installed."""

SOURCES = (".py", ".cpp", ".hpp", ".cu", ".cuh")
"""Endings of source files."""


def machine() -> dict[str, str]:
    """What the numbers depend on: processor, cores, system, versions, date."""
    rivals = [name for name in RIVALS if _version(name) != "not installed"]
    versions = ", ".join(f"{name} {_version(name)}" for name in ("asot", "numpy", "scipy", "torch", "POT", *rivals))
    return {
        "processor": f"{_processor()}; {_cores()} cores; {_simd()}",
        "memory": _total_memory(),
        "system": f"{_system()}, {platform.machine()}",
        "software": f"{platform.python_implementation()} {platform.python_version()}, {versions}; BLAS {_blas()}",
        "load at start": ", ".join(f"{load:.2f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "?",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


CODE = "code"
"""What a table calls `code_state`."""


def code_state(module: str) -> str:
    """A short hash of the library's sources and of a benchmark's module: tables of one state are of the same code."""
    own = importlib.util.find_spec(module)
    assert own is not None
    assert own.origin is not None
    return hashlib.sha256(_library() + Path(own.origin).read_bytes()).hexdigest()[:12]


@functools.cache
def _library() -> bytes:
    """A hash of the library's sources, with the places that they have in it."""
    found = importlib.util.find_spec("asot")
    assert found is not None
    assert found.origin is not None
    folder, state = Path(found.origin).parent, hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in SOURCES:
            state.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return state.digest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_line(name: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


def _processor() -> str:
    family = f" (family {_cpu_line('cpu family')}, model {_cpu_line('model')})" if _cpu_line("cpu family") else ""
    return (_cpu_line("model name") or platform.processor() or "unknown processor") + family


def _simd() -> str:
    flags = _cpu_line("flags").split()
    return ", ".join(name for name in ("avx2", "avx512f") if name in flags) or "vector instructions unknown"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _total_memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def _blas() -> str:
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = {f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', '?')})" for pool in pools}
    return ", ".join(sorted(names)) or "unknown"


# ---------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        widths = [max(len(row[c]) for row in (self.columns, *self.rows)) for c in range(len(self.columns))]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = [_line(self.columns, widths), _line(rule, widths), *(_line(row, widths) for row in self.rows)]
        return "\n".join([self.caption, "", *lines])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cells[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(cells[1:], widths[1:], strict=True))]
    return "| " + " | ".join(padded) + " |"


@dataclass(frozen=True)
class Report:
    """The outcome of one benchmark: a file of its name in the results folder."""

    name: str
    title: str
    introduction: str
    tables: Sequence[Table]
    notes: Sequence[str] = field(default=())

    def markdown(self, command: str, description: dict[str, str]) -> str:
        parts = [f"# {self.title}", self.introduction, *(table.markdown() for table in self.tables)]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        parts.append("## Machine\n\n" + "\n".join(f"- {key}: {value}" for key, value in description.items()))
        parts.append(f"Made by `{command}`.")
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path, text: str) -> None:
        """Put the complete text in place of the old one in a single step."""
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{self.name}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, folder / f"{self.name}.md")
        except BaseException:
            os.unlink(temporary)
            raise


def microseconds(seconds: float) -> str:
    """Three significant digits of µs, without an exponent."""
    micro = seconds * 1e6
    return f"{micro:.2f}" if micro < 10 else f"{micro:.1f}" if micro < 100 else f"{micro:,.0f}"


def ratio(value: float, target: float | None = None) -> str:
    """``12.3×``, with the target and whether it was met."""
    shown = f"{value:.2f}×" if value < 4 else f"{value:.1f}×" if value < 20 else f"{value:.0f}×"
    return shown if target is None else f"{shown} ({_verdict(value >= target)} ≥ {target:g}×)"


def below(value: float, target: float, unit: str) -> str:
    """``1.2 s (met: < 2 s)``."""
    return f"{value:.3g} {unit} ({_verdict(value < target)} < {target:g} {unit})"


def _verdict(met: bool) -> str:
    return "met:" if met else "missed:"
