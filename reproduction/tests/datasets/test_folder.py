"""Where the data folder is."""

from pathlib import Path

import platformdirs
import pytest
from asot_paper.datasets.folder import data_folder


def test_the_argument_comes_first_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ASOT_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path / "given") == tmp_path / "given"
    assert data_folder() == tmp_path / "named"
    monkeypatch.setenv("ASOT_DATA", "")
    assert data_folder() == Path(platformdirs.user_cache_dir("asot", appauthor=False))


def test_the_home_folder_may_be_written_as_a_tilde(monkeypatch):
    assert data_folder("~/data") == Path.home() / "data"


@pytest.mark.parametrize("folder", ["", 3, b"bytes"])
def test_what_is_not_a_path_is_refused(folder):
    with pytest.raises(ValueError, match="folder must be a path"):
        data_folder(folder)
