"""The front door: light to import, and clear about what is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import asot


def test_importing_the_package_loads_nothing_heavy():
    look = "import sys, asot; print(sorted({'numba', 'scipy', 'sklearn', 'torch', 'numpy'} & set(sys.modules)))"
    code = f"import sys; sys.path[:] = {sys.path!r}; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'asot' has no attribute 'emd_all'"):
        asot.emd_all  # noqa: B018


def test_the_public_names_are_listed():
    assert set(asot.__all__) <= set(dir(asot))
    assert asot.sinks.TopK(1).n_neighbors == 1
