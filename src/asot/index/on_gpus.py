"""Batches of queries on GPUs. What a search needs of the members is made at the first one, and kept until they change.

A search among other distributions reads both collections, numbers their points and projects them, which takes seconds
for 250,000 molecules. Here only the queries are read, and the members bring the projections that the index has of them
anyway. Distances other than W_1 under a metric with a kernel have no bounds on GPUs, and so nothing worth keeping.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Indices, Info
from asot.data.distinct import SparseHistograms, joined_histograms, sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import of_one_scale
from asot.ground.metrics import ON_GPUS, Ground, prepare_metric
from asot.index.frame import NONE, Frame, Slack, Tables
from asot.index.members import Snapshot
from asot.index.settings import Settings
from asot.run import devices
from asot.run.engine import Resources
from asot.run.executors import Progress, in_ranges, kept_threads
from asot.search.on_gpus import Profiles, profiles_of, search_points
from asot.search.projections import COARSE, WIDTH
from asot.search.sweep import Best, Edges, Shape

_FARTHEST_UNITS = 64
"""Projections are kept if the unit of the index and that of a batch are at most so many powers of two apart."""


class _Members(NamedTuple):
    """Some members over their distinct points, and their projections, feature by feature."""

    snapshot: weakref.ref[Snapshot]  # not the files of an index that was closed
    slots: Indices  # (M,)
    histograms: SparseHistograms
    features: NDArray[np.float32] | None  # (features, M)


class GpuSearch:
    """The searches of one index on GPUs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: _Members | None = None

    def search(
        self, Q: Distributions, snapshot: Snapshot, slots: Indices, sink: Best | Edges, device: str,
        resources: Resources,
    ) -> Info:  # fmt: skip
        """Find the nearest of some members; columns of the sink are places among the slots (M,)."""
        choice = devices.choose(device, needs=("cupy",), cpu_seconds=np.inf)
        jobs, metric, parameters = resources.jobs, str(self._settings.metric), self._settings.metric_params
        members = self._members(snapshot, slots, jobs)
        with kept_threads(jobs):
            queries = sparse_histograms(Q, in_ranges(jobs))
            histograms = joined_histograms(queries, members.histograms, in_ranges(jobs))
        ground = prepare_metric(histograms.points, metric, parameters)
        if ground.code not in ON_GPUS:
            devices.choose(
                device, needs=("cupy",), cpu_seconds=np.inf, unfit=f"the metric {metric!r} has no GPU kernel"
            )
        choice = of_one_scale(choice, ground.points, device)
        shape = Shape(len(Q), len(slots), len(Q), False)
        profiles = self._profiles(Q, snapshot, members.features, ground, resources)
        if profiles is None:
            profiles = profiles_of(histograms, ground, len(slots), jobs)
        quiet = replace(resources, progress=None)
        with Progress(resources.progress, shape.n_pairs, "nearest neighbors") as shown:
            info = search_points(histograms, ground, shape, profiles, sink, choice, quiet, shown)
        return info | {"estimate": "exact", **self._settings.info, "n_pairs": shape.n_pairs}

    def _members(self, snapshot: Snapshot, slots: Indices, jobs: int) -> _Members:
        kept = self._kept
        if kept is not None and kept.snapshot() is snapshot and np.array_equal(kept.slots, slots):
            return kept
        self._kept = kept = None  # there may be no room for both
        with kept_threads(jobs):
            histograms = sparse_histograms(snapshot.taken(slots), in_ranges(jobs))
        frame, features = snapshot.frame, None
        if frame is not None and frame.axes is not None and not frame.only_words and slots[-1] < snapshot.prepared:
            tables = {name: snapshot.tables[name][slots] for name in ("coarse", "tail")}
            features = _features(frame, tables)
        made = _Members(weakref.ref(snapshot), slots, histograms, features)
        self._kept = made
        return made

    def _profiles(
        self, Q: Distributions, snapshot: Snapshot, theirs: NDArray[np.float32] | None, ground: Ground,
        resources: Resources,
    ) -> Profiles | None:  # fmt: skip
        """Projections of the queries and the members, if the index keeps some."""
        frame = snapshot.frame
        if theirs is None or frame is None or frame.axes is None:
            return None
        shift = frame.exponent - ground.exponent
        if abs(shift) > _FARTHEST_UNITS:
            return None
        tables, slack = replace(frame, landmarks=None).vectors(Q, self._settings, resources.budget, resources.jobs)
        rounding = frame.rounding(snapshot.slack.joined(Slack(slack.extent, slack.reach)))
        features = np.concatenate([_features(frame, tables), theirs], axis=1)
        np.multiply(features, np.float32(2.0**shift), out=features)
        absolute = float(np.ldexp(rounding["absolute"] + rounding["step_absolute"], shift))
        return features, frame.axes.leading, rounding["relative"], absolute


def _features(frame: Frame, tables: Tables) -> NDArray[np.float32]:
    """Coarse means along the sorted axes, and means along the others (features, n); NaN where a member has none."""
    assert frame.axes is not None
    coarse, leading = tables["coarse"], frame.axes.leading
    shares = coarse.reshape(len(coarse), COARSE, WIDTH)[:, :, :leading].transpose(2, 1, 0).astype(np.float32)
    if frame.is_brief:
        shares *= np.float32(frame.step)
        shares[:, :, coarse[:, 0] == NONE] = np.nan
    return np.concatenate([shares.reshape(leading * COARSE, len(coarse)), tables["tail"].T])
