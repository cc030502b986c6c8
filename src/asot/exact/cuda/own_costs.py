"""Exact problems with costs of their own on an NVIDIA GPU: `asot.exact.batch` for arrays that are there already.

A problem is the work of a block (``own_costs.cu``). A first kernel puts every problem on the list of its size class;
the kernel of each class takes the problems of its list. All that the host learns is whether something is wrong with
any of them; the caller finds out what it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asot.exact.cuda.points import working_bytes
from asot.exact.cuda.points_plan import BLOCKS, BlockClass, Launch, classes_for
from asot.gpu.cuda import Variant, load

CLASSES = (
    *(BlockClass(own.most_rows, own.most_columns, own.threads, "own_costs") for own in BLOCKS),
    BlockClass(3072, 3072, 512, "own_costs", far_flow=True),
    BlockClass(4096, 4096, 512, "own_costs", far_flow=True),
)

CALLS = 64
"""Whose counters are made together."""


def most_points(number: int | None) -> int:
    """Of either side of a problem that a GPU, cuda:number, has a kernel for."""
    return _most_points(number, CLASSES)


@functools.lru_cache(maxsize=64)
def _most_points(number: int | None, classes: tuple[BlockClass, ...]) -> int:
    import cupy

    shared_memory = int(cupy.cuda.Device(number).attributes["MaxSharedMemoryPerBlockOptin"])
    return classes_for(classes[-1].most_columns, shared_memory, classes)[-1].most_columns


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`): matrices of costs, or Euclidean clouds."""
    for clouds in (0, 1):
        source = {"CLOUDS": clouds, "METRIC": 0, "TABLE": 0, "BOUNDED": 0}
        for own in CLASSES:
            if own.least_bytes <= shared_memory:
                yield own.kernel, own.launch(shared_memory, 0, 1, source).defines


class DeviceSide(NamedTuple):
    """Rows or columns of P problems. Arrays are CuPy's, here and below, or addresses of memory on the GPU."""

    starts: Any  # (P,) int64: where those of a problem begin among all masses, and among all points
    sizes: Any  # (P,) int64
    masses: Any  # flat float64 (float32: `DevicePlans.narrow`), or None: uniform of total 1
    most: int  # no size is larger


class DeviceMatrices(NamedTuple):
    """Entry (i, j) of problem t is ``flat[starts[t] + i · stride + j]``."""

    flat: Any  # float64, or float32
    starts: Any  # (P,) int64
    stride: int


class DeviceClouds(NamedTuple):
    """Costs d(x_i, y_j)^power of points, which the sides' starts refer to."""

    x: Any  # (N, d) float64
    y: Any  # (M, d) float64
    dim: int  # d
    metric: int  # a code of `asot.ground.metrics`
    power: float
    shrink: Any  # (P,) float64: what the coordinates of a problem are multiplied with, or None: 1


class DevicePlans(NamedTuple):
    """Answers. All but potentials are written for every problem; arcs that are not used have mass 0, row 0 and column
    0, and so have all of a problem that is refused."""

    arcs_at: Any  # (P,) int64: where the arcs of a problem begin
    values: Any  # (P,) float64, or float32
    source: Any  # (arcs,) int64
    sink: Any  # (arcs,) int64
    mass: Any  # (arcs,) float64, or float32
    f_at: Any = None  # (P,) int64, or None: no potentials are wanted
    g_at: Any = None
    f: Any = None  # flat float64, which the caller fills with zeros
    g: Any = None
    room: int = 0  # for the arcs of each problem, or 0: one per row and column
    narrow: bool = False  # masses, costs and values are float32; not for clouds


def solve(
    count: int,
    rows: DeviceSide,
    columns: DeviceSide,
    costs: DeviceMatrices | DeviceClouds,
    plans: DevicePlans,
    balance: float,
    refused: Any = None,
) -> Any:
    """Enqueue ``count`` problems on the current stream. Returns ``refused`` (1,) int32, which is made if it is not
    given and else 0 before: it becomes 1 if a problem is wrong, and answered with zeros, or if its costs are of too
    different sizes for the integers of a GPU. ``balance``: by how much totals of sides may differ, relative to
    themselves."""
    import cupy

    if refused is None:
        refused = cupy.zeros(1, dtype=np.int32)
    if count == 0:
        return refused
    metric, most = costs.metric if isinstance(costs, DeviceClouds) else None, max(rows.most, columns.most)
    room = next((own.most_columns for own in CLASSES if most <= own.most_columns), most)
    ready = _kernels(cupy.cuda.Device().id, room, metric, CLASSES)
    if most > ready.most:
        raise ValueError(f"a GPU solves up to {ready.most} rows and columns here; found {most}")
    lists, n_listed, n_taken = _listed(count, rows, columns, ready)
    far = cupy.empty(ready.far_words, dtype=np.uint32)
    none, no_place = ready.none, ready.no_place
    potentials = (no_place, no_place, none, none) if plans.f_at is None else plans[5:9]
    for c, (function, launch) in enumerate(zip(ready.functions, ready.launches, strict=True)):
        arguments = (
            rows.starts, rows.sizes, none if rows.masses is None else rows.masses,
            columns.starts, columns.sizes, none if columns.masses is None else columns.masses,
            np.int32(plans.narrow), *_costs(costs, none, no_place), np.float64(balance),
            lists[c], n_listed[c:], n_taken[c:], far, plans.arcs_at, np.int32(plans.room), *plans[1:5], *potentials,
            refused,
        )  # fmt: skip
        blocks = min(launch.blocks, count)
        function((blocks,), (launch.threads,), arguments, shared_mem=launch.shared_bytes)
    return refused


