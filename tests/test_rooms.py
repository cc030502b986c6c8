"""The rooms of the house and who may look into which: each room knows only those above it in this list.

So no import goes back and forth, no lazy one hides a cycle, and what is private to a room stays there.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import asot

ROOMS = (
    ("validation", "printable", "lazy"),
    ("native", "gpu"),
    ("ground",),
    ("data",),
    ("run",),
    ("results",),
    ("sinks",),
    ("exact", "entropic"),
    ("histograms", "batch", "spaces"),
    ("gradients",),
    ("anchors",),
    ("bounds",),
    ("strategy",),
    ("distances", "neighbors", "plans"),
    ("gromov_wasserstein",),
    ("index",),
    ("learn", "baselines", "datasets"),
    ("plots", "demo"),
    ("view", "demo_picture"),
    ("commands", "cli"),
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
HERE = Path(asot.__file__).parent

STRATEGY = ("attempts", "call", "exactly", "on_anchors", "other_distances", "prices", "strategy", "to_aim")
"""Modules of ``run`` that decide how a call is carried out, and so know all solvers, spaces and bounds."""


def imports(file):
    """(room, name) of everything of asot that a module imports, at its head or inside a function."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "asot":
            for name in node.names:
                path = [*node.module.split("."), name.name]
                if path[1] != "__version__":
                    yield _room(path[1:]), name.name


def room_of(file):
    return _room([part.removesuffix(".py") for part in file.relative_to(HERE).parts])


def _room(path):
    return "strategy" if path[0] == "run" and path[1] in STRATEGY else path[0]


@pytest.mark.parametrize("file", sorted(HERE.rglob("*.py")), ids=lambda file: str(file.relative_to(HERE)))
def test_a_module_imports_only_from_rooms_above_its_own(file):
    own = room_of(file)
    if own == "__init__":
        return
    for room, name in imports(file):
        assert room == own or LEVEL[room] < LEVEL[own], f"{own} imports {name} from {room}"
        assert room == own or not name.startswith("_"), f"{own} imports the private {name} from {room}"
