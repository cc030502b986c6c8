"""Eight int64 side by side. Masks of lanes are plain integers, one bit each. See `asot.jit.vectors`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from asot.jit.vectors import Vectors

LANES = 8
"""How many numbers a `Lanes` value holds."""

_KIND = Vectors(LANES, "i64")
_LANES, _INT = _KIND.type, types.int64
_COUNT = ir.Constant(_KIND.vector, list(range(LANES)))

load, store, spread = _KIND.load, _KIND.store, _KIND.spread
count_up = _KIND.operation("count_up", "0, 1, .., 7.", _LANES, (), lambda builder: _COUNT)

plus = _KIND.lanewise("plus", "a + b", 2, lambda builder, a, b: builder.add(a, b))
minus = _KIND.lanewise("minus", "a - b", 2, lambda builder, a, b: builder.sub(a, b))
both = _KIND.lanewise("both", "a & b", 2, lambda builder, a, b: builder.and_(a, b))
either = _KIND.lanewise("either", "a | b", 2, lambda builder, a, b: builder.or_(a, b))
differ = _KIND.lanewise("differ", "a ^ b", 2, lambda builder, a, b: builder.xor(a, b))
lesser = _KIND.lanewise(
    "lesser", "min(a, b)", 2, lambda builder, a, b: builder.select(builder.icmp_signed("<", a, b), a, b)
)
larger = _KIND.lanewise(
    "larger", "max(a, b)", 2, lambda builder, a, b: builder.select(builder.icmp_signed(">", a, b), a, b)
)
least = _KIND.operation(
    "least", "The smallest of the eight numbers.", _INT, (_LANES,),
    lambda builder, a: _KIND.called(builder, "vector.reduce.smin", a, gives=ir.IntType(64)),
)  # fmt: skip
lowest_bit = _KIND.operation(
    "lowest_bit", "Position of the lowest bit of an integer that is not 0.", _INT, (_INT,),
    lambda builder, bits: builder.cttz(bits, ir.Constant(ir.IntType(1), 1)),
)  # fmt: skip


def _where_equal(builder: Any, a: Any, b: Any) -> Any:
    return builder.zext(builder.bitcast(builder.icmp_signed("==", a, b), ir.IntType(LANES)), ir.IntType(64))


def _select_less(builder: Any, a: Any, b: Any, if_so: Any, if_not: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), if_so, if_not)


def _plus_where(builder: Any, bits: Any, a: Any, b: Any) -> Any:
    mask = builder.bitcast(builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
    return builder.select(mask, builder.add(a, b), a)


def _put(builder: Any, lanes: Any, lane: Any, number: Any) -> Any:
    here = builder.icmp_signed("==", _COUNT, _KIND.spread_out(builder, lane))
    return builder.select(here, _KIND.spread_out(builder, number), lanes)


where_equal = _KIND.operation(
    "where_equal", "The lanes in which a and b agree, as bits of an integer.", _INT, (_LANES, _LANES), _where_equal
)
select_less = _KIND.lanewise("select_less", "if_so where a < b, if_not elsewhere", 4, _select_less)
plus_where = _KIND.operation(
    "plus_where", "a + b in the lanes named by the lowest 8 bits of an integer, a in the others.", _LANES,
    (_INT, _LANES, _LANES), _plus_where,
)  # fmt: skip
put = _KIND.operation(
    "put", "The lanes with another number in one of them.", _LANES, (_LANES, _INT, _INT), _put
)  # fmt: skip
