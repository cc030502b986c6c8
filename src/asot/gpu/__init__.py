"""How kernels for GPUs are compiled and loaded; the kernels lie beside the solvers that launch them."""

from __future__ import annotations

from typing import Any


class _CuPy:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who only looks at what this module holds does not use it
            raise AttributeError(name)
        import cupy

        return getattr(cupy, name)


cupy: Any = _CuPy()
"""CuPy, which is not imported before it is asked for something: it is optional, and takes a while to load."""
