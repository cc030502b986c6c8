"""Eight float64 side by side: like `asot.jit.lanes`, for exact distances and for pairs that iterate in step.

A value is an LLVM vector ``<8 x double>``. The functions are for kernels only (`asot.jit.compiled`). Arrays are
contiguous float64; indices are not checked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

DOUBLES = 8
"""How many numbers a value holds."""

_VECTOR = ir.VectorType(ir.DoubleType(), DOUBLES)


class _DoubleLanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="DoubleLanes")


@register_model(_DoubleLanesType)
class _DoubleLanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)


_lanes = _DoubleLanesType()


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), DOUBLES), [0] * DOUBLES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), order)


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

    return _lanes(types.float64), generate


@intrinsic
def plus_squared_gap(typing, start, a, b):
    """start + (a - b)², the product fused where the machine can."""

    def generate(context, builder, signature, arguments):
        start, a, b = arguments
        gap = builder.fsub(a, b)
        return builder.fadd(start, builder.fmul(gap, gap, flags=("contract",)), flags=("contract",))

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def root(typing, a):
    """√a"""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v8f64")
        return builder.call(function, arguments)

    return _lanes(_lanes), generate


@intrinsic
def zeros(typing):
    """0 in all lanes."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(_VECTOR, [0.0] * DOUBLES)

    return _lanes(), generate


@intrinsic
def quotient(typing, a, b):
    """a / b"""

    def generate(context, builder, signature, arguments):
        return builder.fdiv(*arguments)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def add_product(typing, total, number, lanes):
    """total + number · lanes, where the number is the same for all lanes."""

    def generate(context, builder, signature, arguments):
        total, number, lanes = arguments
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v8f64")
        return builder.call(fma, [_spread(builder, number), lanes, total])

    return _lanes(_lanes, types.float64, _lanes), generate
