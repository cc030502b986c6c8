"""How the package compiles its kernels, in one place.

``@compiled`` functions run without the GIL, so that threads solve pairs side by side, and are cached on disk after
their first use. ``@inlined`` and ``@reordered`` ones are merged into their callers, ``@called`` ones stay functions of
their own inside them. Indices are not checked: callers validate.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import config, njit, types
from numba.extending import intrinsic

import asot.jit.notice  # noqa: F401 (it listens from now on)
from asot.jit import merged


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls."""
    return _compile(function)


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that compiled functions call, too large to be merged into each of them."""
    return _merge(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into whatever compiled function calls it."""
    return _merge(function, forceinline=True)


def reordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `inlined`, and sums of floats may be taken in any order, so that they vectorize."""
    return _merge(function, forceinline=True, fastmath={"reassoc", "contract", "nsz"})


def unordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `reordered`, for numbers that are never NaN: minima vectorize, too."""
    return _merge(function, forceinline=True, fastmath={"reassoc", "contract", "nsz", "nnan"})


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `inlined`, and a product that is added to a sum need not be rounded first (one instruction for both)."""
    return _merge(function, forceinline=True, fastmath={"contract"})


_COMMON: dict[str, Any] = {"boundscheck": False, "error_model": "numpy", "nogil": True}
_FROM_PYTHON: dict[str, Any] = {"no_cfunc_wrapper": True}  # C does not call them


def _merge(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    with _compiling_enabled():
        return merged.build(function, lambda: _compile(function, **options), **_COMMON, **options)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def build(cache: bool) -> Any:
        dispatcher = njit(cache=cache, **_COMMON, **_FROM_PYTHON, **options, **merged.PIPELINE)(function)
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
    room = Path(__file__).parent  # instructions that kernels use are also part of their code
    sources = ((path.parent == room, path.read_bytes()) for path in sorted(room.parent.rglob("*.py")))
    kernels = (source for in_room, source in sources if in_room or b"asot.jit.compiled" in source)
    return hashlib.sha256(b"".join(kernels)).hexdigest()


def _at(typing, base, offset):  # type: ignore[no-untyped-def]
    """``base + offset`` as an unsigned index, which avoids the negative-index check that prevents vectorization."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        numbers = [
            context.cast(builder, number, kind, types.uint64)
            for number, kind in zip(arguments, signature.args, strict=True)
        ]
        return builder.add(*numbers)

    return types.uint64(types.unliteral(base), types.unliteral(offset)), generate  # type: ignore[no-untyped-call]


at: Any = intrinsic(_at)
