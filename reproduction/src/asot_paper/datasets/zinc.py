"""ZINC-250k, a quarter of a million small molecules, as distributions: a molecule is the bag of its atoms.

The molecules are published as SMILES strings, and reading these takes RDKit. For machines without it, the data folder
can hold the same graphs as arrays, with the elements of the atoms but without hydrogens and charges.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.adapters.graphs import graph_features
from asot.data.distributions import Distributions
from asot.data.npz import read_arrays
from asot.datasets.dataset import Dataset
from asot.validation import as_choice, to_array
from asot_paper.datasets import catalogue
from asot_paper.datasets.archives import unpack
from asot_paper.datasets.features import describe_rounds
from asot_paper.datasets.fetch import Found, obtain
from asot_paper.datasets.folder import PathLike, data_folder
from asot_paper.datasets.smiles import ATOM_TYPES, ELEMENTS, Molecules, parse_smiles, rdkit_is_here

SPLITS = {"train": 220_011, "val": 24_445, "test": 5_000}
"""Number of molecules, in the order of "all"."""

_LARGEST = 2**26  # bytes of unpacked SMILES; the largest split has 10 million


def load_zinc(
    split: str = "test",
    *,
    rounds: int = 4,
    eps: float = 0.0,
    atoms: str = "auto",
    graphs: ArrayLike | None = None,
    folder: PathLike | None = None,
    download: bool = True,
) -> Dataset:
    """ZINC-250k: every molecule is the bag of its atoms' features, all with the same mass. There are no classes.

    Parameters
    ----------
    split : "train" (220,011 molecules), "val" (24,445), "test" (5,000) or "all" (in this order)
    rounds, eps : int, float
        How features are computed from what atoms start with, see `graph_features`.
    atoms : "types", "elements" or "auto"
        Atoms start with their one-hot type (element, written hydrogens and charge: 28 types; needs RDKit:
        ``pip install 'asot-paper[chem]'``) or with their one-hot element (9). "auto" uses types if it can, and
        elements if RDKit is missing or only the derived file ``zinc_graphs.npz`` is in the folder;
        ``about["atoms"]`` says which.
    graphs : (n,) int, optional
        Which molecules of the split, in which order. Only these become graphs; by default all.
    folder : path, optional
        The data folder; files are in ``zinc/`` of it. By default the folder that the environment variable ``ASOT_DATA``
        names, or else the user's cache.
    download : bool
        Whether to download missing files. A line on stderr says what is downloaded.

    Examples
    --------
    >>> from asot.datasets import load_zinc
    >>> molecules, _, about = load_zinc("test", atoms="elements")     # doctest: +SKIP
    >>> molecules                                                     # doctest: +SKIP
    Distributions: 5,000 distributions of 8 to 37 points (mean 23.1, 115,506 in all) in 45 dimensions, float64
    """
    molecules, about = read_zinc(split, atoms=atoms, graphs=graphs, folder=folder, download=download)
    d = len(ATOM_TYPES if about["atoms"] == "types" else ELEMENTS)
    points = graph_features(np.eye(d)[molecules.atoms], molecules.bonds, rounds=rounds, eps=eps)
    about["features"] = describe_rounds(f"one-hot {_IN_WORDS[about['atoms']]}", d, rounds, eps)
    return Dataset(Distributions(points, molecules.offsets), None, about)


_IN_WORDS = {"types": "atom types (element, written hydrogens, charge)", "elements": "elements of the atoms"}


def read_zinc(
    split: str,
    *,
    atoms: str = "auto",
    graphs: ArrayLike | None = None,
    folder: PathLike | None = None,
    download: bool = True,
) -> tuple[Molecules, dict[str, Any]]:
    """The molecules as graphs, and where they came from."""
    as_choice(split, "split", (*SPLITS, "all"))
    as_choice(atoms, "atoms", ("auto", "types", "elements"))
    chosen = _as_chosen(graphs, split)
    if _takes_smiles(split, atoms, data_folder(folder)):
        kind = "elements" if atoms == "elements" else "types"
        molecules, found = _from_smiles(split, kind, chosen, folder, download)
    else:
        kind = "elements"
        molecules, found = _from_arrays(split, chosen, folder)
    about = {
        "name": f"ZINC-250k ({split})",
        "atoms": kind,
        "source": ", ".join(str(one.path) for one in found),
        "home": catalogue.ZINC_SMILES["test"][-1].urls[0].rpartition("/")[0],
        "verified": found[0].verified,
    }
    return molecules, about


def _takes_smiles(split: str, atoms: str, base: Path) -> bool:
    """Whether the SMILES are to be read, and not the arrays; ImportError if both are impossible without RDKit."""
    rdkit = rdkit_is_here()
    arrays = base / catalogue.ZINC_GRAPHS.place
    if arrays.is_file() and atoms != "types":
        return atoms == "auto" and rdkit and _smiles_are_there(split, base)
    if not rdkit:
        raise ImportError(
            f"ZINC's {'atom types' if atoms == 'types' else 'molecules'} are read from SMILES with RDKit: "
            "pip install 'asot-paper[chem]'. Without RDKit, elements of atoms (atoms='elements') can be read from the "
            f"derived file {arrays.name}, if it is at {arrays}"
        )
    return True


def _smiles_are_there(split: str, base: Path) -> bool:
    return all(any((base / file.place).is_file() for file in catalogue.ZINC_SMILES[part]) for part in _parts(split))


def _parts(split: str) -> tuple[str, ...]:
    return tuple(SPLITS) if split == "all" else (split,)


def _as_chosen(graphs: Any, split: str) -> NDArray[np.int64] | None:
    """Indices into the split, or None for all of it."""
    if graphs is None:
        return None
    size = sum(SPLITS[part] for part in _parts(split))
    chosen = to_array(graphs, "graphs")
    if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
        raise ValueError(f"graphs must hold indices of molecules (n,); found {chosen.dtype} of shape {chosen.shape}")
    if chosen.min() < 0 or chosen.max() >= size:
        raise ValueError(f"graphs must be between 0 and {size - 1:,}; found {chosen.min():,} to {chosen.max():,}")
    return chosen.astype(np.int64)


# ---------------------------------------------------------------------------------------------------------- SMILES


def _from_smiles(
    split: str, kind: str, chosen: NDArray[np.int64] | None, folder: PathLike | None, download: bool
) -> tuple[Molecules, list[Found]]:
    found = [_smiles_file(part, folder, download) for part in _parts(split)]
    smiles: list[str] = []
    for one, part in zip(found, _parts(split), strict=True):
        lines = unpack(one.path, _LARGEST).decode("ascii", errors="replace").split()
        if len(lines) != SPLITS[part]:
            raise ValueError(f"{one.path} has {len(lines):,} molecules, expected {SPLITS[part]:,}")
        smiles.extend(lines)
    if chosen is not None:
        smiles = [smiles[i] for i in chosen]
    return parse_smiles(smiles, ", ".join(str(one.path) for one in found), types=kind == "types"), found


def _smiles_file(part: str, folder: PathLike | None, download: bool) -> Found:
    *others, home = catalogue.ZINC_SMILES[part]
    for file in others:
        if (data_folder(folder) / file.place).is_file():
            return obtain(file, folder, download=False)
    return obtain(home, folder, download=download)


# ---------------------------------------------------------------------------------------------------------- arrays


def _from_arrays(
    split: str, chosen: NDArray[np.int64] | None, folder: PathLike | None
) -> tuple[Molecules, list[Found]]:
    found = obtain(catalogue.ZINC_GRAPHS, folder, download=False)
    arrays = read_arrays(found.path, ("node_ptr", "atomic_number", "edge_ptr", "edges"))
    sizes = list(SPLITS.values())
    first = 0 if split == "all" else sum(sizes[: list(SPLITS).index(split)])
    count = sum(SPLITS[part] for part in _parts(split))
    which = first + (np.arange(count) if chosen is None else chosen)
    offsets, rows = _slices(arrays["node_ptr"], which)
    bond_offsets, bond_rows = _slices(arrays["edge_ptr"], which)
    bonds = arrays["edges"][bond_rows] + np.repeat(offsets[:-1], np.diff(bond_offsets))[:, None]
    elements = np.searchsorted(ELEMENTS, arrays["atomic_number"][rows])
    return Molecules(offsets, elements, bonds), [found]


def _slices(ends: NDArray[Any], which: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows ``ends[i]:ends[i + 1]`` of all i in ``which``, and where each begins among them."""
    begin, sizes = ends[which].astype(np.int64), (ends[which + 1] - ends[which]).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return offsets, np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], sizes)
