"""Stretches of memory as bare pointers, for the scratch memory of kernels.

numba passes an array as seven values (who owns it, its size, strides and so on), and wraps negative indices at every
access. A workspace of twenty arrays that is handed from function to function is mostly that, and compiling it took most
of the time of a first call. A span is one pointer: ``span[i]`` is a load, and there is nothing else that it can do.
Indices are not checked, and must not be negative.

A span does not own its memory. Whoever makes spans keeps the array beside them, in the same tuple, so that it lives as
long as they do.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model


class SpanType(types.Type):
    """The type of a pointer to numbers of type ``dtype``."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(name=f"Span({dtype})")
        self.dtype = dtype


@register_model(SpanType)
class _SpanModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: SpanType) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_data_type().as_pointer())


def _maker(dtype: Any, doc: str) -> Any:
    """An instruction that makes spans of one type of numbers."""

    def make(typing, memory, start):
        def generate(context, builder, kinds, values):
            data = context.make_array(kinds.args[0])(context, builder, values[0]).data
            return builder.bitcast(builder.gep(data, [values[1]]), context.get_value_type(kinds.return_type))

        return SpanType(dtype)(memory, types.int64), generate

    make.__doc__ = doc
    return intrinsic(make)


integers = _maker(types.int64, "The int64 numbers of an array from an index on.")
short_integers = _maker(types.int32, "The memory of an int64 array from an index on, as int32 numbers.")
doubles = _maker(types.float64, "The memory of an int64 array from an index on, as float64 numbers.")


@infer_global(operator.getitem)
class _Read(AbstractTemplate):
    def generic(self, arguments: Any, named: Any) -> Any:
        span, index = arguments
        if isinstance(span, SpanType) and isinstance(index, types.Integer):
            return signature(span.dtype, span, types.unliteral(index))
        return None


@infer_global(operator.setitem)
class _Write(AbstractTemplate):
    def generic(self, arguments: Any, named: Any) -> Any:
        span, index, _ = arguments
        if isinstance(span, SpanType) and isinstance(index, types.Integer):
            return signature(types.none, span, types.unliteral(index), span.dtype)
        return None


def _place(context: Any, builder: Any, kind: Any, span: Any, index: Any) -> Any:
    wide = types.int64 if kind.signed else types.uint64
    return builder.gep(span, [context.cast(builder, index, kind, wide)])


@lower_builtin(operator.getitem, SpanType, types.Integer)
def _read(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    return builder.load(_place(context, builder, kinds.args[1], *values))


@lower_builtin(operator.setitem, SpanType, types.Integer, types.Any)
def _write(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    span, index, value = values
    builder.store(value, _place(context, builder, kinds.args[1], span, index))
    return context.get_dummy_value()
