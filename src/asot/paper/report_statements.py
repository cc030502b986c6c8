"""The first screen: what the paper claimed, what holds, what is better here, in three cards.

Every number in them is computed from the results; a sentence whose cells are missing is left out, and a card without
sentences says what to run. The paper's own numbers do not appear: they are in the columns named "paper".
"""

from __future__ import annotations

from statistics import median

from asot.paper.names import CALIBRATED, DESCRIBED, OURS
from asot.paper.report_comparisons import error_ratios, loop_ratio, timed, with_paper
from asot.paper.report_data import EXACT, ReportData
from asot.paper.report_document import Card, counted, duration, listed, number, percent, quote, times

TITLE = "Anchor space optimal transport, run again"
LEAD = (
    "How far apart are two clouds of points? Optimal transport says: as far as the least work that turns one into the "
    "other. For a whole collection that is one small optimisation for every pair. A paper proposed a short cut. Here "
    "are its experiments, repeated on the same data, corrected, and continued."
)
_LEARNED = ("ASOT-ML", "ASOT-DL")


def cards(data: ReportData) -> list[Card]:
    """The three statements."""
    return [claimed(), holds(data), better(data)]


def made(data: ReportData) -> str:
    """Where the numbers are from, in a line."""
    days = sorted({str(cell["date"])[:10] for cell in data.finished if cell.get("date")})
    known = (cell["versions"].get("asot") for cell in data.finished)
    versions = dict.fromkeys(str(version) for version in known if version is not None)
    when = "" if not days else f", {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")
    return quote(f"{len(data.finished):,} results of asot {', '.join(versions)}{when}")


def claimed() -> Card:
    """What the paper says of itself, without numbers."""
    words = (
        "Give all clouds the same few anchor points. Each cloud becomes a list of weights on them, all pairs share one "
        "small table of costs, and one computation solves many pairs at once. Huang, Su, Fang and Kasai (IEEE TNNLS, "
        "2024) report small errors and large savings of time on graphs, molecules and digits, with anchors from "
        "k-means (ASOT-k) or trained (ASOT-ML, ASOT-DL)."
    )
    return Card("What the paper claimed", "Nearly exact distances, much faster", words)


def holds(data: ReportData) -> Card:
    """What of it is found again."""
    compared = [one for one in with_paper(data, "rmse") if not one.quick]
    agreeing = sum(one.agrees for one in compared)
    numbers, ranking = _agreement(agreeing, len(compared)), _reversal(data)
    headline = "Not compared yet"
    if compared:
        which = {0: "Its numbers do not", len(compared): "Its numbers"}.get(agreeing, "Some of its numbers")
        headline = f"{which} come back"
    if ranking:
        joint = ", its ranking does not" if agreeing else ", nor does its ranking"
        headline = headline + joint if compared else "Its ranking does not come back"
    return Card("What holds", headline, _joined([numbers, _anchors_save_time(data), ranking]))


def better(data: ReportData) -> Card:
    """What this library adds."""
    gains, exact = error_ratios(data, "ASOT-k", CALIBRATED), timed(data, EXACT)
    parts = []
    if gains:
        parts.append(f"{times(median(gains.values()))} times less error")
    if exact:
        parts.append(f"{short_count(exact.n_pairs)} exact distances in {duration(exact.seconds[0])}")
    headline = listed(parts) if parts else "Not run yet"
    sentences = [_calibration(data), _training(data), _exactness(data)]
    return Card("What is better here", headline[0].upper() + headline[1:], _joined(sentences))


def _joined(sentences: list[str]) -> str:
    found = " ".join(sentence for sentence in sentences if sentence)
    return found or "The results file does not have the cells for this statement yet. `asot paper all` computes them."


# ------------------------------------------------------------------------------------------------------- what holds


def _agreement(agreeing: int, compared: int) -> str:
    if not compared:
        return ""
    start, rest = "Run as its code runs,", "that we can put beside the paper's"
    if compared == 1:
        return f"{start} the one error {rest} {'agrees' if agreeing else 'differs'}."
    whole = "both" if compared == 2 else f"all {compared}"
    which = {0: "none", compared: whole}.get(agreeing, f"{agreeing} of {compared}")
    return f"{start} {which} of the errors {rest} agree{'s' if agreeing == 1 else ''}."


