"""An index as a folder: columns as files, a journal, and a manifest that names the generation that counts.

    manifest.json   format, version, generation: written under another name and renamed
    settings.npz    which distance
    lock            held by the one process that writes; the system releases it when the process ends, however it ends
    g000001/        journal, columns, names and frame; compacting writes the next generation and renames the manifest

A change appends to columns, waits until they are on disk, and then writes one record of the journal. Sizes are compared
with the files before anything is read, and nothing in a folder is executed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.npz import atomic_write, load_arrays, save_arrays
from asot.data.temporary import lock
from asot.index.columns import FileColumn
from asot.index.frame import Frame, Slack, frame_arrays, frame_from
from asot.index.journal import Entry, Journal
from asot.index.members import Columns, Name
from asot.index.settings import Settings, read_settings

FORMAT, VERSION = "asot-index", 2
_LARGEST_MANIFEST = 2**16
_PARAMETER = "parameter_"
_FRAME_ARRAYS = ("widest", "rotation", "points", "offsets", "masses", "totals")


class Generation:
    """The files of one generation; ``writes`` opens them for appending, too."""

    def __init__(self, path: Path, settings: Settings, writes: bool) -> None:
        self.path, self.settings, self._writes = path, settings, writes
        try:
            self._journal = Journal(path / "journal.bin", writes)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path} has no journal; the folder is damaged") from error
        entry = self._journal.entry
        self._names = FileColumn(path / "names.bin", np.uint8, None, entry.name_bytes, writes)
        self._name_ends = FileColumn(path / "name_ends.bin", np.int64, None, entry.members, writes)
        self.columns: Columns | None = None
        if entry.dim:
            frame = None
            if entry.prepared:
                saved = load_arrays(path / "frame.npz", "index-frame", ["center"], _FRAME_ARRAYS)
                frame = frame_from(*saved, settings, entry.dim)
            columns = self.start(entry.dim, frame)
            ends = np.concatenate([[0], columns.plain["ends"].view()])
            if ends[-1] != entry.points or (np.diff(ends) <= 0).any():
                raise ValueError(f"{path / 'ends.bin'} does not say where members end; the folder is damaged")

    @property
    def entry(self) -> Entry:
        return self._journal.entry

    @property
    def slack(self) -> Slack:
        return Slack(self.entry.extent, self.entry.reach, self.entry.farthest)

    def start(self, dim: int, frame: Frame | None) -> Columns:
        """Open the columns for points of this many coordinates."""
        own = weakref.proxy(self)  # columns that held it would keep its files open until both are collected
        self.columns = Columns(dim, frame, lambda name, dtype, width: own._column(name, dtype, width))
        return self.columns

    def _column(self, name: str, dtype: Any, width: int | None) -> FileColumn:
        entry = self.entry
        lengths = {"points": entry.points, "masses": entry.points, "removed": entry.removed}
        lengths |= dict.fromkeys(("ends", "totals", "narrow"), entry.members)
        lengths |= dict.fromkeys(("places", "words"), entry.points if entry.prepared else 0)
        lengths["vocabulary"] = entry.words
        n = lengths.get(name, entry.prepared)
        return FileColumn(self.path / f"{name}.bin", dtype, width, n, self._writes)

    def alive(self) -> NDArray[np.bool_]:
        """Which slots are members."""
        alive = np.ones(self.entry.members, dtype=np.bool_)
        if self.columns is not None:
            removed = self.columns.plain["removed"].view()
            if len(removed) and (removed.min() < 0 or removed.max() >= len(alive)):
                raise ValueError(f"{self.path / 'removed.bin'} names members that never were; the folder is damaged")
            alive[removed] = False
        return alive

    def names(self) -> list[Name]:
        """The ids of all slots."""
        raw, ends = self._names.view().tobytes(), self._name_ends.view()
        where = np.concatenate([[0], ends])
        if where[-1] != len(raw) or (np.diff(where) <= 0).any():
            raise ValueError(f"{self.path / 'name_ends.bin'} does not say where ids end; the folder is damaged")
        bounds = where.tolist()
        try:
            return [_decoded(raw[a:b]) for a, b in itertools.pairwise(bounds)]
        except ValueError as error:
            raise ValueError(f"{self.path / 'names.bin'} has an id that is not text; the folder is damaged") from error

    def keep_frame(self, frame: Frame) -> None:
        header, arrays = frame_arrays(frame)
        save_arrays(self.path / "frame.npz", {"kind": "index-frame", **header}, arrays)

    def commit(self, names: list[Name], slack: Slack, next_name: int) -> None:
        """Make everything that was appended to columns final, with the ids of new members."""
        columns, old = self.columns, self.entry
        assert columns is not None
        encoded = [b"i%d" % name if isinstance(name, int) else b"s" + name.encode() for name in names]
        lengths = np.array([len(name) for name in encoded], dtype=np.int64)
        try:
            self._names.append(np.frombuffer(b"".join(encoded), dtype=np.uint8))
            self._name_ends.append(old.name_bytes + np.cumsum(lengths))
            for column in (columns, self._names, self._name_ends):
                column.settle()
            if not old.members or (columns.tables and not old.prepared):
                _settle_folder(self.path)  # there are new files
            ends = columns.plain
            self._journal.write(
                Entry(
                    number=old.number + 1, dim=columns.dim, members=ends["ends"].n,
                    points=ends["points"].n, name_bytes=self._names.n, removed=ends["removed"].n,
                    prepared=columns.tables["pool"].n if columns.tables else 0, next_name=next_name,
                    words=columns.tables["vocabulary"].n if "vocabulary" in columns.tables else 0,
                    extent=slack.extent, reach=slack.reach, farthest=slack.farthest,
                )
            )  # fmt: skip
        except BaseException:
            self._names.n, self._name_ends.n = old.name_bytes, old.members
            raise

    def n_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.iterdir())


class Folder:
    """A folder that holds an index, opened to read or to write."""

    def __init__(self, path: Path, writes: bool) -> None:
        self.path, self.writes = path, writes
        self._release: Any = None
        if not path.is_dir():
            raise FileNotFoundError(f"there is no index at {path}: Index(...).save({str(path)!r}) makes one")
        _manifest(path)  # a folder that is no index gets no lock
        self.process = os.getpid()
        if writes:
            _refuse_links(path)
            self._release = weakref.finalize(self, os.close, _locked(path / "lock"))
        self.settings = read_saved_settings(path / "settings.npz")
        self.generation = self._opened()
        if writes:
            self._remove_others()
            if _manifest(path)[0] < VERSION:  # what is appended may be of this one
                _write_manifest(path, self.generation.path.name)

    def read_again(self) -> Generation:
        """What is final, after a change that was interrupted."""
        self.generation = self._opened()
        return self.generation

    def _opened(self) -> Generation:
        """The generation that counts. While it is opened, a writer may have moved on to the next."""
        for attempt in range(20):
            name = _manifest(self.path)[1]
            try:
                return Generation(self.path / name, self.settings, self.writes)
            except FileNotFoundError:
                if attempt == 19 or (self.writes and name == _manifest(self.path)[1]):
                    raise
        raise AssertionError

    def _remove_others(self) -> None:
        """Generations that nobody counts on any more, and those that were cut off."""
        for entry in self.path.iterdir():
            if re.fullmatch(r"g\d{6,18}", entry.name) and entry != self.generation.path:
                shutil.rmtree(entry, ignore_errors=True)

    def next_generation(self) -> Generation:
        """An empty generation beside the one that counts."""
        number = int(self.generation.path.name[1:]) + 1
        return _new_generation(self.path / f"g{number:06}", self.settings)

    def switch(self, new: Generation) -> None:
        """From now on, this generation counts."""
        _settle_folder(new.path)
        _settle_folder(self.path)
        _write_manifest(self.path, new.path.name)
        _settle_folder(self.path)
        self.generation = new
        self._remove_others()

    def drop(self, new: Generation) -> None:
        """Remove a generation that could not be filled, unless it counts already."""
        if _manifest(self.path)[1] != new.path.name:
            shutil.rmtree(new.path, ignore_errors=True)

    def close(self) -> None:
        if self._release is not None:
            self._release()


def create_folder(path: Path, settings: Settings) -> Generation:
    """A new folder with an empty generation; nothing is read from it until `finish_folder`."""
    path.mkdir()
    save_settings(path / "settings.npz", settings)
    (path / "lock").touch()
    return _new_generation(path / "g000001", settings)


def finish_folder(path: Path, target: Path) -> None:
    """Let a new folder be an index, under its name."""
    _settle_folder(path / "g000001")
    _write_manifest(path, "g000001")
    _settle_folder(path)
    os.rename(path, target)
    _settle_folder(target.parent)


def _new_generation(path: Path, settings: Settings) -> Generation:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    (path / "journal.bin").touch()
    return Generation(path, settings, True)


def _write_manifest(path: Path, generation: str) -> None:
    with atomic_write(path / "manifest.json") as stream:
        stream.write(json.dumps({"format": FORMAT, "version": VERSION, "generation": generation}).encode())


def _manifest(path: Path) -> tuple[int, str]:
    """The version of the format, and the name of the generation that counts."""
    file = path / "manifest.json"
    if not file.is_file():
        raise FileNotFoundError(f"{path} is no index: it has no manifest.json")
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_LARGEST_MANIFEST))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON; the folder is damaged") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is no index that asot wrote")
    version, generation = found.get("version"), found.get("generation")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{file} has no version; the folder is damaged")
    if version > VERSION:
        raise ValueError(f"{path} has format version {version}, newer than the {VERSION} read here; upgrade asot")
    if not isinstance(generation, str) or re.fullmatch(r"g\d{6,18}", generation) is None:
        raise ValueError(f"{file} names no generation; the folder is damaged")
    return version, generation


def _refuse_links(path: Path) -> None:
    """What is written must stay in the folder; whoever made it may have made a link to somebody else's file."""
    for entry in (*path.iterdir(), *(path / _manifest(path)[1]).glob("*")):
        if entry.is_symlink():
            raise ValueError(f"{entry} is a link, and an index is written where it is; copy the folder with its files")


