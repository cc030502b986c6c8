"""The part of an index that changes: members are added, removed, written to a folder and read from one."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.data.distributions import Distributions, as_distributions
from asot.index.folder import Folder, Generation, create_folder, finish_folder
from asot.index.frame import Frame, Slack, bounds_of, make_frame
from asot.index.members import Columns, Name, Names, Snapshot, make_snapshot, name_array
from asot.index.naming import as_name, as_names, known_slots, new_names
from asot.index.recall import Rehearsal
from asot.index.served import Served
from asot.index.settings import Settings
from asot.run import engine

FEWEST = 256
"""Members from which on vectors are made; fewer are solved, all of them."""

_FRAME_MEMBERS = 4096  # that a frame is made from
_BLOCK = 4096  # members that are prepared at a time

Own = TypeVar("Own", bound="GrowingMembers")


class GrowingMembers:
    """Members under one distance; in memory, or in a folder that every change is written to."""

    def _begin(self, settings: Settings, folder: Folder | None) -> None:
        self._settings, self._folder = settings, folder
        self._change = threading.RLock()
        self._closed = False
        self._is_whole = True  # no change was interrupted
        self._columns: Columns | None = None
        self._names: list[Name] = []
        self._by_name: dict[Name, int] | None = None
        self._next_name = 0
        self._snapshot: Snapshot | None = None
        self._served = Served()
        self._rehearsed: dict[tuple[int, float], tuple[int, Frame | None, Rehearsal]] = {}
        if folder is not None:
            self._read(folder.generation)

    def _read(self, generation: Generation) -> None:
        alive, self._names = generation.alive(), generation.names()
        self._columns, self._next_name = generation.columns, generation.entry.next_name
        members = np.flatnonzero(alive).tolist()
        if len({self._names[slot] for slot in members}) < len(members):
            raise ValueError(f"two members of {generation.path} have one id; the folder is damaged")
        columns = self._columns
        self._snapshot = None if columns is None else make_snapshot(columns, self._names, alive, generation.slack)

    @classmethod
    def open(cls: type[Own], path: str | os.PathLike[str], mode: str = "r") -> Own:
        """An index that `save` wrote, without loading it: members are read from the files when they are needed.

        Parameters
        ----------
        path : path of the folder
        mode : {"r", "r+"}
            "r" reads the index as it is now; later changes by others are seen when it is opened again. "r+" writes
            through: every change is on disk when its call returns, and a process that dies loses at most the call that
            was running. One process at a time may write, and any number may read meanwhile.

        Examples
        --------
        >>> import tempfile, asot
        >>> path = tempfile.mkdtemp() + "/points"
        >>> asot.Index().save(path)
        >>> with asot.Index.open(path, mode="r+") as index:
        ...     _ = index.add([[[0.0, 0.0]], [[1.0, 0.0]]], ids=["left", "right"])
        >>> asot.Index.open(path).query([[[0.9, 0.0]]], n_neighbors=1).neighbor_ids
        array([['right']], dtype='<U5')
        """
        if mode not in ("r", "r+"):
            raise ValueError(f"mode must be 'r' or 'r+'; found {mode!r}")
        folder = Folder(Path(path), mode == "r+")
        index = cls.__new__(cls)
        index._begin(folder.settings, folder)
        return index

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a copy to a new folder; this index stays where it is."""
        target = Path(path)
        if target.exists():
            raise FileExistsError(f"{target} exists; Index.open(path, mode='r+') changes an index, and save makes one")
        if not target.absolute().parent.is_dir():
            raise FileNotFoundError(f"cannot write {target}: the folder {target.absolute().parent} does not exist")
        with self._change:
            self._check_open()
            beside = target.absolute().parent / f".{target.name}-{secrets.token_hex(8)}.tmp"
            try:
                generation = create_folder(beside, self._settings)
                self._copy_to(generation, self._frame)
                finish_folder(beside, target.absolute())
            except OSError as error:
                reason = error.strerror or str(error).rpartition(": ")[2]
                raise type(error)(f"cannot write {target}: {reason}") from error
            finally:
                shutil.rmtree(beside, ignore_errors=True)

    def close(self) -> None:
        """Release the folder of an index that was opened; it can then be neither asked nor changed."""
        with self._change:
            self._closed = True
            self._snapshot = self._columns = None
            if self._folder is not None:
                self._folder.close()
                self._folder = None

    def __reduce__(self) -> Any:
        raise TypeError(
            "an index has locks and files and is not pickled: index.save(path), and Index.open(path) elsewhere"
        )

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _places(self) -> dict[Name, int]:
        """Slots by id, made when somebody names a member: those of a quarter of a million take 20 MB."""
        with self._change:
            if self._by_name is None:
                snapshot = self._snapshot
                slots = [] if snapshot is None else snapshot.slots.tolist()
                self._by_name = {self._names[slot]: slot for slot in slots}
            return self._by_name

    def __len__(self) -> int:
        return 0 if self._snapshot is None else self._snapshot.count

    def __contains__(self, name: object) -> bool:
        is_id = isinstance(name, (str, int, np.integer)) and not isinstance(name, bool)
        return is_id and not self._closed and name in self._places

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the members, in the order in which they were added."""
        return name_array([] if self._snapshot is None else Names(self._snapshot).tolist())

    def __getitem__(self, name: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Points (n, d) and masses (n,) of a member, bit for bit as they were added."""
        with self._change:
            self._check_open()
            (slot,) = known_slots([as_name(name)], self._places)
            return cast("Snapshot", self._snapshot).member(int(slot))

    def __repr__(self) -> str:
        where = "" if self._folder is None else f" in {self._folder.path}"
        order = f"W_{self._settings.p:g}"
        return f"Index: {len(self):,} distributions{where}, {order}, {self._settings.metric}"

    def add(self, D: Any, ids: Any = None, replace: bool = False) -> NDArray[Any]:
        """Add distributions, and return their ids.

        Parameters
        ----------
        D : Distributions (N), or a list of point arrays (n_i, d)
        ids : sequence of str or int (N,), optional
            By default those of the collection, or else the next numbers that are free.
        replace : bool
            Whether a member with the same id is replaced: the old one is removed, and the new one comes last. If not, a
            known id is an error, and nothing is added.
        """
        D = as_distributions(D)
        self._settings.check(D)
        with self._change:
            self._check_open(to_change=True)
            names = new_names(D, ids, self._next_name, self._places)
            known = [name for name in names if name in self._places]
            if known and not replace:
                raise ValueError(
                    f"{known[0]!r} is in the index already, and nothing was added; replace=True replaces members"
                )
            self._append(D, names, known_slots(known, self._places))
        return name_array(names)

    def remove(self, ids: Any) -> None:
        """Remove the member with this id, or those with these; an unknown id is an error, and removes nothing."""
        with self._change:
            self._check_open(to_change=True)
            slots = np.unique(known_slots(as_names(ids), self._places))
            if len(slots):
                self._append(None, [], slots)

    def _append(self, D: Distributions | None, names: list[Name], gone: NDArray[np.int64]) -> None:
        """One change: new members, and slots that are members no more."""
        columns = self._started(D) if D is not None else cast("Columns", self._columns)
        before, frame = columns.lengths(), columns.frame
        self._is_whole = False
        slack = Slack() if self._snapshot is None else self._snapshot.slack
        numbers = [name + 1 for name in names if isinstance(name, int)]
        next_name = min(2**63 - 1, max([self._next_name, *numbers]))
        try:
            if D is not None:
                slack = slack.joined(self._prepare(columns, D))
                columns.append(D)
            columns.plain["removed"].append(gone)
            if self._folder is not None:
                self._folder.generation.commit(names, slack, next_name)
        except BaseException:
            columns.cut(before, frame)
            raise
        # interrupted from here on, `_mend` starts from the snapshot or from the files
        alive = np.ones(columns.plain["ends"].n, dtype=np.bool_)
        if self._snapshot is not None:
            alive[: len(self._snapshot.alive)] = self._snapshot.alive
        alive[gone] = False
        for slot in gone.tolist():
            del self._places[self._names[slot]]
        first = len(self._names)
        self._names.extend(names)
        self._places.update({name: first + i for i, name in enumerate(names)})
        snapshot = make_snapshot(columns, self._names, alive, slack)
        self._columns, self._next_name, self._snapshot, self._is_whole = columns, next_name, snapshot, True

    def _mend(self) -> None:
        """Return to a whole state after a change that was interrupted: that of the files, or of the last snapshot."""
        if self._is_whole:
            return
        if self._folder is not None:
            self._read(self._folder.read_again())
        elif self._snapshot is None or self._columns is None:
            self._columns, self._names = None, []
        else:
            seen = self._snapshot
            lengths = {name: len(getattr(seen, name, ())) for name in self._columns.plain}
            self._columns.cut(lengths | {name: len(table) for name, table in seen.tables.items()}, seen.frame)
            self._names = seen.names[: len(seen.alive)]
        self._by_name, self._is_whole = None, True

    def _started(self, D: Distributions) -> Columns:
        if self._columns is None:
            if self._folder is not None:
                return self._folder.generation.start(D.dim, None)
            return Columns.in_memory(D.dim)
        if D.dim != self._columns.dim:
            raise ValueError(
                f"the index is in {self._columns.dim} dimensions and the new distributions in {D.dim}; "
                "they must share one space"
            )
        return self._columns

    def _prepare(self, columns: Columns, D: Distributions) -> Slack:
        """Append the vectors of new members; those of all, once there are enough for a frame."""
        held = columns.plain["ends"].n
        frame, everyone = columns.frame, D
        if frame is None:
            if held + len(D) < FEWEST:
                return Slack()
            if held and self._snapshot is not None:
                everyone = self._snapshot.taken(np.arange(held)) + D
            frame = self._new_frame(len(everyone), everyone.__getitem__)
            if frame is None:
                return Slack()
            if self._folder is not None:
                self._folder.generation.keep_frame(frame)
        slack = Slack()
        for start in range(0, len(everyone), _BLOCK):
            tables, more = frame.vectors(everyone[start : start + _BLOCK], self._settings, engine.DEFAULT_MEMORY, 1)
            columns.append_vectors(frame, tables)
            slack = slack.joined(more)
        return slack

    def _new_frame(self, count: int, taken: Callable[[NDArray[np.int64]], Distributions]) -> Frame | None:
        """From some of so many members; ``taken`` gives those at some places."""
        drawn = np.random.default_rng(self._settings.seed).permutation(count)[:_FRAME_MEMBERS]
        return make_frame(taken(np.sort(drawn)), self._settings, engine.DEFAULT_MEMORY)

    def _check_open(self, to_change: bool = False) -> None:
        if self._closed:
            raise ValueError("this index is closed; open it again with Index.open")
        if not to_change:
            return
        if self._folder is not None and not self._folder.writes:
            raise ValueError("this index is opened to be read; Index.open(path, mode='r+') can change it")
        if self._folder is not None and self._folder.process != os.getpid():
            raise ValueError(
                "this index was opened by the process that this one is a fork of; only that one changes it"
            )
        self._mend()

    @property
    def _frame(self) -> Frame | None:
        return None if self._columns is None else self._columns.frame

    def compact(self) -> None:
        """Give back the room of members that were removed or replaced."""
        with self._change:
            self._check_open(to_change=True)
            if self._columns is not None:
                self._rewrite(self._frame)

    def rebuild(self) -> None:
        """Choose axes and landmarks anew, from the members there are now; compacts, too.

        It changes no answer. ``info["rebuild_pays"]`` says when queries have become slower than they were.
        """
        with self._change:
            self._check_open(to_change=True)
            if self._columns is None or self._snapshot is None:
                return
            frame, seen, slots = None, self._snapshot, self._snapshot.slots
            if seen.count >= FEWEST:
                frame = self._new_frame(len(slots), lambda places: seen.taken(slots[places]))
            self._rewrite(frame)

    def _rewrite(self, frame: Frame | None) -> None:
        """Write the members anew, without those that were removed, under a frame."""
        snapshot = cast("Snapshot", self._snapshot)
        names = Names(snapshot).tolist()
        if self._folder is None:
            columns = Columns.in_memory(snapshot.points.shape[1])
            slack = self._fill(columns, frame)
        else:
            generation = self._folder.next_generation()
            try:
                slack = self._copy_to(generation, frame)
                self._is_whole = False
                self._folder.switch(generation)
            except BaseException:
                self._folder.drop(generation)
                raise
            columns = cast("Columns", generation.columns)
        seen = make_snapshot(columns, names, np.ones(len(names), dtype=np.bool_), slack)
        self._columns, self._names, self._by_name, self._snapshot, self._is_whole = columns, names, None, seen, True
        self._served, self._rehearsed = Served(), {}

    def _copy_to(self, generation: Generation, frame: Frame | None) -> Slack:
        """Fill an empty generation with the members, and make that final."""
        snapshot = self._snapshot
        if snapshot is None:
            return Slack()
        columns = generation.start(snapshot.points.shape[1], None)
        if frame is not None:
            generation.keep_frame(frame)
        slack = self._fill(columns, frame)
        generation.commit(Names(snapshot).tolist(), slack, self._next_name)
        return slack

    def _fill(self, columns: Columns, frame: Frame | None) -> Slack:
        snapshot = cast("Snapshot", self._snapshot)
        slack = snapshot.slack if frame is snapshot.frame else Slack()
        slots = snapshot.slots
        for start in range(0, len(slots), _BLOCK):
            some = slots[start : start + _BLOCK]
            members = snapshot.taken(some)
            columns.append(members, snapshot.narrow[some])
            if frame is None:
                continue
            if frame is snapshot.frame:
                columns.append_vectors(frame, snapshot.vectors(some))
            else:
                tables, more = frame.vectors(members, self._settings, engine.DEFAULT_MEMORY, 1)
                columns.append_vectors(frame, tables)
                slack = slack.joined(more)
        return slack

    @property
    def info(self) -> Info:
        """Members, room and speed: what queries solved lately, and whether `rebuild` or `compact` would pay."""
        snapshot = self._snapshot
        slots = 0 if snapshot is None else len(snapshot.alive)
        frame = self._frame
        known: dict[str, Any] = {
            "members": len(self), "removed": slots - len(self),
            "points": 0 if snapshot is None else len(snapshot.masses), "bytes": self._bytes(),
            "p": self._settings.p, "metric": self._settings.metric, "unmatched": self._settings.unmatched,
            "bounds": bounds_of(frame), "prepared": 0 if snapshot is None else snapshot.prepared,
            "path": None if self._folder is None else str(self._folder.path),
        }  # fmt: skip
        pays = slots > 2 * max(1, len(self)) and slots > FEWEST
        return known | self._served.report() | {"compact_pays": pays}

    def _bytes(self) -> int:
        if self._folder is not None and not self._closed:
            return self._folder.generation.n_bytes()
        if self._columns is None:
            return 0
        return sum(column.view().nbytes for column in (*self._columns.plain.values(), *self._columns.tables.values()))
