"""What benchmarks need, in the words of their ``NEEDS``: files of the data folder, packages, a GPU.

A benchmark is a module in a folder below this one that says what it needs. Modules are read, not imported, so that a
list of benchmarks takes none of their packages.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path

FILES = {
    "diagrams": ("more/pd_sixshapes.npz", "more/pd_sixshapes.npz"),
    "graphs": ("tu", "tu/COX2.zip, tu/NCI1.zip, …"),
    "molecules": ("zinc", "zinc/zinc_graphs.npz"),
    "images": ("mnist", "mnist/t10k-images-idx3-ubyte.gz, …"),
    "crystals": ("more/crystals_perov_5_val.npz", "more/crystals_perov_5_val.npz, more/crystals_carbon_24_val.npz"),
    "neurons": ("more/neurons_euclidean.npz", "more/neurons_euclidean.npz"),
    "tweets": ("more/wmd_twitter.npz", "more/wmd_twitter.npz"),
}
"""What a word asks of the data folder: what has to be there, and how a message names it."""

PACKAGES = {
    "anndata": ("anndata", "'.[cells]'"),
    "distributed": ("distributed", "'.[scale]'"),
    "fastapi": ("fastapi", "fastapi uvicorn"),
    "paper": ("asot_paper", "./reproduction"),
    "pot": ("ot", "'.[bench]'"),
    "torch": ("torch", "'.[torch]'"),
    "zarr": ("zarr", "'.[scale]'"),
}
"""The module that a word stands for, and what to install from the root of the repository."""

READ_BY_PAPER = {"graphs", "molecules", "images"}
"""Files that asot-paper reads."""


def benchmarks() -> dict[str, tuple[str, set[str]]]:
    """The module of every benchmark and what it needs, by its name."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("*/*.py")):
        needs = _needs(file)
        if needs is not None:
            found[file.stem] = (f"benchmarks.{file.parent.name}.{file.stem}", needs)
    return found


def missing(needs: set[str], data: Path | None) -> str | None:
    """The first need that is not met, as a sentence without its subject."""
    for need in sorted(needs & set(FILES)):
        place, files = FILES[need]
        if data is None or not (data / place).exists():
            return f"reads {need}: give --data DIR (or set ASOT_DATA) with {files}"
    for need in sorted(needs & set(PACKAGES) | ({"paper"} if needs & READ_BY_PAPER else set())):
        module, source = PACKAGES[need]
        if importlib.util.find_spec(module) is None:
            return f"needs {module}: pip install -e {source}"
    if "before" in needs and not os.environ.get("ASOT_BEFORE"):
        return "needs an earlier version: set ASOT_BEFORE to the src of one, such as a worktree of an earlier commit"
    return None


def _needs(file: Path) -> set[str] | None:
    """What ``NEEDS`` of a module says; None for a helper, which has none."""
    for line in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "NEEDS" for target in targets):
            return set() if isinstance(line, ast.AnnAssign) else set(ast.literal_eval(line.value))
    return None
