"""Types of operations are looked up once: the same answers, and numba is left as it was."""

from __future__ import annotations

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target

from asot.jit import merged, remembered
from asot.jit.compiled import compiled, inlined, reordered


def named(known):
    return {getattr(function, "typing_key", function) for function, _ in known}


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(remembered, "_KNOWN", {})
    return remembered._KNOWN


@pytest.mark.skipif(not merged.AVAILABLE, reason="numba's internals are not those that are known")
def test_each_kind_of_operation_is_asked_for_once(known, monkeypatch):
    asked = []
    context = type(cpu_target.typing_context)
    usual = context.resolve_function_type

    def resolve(self, function, arguments, named):
        asked.append((getattr(function, "typing_key", function), tuple(arguments)))
        return usual(self, function, arguments, named)

    monkeypatch.setattr(context, "resolve_function_type", resolve)
    inner = inlined(lambda x, i: x[i] * x[i] + np.float64(x[i]) if x[i] > 0.0 else x[i])
    outer = compiled(lambda x: inner(x, 1) * inner(x, 2) + inner(x, 3))
    assert outer(np.arange(4.0)) == 2.0 * 6.0 + 12.0
    products = [types for function, types in asked if getattr(function, "__name__", "") == "mul"]
    assert products == [(types.float64, types.float64)]
    assert [types for function, types in asked if function is bool] == [(types.boolean,)]


def test_functions_that_depend_on_flags_are_not_kept(known):
    strict = inlined(lambda x, y: min(x, y) + abs(x))
    loose = reordered(lambda x, y: min(x, y) + abs(x))
    assert compiled(lambda x, y: strict(x, y) - loose(x, y))(2.0, 3.0) == 0.0
    assert not {min, abs} & named(known)


def test_nothing_stays_behind(known):
    assert compiled(lambda x: x + 1)(1) == 2
    with pytest.raises(TypingError):
        compiled(lambda x: x + "one")(1)
    assert "resolve_function_type" not in vars(cpu_target.typing_context)
