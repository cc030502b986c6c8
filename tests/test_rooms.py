"""The rooms of the house and who may look into which: each room knows only those above it in this list.

So no import goes back and forth, no lazy one hides a cycle, and what is private to a room stays there.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

import asot

ROOMS = (
    ("_typing", "validation", "printable", "renamed"),
    ("lazy",),
    ("native", "gpu"),
    ("ground",),
    ("data",),
    ("run",),
    ("results",),
    ("store",),
    ("sinks",),
    ("request",),
    ("exact", "entropic"),
    ("histograms", "batch", "spaces"),
    ("gradients",),
    ("anchors",),
    ("bounds",),
    ("estimate",),
    ("search",),
    ("choose",),
    ("distances", "neighbors", "plans", "saved"),
    ("gromov_wasserstein",),
    ("index",),
    ("learn", "baselines", "datasets"),
    ("plots", "demo"),
    ("view",),
    ("commands", "cli"),
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
HERE = Path(asot.__file__).parent
FILES = sorted(HERE.rglob("*.py"))
MOST_FILES, MOST_FILES_OF_RUN = 30, 10
RECORD_METHODS = {"_replace", "_asdict", "_fields", "_make", "_fields_"}
"""Of named tuples and of structures: public, whatever they look like."""


def name_of(file):
    return str(file.relative_to(HERE))


def room_of(file):
    return file.relative_to(HERE).parts[0].removesuffix(".py")


def imports(tree):
    """(room, module, name, known as) of everything of asot that a module imports, at its head or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "asot":
            for name in node.names:
                path = [*node.module.split("."), name.name]
                if path[1] != "__version__":
                    yield path[1], node.module, name.name, name.asname or name.name
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("asot."):
                    yield name.name.split(".")[1], name.name, name.name, name.asname or name.name


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_module_imports_only_from_rooms_above_its_own(file):
    own = room_of(file)
    if own == "__init__":
        return
    for room, _, name, _ in imports(ast.parse(file.read_text(encoding="utf-8"))):
        assert room == own or LEVEL[room] < LEVEL[own], f"{own} imports {name} from {room}"


def private_names(tree):
    """Private names that a file defines: functions, classes, attributes, and parts that are given by name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        else:
            name = node.arg if isinstance(node, ast.keyword) and node.arg else ""
        if is_private(name):
            yield name


@functools.cache
def names_of_rooms():
    """The private names of each room."""
    names = {}
    for file in FILES:
        found = private_names(ast.parse(file.read_text(encoding="utf-8")))
        names.setdefault(room_of(file), set()).update(found)
    return names


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_what_is_private_stays_at_home(file):
    """No module imports a private name, and no room asks another one's modules, classes or objects for one."""
    tree, own, rooms = ast.parse(file.read_text(encoding="utf-8")), room_of(file), names_of_rooms()
    foreign = set()
    for room, module, name, known_as in imports(tree):
        assert not is_private(name), f"{name} of {module} is private"
        if room != own:
            foreign.add(known_as)
    known = [names for room, names in rooms.items() if LEVEL.get(room, 99) < LEVEL.get(own, 99)]
    elsewhere = set().union(*known) - rooms[own]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr) or node.attr in RECORD_METHODS:
            continue
        owner = node.value.id if isinstance(node.value, ast.Name) else None
        if owner not in ("self", "cls"):  # which may inherit it
            text = f"line {node.lineno}: {ast.unparse(node)} is private to another room"
            assert owner not in foreign, text
            assert node.attr not in elsewhere, text


def test_no_folder_is_crowded():
    folders = {folder: sorted(folder.glob("*.py")) for folder in {file.parent for file in FILES}}
    for folder, files in folders.items():
        assert len(files) <= MOST_FILES, f"{folder.relative_to(HERE)} has {len(files)} files"
    modules = [file.name for file in folders[HERE / "run"] if file.name != "__init__.py"]
    assert len(modules) <= MOST_FILES_OF_RUN, f"run has {modules}"
