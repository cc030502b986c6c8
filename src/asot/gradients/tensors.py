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


def as_order(p: Any) -> float:
    """The order p of a distance W_p."""
    if isinstance(p, (bool, str)) or not 1 <= float(p) < float("inf"):
        raise ValueError(f"p must be a finite number ≥ 1; found {p!r}")
    return float(p)


def wide(tensor: Any) -> Any:
    """The dtype of sums: float64, except on Apple's GPUs, which have none."""
    torch = import_torch()
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def balance_of(*masses: Any) -> float:
    """By how much, relative to themselves, the totals of two sides may differ: rounding of their dtypes, or 1e-6."""
    torch = import_torch()
    return max(1e-6, *(4 * float(torch.finfo(mass.dtype).eps) if mass is not None else 0.0 for mass in masses))
