"""A message if compiling takes long: the first call after an installation may compile for half a minute.

numba reports when it starts and stops compiling. If that takes more than a second and someone is watching, one line on
stderr says what is going on; once in a process is enough.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from numba.core import event

PATIENCE = 1.0
"""Seconds of compiling before the message."""

WORD = "asot: compiling for this machine, which takes up to half a minute; the result is cached"


class Notice(event.Listener):
    """Adds up the time that compiling asot's functions takes, and shows the message once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._spent = 0.0
        self._began = 0.0
        self._timer: threading.Timer | None = None
        self.spoken = False

    def on_start(self, event: Any) -> None:
        if self.spoken or not _is_ours(event):
            return
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._began = time.monotonic()
                self._timer = threading.Timer(max(0.0, PATIENCE - self._spent), self._speak)
                self._timer.daemon = True
                self._timer.start()

    def on_end(self, event: Any) -> None:
        if not _is_ours(event):
            return
        with self._lock:
            self._depth = max(0, self._depth - 1)
            if self._depth == 0 and self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._spent += time.monotonic() - self._began

    def _speak(self) -> None:
        if not self.spoken and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            self.spoken = True
            sys.stderr.write(f"{WORD}\n")


def _is_ours(event: Any) -> bool:
    dispatcher = (event.data or {}).get("dispatcher")
    return str(getattr(getattr(dispatcher, "py_func", None), "__module__", "")).startswith("asot.")


event.register("numba:compile", Notice())  # type: ignore[no-untyped-call]
