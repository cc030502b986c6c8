"""How the package compiles its kernels, in one place.

``@compiled`` functions run without the GIL, so that threads solve pairs side by side, and are cached on disk after
their first use. ``@inlined`` and ``@reordered`` ones are merged into their callers. Indices are not checked: callers
validate.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit

import asot.jit.notice  # noqa: F401 (it listens from now on)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls."""
    return _compile(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into whatever compiled function calls it."""
    return _compile(function, forceinline=True)


def reordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `inlined`, and sums of floats may be taken in any order, so that they vectorize."""
    return _compile(function, forceinline=True, fastmath={"reassoc", "contract", "nsz"})


def unordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `reordered`, for numbers that are never NaN: minima vectorize, too."""
    return _compile(function, forceinline=True, fastmath={"reassoc", "contract", "nsz", "nnan"})


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `inlined`, and a product that is added to a sum need not be rounded first (one instruction for both)."""
    return _compile(function, forceinline=True, fastmath={"contract"})


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def build(cache: bool) -> Any:
        dispatcher = njit(boundscheck=False, error_model="numpy", nogil=True, cache=cache, **options)(function)
        if cache:
            _expire_with_kernels(dispatcher)
            _do_without_cache_if_need_be(dispatcher)
        return dispatcher

    with _compiling_enabled():
        try:
            return build(cache=True)
        except (RuntimeError, OSError):  # no folder can be written to: compile again in every process
            return build(cache=False)


@contextlib.contextmanager
def _compiling_enabled() -> Iterator[None]:
    """Compile under ``NUMBA_DISABLE_JIT``, too: these kernels use instructions that Python does not have."""
    settings: Any = config
    disabled, settings.DISABLE_JIT = settings.DISABLE_JIT, False
    try:
        yield
    finally:
        settings.DISABLE_JIT = disabled


def _do_without_cache_if_need_be(dispatcher: Any) -> None:
    """Let a full or failing disk under the cache cost time, but not the call. numba has no public way to do this."""
    cache: Any = getattr(dispatcher, "_cache", None)
    save, load = getattr(cache, "save_overload", None), getattr(cache, "load_overload", None)
    if save is None or load is None:
        return

    def save_if_possible(*args: Any) -> None:
        with contextlib.suppress(OSError):
            save(*args)

    def load_if_possible(*args: Any) -> Any:
        with contextlib.suppress(OSError, EOFError):
            return load(*args)
        return None

    with contextlib.suppress(AttributeError):
        cache.save_overload, cache.load_overload = save_if_possible, load_if_possible


def _expire_with_kernels(dispatcher: Any) -> None:
    """Let cached code expire when any file with kernels changes.

    numba only checks the file that defines a function. Code that inlines a function from another file would outlive a
    change of that file and mix with its new code. numba has no public way to change this; where its internals differ
    from what is used here, its own rule stays.
    """
    with contextlib.suppress(AttributeError):
        cache_file = dispatcher._cache._cache_file
        cache_file._source_stamp = (cache_file._source_stamp, _digest_of_kernels())
        cache_file._load_index = functools.partial(_nothing_if_unreadable, cache_file._load_index)


def _nothing_if_unreadable(load_index: Callable[[], Any]) -> Any:
    """An index of another version of the package may name types that have moved since; it is obsolete, not an error."""
    try:
        return load_index()
    except (AttributeError, ImportError):
        return {}


@functools.cache
def _digest_of_kernels() -> str:
    sources = (path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))
    return hashlib.sha256(b"".join(source for source in sources if b"asot.jit.compiled" in source)).hexdigest()


@inlined
def at(base, offset):  # type: ignore[no-untyped-def]
    """``base + offset`` as an unsigned index, which avoids the negative-index check that prevents vectorization."""
    return np.uint64(base) + np.uint64(offset)
