"""Zeros for gradients of some megabytes, on large pages.

Fresh memory comes in pages of 4 KiB, and a system takes longer to hand out a thousand of them than asot to solve the
problems whose gradient they hold. NumPy asks for large pages from 4 MiB on; memory that begins and ends with whole ones
gets them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

LARGE_PAGE = 2**21
"""Bytes. Below that, memory is mostly used again, and NumPy asks for nothing."""


def zeros_like_rows(rows: Tensor, width: int) -> Tensor:
    """Zeros (B, width) of the dtype and the kind of ``rows`` (B, n), which may also stand for what torch traces."""
    count = len(rows) * width
    if count * rows.element_size() < LARGE_PAGE or not _is_plain(rows):
        return rows.new_zeros((len(rows), width))
    size = count * rows.element_size()
    room = np.empty(size + LARGE_PAGE, dtype=np.uint8)
    start = -room.ctypes.data % LARGE_PAGE
    large: Tensor = torch.from_numpy(room[start : start + size]).view(rows.dtype).view(len(rows), width)
    return large.zero_()


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is nothing but numbers on the CPU: not traced, batched or differentiated by torch."""
    if type(tensor) is not Tensor or tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if _get_current_dispatch_mode() is not None:
        return False
    try:
        tensor.numpy()
    except (RuntimeError, TypeError):
        return False
    return True
