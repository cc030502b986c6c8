"""Calibrated estimates on GPUs: features are computed where the trees are, with the coefficients of the host's fit.

The anchor problems of a tile are solved (`asot.exact.cuda.solver`); their trees stay on the device, where
``estimate.cu`` prices them and turns the prices into estimates. Only answers are copied back. They are those of the CPU
(`asot.estimate.calibration.Estimates`) up to the rounding of float32 distances.

Features do not depend on the fit. So a GPU can measure pairs (`FeaturesCuda`) while the host still solves the exact
ones that the fit needs (`asot.run.gpu_engine.begin`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asot._typing import Info
from asot.bounds.error_bars import BLURRED, PointBounds
from asot.data.distinct import MASS_UNIT
from asot.estimate.calibration import EXACT_ERROR
from asot.estimate.pair_features import PairFeatures, View
from asot.exact.cuda.solver import DeviceTrees, ExactOnDevice
from asot.exact.workspace import MASS_BITS
from asot.gpu.cuda import Variant, load
from asot.results.distances import Distances
from asot.results.sinks import distances_of
from asot.run.gpu_transfer import launch_over_pairs, pair_arguments
from asot.run.pairs import ListedPairs, PairSet
from asot.run.protocols import DeviceSolution, DeviceSolver, OnDevice, Status

if TYPE_CHECKING:
    from asot.estimate.calibration import Estimates

MOST_PAIRS, LEAST_PAIRS = 2**22, 2**12
MOST_WARPS = 32
"""Warps of a block, where registers and shared memory allow that many: they wait for memory most of the time."""

MOST_POINT_WARPS = 20
"""The same for bounds: more would have too few registers."""

ENOUGH_TEAMS = 4
"""Distances lie in shared memory if a block can have this many teams; else in global memory."""


class MeasuredTile(NamedTuple):
    """What was measured of the P pairs of a tile, on a GPU."""

    which: tuple[Any, ...]
    """The pairs, as kernels know them."""
    features: Any  # (7 or 9, P)
    bounds: tuple[Any, Any, Any]  # lower, upper and status (P,), or empty
    pivots: Any  # (P,)


class FeaturesCuda:
    """Prepared from features; copies itself to GPUs, to each of them once.

    If ``early``, tiles leave half of the memory to what is measured before a run takes it.
    """

    def __init__(self, features: PairFeatures, *, memory: int, early: bool = False) -> None:
        self.features, self.memory, self._early = features, memory, early
        self._on: dict[int, FeaturesOnDevice] = {}
        self.begun = 0
        self.rest: Callable[[], object] = lambda: None
        """What the calling thread does while others measure: GPUs that have begun with some pairs begin with more."""

    def pairs_per_tile(self, memory: int) -> int:
        memory //= 2 if self._early else 1
        nodes = max(len(view.cost) for view in self.features.views)
        bytes_per_pair = 18 * nodes + 8 * len(self.features.names) + 96
        return int(np.clip(memory // bytes_per_pair, min(LEAST_PAIRS, max(1, memory // bytes_per_pair)), MOST_PAIRS))

    @property
    def bytes_per_pair(self) -> int:
        """Of what was measured (`MeasuredTile`)."""
        return 8 * self.features.n_cheap + 4 + (0 if self.features.views[0].bounds is None else 17)

    def on(self, device: int) -> FeaturesOnDevice:
        if device not in self._on:
            self._on[device] = FeaturesOnDevice(self, device)
        return self._on[device]


class FeaturesOnDevice:
    """What all pairs share before there is a fit, on one GPU: anchor problems, local means, points."""

    def __init__(self, host: FeaturesCuda, device: int) -> None:
        features = self._features = host.features
        self._views = [ViewOnDevice(view, features, host.memory, device) for view in features.views]
        self._common = None if features.shared is None else _common_on_device(features)
        self._bounded = features.views[0].bounds is not None
        self._begun: dict[tuple[int, int, int], MeasuredTile] = {}

    def begin(self, pairs: PairSet, start: int, stop: int) -> None:
        """Enqueue the pairs start..stop-1 on the current stream, for a later `measure` on the same one."""
        self._begun[_on_this_stream(start, stop)] = self._measured(pairs, start, stop)

    def measure(self, pairs: PairSet, start: int, stop: int) -> MeasuredTile:
        """Features and bounds of the pairs start..stop-1, if they are not there yet."""
        begun = self._begun.pop(_on_this_stream(start, stop), None)
        if begun is not None:
            return begun
        self._begun.clear()  # all were taken, or tiles have become smaller because there is too little memory
        return self._measured(pairs, start, stop)

    def _measured(self, pairs: PairSet, start: int, stop: int) -> MeasuredTile:
        import cupy

        count = stop - start
        features = cupy.empty((self._features.n_cheap, count))
        n_bounds = count if self._bounded else 0
        bounds = cupy.empty(n_bounds), cupy.empty(n_bounds), cupy.empty(n_bounds, dtype=np.int8)
        which = (*pair_arguments(pairs, start, stop), np.int64(start))
        pivots: Any = None
        for turn, view in enumerate(self._views):
            solved = view.measure((pairs, start, stop), which, features, bounds, later_view=turn > 0)
            if pivots is None:
                pivots = solved.n_iter
            else:  # with + CuPy would compile a kernel
                launch_over_pairs("add_counts", count, np.int64(count), solved.n_iter, pivots)
        if self._common is not None:  # into the last two of the features
            function = load("estimate", NO_TEAMS).get_function("count_common")
            function((-(-count // 256),), (256,), (*which, np.int64(count), *self._common, features))
        return MeasuredTile(which, features, bounds, pivots)


def _common_on_device(features: PairFeatures) -> tuple[Any, ...]:
    """Points that distributions share, as the kernel takes them that counts what pairs have in common."""
    import cupy

    far, mass = (own.arrays() for own in features.common)
    entries = (cupy.asarray(array) for array in (far["offsets"], far["labels"], far["masses"], mass["masses"]))
    numbers = np.float64(MASS_UNIT), np.float64(features.length), np.int32(len(features.views))
    return np.int32(features.column_start), *entries, *numbers


def _on_this_stream(start: int, stop: int) -> tuple[int, int, int]:
    import cupy

    return start, stop, int(cupy.cuda.get_current_stream().ptr)


class EstimatesCuda(DeviceSolver):
    """Estimates of the CPU, copied to GPUs. ``measuring`` may have begun without their fit."""

    stage = "estimates"

    def __init__(
        self, on_cpu: Estimates, *, memory: int, n_jobs: int = 1, measuring: FeaturesCuda | None = None
    ) -> None:
        assert isinstance(on_cpu.features, PairFeatures)
        self.features, self.calibration, self.give_bounds = on_cpu.features, on_cpu.calibration, on_cpu.give_bounds
        self.on_cpu, self.n_jobs = on_cpu, n_jobs
        self.measuring = FeaturesCuda(self.features, memory=memory) if measuring is None else measuring
        self.begun = self.measuring.begun
        self.info: Info = {**on_cpu.info, "device": "cuda"}

    def pairs_per_tile(self, memory: int) -> int:
        return self.measuring.pairs_per_tile(memory)

    def on(self, device: int) -> EstimatesOnDevice:
        return EstimatesOnDevice(self, device)


class EstimatesOnDevice(OnDevice):
    """What all pairs share, on one GPU: features and the fit."""

    def __init__(self, host: EstimatesCuda, device: int) -> None:
        import cupy

        features, fit = host.features, host.calibration
        self._measuring = host.measuring.on(device)
        self._numbers = tuple(np.int32(n) for n in (len(features.names), features.n_cheap, len(features.views)))
        self.gives_bounds = host.give_bounds
        self.leaves_open, self._host = features.views[0].bounds is not None, host
        self._n_blocks = int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])
        known = fit.coefficients, fit.error_weights
        self._fit = tuple(cupy.asarray(np.asarray(each, dtype=np.float64)) for each in known)
        self._size = _powers(features.exponent)
        solved = cupy.asarray(fit.solved), cupy.asarray(fit.exact)
        statuses = np.int32(Status.ESTIMATED), np.int32(Status.EXACT)
        self._known = (*solved, np.int32(len(fit.solved)), np.float64(EXACT_ERROR), *statuses)

    def solve_open(self, pairs: ListedPairs) -> Distances:
        """Pairs that are tiny beside the extent of their collection."""
        return distances_of(pairs, self._host.on_cpu, n_jobs=self._host.n_jobs, progress=False)

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        import cupy

        count = stop - start
        which, features, bounds, pivots = self._measuring.measure(pairs, start, stop)
        lower, upper = bounds[:2] if self.gives_bounds else (None, None)
        error = cupy.empty(count)
        solution = DeviceSolution(
            cupy.empty(count), cupy.empty(count, dtype=np.int8), pivots, lower=lower, upper=upper, error=error
        )
        load("estimate", NO_TEAMS).get_function("estimate_pairs")(
            (8 * self._n_blocks,), (256,),
            (*which, np.int64(count), *self._numbers, features, *self._fit, *self._size,
             *self._known, *bounds, solution.values, error, solution.status),
        )  # fmt: skip
        return solution


NO_TEAMS = {"WIDTH": 8, "TEAM": 32, "FAR": 0, "THREADS": 1024}
"""For the kernel that has a thread for each pair: any of the variants has it."""


class LaunchShape(NamedTuple):
    """How a kernel is compiled and launched."""

    blocks: int
    threads: int
    shared_bytes: int
    far_floats: int
    """Of global memory that all teams work in."""
    numbers: tuple[np.int32, ...]
    """How a team lays out what it works on."""
    defines: dict[str, int]


def means_geometry(
    nodes: int, most_cells: int, mean_cells: float, width: int, limits: tuple[int, int, int]
) -> LaunchShape:
    """Of ``price_means``: as many teams as fit.

    ``limits``: multiprocessors, bytes of shared memory of a block, and of global memory.
    """
    blocks, shared_memory, memory = limits
    team = 8 if mean_cells <= 8 else 16 if mean_cells <= 16 else 32
    block = 4 * most_cells * (most_cells | 1)
    lists = -(-18 * nodes // 8) * 8 + 8 * most_cells
    team_bytes = -(-(lists + block) // 8) * 8
    far = team_bytes * max(ENOUGH_TEAMS, 32 // team) > shared_memory
    if far:
        team_bytes = lists
    warp_bytes = team_bytes * (32 // team)
    warps = max(1, min(MOST_WARPS, shared_memory // warp_bytes))
    if far:
        most = max(1, memory // (block * (32 // team)))
        warps = max(1, min(warps, most // blocks))
        blocks = min(blocks, most)
    defines = {"WIDTH": width, "TEAM": team, "FAR": int(far), "THREADS": _bound(warps, MOST_WARPS)}
    numbers = np.int32(nodes), np.int32(most_cells), np.int32(team_bytes)
    far_floats = blocks * warps * (32 // team) * block // 4 if far else 1
    return LaunchShape(blocks, 32 * warps, warps * warp_bytes, far_floats, numbers, defines)


def points_geometry(nodes: int, most_points: int, width: int, limits: tuple[int, int, int]) -> LaunchShape:
    """Of ``bracket_points``: as many warps as fit; ``limits`` as before."""
    blocks, shared_memory, memory = limits
    arcs = max(2 * most_points + 2 * nodes + 2, 4 * most_points)
    lists = 8 * (2 * most_points + 2 * nodes + arcs) + 4 * (4 * most_points + 2 * nodes) + 2 * (4 * nodes + 2 * arcs)
    lists = -(-lists // 8) * 8
    block = 4 * most_points * (width + (most_points | 1))
    far = (lists + block) * ENOUGH_TEAMS > shared_memory
    warp_bytes = -(-(lists if far else lists + block) // 16) * 16
    warps = max(1, min(MOST_POINT_WARPS, shared_memory // warp_bytes))
    if far:
        most = max(1, memory // block)
        warps = max(1, min(warps, most // blocks))
        blocks = min(blocks, most)
    defines = {"WIDTH": width, "FAR": int(far), "THREADS": _bound(warps, MOST_POINT_WARPS)}
    numbers = np.int32(nodes), np.int32(most_points), np.int32(warp_bytes)
    far_floats = blocks * warps * block // 4 if far else 1
    return LaunchShape(blocks, 32 * warps, warps * warp_bytes, far_floats, numbers, defines)


def _bound(warps: int, most: int) -> int:
    """Threads of a block that a kernel is compiled for: all that it may have, or half of them with more registers."""
    return 32 * (most if warps > most // 2 else most // 2)


WIDTHS = (8, 16, 24, 32)
"""Coordinates (`asot.bounds.short_vectors`) that kernels are compiled ahead for."""


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for width, far, share in itertools.product(WIDTHS, (0, 1), (2, 1)):
        for team in (8, 16, 32):
            yield "estimate", {"WIDTH": width, "TEAM": team, "FAR": far, "THREADS": 32 * MOST_WARPS // share}
        yield "bracket", {"WIDTH": width, "FAR": far, "THREADS": 32 * MOST_POINT_WARPS // share}


class ViewOnDevice:
    """One space's look at all pairs, on a GPU."""

    def __init__(self, view: View, features: PairFeatures, memory: int, device: int) -> None:
        import cupy

        attributes, anchor = cupy.cuda.Device(device).attributes, view.anchor_on_gpu
        self._column_start = np.int32(features.column_start)
        self._anchor: ExactOnDevice = anchor.on(device)
        nodes, cells = len(anchor.unit), view.cells
        sizes = np.diff(cells.offsets)
        limits = int(attributes["MultiProcessorCount"]), int(attributes["MaxSharedMemoryPerBlockOptin"]), memory
        width = cells.mean.shape[1]
        self._geometry = means_geometry(nodes, int(sizes.max()), float(sizes.mean()), width, limits)
        place = np.full((len(sizes), nodes), -1, dtype=np.int16)
        table = view.means.arrays()
        place[:, : table["place"].shape[1]] = table["place"]
        means = table["rows"].reshape(-1, width)[: len(cells.mass)]
        arrays = (
            cells.offsets, cells.anchor, cells.mass, cells.variance.astype(np.float32), means, place,
            table["centers"], view.radii,
        )  # fmt: skip
        self._cells = [cupy.asarray(array) for array in arrays]
        self._unit = cupy.asarray(anchor.unit)
        self._scales = *_powers(anchor.exponent - features.exponent), *_powers(-features.exponent)
        self._points = None
        if isinstance(view.bounds, PointBounds):
            self._points = PointsOnDevice(view.bounds, view, anchor.exponent, nodes, limits)

    def measure(
        self, tile: tuple[PairSet, int, int], which: tuple[Any, ...], features: Any, bounds: tuple[Any, ...], *,
        later_view: bool,
    ) -> DeviceSolution:  # fmt: skip
        """Solve the anchor problems, and add features and bounds; returns the solution on the anchors. ``tile``: pairs
        of a set, from one to another, and ``which``: the same as kernels know them."""
        solved, trees = self._anchor.solve_with_trees(*tile)
        common = *which, np.int32(tile[2] - tile[1]), self._column_start, *self._anchor.masses()
        _launch(
            "estimate", "price_means", self._geometry, (*self._cells, *common, self._unit, *self._scales, *trees),
            (np.int32(later_view), features),
        )  # fmt: skip
        if self._points is not None:
            self._points.bracket(common, trees, solved.values, bounds, later_view=later_view)
        return solved


