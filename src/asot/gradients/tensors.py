"""What every loss asks of its tensors: one device, one floating dtype, finite numbers, and masses that balance."""

from __future__ import annotations

from typing import Any


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
