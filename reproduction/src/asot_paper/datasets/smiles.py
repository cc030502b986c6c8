"""Molecules written as SMILES to graphs of atoms, with RDKit.

An atom's type is its element, the hydrogens that are written at it, and its charge. Written hydrogens are those of the
molecule's Kekulé form: ``[NH+]`` and ``[C@H]`` have one there. The ``[nH]`` of an aromatic ring has none, since it
needs no bracket once the ring is written with single and double bonds. ZINC-250k has 28 such types. They are those of
TUDataset's ZINC sets, and our columns are in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.run.executors import Progress

ATOM_TYPES = (
    "C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -", "S -", "I", "P",
    "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +",
)  # fmt: skip
"""The 28 atom types of ZINC-250k: element, written hydrogens, charge."""

ELEMENTS = (6, 7, 8, 9, 15, 16, 17, 35, 53)
"""The elements of ZINC-250k, by their number."""

_SYMBOLS = {6: "C", 7: "N", 8: "O", 9: "F", 15: "P", 16: "S", 17: "Cl", 35: "Br", 53: "I"}
_SIGNS = {-1: " -", 0: "", 1: " +"}


class Molecules(NamedTuple):
    """Molecules as graphs: n atoms, m bonds, N molecules. Hydrogens are not atoms here."""

    offsets: NDArray[np.int64]  # (N + 1,) the atoms of molecule i are offsets[i]:offsets[i + 1]
    atoms: NDArray[np.int64]  # (n,) column of the atom's type or element
    bonds: NDArray[np.int64]  # (m, 2) atoms, counted through all molecules


def rdkit_is_here() -> bool:
    try:
        import rdkit  # noqa: F401
    except ImportError:
        return False
    return True


def parse_smiles(smiles: Sequence[str], what: str, *, types: bool) -> Molecules:
    """Read molecules; atoms by type or by element. ``what`` is what messages call the source."""
    from rdkit import Chem, rdBase

    as_written: Any = Chem.SmilesParserParams()
    as_written.sanitize = False  # graph, hydrogens and charges are needed as they are written, and nothing else
    as_written.removeHs = False
    column_of = _Columns(types)
    ends, columns = [0], list[int]()
    bonds = list[tuple[int, int]]()
    progress = Progress(None, len(smiles), "reading molecules", unit="molecule")
    try:
        with rdBase.BlockLogs():
            for number, text in enumerate(smiles):
                molecule = Chem.MolFromSmiles(text, as_written) if text else None
                if molecule is None:
                    raise ValueError(f"{what}: molecule {number:,} is {text[:60]!r}, which RDKit cannot read")
                first = ends[-1]
                columns.extend(column_of[_key(atom)] for atom in molecule.GetAtoms())
                bonds.extend((first + b.GetBeginAtomIdx(), first + b.GetEndAtomIdx()) for b in molecule.GetBonds())
                ends.append(len(columns))
                progress.advance(1)
    finally:
        progress.close()
    return Molecules(np.array(ends), np.array(columns), np.array(bonds, dtype=np.int64).reshape(-1, 2))


def _key(atom: Any) -> tuple[int, int, int]:
    """Element, hydrogens written in the Kekulé form, charge."""
    hydrogens, charge = atom.GetNumExplicitHs(), atom.GetFormalCharge()
    if hydrogens and charge == 0 and atom.GetIsAromatic():
        hydrogens = 0
    return atom.GetAtomicNum(), hydrogens, charge


class _Columns(dict[tuple[int, int, int], int]):
    """The column of an atom, found once for each kind of atom."""

    def __init__(self, types: bool) -> None:
        self._types = types

    def __missing__(self, key: tuple[int, int, int]) -> int:
        element, hydrogens, charge = key
        name = _SYMBOLS.get(element, "?") + (f" H{hydrogens}" if hydrogens else "") + _SIGNS.get(charge, "?")
        known = ATOM_TYPES if self._types else [_SYMBOLS[one] for one in ELEMENTS]
        wanted = name if self._types else _SYMBOLS.get(element, "?")
        if wanted not in known:
            raise ValueError(f"an atom has element {element}, {hydrogens} hydrogens and charge {charge}: not of ZINC")
        self[key] = known.index(wanted)
        return self[key]
