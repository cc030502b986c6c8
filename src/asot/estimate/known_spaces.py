"""Estimates with spaces and a fit that are already there: nothing is learned, drawn or fitted again.

A pair is then estimated as it would have been in the call that made the fit, whatever other pairs there are: features
depend on the two distributions, the spaces and a few axes, all of which are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from asot._typing import Float
from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import LIFTED, PointBounds, make_bounds
from asot.bounds.short_vectors import Directions
from asot.data.distinct import SharedPoints
from asot.estimate.attempts import AnchorAttempts, CoarseAttempts
from asot.estimate.calibration import Calibration, KnownFit
from asot.estimate.pair_features import OF_SHARED, Features
from asot.request import Request
from asot.run.executors import in_ranges


@dataclass(frozen=True, eq=False)
class KnownSpaces:
    """Spaces, and a fit of what they show of a pair."""

    spaces: tuple[AnchorSpace, ...]
    learned: bool
    """Whether they were learned in the call, from points as its metric sees them, or given."""
    with_bounds: bool
    """Whether bounds are features."""
    level: str | None
    """Which bounds."""
    axes: Float | None
    """(d, w) in which local means or covariances are compared, where these are not all coordinates."""
    fit: KnownFit
    plan: str | None = LIFTED
    """Which upper bounds by points there were when it was fitted; None before they were numbered."""

    def features(self, request: Request) -> Features:
        """What the fit learns from, for the pairs of a request."""
        if not request.distance.is_plain:
            return self._coarse(request)
        both, own = request.both, request.resources
        directions = None if self.axes is None else Directions(self.axes, self.fit.exponent)
        attempts = AnchorAttempts(request, self.spaces[0], directions)
        level = self.level if self.with_bounds else request.level
        views = []
        for space in (one.proven for one in self.spaces):
            view, assigned = attempts.view_in(space)
            if level is not None:
                view.bounds = make_bounds(space, both, request.column_start, level, own.n_jobs, assigned)
                if self.with_bounds and self.plan != LIFTED and isinstance(view.bounds, PointBounds):
                    raise ValueError(
                        "the model was fitted to upper bounds by points of another version of asot, and its errors "
                        "would not hold with those of this one; make the result that it is from again"
                    )
            views.append(view)
        is_counted = OF_SHARED[0] in self.fit.report.coefficients
        shared = SharedPoints.of(both, in_ranges(own.jobs)) if is_counted else None
        return attempts.features_of(views, shared, with_bounds=self.with_bounds)

    def _coarse(self, request: Request) -> Features:
        attempts = CoarseAttempts(request, None)
        if attempts.why_exact is not None:
            raise ValueError(f"{attempts.why_exact}; use pairwise_exact for all pairs")
        learned_at = self.fit.exponent if self.learned else None
        return attempts.on_places(self.spaces[0].proven, learned_at=learned_at, axes=self.axes)

    def calibration(self, features: Features, *, same_rows: bool) -> Calibration:
        """The fit for these features; ``same_rows``: the pairs that were solved for it keep their exact values."""
        if len(features.names) != len(self.fit.coefficients):
            raise ValueError(
                f"the model was fitted to {len(self.fit.coefficients)} features, not {len(features.names)}"
            )
        return Calibration.known(features, self.fit if same_rows else self.fit.without_pairs())
