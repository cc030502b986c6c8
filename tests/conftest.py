"""Settings of the whole suite: generated examples are the same on every run, and none is timed."""

import contextlib

with contextlib.suppress(ImportError):  # the tests for GPUs do without it
    from hypothesis import HealthCheck, settings

    settings.register_profile("asot", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("asot")
