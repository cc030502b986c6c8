"""Run cells one after the other, keep each as soon as it is finished, and continue when one fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from asot_paper import fig3, fig4, scaling, scatter, trials
from asot_paper.cells import Cell, failed_record_of, record_of
from asot_paper.store import Results
from asot_paper.workshop import Workshop, run_method

RUN: dict[str, Callable[[Workshop, Cell], dict[str, Any]]] = {
    "run": run_method,
    "trial": trials.run,
    "curve": fig3.run,
    "ablation": fig4.run,
    "scatter": scatter.run,
    "scaling": scaling.run,
}


@dataclass(frozen=True)
class Outcome:
    """What happened to a list of cells."""

    kept: int
    """Cells that were finished before."""
    ran: int
    failed: tuple[tuple[Cell, str], ...]


def run_cells(cells: Sequence[Cell], results: Results, workshop: Workshop) -> Outcome:
    """Run the cells that are not finished yet.

    A cell that fails is kept with its message, and the others continue. An interrupt (Ctrl-C) ends the run; finished
    cells are on disk by then.
    """
    todo = [cell for cell in cells if results.finished(cell.key) is None]
    failed = []
    with _Bar(len(cells), len(cells) - len(todo)) as bar:
        for cell in todo:
            bar.begins(cell)
            try:
                record = record_of(cell, workshop.hardware_of(cell), RUN[cell.kind](workshop, cell))
                results.add(record)
            except Exception as error:
                record = failed_record_of(cell, workshop.hardware_of(cell), error)
                results.add(record)
                failed.append((cell, str(record["error"])))
            bar.ends(cell, record)
    return Outcome(len(cells) - len(todo), len(todo), tuple(failed))


class _Bar:
    """Progress over cells: a bar on a terminal, a line per cell elsewhere."""

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._told: set[str] = set()
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, initial=done, unit="cell", file=sys.stderr)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def begins(self, cell: Cell) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(f"now {cell}")

    def ends(self, cell: Cell, record: dict[str, Any]) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update()
            return
        sys.stderr.write(f"{self._done}/{self._total} {cell}: {self._result(record)}\n")
        sys.stderr.flush()

    def _result(self, record: dict[str, Any]) -> str:
        if "error" in record:
            known = record["error"] in self._told
            self._told.add(record["error"])
            return "failed for the same reason" if known else f"failed: {record['error']}"
        error = f"error {record['rmse']:.4g}, " if "rmse" in record else ""
        return f"{error}{record.get('train_seconds', 0.0):.3g} + {record.get('seconds', 0.0):.3g} s"
