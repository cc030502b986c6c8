"""Eight float64 side by side, for exact distances and for pairs that iterate in step. See `asot.jit.vectors`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from asot.jit.vectors import Vectors

DOUBLES = 8
"""How many numbers a value holds."""

_KIND = Vectors(DOUBLES, "f64")
_LANES = _KIND.type


def _plus_squared_gap(builder: Any, start: Any, a: Any, b: Any) -> Any:
    gap = builder.fsub(a, b)
    return builder.fadd(start, builder.fmul(gap, gap, flags=("contract",)), flags=("contract",))


def _plus_gap(builder: Any, start: Any, a: Any, b: Any) -> Any:
    return builder.fadd(start, _KIND.called(builder, "fabs", builder.fsub(a, b)))


def _larger_gap(builder: Any, start: Any, a: Any, b: Any) -> Any:
    gap = _KIND.called(builder, "fabs", builder.fsub(a, b))
    return builder.select(builder.fcmp_ordered(">", gap, start), gap, start)


def _add_product(builder: Any, total: Any, number: Any, lanes: Any) -> Any:
    return _KIND.called(builder, "fmuladd", _KIND.spread_out(builder, number), lanes, total)


load, store, spread = _KIND.load, _KIND.store, _KIND.spread
zeros = _KIND.operation(
    "zeros", "0 in all lanes.", _LANES, (), lambda builder: ir.Constant(_KIND.vector, [0.0] * DOUBLES)
)
root = _KIND.lanewise("root", "√a", 1, lambda builder, a: _KIND.called(builder, "sqrt", a))
quotient = _KIND.lanewise("quotient", "a / b", 2, lambda builder, a, b: builder.fdiv(a, b))
times = _KIND.lanewise("times", "a · b", 2, lambda builder, a, b: builder.fmul(a, b))
plus_gap = _KIND.lanewise("plus_gap", "start + |a - b|", 3, _plus_gap)
larger_gap = _KIND.lanewise("larger_gap", "max(start, |a - b|)", 3, _larger_gap)
plus_squared_gap = _KIND.lanewise(
    "plus_squared_gap", "start + (a - b)², the product fused where the machine can.", 3, _plus_squared_gap
)
add_product = _KIND.operation(
    "add_product", "total + number · lanes, where the number is the same for all lanes.", _LANES,
    (_LANES, types.float64, _LANES), _add_product,
)  # fmt: skip
