"""Sixteen float32 side by side: like `asot.jit.lanes`, for blocks of distances.

A value is an LLVM vector ``<16 x float>``: one AVX-512 register, two of AVX2, four of NEON. The functions are for
kernels only (`asot.jit.compiled`). Arrays are contiguous float32; indices are not checked; NaN must not occur.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

WIDTH = 16
"""How many numbers a value holds."""

_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, WIDTH)


class _FloatLanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="FloatLanes")


@register_model(_FloatLanesType)
class _FloatLanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _VECTOR)


_lanes = _FloatLanesType()


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


@intrinsic
def load(typing, array, index):
    """The entries index .. index + 15 of an array."""

    def generate(context, builder, signature, arguments):
        value = builder.load(_place(context, builder, signature.args[0], *arguments))
        value.align = 4
        return value

    return _lanes(array, types.int64), generate


@intrinsic
def store(typing, array, index, lanes):
    """Write lanes to the entries index .. index + 15 of an array."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _place(context, builder, signature.args[0], *arguments[:2])).align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes), generate


@intrinsic
def spread(typing, number):
    """The same number in all lanes."""

    def generate(context, builder, signature, arguments):
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), arguments[0], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)

    return _lanes(types.float32), generate


@intrinsic
def minus(typing, a, b):
    """a - b"""

    def generate(context, builder, signature, arguments):
        return builder.fsub(*arguments)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def lesser(typing, a, b):
    """min(a, b)"""

    def generate(context, builder, signature, arguments):
        a, b = arguments
        return builder.select(builder.fcmp_ordered("<", a, b), a, b)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def plus_square(typing, start, a):
    """start + a², fused where the machine can."""

    def generate(context, builder, signature, arguments):
        start, a = arguments
        return builder.fadd(start, builder.fmul(a, a, flags=("contract",)), flags=("contract",))

    return _lanes(_lanes, _lanes), generate


@intrinsic
def plus_gap(typing, start, a, b):
    """start + |a - b|"""

    def generate(context, builder, signature, arguments):
        start, a, b = arguments
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fabs.v16f32")
        return builder.fadd(start, builder.call(function, [builder.fsub(a, b)]))

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def plus_product(typing, start, a, b):
    """start + a·b, fused where the machine can."""

    def generate(context, builder, signature, arguments):
        start, a, b = arguments
        return builder.fadd(start, builder.fmul(a, b, flags=("contract",)), flags=("contract",))

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def root(typing, a):
    """√a"""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.v16f32")
        return builder.call(function, arguments)

    return _lanes(_lanes), generate


def _folded(name: str, doc: str, combine: Any) -> Any:
    """An operation that makes one number of sixteen, by folding the upper half onto the lower one again and again."""

    def operation(typing, lanes):
        def generate(context, builder, signature, arguments):
            value = arguments[0]
            half = WIDTH // 2
            while half:
                order = [(i + half) % WIDTH for i in range(WIDTH)]
                mask = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), order)
                value = combine(builder, value, builder.shuffle_vector(value, ir.Constant(_VECTOR, ir.Undefined), mask))
                half //= 2
            return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

        return types.float32(_lanes), generate

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = doc
    return intrinsic(operation)


least = _folded("least", "The smallest.", lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
total = _folded("total", "The sum.", lambda builder, a, b: builder.fadd(a, b))
