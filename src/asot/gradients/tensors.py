"""What every loss asks of its tensors: one device, one floating dtype, finite numbers, and masses that balance."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

NO_SECOND = (
    "asot.gradients has no second derivatives: plans are piecewise constant, and a loss of its own gradient would see "
    "only a part of the truth; call backward or grad without create_graph=True"
)


def import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("asot.gradients needs PyTorch; pip install 'asot[torch]'") from error
    return torch


def check_tensors(tensors: dict[str, Any], other: str) -> None:
    """Refuse what is no floating tensor, or tensors on two devices. ``other`` is the call that takes arrays."""
    torch = import_torch()
    first_name, first = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(tensor).__name__}; {other} takes arrays")
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"{name} must be floating point, not {dtype_name(tensor)}; call {name}.float()")
        if tensor.device != first.device:
            raise ValueError(
                f"{first_name} is on {first.device}, but {name} is on {tensor.device}; move them to one device"
            )


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def without_second(tensor: Tensor) -> Tensor:
    """The tensor itself, whose gradient refuses to be differentiated again, in one sentence."""
    passed: Tensor = _once().apply(tensor)
    return passed


@functools.cache
def _once() -> Any:
    torch = import_torch()

    class Refused(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """Passes a gradient on, and raises if that gradient is differentiated."""

        @staticmethod
        def forward(ctx: Any, gradient: Tensor, tensor: Tensor) -> Tensor:
            return gradient.view_as(gradient)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise RuntimeError(NO_SECOND)

    class Once(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, tensor: Tensor) -> Tensor:
            ctx.save_for_backward(tensor)
            return tensor.view_as(tensor)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            refused: Tensor = Refused.apply(gradient, *ctx.saved_tensors)
            return refused

    return Once
