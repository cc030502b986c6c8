"""Numbers in another unit, whose gradient gets its unit elsewhere. Imported with the first call.

A pair of clouds is priced in a unit of its own. If a gradient went through that unit and back, what lies between could
leave the range of numbers: at 10^290, the derivative of a root of order 50 does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Times(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
        return tensor * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None, None


def times(tensor: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
    """``tensor * factor``, whose gradient is multiplied with ``slope``."""
    found: Tensor = _Times.apply(tensor, factor, slope)  # type: ignore[no-untyped-call]
    return found
