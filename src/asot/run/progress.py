"""Progress with rate and time left: a bar where somebody watches or asks for one, and otherwise nothing, except that
the command line says every 30 seconds how far it is.

A log file holds what a screen would show for a moment only. So without a terminal a bar that was asked for is drawn
every 30 seconds, and commands write plain lines at that pace.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ProgressLike = bool | Callable[[int, int], object] | None

SECONDS = 30.0
"""Between two lines of progress where nobody watches."""


class Progress:
    """Counts finished pairs, or other units, toward ``total`` and shows them.

    ``show`` is True (a bar; without a terminal or notebook, drawn every 30 seconds), False (nothing), None (a bar on a
    terminal or in a notebook, once a second has passed) or a function that is called with (done, total).
    """

    def __init__(self, show: ProgressLike, total: int, label: str, unit: str = "pair") -> None:
        if not (show is None or isinstance(show, bool) or callable(show)):
            raise ValueError(f"progress must be True, False, None or a function of (done, total); found {show!r}")
        self._callback = show if callable(show) else None
        self._done = 0
        self._total = total
        self._label, self._unit = label, unit
        self._bar: Any = None
        watched = somebody_watches()
        if show is not False:
            _running.append(weakref.ref(self))
        if show is True or (show is None and watched):
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=total, desc=label, unit=unit, unit_scale=True, delay=0.0 if show else 1.0, leave=bool(show),
                mininterval=0.1 if watched else SECONDS,
            )  # fmt: skip

    def advance(self, count: int, note: str | None = None) -> None:
        """Count more of them; the note is shown after the bar."""
        self._done += count
        if self._bar is not None:
            if note is not None:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        if self._callback is not None:
            self._callback(self._done, self._total)

    def sentence(self) -> str:
        """How far it is, in words."""
        share = f" ({100 * self._done / self._total:.0f} %)" if self._total else ""
        return f"{self._label}: {self._done:,} of {self._total:,} {self._unit}s{share}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        _running[:] = [ref for ref in _running if ref() not in (self, None)]
        if self._bar is not None:
            self._bar.close()


_running: list[weakref.ref[Progress]] = []
"""What is being counted now, the innermost last."""


_silent = False


@contextmanager
def quietly() -> Iterator[None]:
    """While this is open, bars are only shown where they are asked for."""
    global _silent
    before, _silent = _silent, True
    try:
        yield
    finally:
        _silent = before


@contextmanager
def lines_without_terminal(seconds: float | None = None) -> Iterator[None]:
    """While this is open, and if nobody watches, a line on stderr every 30 seconds says how far the work is."""
    if somebody_watches():
        yield
        return
    ended = threading.Event()
    pause = SECONDS if seconds is None else seconds
    reporter = threading.Thread(target=_report, args=(ended, pause), name="asot-progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()


def _report(ended: threading.Event, pause: float) -> None:
    begun = time.monotonic()
    while not ended.wait(pause):
        gone = f"{time.monotonic() - begun:.0f} s"
        alive = [shown for ref in list(_running) if (shown := ref()) is not None]
        what = f"{alive[-1].sentence()}, {gone}" if alive else f"still working, {gone}"
        sys.stderr.write(f"asot: {what}\n")
        sys.stderr.flush()


def somebody_watches() -> bool:
    """Whether there is a terminal or a notebook that shows a bar."""
    return not _silent and ((sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules)
