"""Sixteen float32 side by side, for blocks of distances. NaN must not occur. See `asot.jit.vectors`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from asot.jit.vectors import Emit, Vectors

WIDTH = 16
"""How many numbers a value holds."""

_KIND = Vectors(WIDTH, "f32")


def _lesser(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _plus_product(builder: Any, start: Any, a: Any, b: Any) -> Any:
    return builder.fadd(start, builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _plus_gap(builder: Any, start: Any, a: Any, b: Any) -> Any:
    return builder.fadd(start, _KIND.called(builder, "fabs", builder.fsub(a, b)))


def _folded(name: str, doc: str, combine: Emit) -> Any:
    """An operation that makes one number of sixteen, by folding the upper half onto the lower one again and again."""

    def fold(builder: Any, value: Any) -> Any:
        half = WIDTH // 2
        while half:
            upper = _KIND.shuffled(builder, value, [(i + half) % WIDTH for i in range(WIDTH)])
            value = combine(builder, value, upper)
            half //= 2
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return _KIND.operation(name, doc, types.float32, (_KIND.type,), fold)


load, store, spread = _KIND.load, _KIND.store, _KIND.spread
minus = _KIND.lanewise("minus", "a - b", 2, lambda builder, a, b: builder.fsub(a, b))
lesser = _KIND.lanewise("lesser", "min(a, b)", 2, _lesser)
root = _KIND.lanewise("root", "√a", 1, lambda builder, a: _KIND.called(builder, "sqrt", a))
plus_square = _KIND.lanewise(
    "plus_square", "start + a², fused where the machine can.", 2, lambda builder, s, a: _plus_product(builder, s, a, a)
)
plus_product = _KIND.lanewise("plus_product", "start + a·b, fused where the machine can.", 3, _plus_product)
plus_gap = _KIND.lanewise("plus_gap", "start + |a - b|", 3, _plus_gap)
least = _folded("least", "The smallest.", _lesser)
total = _folded("total", "The sum.", lambda builder, a, b: builder.fadd(a, b))
