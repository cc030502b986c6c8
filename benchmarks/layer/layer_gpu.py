"""The exact layer on a GPU: value and gradient of many problems, as a training step calls it.

Whole calls on tensors that are on the GPU, forward and backward: the median of repeats after a warm-up, with the device
waited for. Beside them run asot on every CPU thread, a loop over POT's compiled core, and on the same GPU POT's batched
solver and qpth, the interior-point layer of DeepEMD, where these are installed. All values are compared with those of
asot on the CPU, and some with POT's. What host and kernels do in a call is printed.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import Options, Report, Table, below, largest_difference, require
from benchmarks.gpu.gpu import gpu_name, median_seconds, print_kernels, print_profile

NEEDS = {"gpu", "torch"}

DEVICE = "cuda"
EPSILON = 0.01
"""Of POT's batched solver, for costs of 0 to 1."""

QPTH_ROWS = 25
"""Of problems that it takes into memory: a matrix of 625 × 625 for each flow of 25 × 25, several times."""

CHECKED, TOLERANCE = 20, 1e-5
"""Problems compared with POT, and by how much float32 values may differ, of the largest one."""

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """``step(device)`` makes tensors and returns a function of forward and backward, which gives values."""

    label: str
    problems: int
    milliseconds: float
    step: Callable[[str], Callable[[], Any]]
    core: Callable[[int], float]
    batched: Callable[[], Any] | None = None
    quadratic: Callable[[], Any] | None = None


def run(options: Options) -> Report:
    """Measure every case and make the report."""
    rows = [_measured(case, 3 if options.quick else 11) for case in _cases(options.quick)]
    introduction = f"Value and gradient on one {gpu_name()}, as a training step calls them, on float32 tensors."
    return Report(
        "layer_gpu", "The exact layer on a GPU", introduction, [Table("Forward and backward:", COLUMNS, rows)], _notes()
    )


COLUMNS = (
    "case", "problems", "whole call", "problems / s", "GPU memory", "CPU threads", "POT core in a loop", "ot.batch",
    "qpth", "difference to the CPU", "to POT",
)  # fmt: skip


def _notes() -> tuple[str, ...]:
    notes = (
        "Whole call: `gradients.emd`, `wasserstein` or `assign` and `backward`, checks included. Assignments have no "
        "gradient. GPU memory: the most that torch had allocated during the call, inputs included.",
        "CPU threads: the same call on CPU tensors, with every core of the machine.",
        "POT core in a loop: `ot.lp.emd_wrap.emd_c` on the host, costs and gradients in NumPy; timed on some problems "
        "and scaled to all. ot.batch: `ot.batch.solve_batch` on the same GPU, entropic with "
        f"ε = {EPSILON}, which is nearer to exact values than its default; how far it is off stands beside it.",
        "qpth: `QPFunction` in float64 with 1e-4 |flow|² added, as DeepEMD has it, forward and backward.",
        "Differences are those of values, over the largest one.",
    )
    missing = [name for name, module in (("POT", "ot"), ("qpth", "qpth")) if not _has(module)]
    return *notes, *(f"{name} is not installed on this machine, so its columns are empty." for name in missing)


