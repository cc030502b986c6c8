"""Fewer solves for a stated share of the neighbors.

Bounds are too careful: a neighbor at distance 10 has a bound of 5 at first sight, and of 8 in the end. So a search that
may miss some neighbors counts a member as out if some times its bound is too far. How many times, at each look, is read
off the neighbors of members that are asked for as if they were new, and what share of the neighbors a search then finds
is measured on others. Where it solves hardly fewer members there, certainty costs the same, and is what is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asot._typing import Float, Indices
from asot.index.search import CERTAIN, TIMES, Nearest, Query, Trust
from asot.search.stated_recall import interval_of
from asot.validation import as_number

MISSED = (0.1, 0.07, 0.05, 0.035, 0.025, 0.0175, 0.0125, 0.008, 0.005, 0.0025, 0.0)
"""Shares of the neighbors that each look may miss, among which one is chosen."""

ASKED = 96
"""Members that are asked for to choose, and as many others to measure the share."""

PAYS_FROM = 4 * ASKED
"""Queries that take as long as a rehearsal, so that fewer are answered sooner for certain."""

FEWEST = 1000
"""With fewer members, there is nothing to gain and too little to measure on."""

WORTH = 0.95
"""The share of the solves of certain searches above which they are made."""


Ask = Callable[[int], Query]
"""Begins a query for a member (its slot), as if it were new: it does not find itself."""


class Rehearsal(NamedTuple):
    """How far a search for a share of the neighbors trusts bounds, and what was measured."""

    trust: Trust
    record: dict[str, Any]


def as_recall(recall: Any) -> float:
    """Check a share that a caller asks for."""
    return as_number(recall, lambda share: 0 < share < 1, "recall must be a number between 0 and 1, such as 0.98")


def rehearse(ask: Ask, members: Indices, n_neighbors: int, recall: float, seed: int) -> Rehearsal:
    """Choose how far to trust bounds on some members, and measure that on others."""
    if len(members) < FEWEST:
        return certain(recall)
    drawn = np.random.default_rng(seed).permutation(members)[: 2 * ASKED]
    first, second = drawn[:ASKED], drawn[ASKED:]
    near, _ = _found(ask, first, n_neighbors, CERTAIN)
    known = [ask(slot).shortfalls(slots) for slot, slots in zip(first.tolist(), near, strict=True)]
    shares = np.array(known)  # (n, 4, K) of the K-th distance
    for missed in MISSED:
        trust = _trust(shares, missed)
        kept = (shares * np.array(trust)[:, None] <= 1.0).all(axis=1)
        if interval_of(kept.mean(axis=1), n_neighbors)[0] >= recall:
            break
    else:
        return certain(recall)
    (truth, n_certain), (found, n_trusted) = (_found(ask, second, n_neighbors, each) for each in (CERTAIN, trust))
    found_shares = np.array([np.isin(b, a).mean() for a, b in zip(found, truth, strict=True)])
    interval = interval_of(found_shares, n_neighbors)
    lucky = found_shares.mean() < recall  # the choice was: rather be certain than promise too much
    if lucky or n_trusted > WORTH * n_certain:
        return certain(recall)
    record = {"asked": recall, "measured": float(found_shares.mean()), "interval": interval, "certain": False}
    return Rehearsal(trust, record | {"trust": trust._asdict(), "n_queries": len(second)})


def _found(ask: Ask, members: Indices, n_neighbors: int, trust: Trust) -> tuple[Indices, int]:
    """The neighbors (n, K) of some members, and how many pairs were solved for them."""
    answers = [ask(slot).answer(Nearest(n_neighbors), None, trust) for slot in members.tolist()]
    return np.array([answer.slots for answer in answers], dtype=np.int64), sum(answer.solves for answer in answers)


def _trust(shares: Float, missed: float) -> Trust:
    """Times that bounds may be trusted if each look may miss this share of the neighbors."""
    most = np.quantile(shares.transpose(1, 0, 2).reshape(len(Trust._fields), -1), 1.0 - missed, axis=1, method="higher")
    return Trust(*(1.0 / np.clip(most, 1.0 / TIMES[-1], 1.0)).tolist())


def certain(recall: float) -> Rehearsal:
    """What a search reports that finds all."""
    return Rehearsal(CERTAIN, {"asked": recall, "measured": 1.0, "interval": (1.0, 1.0), "certain": True})
