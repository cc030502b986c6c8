"""One process at a time: a lock file that the operating system frees when its owner ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_SECONDS_BETWEEN_TRIES = 0.1
_BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def alone(path: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs; ``on_wait`` is called once if another process holds it.

    On a file system without locks the block runs unprotected.
    """
    waited = False
    while (descriptor := _take(path)) is None:
        if not waited:
            on_wait()
            waited = True
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows keeps a file that is open
            path.unlink()
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """A descriptor that holds the lock, or None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if _try_lock(descriptor) and _is_still_there(path, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_still_there(path: Path, descriptor: int) -> bool:
    """Whether the locked file is the one under the name: its last owner may have removed it in between."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _BUSY
    return True