def _anchors_save_time(data: ReportData) -> str:
    both = timed(data, "eOT", "ASOT-k")
    if both is None:
        return ""
    name, (slow, fast) = quote(both.set), both.seconds
    if slow <= fast:
        return f"Anchors do not save time on {name}: {duration(fast)}, against {duration(slow)} without them."
    return (
        f"Anchors do save time: on {name} ASOT-k takes {duration(fast)} with training, the usual approximation without "
        f"anchors (eOT) {duration(slow)}."
    )


def _reversal(data: ReportData) -> str:
    """On how many sets, as described, the trained spaces of the paper have a larger error than k-means."""
    parts = []
    for method in _LEARNED:
        ratios = error_ratios(data, method, "ASOT-k", trained=True)
        worse = sum(ratio > 1.0 for ratio in ratios.values())
        if worse:
            where = f"{worse} of {len(ratios)} sets" if len(ratios) > 1 else quote(next(iter(ratios)))
            parts.append(f"{method} on {where}")
    if not parts:
        return ""
    return (
        "But its graphs did not have the features that its text describes. With those, anchors trained with its losses "
        f"are worse than plain k-means: {listed(parts)}."
    )


# --------------------------------------------------------------------------------------------------- what is better


def _calibration(data: ReportData) -> str:
    sets = list(error_ratios(data, "ASOT-k", CALIBRATED))
    if not sets:
        return ""
    before, after = (_error_range(data, sets, method) for method in ("ASOT-k", CALIBRATED))
    return (
        f"A correction that is fitted on a few exact distances takes the error of ASOT-k from {before} to {after} of "
        "the mean distance, with no training."
    )


def _error_range(data: ReportData, sets: list[str], method: str) -> str:
    runs = [data.runs(DESCRIBED, name, method) for name in sets]
    errors = [error for one in runs if one is not None and (error := one.mean("relative")) is not None]
    low, high = percent(min(errors)), percent(max(errors))
    return low if low == high else f"{low[:-2]}–{high}"


def _training(data: ReportData) -> str:
    over = [error_ratios(data, method, OURS, trained=True) for method in _LEARNED]
    gains = [min(ratio[name] for ratio in over if name in ratio) for name in {**over[0], **over[1]}]
    if not gains:
        return ""
    if median(gains) < 1:
        return f"Anchors trained on distances of clouds do not beat the paper's in the median of {len(gains)} sets."
    where = f"in the median of {len(gains)} sets" if len(gains) > 1 else "on one set"
    return (
        "Anchors trained on distances of clouds, not of points, have "
        f"{times(median(gains))} times less error than the better of the paper's ({where})."
    )


def _exactness(data: ReportData) -> str:
    exact = timed(data, EXACT)
    if exact is None:
        return ""
    pairs, time = short_count(exact.n_pairs), duration(exact.seconds[0])
    return (
        f"And exact distances are affordable: all {pairs} pairs of {quote(exact.set)} in {time}. {_loop(data)}".strip()
    )


def _loop(data: ReportData) -> str:
    """The comparison with a loop over POT, with what it was measured on: another set, a sample, other threads."""
    loop = loop_ratio(data)
    if loop is None or loop.ratio <= 1:
        return ""
    threads = "" if loop.threads is None else f" on {counted(loop.threads, 'thread')}"
    sample = " (scaled up from a sample)" if loop.sampled else ""
    return (
        f"For {loop.n:,} distributions of {quote(loop.set)}, POT's exact solver, called pair after pair, takes "
        f"{times(loop.ratio)} times as long as ours{threads}{sample}."
    )


def short_count(count: float) -> str:
    """A count as people say it.

    >>> short_count(8_443_995), short_count(17_578)
    ('8.4 million', '17,578')
    """
    return f"{number(count / 1e6, 2)} million" if count >= 1e6 else f"{count:,.0f}"
