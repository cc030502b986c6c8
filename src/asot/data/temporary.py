"""Temporary files that are cleaned up even if their process was killed.

A process holds a lock on the temporary file it writes, and the system releases the lock when the process ends, however
it ends. So a file whose lock is free has no owner, and the next process that writes to the folder removes it. Where the
system has no such locks (Windows), an open file cannot be removed anyway.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX = ".asot-", ".tmp"
_looked_at: set[tuple[int, Path]] = set()
"""Folders that this process has cleaned up: once is enough, because scanning a large folder takes time."""


def create_owned(folder: Path) -> tuple[Path, int]:
    """A new temporary file in a folder, open for writing, that belongs to this process: its path and descriptor."""
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if fcntl is None or not lock(descriptor) or os.fstat(descriptor).st_nlink > 0:
            return path, descriptor
        os.close(descriptor)  # another process cleaned up between the two calls, and removed it as an orphan


def remove_orphans(folder: Path) -> None:
    """Remove the temporary files of processes that have ended. Whatever cannot be removed stays."""
    if (os.getpid(), folder) in _looked_at:
        return
    _looked_at.add((os.getpid(), folder))
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    _remove_if_orphan(entry.path)


def _remove_if_orphan(path: str) -> None:
    if fcntl is None:
        os.unlink(path)
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if lock(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> bool:
    """Whether we now hold the lock of a file: not while its process lives, nor if the file system has no locks."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # Windows
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True
