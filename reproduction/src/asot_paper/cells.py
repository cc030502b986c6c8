"""A cell: one piece of work that is done completely or not at all, and its key.

The key is made from everything that changes a cell's numbers and is known before it is run. So a results file can say
which cells are finished, and a changed setting makes a new cell in place of a wrong old one.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asot_paper.conditions import error_rule, features_of
from asot_paper.machine import machine, versions
from asot_paper.methods import METHODS, Hardware, method_settings
from asot_paper.names import PUBLISHED, has_row_zero_rule
from asot_paper.scale import MAX_ITER, Scale


@dataclass(frozen=True)
class Cell:
    """What to run.

    ``size`` is the number of anchors of an ablation, or the number of distributions of a scaling cell. ``settings`` are
    the ones that are known beforehand.
    """

    kind: str
    condition: str
    set: str
    method: str
    fold: int = 0
    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    row_zero: bool | None = None
    size: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """Everything the key is made from, as the results file shows it."""
        size = {} if self.size is None else {"size": self.size}
        return {
            "kind": self.kind,
            "condition": self.condition,
            "set": self.set,
            "method": self.method,
            "fold": self.fold,
            "seed": self.seed,
            "quick": self.quick,
            "device": self.device,
            **size,
            "settings": dict(self.settings),
        }

    @property
    def key(self) -> str:
        text = json.dumps(self.identity, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def group(self) -> tuple[str, str, str, str]:
        """Kind, condition, set and method: one line of a listing."""
        return self.kind, self.condition, self.set, self.method

    def __str__(self) -> str:
        what = "" if self.kind == "run" else f"{self.kind}, "
        size = "" if self.size is None else f", {'N' if self.kind == 'scaling' else 'k'} = {self.size}"
        return f"{self.set} {self.method} ({what}{self.condition}, fold {self.fold}, seed {self.seed}{size})"


def make_cell(
    kind: str,
    condition: str,
    name: str,
    method: str,
    scale: Scale,
    hardware: Hardware,
    *,
    fold: int = 0,
    seed: int = 0,
    row_zero: bool = True,
    size: int | None = None,
    max_iter: int = MAX_ITER,
    more: Mapping[str, Any] | None = None,
) -> Cell:
    """A cell with the settings that its condition, set and method bring."""
    rule = row_zero and has_row_zero_rule(method) if condition == PUBLISHED else None
    settings: dict[str, Any] = {"features": features_of(condition, name), "errors": error_rule(condition, rule)}
    if rule is not None:
        settings["row_zero"] = rule
    settings |= method_settings(method, condition, name, scale, max_iter) if method in METHODS else {}
    device = hardware.device if method in METHODS and METHODS[method].on_device else "cpu"
    return Cell(
        kind, condition, name, method, fold, seed, scale.quick, device, rule, size, {**settings, **(more or {})}
    )


def record_of(cell: Cell, hardware: Hardware, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What a results file keeps of a finished cell: its identity, its numbers and everything that produced them.

    ``outcome`` may contain ``settings`` that were found while running, and the ``device`` that did the work.
    """
    identity = cell.identity
    found = dict(outcome)
    settings = {**identity.pop("settings"), **found.pop("settings", {})}
    return {
        "key": cell.key,
        **identity,
        **found,
        "timed": hardware.alone,
        "settings": settings,
        "machine": machine(hardware.threads),
        "versions": versions(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def failed_record_of(cell: Cell, hardware: Hardware, error: BaseException) -> dict[str, Any]:
    """What a results file keeps of a cell that failed."""
    text = " ".join(str(error).split()) or "no message"
    known = isinstance(error, (ValueError, OSError, ImportError, MemoryError))
    return record_of(cell, hardware, {"error": text if known else f"{type(error).__name__}: {text}"})
