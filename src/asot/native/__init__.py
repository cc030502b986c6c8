"""The door to the compiled loops: C++ behind a C ABI, loaded with ctypes. Nothing else knows ctypes.

Python decides, C++ loops. A room that needs a compiled loop writes it in a folder of its own here
(``native/exact/shared_cost.cpp`` for ``exact/shared_cost.py``) and declares it where it is called::

    class SharedCost(Record, k=Int, l=Int, unit=Doubles): ...

    _solve = entry("shared_cost_tile", SharedCost, Tile)

    _solve(SharedCost(k=3, l=3, unit=unit), Tile(...))

A `Record` is a C struct of numbers and arrays, every field eight bytes. The struct of the same name in C++ has the same
fields in the same order (a test compares them), with the shapes of the arrays beside them. Arrays must be contiguous
and of the declared type; a record holds on to its arrays. Entries run without the GIL. They return a code; one that
says that memory ran out becomes a MemoryError.

Every file is compiled once per instruction set, into libraries from which `asot.native.library` takes the best that
the processor can run. All of them give the same bits.
"""

from asot.native.library import instruction_set as instruction_set
from asot.native.records import Bytes as Bytes
from asot.native.records import Desks as Desks
from asot.native.records import Double as Double
from asot.native.records import Doubles as Doubles
from asot.native.records import Floats as Floats
from asot.native.records import Int as Int
from asot.native.records import Ints as Ints
from asot.native.records import Record as Record
from asot.native.records import ShortInts as ShortInts
from asot.native.records import Shorts as Shorts
from asot.native.records import Tile as Tile
from asot.native.records import entry as entry
from asot.native.records import tile_of as tile_of
