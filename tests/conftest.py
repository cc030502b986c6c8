"""Settings of the whole suite: generated examples are the same on every run, and none is timed."""

import contextlib
import signal

with contextlib.suppress(ImportError):  # the tests for GPUs do without it
    from hypothesis import HealthCheck, settings

    settings.register_profile("asot", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("asot")

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    """A command that takes half a minute because the machine is busy prints what it always prints."""
    import asot.run.executors

    monkeypatch.setattr(asot.run.executors, "SECONDS", 3600.0)


@pytest.fixture
def one_thread_of_torch():
    """For problems so small that threads would only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
