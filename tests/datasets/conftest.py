"""Downloads in tests come from this machine, and failures are not waited for."""

import urllib.request

import pytest

from asot.datasets import transfer


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(transfer, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(urllib.request, "getproxies", dict)
