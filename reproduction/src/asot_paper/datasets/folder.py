"""Where data is stored: in the given folder, or the one that ``ASOT_DATA`` names, or the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

PathLike = str | os.PathLike[str]

VARIABLE = "ASOT_DATA"
"""The environment variable that names the data folder."""


def data_folder(folder: PathLike | None = None) -> Path:
    """The folder that holds ``tu/``, ``zinc/`` and ``mnist/``."""
    if folder is None:
        folder = os.environ.get(VARIABLE) or _user_cache()
    elif not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise ValueError(f"folder must be a path, or None for {VARIABLE} or the user's cache; found {folder!r}")
    return Path(folder).expanduser()


def _user_cache() -> str:
    try:
        import platformdirs  # only here: a GPU image may be without it, and a named folder does not need it
    except ImportError as error:
        raise ImportError(f"the user's cache is found with platformdirs: install it, or set {VARIABLE}") from error
    return platformdirs.user_cache_dir("asot", appauthor=False)
