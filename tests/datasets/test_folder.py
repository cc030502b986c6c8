"""Where the data folder is."""

import sys
from pathlib import Path

import pytest

from asot.datasets.folder import data_folder


def test_the_argument_comes_first_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ASOT_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "named"
    monkeypatch.setenv("ASOT_DATA", "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "asot"


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache/asot"), ("darwin", "Library/Caches/asot"), ("win32", "AppData/Local/asot")],
)
def test_every_system_has_its_cache(monkeypatch, tmp_path, platform, expected):
    for name in ("ASOT_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert data_folder() == tmp_path / expected


def test_the_home_folder_may_be_written_as_a_tilde(monkeypatch):
    assert data_folder("~/data") == Path.home() / "data"


@pytest.mark.parametrize("folder", ["", 3, b"bytes"])
def test_what_is_not_a_path_is_refused(folder):
    with pytest.raises(ValueError, match="folder must be a path"):
        data_folder(folder)