class PointsOnDevice:
    """The points of all distributions, on a GPU, with the kernel that bounds their distances."""

    def __init__(
        self, bounds: PointBounds, view: View, cost_exponent: int, nodes: int, limits: tuple[int, int, int]
    ) -> None:
        import cupy

        table, means, short = bounds.tables()
        most = int(np.diff(table["offsets"]).max())
        self._geometry = points_geometry(nodes, most, table["points"].shape[1], limits)
        height = np.zeros(nodes)
        height[: len(table["height"])] = table["height"]
        arrays = (
            table["offsets"], table["point"].astype(np.int32), table["masses"], table["cell"], table["points"],
            table["rest"], height, means, bounds.radii,
        )  # fmt: skip
        self._arrays = [cupy.asarray(np.ascontiguousarray(array)) for array in arrays]
        slacks = 2.0**-MASS_BITS, bounds.open, view.loose, short.slack, BLURRED
        powers = *_powers(cost_exponent - short.exponent), *_powers(short.exponent)
        self._numbers = *powers, *(np.float64(each) for each in slacks)

    def bracket(
        self, common: tuple[Any, ...], trees: DeviceTrees, values: Any, bounds: tuple[Any, ...], *, later_view: bool
    ) -> None:
        """Bounds of a tile, combined with those that are there if a view has looked at it before."""
        first = *self._arrays, *common, *trees, *self._numbers, values
        _launch("bracket", "bracket_points", self._geometry, first, (np.int32(later_view), *bounds))


def _launch(file: str, kernel: str, shape: LaunchShape, first: tuple[Any, ...], last: tuple[Any, ...]) -> None:
    """Enqueue a kernel; its scratch memory goes between its arguments."""
    import cupy

    function = load(file, shape.defines).get_function(kernel)
    function.max_dynamic_shared_size_bytes = shape.shared_bytes
    far = cupy.empty(shape.far_floats, dtype=np.float32)
    function((shape.blocks,), (shape.threads,), (*first, far, *shape.numbers, *last), shared_mem=shape.shared_bytes)


def _powers(exponent: int) -> tuple[np.float64, np.float64]:
    """Two factors whose product is 2^exponent, which itself may be out of range."""
    half = exponent // 2
    return np.float64(2.0**half), np.float64(2.0 ** (exponent - half))
