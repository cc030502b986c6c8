"""All Wasserstein distances within a collection of distributions.

>>> import numpy as np, asot
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (5, 8, 13)])
>>> asot.pairwise_exact(D).matrix().shape
(3, 3)

Names are loaded when first used, so that ``import asot`` is quick and optional packages stay optional. They are listed
once, in ``__init__.pyi``, which type checkers read as it is. The package `lazy_loader` does the same; these lines need
no dependency where only NumPy, SciPy and scikit-learn are installed.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

__version__ = "0.2.0"


def _homes() -> dict[str, str]:
    """The module that each public name comes from, as the stub beside this file says."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in imports for alias in line.names}


_HOMES = _homes()
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'asot' has no attribute {name!r}")
    if _HOMES[name] == "asot":
        return importlib.import_module(f"asot.{name}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])
