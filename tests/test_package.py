"""The front door: light to import, and clear about what is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import asot


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"matplotlib", "numpy", "scipy", "sklearn", "torch"}
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


def test_distances_load_no_estimator():
    """scikit-learn takes a second to load, and only learners of anchors need it."""
    calls = "asot.pairwise([[[0.0, 1.0]], [[2.0, 4.0]]]); asot.emd_many([[1.0, 0.0]], cost=[[0, 1], [1, 0]])"
    job = f"import sys, asot; {calls}"
    look = "print(sorted({'pandas', 'scipy.special', 'sklearn'} & set(sys.modules)))"
    code = f"import sys; sys.path[:] = {sys.path!r}; {job}; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version_is_the_same_everywhere():
    root = Path(__file__).parent.parent
    for file in (
        "pyproject.toml", "reproduction/pyproject.toml", "CITATION.cff", "packaging/conda/meta.yaml",
    ):  # fmt: skip
        found = re.search(r"""(?<![-\w])version\s*[:=]+\s*["']?([\d.]+)["']?""", (root / file).read_text())
        assert found is not None, file
        assert found[1] == asot.__version__, file


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    root = Path(__file__).parent.parent
    wanted = re.search(r"^dependencies = \[(.+?)^\]", (root / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    recipe = (root / "packaging/conda/meta.yaml").read_text()
    oldest = (root / "packaging/oldest.txt").read_text()
    for line in re.findall(r'"(.+?)"', wanted[1]):
        name, version = line.split(">=")
        assert f"- {name} >={version}" in recipe
        assert f"\n{name}=={version}" in oldest
