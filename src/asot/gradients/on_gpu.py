"""How losses reach a GPU: where problems are solved, addresses of tensors, torch's stream, and a word to the host.

An address keeps no memory: what has one is kept by a name until the kernels that read it are launched, since torch
gives any other memory to whoever asks next. Imported with the first call.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from asot.run import devices

REALS = {torch.float32: "float", torch.float64: "double"}
"""What kernels call the coordinates that they take."""


def home_of(tensor: Tensor) -> torch.device:
    """Where the problems of a tensor are solved: on its own device if that has a solver, else on the CPU."""
    has_solver = tensor.is_cuda and devices.gpu_count() > 0
    return tensor.device if has_solver else torch.device("cpu")


def has_gpu(home: torch.device) -> bool:
    """Whether problems at this home are solved by a GPU."""
    return home.type != "cpu"


def address(tensor: Tensor | None) -> int | None:
    """Of a tensor in one piece on a GPU, as kernels take it: an array of CuPy made of each would cost more than a small
    batch."""
    return None if tensor is None else tensor.data_ptr()


def in_one_piece(tensor: Tensor, home: torch.device, dtype: torch.dtype) -> Tensor:
    """The numbers as kernels read them, where problems are solved; what is so already is not asked for more."""
    if tensor.dtype != dtype or tensor.device != home or not tensor.is_contiguous() or tensor.is_neg():
        tensor = tensor.to(home, dtype).contiguous().resolve_neg()
    return tensor.detach()


def weights_in_one_piece(weights: Tensor) -> tuple[Tensor, int]:
    """Weights (B,) as kernels take them, and the step from one to the next: 0 for a sum's, which are one number."""
    step = 0 if weights.stride(0) == 0 else 1
    return weights.contiguous() if step else weights[:1], step


@contextlib.contextmanager
def stream_of(home: torch.device) -> Iterator[None]:
    """CuPy on a GPU of torch's, on the stream that torch uses there."""
    import cupy

    stream = torch.cuda.current_stream(home)
    with cupy.cuda.Device(home.index), _as_cupy(stream, home.index):
        yield


@functools.lru_cache(maxsize=64)
def _as_cupy(stream: Any, index: int | None) -> Any:
    """A stream of torch's as one of CuPy."""
    import cupy

    if hasattr(stream, "__cuda_stream__") and hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(stream)
    return cupy.cuda.ExternalStream(stream.cuda_stream, index)


class Notice:
    """A word of kernels to the host: it lies on the host, so that nothing has to be copied once it is waited for."""

    def __init__(self, home: torch.device) -> None:
        self.there = torch.zeros(1, dtype=torch.int32, device="cpu", pin_memory=home.type == "cuda")  # for kernels
        self._here = self.there.numpy()
        self.given = False

    def read(self) -> None:
        self.given = bool(self._here[0])
        self._here[0] = 0


_notices: defaultdict[str, list[Notice]] = defaultdict(list)
"""Of each type of device, those that nobody uses; memory that a GPU reaches is expensive to make."""


@contextlib.contextmanager
def noticing(home: torch.device) -> Iterator[Notice]:
    """Lends a notice to kernels on the current stream, and waits for them."""
    try:
        notice = _notices[home.type].pop()
    except IndexError:
        notice = Notice(home)
    try:
        yield notice
    finally:
        wait(home)
        notice.read()
        _notices[home.type].append(notice)


def wait(home: torch.device) -> None:
    """For the current stream."""
    if home.type == "cuda":
        torch.cuda.current_stream(home).synchronize()
