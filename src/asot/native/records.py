"""Records and entry points: how Python's numbers and arrays become a C function's arguments."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.native.library import library

Int = ctypes.c_int64
Double = ctypes.c_double
T = TypeVar("T")
R = TypeVar("R", bound="Record")

_OUT_OF_MEMORY = 1


def address(array: NDArray[Any] | None, dtype: np.dtype[Any]) -> int:
    """Where the numbers of an array begin; 0 for None. The caller keeps the array alive."""
    if array is None:
        return 0
    own = array.dtype is dtype or array.dtype == dtype
    if own:
        try:
            return _address(_first_byte(array))  # half of the time that describing an array takes
        except (TypeError, ValueError):  # read-only, empty, or not contiguous
            pass
    if not (own and array.flags.c_contiguous):
        raise TypeError(f"a kernel needs a contiguous array of {dtype}; found {array.dtype}, strides {array.strides}")
    return array.__array_interface__["data"][0]


_address: Any = ctypes.addressof
_first_byte: Any = ctypes.c_char.from_buffer


class _Array(ctypes.c_void_p):
    """Base of the pointer types: an array of the right type, or None, is taken for one."""

    dtype: ClassVar[np.dtype[Any]]

    @classmethod
    def from_param(cls, array: NDArray[Any] | None) -> Any:
        return ctypes.c_void_p(address(array, cls.dtype))


def _array_of(name: str) -> type[_Array]:
    return type(f"Array of {name}", (_Array,), {"dtype": np.dtype(name)})


Ints, ShortInts, Shorts, Bytes = map(_array_of, ("int64", "int32", "int16", "int8"))
Doubles, Floats = map(_array_of, ("float64", "float32"))


if TYPE_CHECKING:
    from _ctypes import _PyCStructType as StructureType
else:
    StructureType = type(ctypes.Structure)


class _Fields(StructureType):
    """The keywords in the first line of a record's class are its fields: ctypes must know them before it exists."""

    def __new__(cls, name: str, bases: tuple[type, ...], own: dict[str, object], /, **fields: Any) -> Any:
        return super().__new__(cls, name, bases, {"_fields_": list(fields.items()), **own}, **fields)


class Record(ctypes.Structure, metaclass=_Fields):
    """A C struct: ``Tile(n=3, rows=rows, ...)``. Fields that are not given are 0 or null."""

    def __init_subclass__(cls, **fields: Any) -> None:
        super().__init_subclass__()

    def __init__(self, **given: Any) -> None:
        kinds, arrays = _kinds(type(self)), {}
        for name, value in given.items():
            dtype = kinds[name]
            if dtype is not None and value is not None:
                arrays[name], given[name] = value, address(value, dtype)
        _fill(self, **given)
        self._arrays: dict[str, NDArray[Any]] = arrays

    @classmethod
    def of(cls: type[R], source: Any, **given: Any) -> R:
        """Of what is given; other fields are the source's attributes of these names."""
        return cls(**{name: getattr(source, name) for name in _kinds(cls) if name not in given}, **given)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that its fields point to, by name."""
        return dict(self._arrays)

    def __reduce__(self) -> Any:
        """To another process go the arrays, not their addresses."""
        given = {field[0]: self._arrays.get(field[0], getattr(self, field[0])) for field in self._fields_}
        return functools.partial(type(self), **{k: x for k, x in given.items() if not isinstance(x, _Array)}), ()


_fill: Any = ctypes.Structure.__init__  # all fields at once


@functools.cache
def _kinds(kind: type[Record]) -> dict[str, np.dtype[Any] | None]:
    """The numbers of every array of a record, by its name; None for what is no array."""
    return {field[0]: getattr(field[1], "dtype", None) for field in kind._fields_}


class Tile(Record, n=Int, rows=Ints, columns=Ints, values=Doubles, steps=ShortInts, stop=Ints):
    """Some pairs, and where their answers go (``native/common/records.hpp``)."""


def tile_of(rows: Indices, columns: Indices, stop: Indices | None = None) -> tuple[Tile, Float, NDArray[np.int32]]:
    """Pairs with room for their values and steps, and these."""
    values, steps = np.empty(len(rows)), np.empty(len(rows), np.int32)
    stop = np.zeros(1, np.int64) if stop is None else stop
    return Tile(n=len(rows), rows=rows, columns=columns, values=values, steps=steps, stop=stop), values, steps


class Desks(Generic[T]):
    """Things that calls write to, made by ``make`` and used again: a record takes longer to make than a small problem
    takes to be solved.

    A call takes one away and puts it back. So nobody else writes to it meanwhile: no other thread, and no signal
    handler or finalizer that calls asot in the midst of the call. One that is not put back, after an error, is gone.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._free = make, list[T]()
        self.put_back = self._free.append

    def take(self) -> T:
        try:
            return self._free.pop()
        except IndexError:
            return self._make()


def entry(name: str, *kinds: Any, checked: bool = True) -> Callable[..., int]:
    """The C function ``asot_name`` for arguments of these kinds: records, arrays, ``Int``, ``Double``.

    It returns the code of the kernel, which is 0 unless the C++ file names others. If it ran out of memory, this
    raises. Not ``checked``, codes above 0 are for the caller, and for `refused`: asking it about each takes a tenth
    of a microsecond.
    """
    function: Any = library()[f"asot_{name}"]
    function.argtypes = [ctypes.POINTER(kind) if issubclass(kind, Record) else kind for kind in kinds]
    function.restype = ctypes.c_int32
    if checked:
        function.errcheck = refused
    return function


def refused(code: int, *_: Any) -> int:
    """The code of a kernel, unless there was not enough memory for it."""
    if code == _OUT_OF_MEMORY:
        raise MemoryError("there is not enough memory for a kernel's workspace; use fewer n_jobs or a smaller memory=")
    return code
