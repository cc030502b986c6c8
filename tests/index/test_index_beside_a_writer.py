"""Whatever a writer does between any two lines of a reader that opens an index, the reader sees a whole state."""

from __future__ import annotations

import os
import sys

import pytest

import asot
from asot.index import growing
from tests.index.test_index import clouds

_FILES = ("folder.py", "journal.py", "columns.py")
_LONG = ("names", "_decoded", "<listcomp>")  # go through all members


def opened(path, change, at):
    """An index that was opened while ``change()`` happened before the line number ``at``; and how many lines it took.

    Lines are those of `asot.index` that look at files.
    """
    count = 0

    def watch(frame, event, _):
        nonlocal count
        code = frame.f_code
        if not code.co_filename.endswith(_FILES) or code.co_name in _LONG:
            return None
        if event == "line":
            count += 1
            if count == at:
                sys.settrace(None)
                change()
                sys.settrace(watch)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        return asot.Index.open(path), count
    finally:
        sys.settrace(before)


def state(index):
    return [(name, index[name][0].tobytes()) for name in index.ids.tolist()]


@pytest.mark.parametrize("what", ["changes", "compacts"])
def test_a_reader_sees_a_state_that_was_there(tmp_path, monkeypatch, what):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no machine loses its power here
    monkeypatch.setattr(growing, "FEWEST", 4)  # so that there are vectors
    path = tmp_path / "index"
    index = asot.Index()
    index.add(clouds(5))
    index.save(path)
    states = [state(index)]
    with asot.Index.open(path, mode="r+") as writer:

        def change():
            if what == "changes":
                writer.add(clouds(2, len(states)), ids=["a", "b"], replace=True)
                states.append(state(writer))
                writer.remove("a")
                states.append(state(writer))
            else:
                writer.compact()

        lines = opened(path, change, 0)[1]
        assert lines > 50
        seen = 0
        for at in range(1, lines + 1):
            last = state(opened(path, change, at)[0])
            assert last in states[seen:], f"at line {at} of {lines}"
            seen = max(number for number, known in enumerate(states) if known == last)


def test_a_record_that_failed_is_not_found_by_readers(tmp_path, monkeypatch):
    path = tmp_path / "index"
    index = asot.Index()
    index.add(clouds(4))
    index.save(path)
    with asot.Index.open(path, mode="r+") as writer:
        journal = writer._folder.generation._journal
        settled = os.fsync

        def fail_for_the_journal(descriptor):
            if descriptor == journal._descriptor:
                raise OSError("the disk is gone")
            settled(descriptor)

        monkeypatch.setattr(os, "fsync", fail_for_the_journal)
        with pytest.raises(OSError, match="the disk is gone"):
            writer.add(clouds(2, 1), ids=["a", "b"])
        assert state(asot.Index.open(path)) == state(index)
        monkeypatch.undo()
        writer.add(clouds(1, 2), ids=["c"])
        assert state(asot.Index.open(path)) == state(writer)
