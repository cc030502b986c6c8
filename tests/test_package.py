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


@pytest.mark.parametrize("name", ["datasets.load_tu", "datasets.load_zinc", "baselines.entropic", "baselines.pot_emd"])
def test_a_name_of_asot_paper_says_how_to_get_it_where_it_is_missing(name):
    module, name = name.split(".")
    block = "import sys; sys.modules['asot_paper'] = None"
    take = f"import asot.{module}\ntry: from asot.{module} import {name}\nexcept ImportError as error: print(error)"
    rest = f"from asot.{module} import *; print({name!r} in asot.{module}.__all__)"
    code = f"import sys; sys.path[:] = {sys.path!r}\n{block}\n{take}\n{rest}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    sentence = "is part of the package asot-paper: pip install asot-paper (in asot's source: ./reproduction)"
    assert found == f"asot.{module}.{name} {sentence}\nFalse\n"


@pytest.mark.parametrize("module", ["datasets", "baselines"])
def test_names_of_asot_paper_are_handed_on_as_they_are(module):
    paper = pytest.importorskip(f"asot_paper.{module}")
    ours = getattr(asot, module)
    assert {name for name in paper.__all__ if name != "sliced"} <= set(ours.__all__)
    assert all(getattr(ours, name) is getattr(paper, name) for name in paper.__all__ if name != "sliced")


def test_asot_reaches_asot_paper_in_one_place():
    code = sorted(Path(asot.__file__).parent.rglob("*.py"))
    assert [file.name for file in code if re.search(r"asot_paper", file.read_text(encoding="utf-8"))] == ["lazy.py"]


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
        "packaging/cuda/pyproject.toml",
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
