"""Entropic transport on a GPU: the fused kernel where its range is proven safe, the log domain everywhere else.

The fused kernel (`asot.entropic.triton_fused`) takes all pairs of a tile; those that it leaves open, because they
converge too slowly or leave the range of its floats, are solved in the log domain (`asot.entropic.cuda_log`)
right behind it on the same stream. When max C/ε is too large for the kernel, all pairs take the log domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asot._typing import Float, Info
from asot.entropic.cuda_log import LogSinkhornCuda
from asot.entropic.options import SinkhornOptions
from asot.entropic.triton_fused import SinkhornTriton, kernel_is_safe
from asot.run.gpu_transfer import launch_over_pairs, pair_arguments
from asot.run.pairs import PairSet
from asot.run.protocols import DeviceSolution, DeviceSolver, OnDevice


class SinkhornCuda(DeviceSolver):
    """Prepared once from histograms and their cost; parameters as in `SinkhornSharedCost`, and the precision."""

    stage = "entropic distances"

    def __init__(self, A: Float, B: Float | None, cost: Float, options: SinkhornOptions, *, precision: str) -> None:
        self._log = LogSinkhornCuda(A, B, cost, options)
        safe = kernel_is_safe(cost, options.reg, precision)
        self._fused = SinkhornTriton(A, B, cost, options, precision=precision) if safe else None
        self.info: Info = (self._fused or self._log).info

    def pairs_per_tile(self, memory: int) -> int:
        return (self._fused or self._log).pairs_per_tile(memory)

    def on(self, device: int) -> _OnDevice:
        return _OnDevice(self._log.on(device), self._fused and self._fused.on(device))


class _OnDevice(OnDevice):
    def __init__(self, log: Any, fused: Any) -> None:
        self._log, self._fused = log, fused

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        if self._fused is None:
            solution: DeviceSolution = self._log.solve(pairs, start, stop)
            return solution
        import cupy
        import torch

        same_stream: Any = torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(same_stream):
            solution = self._fused.solve(pairs, start, stop)
        self._log.finish(pairs, start, stop, solution)
        return solution


class DebiasedCuda(DeviceSolver):
    """A GPU solver of regularized values whose answers lose the mean of their two self terms (see `debiased`)."""

    stage = "entropic distances"

    def __init__(self, solver: SinkhornCuda, row_terms: Any, column_terms: Any) -> None:
        self._solver, self._row_terms, self._column_terms = solver, row_terms, column_terms
        self.info = solver.info

    def pairs_per_tile(self, memory: int) -> int:
        return self._solver.pairs_per_tile(memory)

    def on(self, device: int) -> _DebiasedOnDevice:
        return _DebiasedOnDevice(self._solver.on(device), self._row_terms, self._column_terms)


class _DebiasedOnDevice(OnDevice):
    def __init__(self, biased: _OnDevice, row_terms: Any, column_terms: Any) -> None:
        import cupy

        self._biased = biased
        self._terms = [
            cupy.asarray(array) for terms in (row_terms, column_terms) for array in (terms.values, terms.status)
        ]

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        described = pair_arguments(pairs, start, stop)
        solution = self._biased.solve(pairs, start, stop)
        size = stop - start
        launch_over_pairs(
            "subtract_self_terms", size, *described, np.int64(start), np.int64(size),
            solution.values, solution.status, *self._terms,
        )  # fmt: skip
        return solution
