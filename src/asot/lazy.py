"""Names that are loaded when they are first used, so that imports are quick and optional packages stay optional.

A package lists its names once, in the ``__init__.pyi`` beside it, which type checkers read as it is. The package
`lazy_loader` does the same; these lines need no dependency, and they know asot-paper: data sets and methods to compare
with live there, are handed on where it is installed, and are missed in one sentence where it is not.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any


def attach(
    package: str, file: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package calls ``__getattr__``, ``__dir__`` and ``__all__``, given its ``__name__`` and ``__file__``.

    ``renamed`` are old names with their new ones. They warn, and are not listed.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    homes = {alias.name: str(line.module) for line in imports for alias in line.names}  # of each public name
    packages = {name: home.partition(".")[0] for name, home in homes.items()}
    here = [name for name in sorted(homes) if packages[name] == "asot" or importlib.util.find_spec(packages[name])]

    def load(name: str) -> Any:
        if name in renamed:
            from asot.renamed import warn_renamed

            warn_renamed(f"{package}.{name}", f"{package}.{renamed[name]}")
            return getattr(sys.modules[package], renamed[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(_imported(homes[name], f"{package}.{name}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*here, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return load, names, here


def needed(module: str, sentence: str) -> Any:
    """A module of an optional package, or a sentence that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise ImportError(sentence) from missing


def _imported(home: str, wanted: str) -> Any:
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "asot_paper":
            raise
        raise ImportError(
            f"{wanted} is part of the package asot-paper: pip install asot-paper (in asot's source: ./reproduction)"
        ) from missing
