"""SIMD vectors as values of compiled functions: the part that all kinds of lanes share.

LLVM vectorizes a loop over n numbers for large n: at 8 numbers per register and 4 registers per round, 24 numbers run
one by one. The loops here *are* that short. So kernels name their vectors: a value is an LLVM vector such as ``<8 x
i64>``, and every target lowers it to what it has (one AVX-512 register, two of AVX2, four of NEON).

A kind of lanes is a module with a `Vectors` and its operations, each a line of LLVM. They are for kernels only
(`asot.jit.compiled`). Arrays are contiguous (or spans, `asot.jit.spans`), and indices are not checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from asot.jit.spans import SpanType

Emit = Callable[..., Any]
"""Emits the instructions of an operation: (builder, *arguments) → value."""


_ELEMENTS: dict[str, tuple[Any, Any]] = {
    "i64": (types.int64, ir.IntType(64)),
    "f64": (types.float64, ir.DoubleType()),
    "f32": (types.float32, ir.FloatType()),
}


class VectorType(types.Type):
    """The type of a vector, with LLVM's name for it: ``v8i64``."""

    def __init__(self, width: int, element: str) -> None:
        super().__init__(name=f"v{width}{element}")
        self.width, self.element = width, element


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, ir.VectorType(_ELEMENTS[kind.element][1], kind.width))


class Vectors:
    """A kind of lanes: ``width`` numbers of type ``element``."""

    def __init__(self, width: int, element: str) -> None:
        self.width, self.type = width, VectorType(width, element)
        self.number, llvm_number = _ELEMENTS[element]
        self.vector = ir.VectorType(llvm_number, width)

    def operation(self, name: str, doc: str, gives: Any, takes: tuple[Any, ...], emit: Emit) -> Any:
        """A function of compiled code. ``gives`` and ``takes`` are its types."""

        def typed(typing, *arguments):
            return gives(*takes), lambda context, builder, signature, values: emit(builder, *values)

        names = ["typing", *(f"argument_{i}" for i in range(len(takes)))]  # numba asks how many there are
        shape = inspect.Signature([inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY) for each in names])
        typed.__signature__ = shape  # type: ignore[attr-defined]
        typed.__name__ = typed.__qualname__ = name
        typed.__doc__ = doc
        return intrinsic(typed)

    def lanewise(self, name: str, doc: str, n_arguments: int, emit: Emit) -> Any:
        """An operation on vectors that gives a vector."""
        return self.operation(name, doc, self.type, (self.type,) * n_arguments, emit)

    def called(self, builder: Any, function: str, *values: Any, gives: Any = None) -> Any:
        """Call ``llvm.function`` for these vectors."""
        kind = ir.FunctionType(gives or self.vector, [self.vector] * len(values))
        found = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{function}.{self.type.name}")
        return builder.call(found, values)

    def spread_out(self, builder: Any, number: Any) -> Any:
        """The instructions of `spread`."""
        one = builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        return self.shuffled(builder, one, [0] * self.width)

    def shuffled(self, builder: Any, value: Any, order: list[int]) -> Any:
        """The lanes of a vector in another order."""
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.width), order)
        return builder.shuffle_vector(value, ir.Constant(self.vector, ir.Undefined), places)

    @property
    def load(self) -> Any:
        vector, lanes, align = self.vector, self.type, self.number.bitwidth // 8

        @intrinsic
        def load(typing, array, index):
            """As many entries of an array as there are lanes, from an index on."""

            def generate(context, builder, signature, arguments):
                value = builder.load(_place(vector, context, builder, signature.args[0], *arguments))
                value.align = align
                return value

            return lanes(array, types.int64), generate

        return load

    @property
    def store(self) -> Any:
        vector, align = self.vector, self.number.bitwidth // 8

        @intrinsic
        def store(typing, array, index, lanes):
            """Write lanes to the entries of an array, from an index on."""

            def generate(context, builder, signature, arguments):
                place = _place(vector, context, builder, signature.args[0], *arguments[:2])
                builder.store(arguments[2], place).align = align
                return context.get_dummy_value()

            return types.void(array, types.int64, lanes), generate

        return store

    @property
    def spread(self) -> Any:
        return self.operation("spread", "The same number in all lanes.", self.type, (self.number,), self.spread_out)


def _place(vector: Any, context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Pointer to the entries of a contiguous array, or of a span, that begin at index."""
    is_span = isinstance(array_type, SpanType)
    data = array if is_span else context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())
