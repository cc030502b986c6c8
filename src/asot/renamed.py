"""Old names keep working for one minor release: they warn, say the new name, and say when the old one goes.

``docs/support.md`` promises for how long. A name is taken out, with the line that reads it, in the release `GONE_IN`.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

GONE_IN = "0.3.0"


def warn_renamed(old: str, new: str) -> None:
    """Tell whoever called asot, at that line, that a name is an old one."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "asot":
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{old} is now {new}; the old name goes in asot {GONE_IN}", FutureWarning, stacklevel=level)


def prune_of(bounds: Any) -> str:
    """``prune=`` from ``bounds=``, its name in 0.1.0, where True and False were values, too; answers are the same."""
    warn_renamed("bounds=", "prune=")
    return bounds if isinstance(bounds, str) else "auto"
