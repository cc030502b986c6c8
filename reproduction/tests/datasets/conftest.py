"""Downloads in tests come from this machine, and failures are not waited for."""

import types

import pytest


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    pooch = pytest.importorskip("pooch")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pooch.core, "time", types.SimpleNamespace(sleep=lambda seconds: None))
