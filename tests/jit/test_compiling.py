"""How kernels are compiled: without a cache where none can be kept, whatever numba is told, and not in silence."""

import os
import subprocess
import sys
import textwrap

import pytest

SOLVE = """
import numpy as np, asot
assert asot.emd_many(np.eye(3), cost=1.0 - np.eye(3)).values.tolist() == [1.0, 1.0, 1.0]
print("solved")
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_kernels_are_compiled_when_numba_is_reported_not_to():
    code = """
    import numba
    from asot.jit.compiled import compiled, inlined
    assert numba.config.DISABLE_JIT == 1  # others keep what they asked for
    assert hasattr(compiled(lambda x: x + 1), "py_func")
    assert not hasattr(numba.njit(lambda x: x + 1), "py_func")
    from asot.jit.lanes import spread
    print("compiled")
    """
    done = run(code, NUMBA_DISABLE_JIT="1")
    assert done.stdout.strip() == "compiled", done.stderr


@pytest.mark.parametrize("failing", ["save", "load"])
def test_a_full_disk_under_the_cache_costs_time_and_not_the_call(failing, tmp_path):
    code = f"""
    from numba.core.caching import IndexDataCacheFile
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")
    IndexDataCacheFile.{failing} = full
    from asot.jit.compiled import compiled
    def plus_one(x):
        return x + 1
    assert compiled(plus_one)(1) == 2
    print("compiled")
    """
    path = tmp_path / "kernels.py"  # numba caches functions of files only
    path.write_text(textwrap.dedent(code))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "compiled", done.stderr


def notice_of(name, seconds_each, count, monkeypatch, capsys, watched=True):
    """What a notice says about ``count`` compilations of a function of the module ``name``, without waiting."""
    from asot.jit import notice as module

    def function():
        pass

    function.__module__ = name
    event = type("Event", (), {"data": {"dispatcher": type("Dispatcher", (), {"py_func": function})}})
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched, raising=False)

    class Timer:
        def __init__(self, seconds, call):
            self.seconds, self.call = seconds, call

        def start(self):
            if seconds_each >= self.seconds:
                self.call()

        def cancel(self):
            pass

    monkeypatch.setattr(module.threading, "Timer", Timer)
    notice = module.Notice()
    for _ in range(count):
        notice.on_start(event)
        clock[0] += seconds_each
        notice.on_end(event)
    return capsys.readouterr().err


def test_long_compiling_is_announced_once(monkeypatch, capsys):
    assert notice_of("asot.exact.simplex", 0.4, 2, monkeypatch, capsys) == ""
    assert notice_of("asot.exact.simplex", 0.4, 9, monkeypatch, capsys).count("asot: compiling for this machine") == 1
    assert notice_of("asot.exact.simplex", 30.0, 2, monkeypatch, capsys).count("asot: compiling for this machine") == 1


def test_nothing_is_said_of_others_or_to_nobody(monkeypatch, capsys):
    assert notice_of("somebody.elses", 30.0, 2, monkeypatch, capsys) == ""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert notice_of("asot.exact.simplex", 30.0, 2, monkeypatch, capsys, watched=False) == ""


def test_numba_tells_when_it_compiles():
    code = """
    import sys
    sys.stderr.isatty = lambda: True
    from asot.jit import notice
    notice.PATIENCE = 0.0
    from asot.jit.compiled import compiled
    def plus_one(x):
        for _ in range(3):
            x += 1
        return x
    f = compiled(plus_one)
    f.py_func.__module__ = "asot.test"
    f(1)
    import time
    time.sleep(0.2)
    """
    assert "asot: compiling for this machine" in run(code).stderr
