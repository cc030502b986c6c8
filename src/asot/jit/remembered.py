"""The types of operations, looked up once and not at every place where they stand.

numba finds out what ``int64 + int64`` is by trying every definition of ``+``, among them those for arrays, strings and
dates. It does so for each of the hundreds of sums, products and comparisons of a kernel, and again in every round of
type inference. Here the answer is kept: an operator, or an instruction of `asot.jit.vectors`, has one signature for
numbers, vectors, arrays and spans of the same types. Other functions are not kept, since numba compiles some of them
for the flags of whoever asks.

numba has no public way to do this; `asot.jit.merged` says for which versions it was tried.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import numba
from numba.extending import intrinsic

from asot.jit.spans import SpanType
from asot.jit.vectors import VectorType

_SIMPLE: Any = (numba.types.Number, numba.types.Boolean, numba.types.Array, SpanType, VectorType)
_CONVERSION: Any = numba.types.NumberClass
_INSTRUCTION: Any = type(intrinsic(lambda typing: None))
_OPERATORS = operator.add.__module__

_KNOWN: dict[Any, Any] = {}
"""The signature of (operation, types of its arguments)."""


@contextlib.contextmanager
def signatures(context: Any) -> Iterator[None]:
    """Within a typing context, keep the signatures of operations, and use those that are kept."""
    before = context.__dict__.get("resolve_function_type")
    usual = type(context).resolve_function_type

    def resolve(function: Any, arguments: Any, named: Any) -> Any:
        if named or not _is_operation(function) or not all(isinstance(each, _SIMPLE) for each in arguments):
            return usual(context, function, arguments, named)
        key = function, tuple(arguments)
        if key not in _KNOWN:
            _KNOWN[key] = usual(context, function, arguments, named)
        return _KNOWN[key]

    context.resolve_function_type = resolve
    try:
        yield
    finally:
        if before is None:
            del context.resolve_function_type
        else:
            context.resolve_function_type = before


def _is_operation(function: Any) -> bool:
    """Whether it is an operator, an instruction, the test of a branch, a range or a conversion such as ``np.int64``."""
    if isinstance(function, _CONVERSION):
        return True
    name = getattr(function, "typing_key", function)
    if name is bool or name is range or isinstance(name, _INSTRUCTION):
        return True
    return getattr(name, "__module__", None) == _OPERATORS
