"""Functions that live only inside other compiled functions.

numba optimizes every compiled function and makes machine code of it, even if all that is ever done with it is to merge
it into its callers, which are then optimized again, level by level. That took more than half of the time of a first
call. Functions that are built here stop after their types are inferred and their instructions are written down; whoever
calls them optimizes them together with its own code, once.

numba has no public way to do this. With a version that is newer than those it was tried with, or that lacks what is
used here, a function is compiled as usual.
"""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import numba

from asot.jit import remembered
from asot.jit.spans import SpanType
from asot.jit.vectors import VectorType

types: Any = numba.types
errors: Any = numba.core.errors

NEWEST = (0, 68)
"""Version of numba up to which this was tried, from 0.60 on."""

try:
    _dynfunc: Any = importlib.import_module("numba._dynfunc")
    _codegen: Any = importlib.import_module("numba.core.codegen")
    _compiler: Any = importlib.import_module("numba.core.compiler")
    _machinery: Any = importlib.import_module("numba.core.compiler_machinery")
    _passes: Any = importlib.import_module("numba.core.typed_passes")
    _untyped_passes: Any = importlib.import_module("numba.core.untyped_passes")
    AVAILABLE = numba.version_info[:2] <= NEWEST and all(
        hasattr(*needed)
        for needed in (
            (_dynfunc, "make_function"),
            (_codegen, "JITCodeLibrary"),
            (_compiler, "DefaultPassBuilder"),
            (_machinery, "register_pass"),
            (_passes, "NativeLowering"),
            (_passes, "NopythonRewrites"),
            (_passes, "NopythonTypeInference"),
            (_untyped_passes, "InlineClosureLikes"),
        )
    )
except ImportError:
    AVAILABLE = False


PIPELINE: dict[str, Any] = {}
"""Further options of ``numba.njit`` for functions that Python calls."""


def build(function: Any, plain: Any, **options: Any) -> Any:
    """A dispatcher for compiled callers; ``plain()`` makes the one that is used if Python calls the function."""
    if not AVAILABLE:
        return plain()
    dispatcher = numba.njit(pipeline_class=_Merged, **options)(function)
    get_call_template = dispatcher.get_call_template
    made: list[Any] = []

    def for_any_number(positional: Any, named: Any) -> Any:
        """One version for all constants of a type: they become constants again where the function is merged."""
        plain_named = {name: types.unliteral(each) for name, each in named.items()}
        return get_call_template([types.unliteral(each) for each in positional], plain_named)

    def for_python(*arguments: Any, **named: Any) -> Any:
        """What to call instead."""
        if not made:
            made.append(plain())
        return made[0]

    dispatcher._insert = lambda *overload: None  # so that Python never finds code that does not exist
    dispatcher._compile_for_args = for_python
    dispatcher.get_call_template = for_any_number
    return dispatcher


def _holds_memory(kind: Any) -> bool:
    """Whether values of a type own memory: arrays, and tuples of them."""
    if isinstance(kind, types.BaseTuple):
        return any(_holds_memory(each) for each in kind.types)
    plain = types.Number, types.Boolean, types.NoneType, types.RangeType, types.SliceType, VectorType, SpanType
    return not isinstance(kind, plain)


def _only_borrows(state: Any) -> bool:
    """Whether a function neither returns arrays nor is handed new ones by anything that it calls."""
    calls = [kinds.return_type for step, kinds in state.calltypes.items() if getattr(step, "op", None) == "call"]
    return not any(map(_holds_memory, [state.return_type, *calls]))


if AVAILABLE:

    class _Instructions(_codegen.JITCodeLibrary):  # type: ignore[misc]
        """What a function does, as it was written down."""

        def _optimize_final_module(self) -> None:
            """Callers do."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    @_machinery.register_pass(mutates_CFG=True, analysis_only=False)
    class _WriteDown(_passes.NativeLowering):  # type: ignore[misc]
        """Lowering without machine code."""

        _name = "asot_write_down"

        def run_pass(self, state: Any) -> bool:
            flags = state.flags
            flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
            usual = state.targetctx
            if _only_borrows(state):
                try:  # without counting who holds an array: what a function is given outlives it
                    state.targetctx = usual.subtarget(enable_nrt=False)
                    self._write(state)
                except errors.NumbaError:  # it makes arrays of its own
                    state.targetctx = usual
                    self._write(state)
                state.targetctx = usual
            else:
                self._write(state)
            lowered = state["cr"]
            description = lowered.fndesc
            name = description.qualname.split(".")[-1]
            # Callers know a function by an object of its own; its address is never used.
            key = _dynfunc.make_function(description.lookup_module(), name, "", 0, lowered.env, (state.library,))
            usual.insert_user_function(key, description, [state.library])
            state["cr"] = lowered._replace(cfunc=key)
            return True

        def _write(self, state: Any) -> None:
            state.library = _Instructions(state.targetctx.codegen(), state.func_id.func_qualname)
            _passes.NativeLowering.run_pass(self, state)

    @_machinery.register_pass(mutates_CFG=True, analysis_only=False)
    class _InferTypes(_passes.NopythonTypeInference):  # type: ignore[misc]
        """Type inference that looks up each kind of operation once."""

        _name = "asot_infer_types"

        def run_pass(self, state: Any) -> bool:
            with remembered.signatures(state.typingctx):
                return bool(_passes.NopythonTypeInference.run_pass(self, state))

    class _Alone(_compiler.CompilerBase):  # type: ignore[misc]
        """numba's usual passes, with that one for its own, for functions that Python calls."""

        instead: ClassVar[dict[Any, Any]] = {_passes.NopythonTypeInference: _InferTypes}

        def define_pipelines(self) -> list[Any]:
            manager = _compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            chosen = [(self.instead.get(step, step), text) for step, text in manager.passes]
            manager.passes = [(step, text) for step, text in chosen if step is not None]
            manager.finalize()
            return [manager]

    class _Merged(_Alone):
        """The same without machine code at the end, and without what kernels have no use for: closures inside them, and
        expressions of whole arrays (which work, but are not fused)."""

        instead: ClassVar[dict[Any, Any]] = {
            **_Alone.instead,
            _untyped_passes.InlineClosureLikes: None,
            _passes.NopythonRewrites: None,
            _passes.NativeLowering: _WriteDown,
        }

    PIPELINE["pipeline_class"] = _Alone
