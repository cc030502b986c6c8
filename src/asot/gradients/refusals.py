"""Gradients that refuse to be differentiated again, in one sentence. Imported with the first call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NO_SECOND = (
    "asot.gradients has no second derivatives: plans are piecewise constant, and a loss of its own gradient would see "
    "only a part of the truth; call backward or grad without create_graph=True"
)


class _Refused(torch.autograd.Function):
    """Passes a gradient on, and raises if that gradient is differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, tensor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        return None

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(NO_SECOND)


class _Once(torch.autograd.Function):
    """Nothing, but its gradient is `_Refused`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return refused(gradient, *ctx.saved_tensors)


def refused(gradient: Tensor, tensor: Tensor) -> Tensor:
    """The gradient in a tensor, for torch to differentiate again or not. Without create_graph it does not."""
    if not torch.is_grad_enabled():
        return gradient
    passed: Tensor = _Refused.apply(gradient, tensor)  # type: ignore[no-untyped-call]
    return passed


def without_second(tensor: Tensor) -> Tensor:
    """The tensor itself, whose gradient refuses to be differentiated again, in one sentence."""
    passed: Tensor = _Once.apply(tensor)  # type: ignore[no-untyped-call]
    return passed
