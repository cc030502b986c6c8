"""Reading numbers of threads, amounts of memory and arrays."""

from __future__ import annotations

import os

import joblib
import numpy as np
import pytest

from asot.validation import as_bytes, as_n_jobs, as_positive_int, physical_memory, to_float_array


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("2G", 2**31),
        ("2g", 2**31),
        ("500 MB", 500 * 2**20),
        ("1.5KiB", 1536),
        (".5K", 512),
        (" 64 ", 64),
        ("3B", 3),
        ("1T", 2**40),
        (4096, 4096),
        (1e9, 10**9),
        (np.int64(7), 7),
        (None, 123),
    ],
)
def test_amounts_of_memory_are_read(text, n_bytes):
    assert as_bytes(text, default=123) == n_bytes


def test_n_jobs_has_joblibs_meaning():
    assert as_n_jobs(None) == 1
    assert as_n_jobs(3) == 3
    assert as_n_jobs(np.int64(2)) == 2
    assert as_n_jobs(-1) == joblib.cpu_count()
    with joblib.parallel_config("threading", n_jobs=2):
        assert as_n_jobs(None) == 2


def test_whole_numbers_may_be_numpys():
    assert as_positive_int(np.int32(5), "n") == 5


@pytest.mark.parametrize(
    ("given", "dtype"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.int8, np.float64)],
)
def test_small_floats_may_stay_small(given, dtype):
    assert to_float_array(np.ones(3, dtype=given), "x", keep_float32=True).dtype == dtype
    assert to_float_array(np.ones(3, dtype=given), "x").dtype == np.float64


def test_the_machine_reports_its_memory_or_nothing(monkeypatch):
    def refuse(name):
        raise ValueError(name)

    assert physical_memory() is None or physical_memory() > 2**20
    monkeypatch.setattr(os, "sysconf", refuse, raising=False)
    assert physical_memory() is None
