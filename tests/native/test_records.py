"""Python's records and C++'s structs of the same name describe the same memory."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import asot
from asot.native import Doubles, Int, Ints, Record, Tile

NATIVE = Path(asot.__file__).parent / "native"
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)

METHOD = re.compile(r"\s+INLINE .*\{.*\}$")  # on one line


def structs():
    """The names of the fields of every plain struct of the C++ sources, by the name of the struct."""
    found = {}
    for path in sorted(NATIVE.rglob("*.?pp")):
        for name, body in STRUCT.findall(path.read_text(encoding="utf-8")):
            lines = [line.split("//")[0].strip() for line in body.splitlines() if not METHOD.match(line)]
            fields = " ".join(lines)
            if "(" not in fields:
                found[name] = re.findall(r"(\w+)\s*(?=[,;])", fields)
    return found


def records():
    for module in pkgutil.walk_packages(asot.__path__, "asot."):
        if not module.name.startswith(("asot.cli", "asot.commands")) and "torch" not in module.name:
            text = Path(importlib.util.find_spec(module.name).origin).read_text(encoding="utf-8")
            if "(Record" in text or "\n    Record," in text:
                importlib.import_module(module.name)
    pending, seen = [Record], []
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            seen.append(kind)
    return [kind for kind in seen if kind.__module__.startswith("asot.")]


def test_every_record_has_a_struct_with_its_fields():
    known = structs()
    kinds = records()
    assert Tile in kinds
    for kind in kinds:
        assert [name for name, _ in kind._fields_] == known[kind.__name__], kind.__name__


def test_every_field_takes_eight_bytes():
    import ctypes

    for kind in records():
        assert ctypes.sizeof(kind) == 8 * len(kind._fields_), kind.__name__


def test_a_record_refuses_arrays_that_a_kernel_would_misread():
    class Some(Record, n=Int, x=Doubles, rows=Ints):
        pass

    with pytest.raises(TypeError, match="contiguous array of float64; found float32"):
        Some(x=np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="contiguous"):
        Some(x=np.zeros((3, 3)).T[:, ::2])
    with pytest.raises(KeyError):
        Some(y=1)
    assert Some(n=3).n == 3


def test_a_record_takes_the_fields_that_a_source_has():
    class Source(NamedTuple):
        n: int
        rows: object
        values: object

    source = Source(3, np.arange(3), np.zeros(3))
    found = Tile.of(source, n=2, columns=None, steps=None, stop=np.zeros(1, np.int64))
    assert found.n == 2
    assert found.arrays()["rows"] is source.rows
    assert found.arrays()["values"] is source.values
    with pytest.raises(AttributeError, match="columns"):
        Tile.of(source)


def test_a_record_travels_with_its_arrays():
    rows = np.arange(3)
    there = pickle.loads(pickle.dumps(Tile(n=3, rows=rows, stop=np.zeros(1, np.int64))))
    assert there.n == 3
    assert there._arrays["rows"].tolist() == [0, 1, 2]
    assert there.rows.value == there._arrays["rows"].__array_interface__["data"][0]
    assert there.values.value is None
