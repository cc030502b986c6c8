"""The front door: light to import, and clear about what is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import asot


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"matplotlib", "numba", "numpy", "scipy", "sklearn", "torch"}
    look = f"import sys, asot; print(sorted({heavy!r} & set(sys.modules)))"
    code = f"import sys; sys.path[:] = {sys.path!r}; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'asot' has no attribute 'emd_all'"):
        asot.emd_all  # noqa: B018


def test_the_public_names_are_listed():
    assert set(asot.__all__) <= set(dir(asot))
    assert asot.sinks.TopK(1).n_neighbors == 1


@pytest.mark.parametrize("name", asot.__all__)
def test_every_public_name_can_be_loaded(name):
    found = getattr(asot, name)
    assert getattr(found, "__name__", "").rpartition(".")[2] == name


def test_a_star_import_brings_the_public_names():
    names: dict[str, object] = {}
    exec("from asot import *", names)
    assert set(asot.__all__) <= set(names)


def test_computing_on_the_cpu_needs_neither_torch_nor_pictures():
    job = "import sys, asot; asot.pairwise([[[0.0], [1.0]], [[2.0], [4.0]]], random_state=0)"
    look = "print(sorted({'matplotlib', 'torch'} & set(sys.modules)))"
    code = f"import sys; sys.path[:] = {sys.path!r}; {job}; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
