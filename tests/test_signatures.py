"""Arguments that travel together are records: few functions take more than eight, and their number only falls.

Three kinds are counted apart. What users call is named by its arguments, one for each choice they have: public
functions, estimators in scikit-learn's way, and commands. Kernels take what the machine takes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import asot

HERE = Path(asot.__file__).parent
MANY = 8
MOST_INSIDE = 0
"""Functions that no user calls, with more than eight parameters, as counted."""
MOST_PUBLIC, MOST_COMMANDS = 14, 0
MOST_DICTIONARIES = 58
"""Uses of ``dict[str, Any]``, which says nothing about what is in it."""


def trees():
    for file in sorted(HERE.rglob("*.py")):
        yield str(file.relative_to(HERE)), ast.parse(file.read_text(encoding="utf-8"))


def count_parameters(function):
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = named[:1] in (["self"], ["cls"])
    return len(named) - own + (given.vararg is not None) + (given.kwarg is not None)


def functions(tree, inside=""):
    """(name, function) of all functions, methods with their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = f"{inside}{node.name}"
            if isinstance(node, ast.FunctionDef):
                yield name, node
            yield from functions(node, f"{name}.")
        else:
            yield from functions(node, inside)


def public_names():
    """(module, name) of everything that `asot` and `asot.gradients` export."""
    for file in (HERE / "__init__.pyi", HERE / "gradients" / "__init__.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and "." in node.module:
                path = node.module.removeprefix("asot.").replace(".", "/") + ".py"
                yield from ((path, one.name) for one in node.names)


def kinds():
    """Long signatures by kind."""
    found, public = {"public": [], "command": [], "kernel": [], "inside": []}, set(public_names())
    for file, tree in trees():
        for name, function in functions(tree):
            if count_parameters(function) <= MANY:
                continue
            decorators = " ".join(map(ast.unparse, function.decorator_list))
            if "triton.jit" in decorators:
                kind = "kernel"
            elif "click.command" in decorators:
                kind = "command"
            else:
                first, *rest = name.split(".")
                method = not rest or not rest[-1].startswith("_") or rest[-1] == "__init__"
                kind = "public" if (file, first) in public and method else "inside"
            found[kind].append(f"{file}: {name}")
    return found


def test_few_functions_take_many_arguments():
    found = kinds()
    assert len(found["inside"]) <= MOST_INSIDE, found["inside"]
    assert len(found["public"]) <= MOST_PUBLIC, found["public"]
    assert len(found["command"]) <= MOST_COMMANDS, found["command"]


def test_dictionaries_of_anything_are_few():
    uses = [
        file
        for file, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]"
    ]
    assert len(uses) <= MOST_DICTIONARIES, uses
