"""Collections in the files of other programs: cells in an ``.h5ad`` file, and folders with one file per distribution.

Only what is asked for is read, and what reading will take is compared with the size of the file first, as for our own
files (`asot.data.h5ad`).
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from numpy.typing import NDArray

from asot.data import h5ad
from asot.data.distributions import Distributions
from asot.data.npz import PathLike, naming, read_array
from asot.data.tabular import csv_rows, read_columns, split_off_mass
from asot.lazy import needed

FOLDER_SUFFIXES = (".csv", ".npy", ".graphml")


def load_h5ad(path: PathLike, groupby: str | None, use_rep: str) -> Distributions:
    """The cells of every sample; see `Distributions.from_anndata`."""
    with _open_h5ad(path) as file:
        if groupby is None:
            columns = ", ".join(map(repr, _keys(file, "obs", path)))
            raise ValueError(f"{path} holds cells; groupby must name the column of obs with their samples: {columns}")
        obs = h5ad.read_obs(file, groupby, path)
        held: dict[str, dict[str, Any]] = {name: dict.fromkeys(_keys(file, name, path)) for name in ("obsm", "layers")}
        held["X"] = dict.fromkeys(["X"] if "X" in list(file) else [])
        for name, group in held.items():
            if use_rep in group:
                node = h5ad.member(file if name == "X" else h5ad.member(file, name, path), use_rep, path)
                group[use_rep] = h5ad.matrix(node, len(obs), use_rep, path)
        cells = SimpleNamespace(
            obs=obs, obs_names=obs.index, n_obs=len(obs), X=held["X"].get("X"), obsm=held["obsm"], layers=held["layers"]
        )
        with naming(path):
            return Distributions.from_anndata(cells, groupby, use_rep=use_rep)


def columns_of_h5ad(path: PathLike, names: Sequence[str]) -> list[Any]:
    """Columns of obs, as pandas has them."""
    with _open_h5ad(path) as file:
        return [h5ad.read_obs(file, name, path)[name] for name in names]


def describe_h5ad(path: PathLike) -> str:
    """What there is to choose from, in a sentence."""
    with _open_h5ad(path) as file:
        columns = _keys(file, "obs", path)
        places = [*_keys(file, "obsm", path), *_keys(file, "layers", path), *(["X"] * ("X" in list(file)))]
        samples, cells = (" | ".join(names) or "(nothing)" for names in (columns, places))
        return f"AnnData: samples by --groupby {samples}; cells at --use-rep {cells}"


@contextlib.contextmanager
def _open_h5ad(path: PathLike) -> Iterator[Any]:
    """The file, open for reading; whatever HDF5 makes of a damaged one while it is read is a sentence."""
    _, h5py = (needed(name, f"reading {path} needs anndata: pip install asot[cells]") for name in ("anndata", "h5py"))
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} is not an HDF5 file, whatever its name says, or it is damaged") from error
    with file:
        try:
            if "obs" not in list(file):
                raise ValueError(f"{path} is not an AnnData file: it has no obs")
            yield file
        except (RuntimeError, KeyError, UnicodeDecodeError) as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            if "h5py" not in frame.f_code.co_filename and "h5py" not in str(frame.f_globals.get("__name__", "")):
                raise
            raise ValueError(f"{path} is damaged: {' '.join(str(error).split())}") from error


def _keys(file: Any, name: str, path: PathLike) -> list[str]:
    return h5ad.keys(h5ad.member(file, name, path))


def load_folder(path: PathLike, attributes: str | None) -> Distributions:
    """One distribution per file, in the order of the names, which become ids without their endings."""
    files = folder_files(path)
    suffix = files[0].suffix.lower()
    if suffix == ".graphml":
        return load_graphs(files, attributes)
    if attributes is not None:
        raise ValueError(f"attributes belongs to graphs, and {path} holds {suffix} files")
    read: Callable[[Path], tuple[NDArray[Any], NDArray[Any] | None]] = _points if suffix == ".npy" else _table
    parts = [read(file) for file in files]
    points, masses = [one for one, _ in parts], [own for _, own in parts]
    known = [own is not None for own in masses]
    if any(known) and not all(known):
        raise ValueError(f"{files[known.index(False)]} has no column 'mass', but {files[known.index(True)]} has")
    with naming(path):
        return Distributions.from_list(points, masses if all(known) else None, [file.stem for file in files])


def folder_files(path: PathLike) -> list[Path]:
    """The files of a folder, sorted by name; all of one kind, hidden ones aside."""
    files = sorted(Path(entry.path) for entry in os.scandir(path) if entry.is_file() and entry.name[:1] != ".")
    if not files:
        raise ValueError(f"the folder {path} holds no files")
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1 or kinds[0] not in FOLDER_SUFFIXES:
        raise ValueError(
            f"the folder {path} holds {', '.join(kind or 'names without an ending' for kind in kinds)}; it must hold "
            f"one file per distribution, all of them {', '.join(FOLDER_SUFFIXES[:-1])} or {FOLDER_SUFFIXES[-1]}"
        )
    return files


def load_graphs(files: Sequence[Path], attributes: str | None) -> Distributions:
    """Graphs as `Distributions.from_graphs` has them by default."""
    networkx = needed("networkx", f"reading {files[0]} needs networkx: pip install networkx")
    graphs = []
    for file in files:
        try:
            graph = networkx.read_graphml(file)
        except Exception as error:  # whatever a damaged file makes of its XML
            raise ValueError(f"{file} is not GraphML, whatever its name says, or it is damaged: {error}") from error
        if graph.is_directed():
            raise ValueError(f"{file} holds a directed graph; write it with edgedefault='undirected' to compare it")
        graphs.append(graph)
    with naming(files[0].parent):
        return Distributions.from_graphs(graphs, attributes=attributes, ids=[file.stem for file in files])


def _points(file: Path) -> tuple[NDArray[Any], None]:
    points = read_array(file)
    if points.ndim != 2 or points.dtype.kind not in "fiub":
        raise ValueError(f"{file} holds {points.dtype} of shape {points.shape}, not points (n, d)")
    return points, None


def _table(file: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    with csv_rows(file) as rows:
        names = [name.strip() for name in next(rows, [])]
        if "id" in names:
            raise ValueError(f"{file} has a column 'id': it is a collection of its own, and not one distribution")
        if len(names) - ("mass" in names) < 1 or not any(names):
            raise ValueError(f"{file} is empty: its first line must name the columns, such as x,y,mass")
        return split_off_mass(read_columns(rows, names, [], file).numbers, names, file)