def _listed(count: int, rows: DeviceSide, columns: DeviceSide, ready: _Kernels) -> tuple[Any, Any, Any]:
    """The problems of each class (classes, count), how many these are, and how many blocks have taken, (classes,)."""
    import cupy

    n, device = len(ready.launches), cupy.cuda.Device().id
    n_listed, n_taken = _counters(device, cupy.cuda.get_current_stream().ptr, n)
    if n == 1:
        n_listed, lists = _all_problems(device, count)
    else:
        lists = cupy.empty((n, count), dtype=np.int32)
        ready.classify(
            (-(-count // 256),), (256,),
            (rows.sizes, columns.sizes, np.int32(count), ready.sizes, np.int32(n), lists, n_listed),
        )  # fmt: skip
    return lists, n_listed, n_taken


def _counters(device: int, stream: int, n: int) -> tuple[Any, Any]:
    """Of each of n classes, how many problems are listed (n,), and taken (n,): zeros for the current stream, which are
    filled in for many calls at a time, since a launch takes as long as all else that a small batch needs."""
    ready = _zeros(device, stream, n)
    while True:
        try:
            return ready.pop()  # in one step, whatever other threads do
        except IndexError:
            import cupy

            zeros = cupy.zeros((CALLS, 2, n), dtype=np.int32)
            ready.extend((zeros[call, 0], zeros[call, 1]) for call in range(CALLS))


@functools.lru_cache(maxsize=64)
def _zeros(device: int, stream: int, n: int) -> list[tuple[Any, Any]]:
    """Counters that no call has used."""
    return []


@functools.lru_cache(maxsize=64)
def _all_problems(device: int, count: int) -> tuple[Any, Any]:
    """The list of a kernel that takes all problems, for the current GPU, which is ``device``: their number (1,) and
    numbers (1, count)."""
    import cupy

    kept = cupy.asarray(np.array([count], dtype=np.int32)), cupy.asarray(np.arange(count, dtype=np.int32)[None])
    cupy.cuda.get_current_stream().synchronize()  # any stream may read it
    return kept


class _Kernels(NamedTuple):
    """What problems of up to a size need on a GPU."""

    most: int  # rows and columns that there is a kernel for
    launches: list[Launch]
    functions: list[Any]
    classify: Any
    sizes: Any  # (classes,) int32
    far_words: int
    none: Any  # (0,) what a kernel gets for an array that is not there
    no_place: Any  # (0,) int64


@functools.lru_cache(maxsize=256)
def _kernels(device: int, most: int, metric: int | None, classes: tuple[BlockClass, ...]) -> _Kernels:
    """For the current GPU, which is ``device``, and problems of up to the size of a class: kept, since a small batch
    takes less time than asking for it."""
    import cupy

    attributes = cupy.cuda.Device().attributes
    shared, processors = int(attributes["MaxSharedMemoryPerBlockOptin"]), int(attributes["MultiProcessorCount"])
    needed = classes_for(most, shared, classes)
    source = {"CLOUDS": int(metric is not None), "METRIC": metric or 0, "TABLE": 0, "BOUNDED": 0}
    launches = [own.launch(shared, working_bytes(None), processors, source) for own in needed]
    modules = [load("own_costs", launch.defines) for launch in launches]
    functions = [module.get_function("own_costs") for module in modules]
    for function, launch in zip(functions, launches, strict=True):
        function.max_dynamic_shared_size_bytes = launch.shared_bytes
    sizes = cupy.asarray(np.array([own.most_columns for own in needed], dtype=np.int32))
    far_words = max(launch.far_words for launch in launches)
    none, no_place = cupy.empty(0), cupy.empty(0, dtype=np.int64)
    cupy.cuda.get_current_stream().synchronize()  # any stream may read the sizes
    classify = modules[0].get_function("classify_problems")
    largest = needed[-1].most_columns
    return _Kernels(largest, launches, functions, classify, sizes, far_words, none, no_place)


def _costs(costs: DeviceMatrices | DeviceClouds, none: Any, no_place: Any) -> tuple[Any, ...]:
    """As the kernel takes them: matrices, their places, stride or coordinates, points, power, factor."""
    if isinstance(costs, DeviceClouds):
        shrink = none if costs.shrink is None else costs.shrink
        return none, no_place, np.int32(costs.dim), costs.x, costs.y, np.float64(costs.power), shrink
    return costs.flat, costs.starts, np.int32(costs.stride), none, none, np.float64(1.0), none
