"""Progress with rate and time left, shown only if someone is there to see it and it is worth showing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

ProgressLike = bool | Callable[[int, int], object] | None


class Progress:
    """Counts finished pairs, or other units, toward ``total`` and shows them.

    ``show`` is True (a bar), False (nothing), None (a bar on a terminal or in a notebook, once a second has passed)
    or a function that is called with (done, total).
    """

    def __init__(self, show: ProgressLike, total: int, label: str, unit: str = "pair") -> None:
        if not (show is None or isinstance(show, bool) or callable(show)):
            raise ValueError(f"progress must be True, False, None or a function of (done, total); found {show!r}")
        self._callback = show if callable(show) else None
        self._done = 0
        self._total = total
        self._bar: Any = None
        if show is True or (show is None and _somebody_watches()):
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=total, desc=label, unit=unit, unit_scale=True, delay=0.0 if show else 1.0, leave=bool(show)
            )

    def advance(self, count: int, note: str | None = None) -> None:
        """Count more of them; the note is shown after the bar."""
        self._done += count
        if self._bar is not None:
            if note is not None:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        if self._callback is not None:
            self._callback(self._done, self._total)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def stage_of(info: dict[str, Any]) -> str:
    """The name of a run over pairs, by what it solves."""
    if info.get("reg") is not None:
        return "entropic distances"
    if info.get("estimate") == "calibrated":
        return "estimates"
    if "n_anchors" in info:
        return "distances on anchors"
    is_exact = info.get("estimate") == "exact" or "distinct_points" in info
    return "exact distances" if is_exact else "distances"


def _somebody_watches() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
