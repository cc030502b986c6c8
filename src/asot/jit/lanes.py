"""Eight int64 side by side: explicit SIMD for the kernels whose loops are too short for the compiler's own.

LLVM vectorizes a loop over n numbers for large n: at 8 numbers per register and 4 registers per round, 24 numbers run
one by one. The blocks here *are* that short. A `Lanes` value is an LLVM vector ``<8 x i64>``; every target lowers it
to what it has (one AVX-512 register, two of AVX2, four of NEON). Masks of lanes are plain integers, one bit each.

The functions here are for kernels only (`asot.jit.compiled`). Arrays are contiguous int64; indices are not checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
"""How many numbers a `Lanes` value holds."""

_VECTOR = ir.VectorType(ir.IntType(64), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)


_lanes = _LanesType()


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Pointer to the eight entries of a contiguous int64 array that begin at index."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def load(typing, array, index):
    """The entries index .. index + 7 of an array."""

    def generate(context, builder, signature, arguments):
        value = builder.load(_place(context, builder, signature.args[0], *arguments))
        value.align = 8
        return value

    return _lanes(array, types.int64), generate


@intrinsic
def store(typing, array, index, lanes):
    """Write lanes to the entries index .. index + 7 of an array."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2])).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate


@intrinsic
def spread(typing, number):
    """The same number in all lanes."""

    def generate(context, builder, signature, arguments):
        return _spread(builder, arguments[0])

    return _lanes(types.int64), generate


@intrinsic
def count_up(typing):
    """0, 1, .., 7."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(_VECTOR, list(range(LANES)))

    return _lanes(), generate


def _lanewise(name: str, doc: str, emit: Any) -> Any:
    """An operation on two `Lanes` values."""

    def operation(typing, a, b):
        def generate(context, builder, signature, arguments):
            return emit(builder, *arguments)

        return _lanes(_lanes, _lanes), generate

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = doc
    return intrinsic(operation)


plus = _lanewise("plus", "a + b", lambda builder, a, b: builder.add(a, b))
minus = _lanewise("minus", "a - b", lambda builder, a, b: builder.sub(a, b))
both = _lanewise("both", "a & b", lambda builder, a, b: builder.and_(a, b))
either = _lanewise("either", "a | b", lambda builder, a, b: builder.or_(a, b))
differ = _lanewise("differ", "a ^ b", lambda builder, a, b: builder.xor(a, b))
lesser = _lanewise("lesser", "min(a, b)", lambda builder, a, b: builder.select(builder.icmp_signed("<", a, b), a, b))
larger = _lanewise("larger", "max(a, b)", lambda builder, a, b: builder.select(builder.icmp_signed(">", a, b), a, b))


@intrinsic
def least(typing, lanes):
    """The smallest of the eight numbers."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(64), [_VECTOR])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.smin.v8i64")
        return builder.call(reduce, arguments)

    return types.int64(_lanes), generate


@intrinsic
def where_equal(typing, a, b):
    """The lanes in which a and b agree, as bits of an integer."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(builder.icmp_signed("==", *arguments), ir.IntType(LANES))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(_lanes, _lanes), generate


@intrinsic
def plus_where(typing, bits, a, b):
    """a + b in the lanes named by the lowest 8 bits of an integer, a in the others."""

    def generate(context, builder, signature, arguments):
        bits, a, b = arguments
        mask = builder.bitcast(builder.trunc(bits, ir.IntType(LANES)), _MASK)
        return builder.select(mask, builder.add(a, b), a)

    return _lanes(types.int64, _lanes, _lanes), generate


@intrinsic
def lowest_bit(typing, bits):
    """Position of the lowest bit of an integer that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def put(typing, lanes, lane, number):
    """The lanes with another number in one of them."""

    def generate(context, builder, signature, arguments):
        lanes, lane, number = arguments
        here = builder.icmp_signed("==", ir.Constant(_VECTOR, list(range(LANES))), _spread(builder, lane))
        return builder.select(here, _spread(builder, number), lanes)

    return _lanes(_lanes, types.int64, types.int64), generate
