"""A stand-in for CuPy, so that the Python side of a device solver runs without a GPU too.

Arrays are NumPy's, and kernels run in the emulator, at once. Only what the package asks of CuPy is here.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from inspect import unwrap
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.simt import host

DEVICE = 0

MULTIPROCESSORS = 2
SHARED_BYTES = 100 * 1024


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        self._lib = host.compile_source(code, [option for option in options if option.startswith("-D")])

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self._lib, name)


class RawKernel:
    max_dynamic_shared_size_bytes = 48 * 1024

    def __init__(self, lib: Any, name: str) -> None:
        self._lib, self._name = lib, name

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise host.SimtError(f"{self._name}: {shared_mem} bytes of shared memory were not asked for")
        order = sys.modules["cupy"].order_seed  # type: ignore[attr-defined]
        host.launch(self._lib, self._name, args, grid, block, shared_mem, order)


class Device:
    """A GPU. What is cached by its `id` is never mixed up with a real one's."""

    current = 0
    clocks: dict[int, float] = {}  # noqa: RUF012 (milliseconds that devices have worked)
    compute_capability = "90"
    mem_info = (1 << 30, 1 << 30)
    attributes = {  # noqa: RUF012
        "MultiProcessorCount": MULTIPROCESSORS,
        "MaxSharedMemoryPerBlockOptin": SHARED_BYTES,
    }

    def __init__(self, number: int | None = None) -> None:
        self.number = Device.current if number is None else number

    @property
    def id(self) -> int:
        return -1 - self.number

    def __enter__(self) -> Device:
        self._outer, Device.current = Device.current, self.number
        return self

    def __exit__(self, *error: object) -> None:
        Device.current = self._outer

    def synchronize(self) -> None:
        pass


class Stream:
    """A stream, known by its number; work is done at once."""

    current: list[Stream] = []  # noqa: RUF012 (the innermost one last)
    made = 0

    def __init__(self, non_blocking: bool = False) -> None:
        Stream.made += 1
        self.ptr = Stream.made

    def __enter__(self) -> Stream:
        Stream.current.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        Stream.current.pop()

    def synchronize(self) -> None:
        pass

    def record(self) -> Event:
        return Event()

    def wait_event(self, event: Event) -> None:
        pass


class Event:
    """A moment of the current device's clock, which only tests move."""

    def __init__(self) -> None:
        self.milliseconds = Device.clocks.get(Device.current, 0.0)


def get_elapsed_time(first: Event, second: Event) -> float:
    return second.milliseconds - first.milliseconds


NULL_STREAM = Stream()


def get_current_stream() -> Stream:
    return Stream.current[-1] if Stream.current else NULL_STREAM


class DeviceArray(np.ndarray):
    """An array on the device: it comes back by `get`."""

    def get(self, stream: Any = None, out: Any = None, blocking: bool = True) -> np.ndarray:
        fetched = np.array(self, subok=False)
        if out is None:
            return fetched
        if out.dtype != self.dtype or out.shape != self.shape or not out.flags.c_contiguous:
            raise ValueError("out does not fit")
        out[...] = fetched
        return out


class OutOfMemoryError(MemoryError):
    pass


class CUDARuntimeError(RuntimeError):
    pass


class PinnedMemoryPointer(bytearray):
    pass


class MemoryPool:
    """Every allocation in full, so that an array beyond ``limit`` bytes does not fit."""

    limit = 1 << 40

    @classmethod
    def take(cls, array: np.ndarray) -> DeviceArray:
        if array.nbytes > cls.limit:
            raise OutOfMemoryError(f"{array.nbytes} bytes were asked for")
        return array.view(DeviceArray)

    def free_all_blocks(self) -> None:
        pass

    def free_bytes(self) -> int:
        return 0


def empty(shape: Any, dtype: Any = np.float64) -> np.ndarray:
    """Memory that nobody has written to yet: poison, so that reading it is seen."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = host.POISON
    return MemoryPool.take(array)


def zeros(shape: Any, dtype: Any = np.float64) -> np.ndarray:
    return MemoryPool.take(np.zeros(shape, dtype))


def full(shape: Any, value: Any, dtype: Any = None) -> np.ndarray:
    return MemoryPool.take(np.full(shape, value, dtype))


def asarray(values: Any, dtype: Any = None) -> np.ndarray:
    return MemoryPool.take(np.array(values, dtype, order="C"))


def install(
    monkeypatch: pytest.MonkeyPatch, order_seed: int = host.FORWARD, gpus: int = 1, memory: int = 1 << 40
) -> ModuleType:
    """Let ``import cupy`` give the stand-in, whose kernels run their threads in this order.

    The machine has ``gpus`` GPUs, which refuse any array beyond ``memory`` bytes.
    """
    from asot.gpu import ahead
    from asot.run import devices

    cupy = ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    same = ("ones", "int8", "int32", "int64", "uint64", "float64")
    memory_errors = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    runtime = SimpleNamespace(CUDARuntimeError=CUDARuntimeError, getDeviceCount=lambda: gpus)
    cupy.__dict__.update(
        {name: getattr(np, name) for name in same},
        ndarray=DeviceArray,
        asarray=asarray,
        asnumpy=np.array,
        empty=empty,
        zeros=zeros,
        full=full,
        RawModule=RawModule,
        get_default_memory_pool=MemoryPool,
        order_seed=order_seed,
        cuda=SimpleNamespace(
            Device=Device,
            Stream=Stream,
            PinnedMemoryPointer=PinnedMemoryPointer,
            alloc_pinned_memory=PinnedMemoryPointer,
            get_current_stream=get_current_stream,
            get_elapsed_time=get_elapsed_time,
            memory=memory_errors,
            runtime=runtime,
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(MemoryPool, "limit", memory)
    monkeypatch.setattr(Device, "clocks", {})
    monkeypatch.setattr(ahead, "archive", lambda: None)
    monkeypatch.setattr(devices, "_awake", False)
    monkeypatch.setattr(devices, "_cupy_obstacle", unwrap(devices._cupy_obstacle))
    return cupy
