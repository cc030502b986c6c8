"""Whether torch computes at once what it is told. Then losses take steps that its transforms could not see through, and
spare themselves the machinery of an operation of its own, which takes longer than a small batch. Imported with the
first call."""

from __future__ import annotations

import torch
from torch import Tensor


def is_eager(*tensors: Tensor | None) -> bool:
    """Whether neither a transform (`compile`, `vmap`, `grad` of `torch.func`), nor a mode (fake tensors, tracing),
    nor a subclass of tensors has to see what is done with these, and their memory holds their numbers."""
    return not is_watched() and all(tensor is None or _is_plain(tensor) for tensor in tensors)


def _is_plain(tensor: Tensor) -> bool:
    of_many = torch._C._functorch.is_legacy_batchedtensor(tensor)  # gradients of many weights at a time
    return type(tensor) in (Tensor, torch.nn.Parameter) and not (of_many or tensor.is_neg() or tensor.is_meta)


def is_watched() -> bool:
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
    )