@functools.cache
def _has(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:  # it, or what it needs
        return False
    return True


def _measured(case: Case, repeats: int) -> list[str]:
    import torch

    on_gpu, on_cpu = case.step(DEVICE), case.step("cpu")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds, values = median_seconds(_waited(on_gpu), repeats)
    print_profile(case.label, _waited(on_gpu), repeats)
    print_kernels(_waited(on_gpu))
    memory = f"{torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB" if torch.cuda.is_available() else "—"
    cpu_seconds, expected = median_seconds(on_cpu, 2)
    values, expected = (x.detach().double().cpu().numpy() for x in (values, expected))
    scale = float(np.abs(expected).max())
    deviation = largest_difference(values, expected, scale)
    require(case.label, deviation, TOLERANCE)
    pot_seconds, pot_deviation = "—", "—"
    if _has("ot"):
        checked = min(CHECKED, case.problems)
        loop, answers = median_seconds(lambda: np.array([case.core(t) for t in range(checked)]), 1)
        pot_seconds = _milliseconds(loop * case.problems / checked)
        apart = largest_difference(answers, values[:checked], scale)
        require(f"{case.label}, POT", apart, TOLERANCE)
        pot_deviation = f"{apart:.0e}"
    batched = _beside(case.batched, "ot", values, scale)
    quadratic = _beside(case.quadratic, "qpth", values, scale)
    return [
        case.label, f"{case.problems:,}", below(seconds * 1e3, case.milliseconds, "ms"),
        f"{case.problems / seconds:,.0f}", memory, _milliseconds(cpu_seconds), pot_seconds, batched, quadratic,
        f"{deviation:.0e}", pot_deviation,
    ]  # fmt: skip


def _beside(step: Callable[[], Any] | None, module: str, expected: Float, scale: float) -> str:
    """Time, memory and error of another library's layer on this GPU."""
    import torch

    if step is None or not _has(module):
        return "—"
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    seconds, values = median_seconds(_waited(step), 2)
    memory = f", {torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB" if torch.cuda.is_available() else ""
    off = largest_difference(values.detach().double().cpu().numpy(), expected, scale)
    return f"{_milliseconds(seconds)}{memory}, off by {off:.0e}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms"


def _waited(step: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    def waited() -> Any:
        answer = step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return answer

    return waited


def _core(cost: Float, a: Float | None = None, b: Float | None = None) -> float:
    """Value and gradient by POT's compiled core."""
    from ot.lp.emd_wrap import emd_c

    masses = [np.full(k, 1 / k) if mass is None else mass for mass, k in zip((a, b), cost.shape, strict=True)]
    masses = [np.ascontiguousarray(mass / mass.sum(), dtype=np.float64) for mass in masses]
    return float(emd_c(*masses, np.ascontiguousarray(cost, dtype=np.float64), 10_000_000, 1)[1])


def _distances(x: Any, y: Any) -> Float:
    from scipy.spatial.distance import cdist

    return cdist(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))


# -------------------------------------------------------------------------------------------------------------- cases


def _cases(quick: bool) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    yield _matrices("an episode: 25 × 25, weighted", 20 if quick else 375, 25, 1.0, rng)
    count = 50 if quick else 10_000
    yield _matrices("50 × 50, weighted", count, 50, count / 1000, rng)  # a million a second
    yield _clouds(*((4, 64) if quick else (64, 1024)), rng)
    yield _assignment(64 if quick else 4096, rng)
    yield _texts(*((20, 32) if quick else (3000, 768)), rng)


def _matrices(label: str, B: int, n: int, target: float, rng: np.random.Generator) -> Case:
    import torch

    cost = rng.random((B, n, n)).astype(np.float32)
    a, b = (rng.dirichlet(np.ones(n), B) for _ in range(2))

    def tensors(device: str) -> list[Any]:
        parts = [torch.tensor(x, device=device, dtype=torch.float32) for x in (cost, a, b)]
        return [parts[0], *(part / part.sum(1, keepdim=True) for part in parts[1:])]

    def step(device: str) -> Callable[[], Any]:
        leaf, *masses = tensors(device)
        leaf.requires_grad_()

        def forward_and_backward() -> Any:
            leaf.grad = None
            values = asot.gradients.emd(leaf, *masses)
            values.sum().backward()
            return values

        return forward_and_backward

    def batched() -> Any:
        import ot.batch

        with torch.no_grad():  # its plan is the gradient; otherwise torch would keep all of its iterations
            return ot.batch.solve_batch(tensors(DEVICE)[0], EPSILON, *tensors(DEVICE)[1:]).value_linear

    quadratic = (lambda: _quadratic(*tensors(DEVICE))) if n <= QPTH_ROWS else None
    return Case(label, B, target, step, lambda t: _core(cost[t], a[t], b[t]), batched, quadratic)


def _quadratic(cost: Any, a: Any, b: Any) -> Any:
    """The values (B,) of flows (B, n, n) by an interior-point method, differentiated.

    One balance follows from the others.
    """
    import torch
    from qpth.qp import QPFunction

    B, n, _ = cost.shape
    exact = {"dtype": torch.float64, "device": cost.device}
    leaf = cost.to(**exact).reshape(B, n * n).requires_grad_()
    each, one = torch.eye(n * n, **exact).expand(B, -1, -1), torch.eye(n, **exact)
    balances = torch.cat([one.repeat_interleave(n, 1), one.repeat(1, n)[:-1]]).expand(B, -1, -1)
    masses = torch.cat([a, b[:, :-1]], 1).to(**exact)
    solve = QPFunction(verbose=-1, maxIter=20, check_Q_spd=False)
    values = (solve(1e-4 * each, leaf, -each, leaf.new_zeros(B, n * n), balances, masses) * leaf).sum(1)
    values.sum().backward()
    return values


def _of_points(x: Any, y: Any, more: dict[str, Any]) -> Callable[[str], Callable[[], Any]]:
    def step(device: str) -> Callable[[], Any]:
        leaf, other = (part.to(device) for part in (x, y))
        leaf = leaf.detach().requires_grad_()

        def forward_and_backward() -> Any:
            leaf.grad = None
            values = asot.gradients.wasserstein(leaf, other, **more)
            values.sum().backward()
            return values

        return forward_and_backward

    return step


def _clouds(B: int, n: int, rng: np.random.Generator) -> Case:
    import torch

    x, y = (torch.tensor(rng.normal(size=(B, n, 3)), dtype=torch.float32) for _ in range(2))
    label = f"clouds of {n:,} points in 3-D"
    return Case(label, B, 60.0, _of_points(x, y, {}), lambda t: _core(_distances(x[t], y[t])))


def _assignment(n: int, rng: np.random.Generator) -> Case:
    import torch

    x, y = (torch.tensor(rng.normal(size=(n, 64)), dtype=torch.float32) for _ in range(2))

    def step(device: str) -> Callable[[], Any]:
        first, second = x.to(device), y.to(device)
        return lambda: (first - second[asot.gradients.assign(first, second)]).double().square().sum().view(1)

    label = f"one assignment of {n:,} points in 64-D"
    return Case(label, 1, 150.0, step, lambda _: n * _core(_distances(x, y) ** 2))


def _texts(P: int, d: int, rng: np.random.Generator) -> Case:
    import torch

    offsets = [np.concatenate([[0], np.cumsum(rng.integers(10, 61, P))]) for _ in range(2)]
    x, y = (torch.tensor(rng.normal(size=(part[-1], d)), dtype=torch.float32) for part in offsets)
    more = {f"{name}_offsets": torch.tensor(part) for name, part in zip("xy", offsets, strict=True)}

    def core(t: int) -> float:
        here, there = (slice(part[t], part[t + 1]) for part in offsets)
        return _core(_distances(x[here], y[there]))

    return Case(f"ragged pairs of 10–60 points in {d}-D", P, 5.0, _of_points(x, y, more), core)
