"""Nearest anchors of millions of points, in torch: on a GPU, or on torch's CPU device.

A matrix product in float64 gives the distances of a chunk of points to all anchors, up to rounding. It is only used to
rule out anchors. The rest is decided by distances from differences, summed in a fixed order, so that an answer depends
neither on the chunk nor on how a product was rounded.

Points are uploaded in chunks, and chunks are halved if the device has no room for them. Devices are torch's, and must
exist (`asot.run.devices` finds them); arrays must be finite.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asot.validation import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

SCRATCH = 2**29
"""Bytes that the work on one chunk may take on the device."""

FEWEST_ROWS = 64
"""Chunks are not made smaller than this: a pass would take forever."""

ROUNDING = 2.0**-52

_Result = TypeVar("_Result")


def nearest(
    points: FloatArray, anchors: NDArray[np.float64], device: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nearest anchor of every point (n,), the first of equals, and the distance to it (n,), computed in float64.

    Parameters
    ----------
    points : (n, d) float32 or float64
        On the host. There may be more of them than the device can hold.
    anchors : (k, d) float64
    device : str
    """
    import torch

    n, d = points.shape
    host = shared(points)
    # A common power of two keeps squares within range for points of any scale.
    exponent = int(np.frexp(max(points.max(initial=0.0), -points.min(initial=0.0), np.abs(anchors).max()))[1])
    index, distance = np.empty(n, dtype=np.int64), np.empty(n)
    with memory_advice(device):
        a = torch.tensor(np.ldexp(anchors, -exponent), device=device)  # (k, d)
        center = a.mean(dim=0)
        centered = a - center
        norms = squares(centered)  # (k,)
        reach = norms.max().sqrt()

        def assign(own: slice) -> tuple[Tensor, Tensor]:
            x = scaled(upload(host[own], device), exponent)  # (m, d)
            about, blur = _about_squared(x - center, centered, norms, reach)  # (m, k), (m, 1)
            row, anchor = (about <= about.amin(dim=1, keepdim=True) + blur).nonzero(as_tuple=True)
            table = about.fill_(torch.inf)
            for some in slices(len(row), len(x)):
                i, u = row[some], anchor[some]
                table[i, u] = _lengths(x[i] - a[u])
            best = table.argmin(dim=1, keepdim=True)
            return best.ravel().cpu(), table.gather(1, best).ravel().cpu()

        start = 0
        for best, length in Chunks(n, 48 * (len(anchors) + d)).map(assign):
            own = slice(start, start + len(best))
            index[own], distance[own] = best.numpy(), length.numpy()
            start = own.stop
    return index, np.ldexp(distance, exponent)


def _about_squared(x: Tensor, anchors: Tensor, norms: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
    """|x - a|² - |x|² by a product (m, k), and how much two of them may differ from distances computed from differences
    (m, 1).

    A product errs by at most d roundings of |x| |a|, a distance by d roundings of itself. A comparison involves two of
    each. Anything smaller than float64 can hold with full precision counts as equal.
    """
    span = (squares(x).sqrt() + reach).square()[:, None]
    return norms.addmm(x, anchors.T, alpha=-2), 4 * (x.shape[1] + 8) * ROUNDING * span + 1e-290


def _lengths(differences: Tensor) -> Tensor:
    """Euclidean length of every row (m, d), by halves: an order that is the same in chunks of any size."""
    part = differences.square_()
    while part.shape[1] > 1:
        half = (part.shape[1] + 1) // 2
        part[:, : part.shape[1] - half] += part[:, half:]
        part = part[:, :half]
    return part[:, 0].sqrt()


class Chunks:
    """Passes over n rows in chunks of a fixed size, which is halved permanently if the device runs out of memory."""

    def __init__(self, n: int, row_bytes: int) -> None:
        self._n = n
        self._rows = max(1, min(n, SCRATCH // row_bytes))
        self._fewest = min(FEWEST_ROWS, self._rows)

    def map(self, function: Callable[[slice], _Result]) -> Iterator[_Result]:
        """Results of a function of every chunk, in order. It may be called again for part of a chunk."""
        import torch

        start = 0
        while start < self._n:
            own = slice(start, min(self._n, start + self._rows))
            result = None
            try:
                result = function(own)
            except torch.cuda.OutOfMemoryError:
                if self._rows == self._fewest:
                    raise
            if result is None:  # only here has the exception released what the function had allocated
                torch.cuda.empty_cache()
                self._rows = max(self._rows // 2, self._fewest)
            else:
                yield result
                start = own.stop


@contextlib.contextmanager
def memory_advice(device: str) -> Iterator[None]:
    """Turn torch's error about memory into one that says what to do."""
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise MemoryError(
            f"device {device!r} has too little free memory, even for small chunks of the points; "
            "stop other programs on it, or use device='cpu'"
        ) from error


def slices(n: int, rows: int) -> Iterator[slice]:
    """0..n-1 in slices of so many rows."""
    return (slice(start, start + rows) for start in range(0, n, rows))


def shared(array: NDArray[Any]) -> Tensor:
    """A read-only tensor that shares the array's memory."""
    import torch

    with warnings.catch_warnings():  # collections are read-only, which tensors cannot be: torch warns
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


def upload(part: Tensor, device: str) -> Tensor:
    """A tensor on the device: the tensor itself if it is already there, otherwise copied through pinned memory."""
    import torch

    target = torch.device(device)
    return part if part.device.type == target.type else part.pin_memory().to(target, non_blocking=True)


def scaled(x: Tensor, exponent: int) -> Tensor:
    """x times 2^-exponent, in float64; x itself if the exponent is 0."""
    half = -exponent // 2  # 2^-exponent itself may be out of range
    return x if exponent == 0 else x.double() * 2.0**half * 2.0 ** (-exponent - half)


def squares(x: Tensor) -> Tensor:
    """Squared length of every row."""
    return x.square().sum(dim=1)
