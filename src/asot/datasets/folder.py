"""Where data lie: in the folder that is given, else in that of ``ASOT_DATA``, else in the user's cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PathLike = str | os.PathLike[str]

VARIABLE = "ASOT_DATA"
"""The environment variable that names the data folder."""


def data_folder(folder: PathLike | None = None) -> Path:
    """The folder that holds ``tu/``, ``zinc/`` and ``mnist/``."""
    if folder is None:
        folder = os.environ.get(VARIABLE) or _user_cache() / "asot"
    elif not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise ValueError(f"folder must be a path, or None for {VARIABLE} or the user's cache; found {folder!r}")
    return Path(folder).expanduser()


def _user_cache() -> Path:
    """Where this system wants programs to keep what they can get again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
