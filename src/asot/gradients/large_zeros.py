"""Zeros for gradients of some megabytes, on large pages.

Fresh memory comes in pages of 4 KiB, and a system takes longer to hand out a thousand of them than asot to solve the
problems whose gradient they hold. NumPy asks for large pages from 4 MiB on; memory that begins and ends with whole ones
gets them.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from asot.gradients.eager import is_eager

LARGE_PAGE = 2**21
"""Bytes. Below that, memory is mostly used again, and NumPy asks for nothing."""


def zeros_like_rows(rows: Tensor, width: int) -> Tensor:
    """Zeros (B, width) of the dtype and the kind of ``rows`` (B, n), which may also stand for what torch traces."""
    size = len(rows) * width * rows.element_size()
    if size < LARGE_PAGE or rows.device.type != "cpu" or not is_eager(rows):
        return rows.new_zeros((len(rows), width))
    room = np.empty(size + LARGE_PAGE, dtype=np.uint8)
    start = -room.ctypes.data % LARGE_PAGE
    large: Tensor = torch.from_numpy(room[start : start + size]).view(rows.dtype).view(len(rows), width)
    return large.zero_()
