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
        if tensor.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            kind = "floating point of 16 to 64 bits" if tensor.dtype.is_floating_point else "floating point"
            raise ValueError(f"{name} must be {kind}, not {dtype_name(tensor)}; call {name}.float()")
        if tensor.layout != torch.strided:
            raise ValueError(f"{name} must be a dense tensor, not {dtype_name(tensor.layout)}; call {name}.to_dense()")
        if tensor.device != first.device:
            raise ValueError(
                f"{first_name} is on {first.device}, but {name} is on {tensor.device}; move them to one device"
            )


def check_integers(given: Any, name: str, meaning: str) -> Any:
    """A tensor of integers, of any shape, of what was given. ``meaning``: what it holds, and its shape."""
    torch = import_torch()
    try:
        tensor = given if isinstance(given, torch.Tensor) else torch.tensor(given, device="cpu")  # nobody changes it
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name} must be {meaning}; found {type(given).__name__}") from error
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must be {meaning}; found {dtype_name(tensor)} {tuple(tensor.shape)}")
    return tensor


def dtype_name(of: Any) -> str:
    """Of a tensor's dtype, or of a layout."""
    return str(getattr(of, "dtype", of)).removeprefix("torch.")


def as_order(p: Any) -> float:
    """The order p of a distance W_p."""
    try:
        order = float("nan") if isinstance(p, (bool, str)) else float(p)
    except (TypeError, ValueError, RuntimeError):
        order = float("nan")
    if not 1 <= order < float("inf"):
        raise ValueError(f"p must be a finite number ≥ 1; found {p!r}")
    return order


def wide(tensor: Any) -> Any:
    """The dtype of sums: float64, except on Apple's GPUs, which have none."""
    torch = import_torch()
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def balance_of(*masses: Any) -> float:
    """By how much, relative to themselves, the totals of two sides may differ: rounding of their dtypes, or 1e-6."""
    torch = import_torch()
    return max(1e-6, *(4 * float(torch.finfo(mass.dtype).eps) if mass is not None else 0.0 for mass in masses))
