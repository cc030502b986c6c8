"""Tiles on GPUs: the engine's loop (`asot.run.engine`) where the solver runs on one or several of them.

A GPU has a few tiles in flight, each on its own stream: while one is computed, the answers of the previous one are
copied. Only what the sink needs is copied (see `asot.run.protocols`). The calling thread takes the tiles in pair order,
so results do not depend on the number of GPUs or on the tile size. Several GPUs take turns, and the slower one gets
smaller tiles, in proportion to the pairs per second that were measured on each. A tile that does not fit in the GPU's
memory is split; if nothing fits, the CPU continues from there, unless the user insisted on the GPU.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from asot.gpu import cupy
from asot.run.devices import Choice
from asot.run.gpu_transfer import Fetch, fetch_for
from asot.run.pairs import PairSet, tiles
from asot.run.protocols import DeviceSolver, OnDevice, SinkBase

IN_FLIGHT = 3
"""Tiles per GPU that are being computed or copied."""

FEWEST_TILES, FEWEST_OF_SEVERAL = 4, 8
"""Per GPU, if there is enough work: while the answers of the last tile are copied, nothing is computed. Where there are
several GPUs, the first few tiles tell how fast each of them is."""

SMALLEST_TILE = 1024
"""Tiles are not split below this many pairs."""

FILLS_A_GPU = 2**18
"""With fewer pairs, a tile would leave parts of a GPU idle."""

AT_FIRST = 2 * IN_FLIGHT
"""Tiles of a GPU that begin before the host does anything else: some milliseconds of work."""

WORTH_BEGINNING = 1 / 8
"""The share of a run that must fit if it is to begin early: a long run would gain nothing from it."""


def tile_size(pairs: PairSet, solver: DeviceSolver | Early, choice: Choice, budget: int) -> int:
    """How many pairs a tile has on these GPUs, if all that are in flight may take ``budget`` bytes."""
    fewest = FEWEST_TILES if len(choice.gpus) <= 1 else FEWEST_OF_SEVERAL * len(choice.gpus)
    share = -(-len(pairs) // fewest)
    return max(1, min(solver.pairs_per_tile(budget // IN_FLIGHT), max(share, FILLS_A_GPU)))


class Early(Protocol):
    """Something that GPUs can compute of every pair before the solver of a run is ready."""

    def pairs_per_tile(self, memory: int) -> int: ...

    begun: int
    """Pairs whose tiles are under way; `begin` counts them."""

    @property
    def bytes_per_pair(self) -> int:
        """On the GPU, until the run takes it."""
        ...

    def on(self, device: int) -> Any:
        """As of a `DeviceSolver`; it can ``begin(pairs, start, stop)`` on the current stream."""
        ...


def begin(pairs: PairSet, work: Early, choice: Choice, budget: int) -> Callable[[], object] | None:
    """Enqueue the first tiles of a run, each where the run will ask for it; None if that is not worth it.

    Call what is returned to enqueue more of them, as many as fit into half the memory. The host has something else to
    do first, as enqueuing all of them takes a while. If the GPU runs out of memory, the run does the rest later.
    """
    size = tile_size(pairs, work, choice, budget)
    fitting = budget // 2 // work.bytes_per_pair // size * size
    if fitting < len(pairs) * WORTH_BEGINNING:
        return None
    beginning = _begun_one_by_one(pairs, work, choice, list(tiles(min(len(pairs), fitting), size)))
    deque(itertools.islice(beginning, AT_FIRST * len(choice.gpus)), maxlen=0)
    return lambda: deque(beginning, maxlen=0)


def _begun_one_by_one(
    pairs: PairSet, work: Early, choice: Choice, beginning: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    with contextlib.suppress(*_out_of_memory_errors()):
        for number in choice.gpus:
            with cupy.cuda.Device(number):
                work.on(number)
                _ready_for_streams(number)
        for turn, (start, stop) in enumerate(beginning):
            number, own_turn = choice.gpus[turn % len(choice.gpus)], turn // len(choice.gpus)
            with cupy.cuda.Device(number), _streams(number)[own_turn % IN_FLIGHT]:
                work.on(number).begin(pairs, start, stop)
            work.begun = stop
            yield start, stop


class OnGpus:
    """A run on the chosen GPUs: how far they have gotten, and how large a tile may be, of ``budget`` bytes for all.

    ``count`` is told how many pairs the sink has got, and how many of them are unfinished, and exact.
    """

    def __init__(
        self,
        pairs: PairSet,
        solver: DeviceSolver,
        choice: Choice,
        budget: int,
        sink: SinkBase[Any],
        count: Callable[[int, int, int], None],
    ) -> None:
        self._pairs, self._solver, self._choice, self._sink, self._count = pairs, solver, choice, sink, count
        self._per_tile = tile_size(pairs, solver, choice, budget)
        self.done = 0
        self.mended = 0
        """Pairs that a GPU has left to the CPU."""
        self.all_numbers = True

    def solve(self) -> None:
        """Solve as far as the GPUs' memory allows: to the end, unless tiles of `SMALLEST_TILE` do not fit."""
        out_of_memory = _out_of_memory_errors()
        gpus: list[_Gpu] = []
        try:
            gpus.extend(_Gpu(number, self._solver, self._sink) for number in self._choice.gpus)
        except out_of_memory:
            return
        while self.done < len(self._pairs):
            try:
                self._pass(gpus)
            except out_of_memory:
                if self._per_tile <= SMALLEST_TILE:
                    return
                self._per_tile = max(SMALLEST_TILE, self._per_tile // 4)
                for gpu in gpus:
                    gpu.give_back_memory()

    def _pass(self, gpus: list[_Gpu]) -> None:
        """Launch and collect tiles in turn. After an error, the tiles in flight are dropped and solved again."""
        flying: deque[_Flight] = deque()
        start, turn = self.done, 0
        try:
            while start < len(self._pairs) or flying:
                while start < len(self._pairs) and len(flying) < IN_FLIGHT * len(gpus):
                    gpu = gpus[turn % len(gpus)]
                    stop = min(start + self._tile_of(gpu, gpus, start), len(self._pairs))
                    with self._named(gpu):
                        flying.append(gpu.launch(self._pairs, start, stop))
                    start, turn = stop, turn + 1
                self._land(flying.popleft())
        finally:
            for flight in flying:
                with contextlib.suppress(Exception):  # the first error is on its way; the others stop all the same
                    flight.fetch.wait()

    def _land(self, flight: _Flight) -> None:
        """Wait for a tile and hand its answers to the sink."""
        gpu, fetched = flight.gpu, flight.fetch
        with self._named(gpu):
            fetched.wait()
        gpu.note_speed(flight)
        unfinished = fetched.deliver(self._sink)
        self.mended += fetched.n_mended
        self.all_numbers &= fetched.all_numbers
        self.done = fetched.stop
        self._count(fetched.stop - fetched.start, unfinished, fetched.n_exact)

    def _tile_of(self, gpu: _Gpu, gpus: list[_Gpu], start: int) -> int:
        """How many pairs this GPU gets next: as many as it solves while the fastest one solves a whole tile."""
        known = [each.speed for each in gpus if each.speed is not None]
        if start < self._solver.begun or gpu.speed is None or len(known) < len(gpus):
            return self._per_tile
        return max(min(SMALLEST_TILE, self._per_tile), int(self._per_tile * gpu.speed / max(known)))

    @contextlib.contextmanager
    def _named(self, gpu: _Gpu) -> Iterator[None]:
        """Where there are several GPUs, an error tells on which of them it happened."""
        try:
            yield
        except _out_of_memory_errors():
            raise
        except Exception as error:
            if len(self._choice.gpus) == 1:
                raise
            raise RuntimeError(f"cuda:{gpu.number}, one of {self._choice.name}: {error}") from error

    def refuse_if_required(self) -> None:
        """If the user named the GPU, no other device takes over."""
        if self._choice.required:
            raise MemoryError(
                f"{self._choice.name} has too little free memory for tiles of {SMALLEST_TILE} pairs; free some of it, "
                "or use device='cpu'"
            )


class _Flight(NamedTuple):
    """A tile under way on a GPU, between two events of its stream."""

    gpu: _Gpu
    fetch: Fetch
    began: Any
    ended: Any


class _Gpu:
    """One GPU: the data that all pairs share, and streams that take turns."""

    def __init__(self, number: int, solver: DeviceSolver, sink: SinkBase[Any]) -> None:
        self.number = number
        self.speed: float | None = None
        """Pairs per second of the last tile."""
        self._last_end: Any = None
        self._device = cupy.cuda.Device(number)
        self._streams = _streams(number)
        with self._device:
            self._data: OnDevice = solver.on(number)
            _ready_for_streams(number)
        self._sink, self._turn = sink, 0

    def launch(self, pairs: PairSet, start: int, stop: int) -> _Flight:
        stream = self._streams[self._turn % IN_FLIGHT]
        self._turn += 1
        with self._device, stream:
            fetch = fetch_for(self._sink, self._data, pairs, start, stop, stream)
            began = stream.record()
            fetch.enqueue(self._data.solve(pairs, start, stop))
            return _Flight(self, fetch, began, stream.record())

    def note_speed(self, flight: _Flight) -> None:
        """Of a tile that has ended: its time counts from its start, or from the end of the tile before if later."""
        events = [flight.began] if self._last_end is None else [flight.began, self._last_end]
        with self._device:
            milliseconds = min(cupy.cuda.get_elapsed_time(event, flight.ended) for event in events)
        self.speed = 1e3 * (flight.fetch.stop - flight.fetch.start) / max(milliseconds, 1e-3)
        self._last_end = flight.ended

    def give_back_memory(self) -> None:
        with self._device:
            self._device.synchronize()
            cupy.get_default_memory_pool().free_all_blocks()


def _ready_for_streams(number: int) -> None:
    """What was copied to the GPU is there before any of its streams reads it."""
    copied = cupy.cuda.get_current_stream().record()
    for stream in _streams(number):
        stream.wait_event(copied)


@functools.cache
def _streams(number: int) -> list[Any]:
    """The streams of a GPU, kept from call to call: CuPy hands freed memory only to the stream that had it before."""
    with cupy.cuda.Device(number):
        return [cupy.cuda.Stream(non_blocking=True) for _ in range(IN_FLIGHT)]


def _out_of_memory_errors() -> tuple[type[BaseException], ...]:
    errors: tuple[type[BaseException], ...] = (cupy.cuda.memory.OutOfMemoryError,)
    if "torch" in sys.modules:
        errors += (sys.modules["torch"].cuda.OutOfMemoryError,)
    return errors