def _settle_folder(path: Path) -> None:
    """Names of files survive a crash when this returns, where the system can promise that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _locked(path: Path) -> int:
    """The descriptor of a lock that we hold until it is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if not lock(descriptor):
        os.close(descriptor)
        raise BlockingIOError(
            f"{path.parent} is being written by another process or another Index; open it with mode='r' to read it"
        )
    return descriptor


def save_settings(path: Path, settings: Settings) -> None:
    """Write which distance it is."""
    if not isinstance(settings.metric, str):
        raise ValueError("an index under a function as metric= cannot be saved: a file cannot hold a function")
    given = settings.metric_params or {}
    arrays = {_PARAMETER + name: np.asarray(value) for name, value in given.items() if np.ndim(value)}
    numbers = {name: value for name, value in given.items() if not np.ndim(value)}
    header = {"kind": "index", "p": settings.p, "metric": settings.metric, "unmatched": settings.unmatched}
    save_arrays(path, {**header, "parameters": numbers, "arrays": sorted(arrays), "seed": settings.seed}, arrays)


def read_saved_settings(path: Path) -> Settings:
    header, _ = load_arrays(path, "index")
    listed, numbers, metric = header.get("arrays"), header.get("parameters"), header.get("metric")
    fits = isinstance(listed, list) and all(isinstance(name, str) for name in listed) and isinstance(numbers, dict)
    if not fits or not isinstance(metric, str) or not isinstance(header.get("seed"), int):
        raise ValueError(f"{path} does not hold the settings of an index; it is damaged")
    names = [str(name) for name in listed or []]
    _, arrays = load_arrays(path, "index", required=names)
    given = dict(numbers or {}) | {name.removeprefix(_PARAMETER): arrays[name] for name in names}
    return read_settings(header.get("p"), metric, given or None, header.get("unmatched"), header["seed"])


def _decoded(raw: bytes) -> Name:
    """An id, from a letter for its type and itself."""
    if raw[:1] == b"s":
        return raw[1:].decode()
    if raw[:1] != b"i" or len(raw) > 21:
        raise ValueError
    return int(raw[1:])
