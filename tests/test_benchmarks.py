"""Benchmarks are found by what they say they need, without being imported."""

from __future__ import annotations

import pytest

needs = pytest.importorskip("benchmarks.needs")
WORDS = {"before", "gpu", *needs.FILES, *needs.PACKAGES}


@pytest.mark.parametrize("name", needs.benchmarks())
def test_a_benchmark_needs_what_can_be_looked_for(name):
    module, needed = needs.benchmarks()[name]
    assert module.endswith(f".{name}")
    assert needed <= WORDS


def test_a_missing_file_is_named(tmp_path):
    found = needs.missing({"tweets", "gpu"}, tmp_path)
    assert found == "reads tweets: give --data DIR (or set ASOT_DATA) with more/wmd_twitter.npz"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(needs.PACKAGES, "pot", ("a_package_of_nobody", "./nowhere"))
    assert needs.missing({"pot"}, None) == "needs a_package_of_nobody: pip install -e ./nowhere"


def test_nothing_is_missing_where_nothing_is_needed():
    assert needs.missing(set(), None) is None


def test_an_earlier_version_is_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("ASOT_BEFORE", raising=False)
    assert "set ASOT_BEFORE" in needs.missing({"before"}, None)
    monkeypatch.setenv("ASOT_BEFORE", "somewhere")
    assert needs.missing({"before"}, None) is None
