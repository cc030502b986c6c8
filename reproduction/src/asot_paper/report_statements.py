"""The first screen: what the paper claimed, what holds, what is better here, in three cards.

Every number in them is computed from the results; a sentence whose cells are missing is left out, and a card without
sentences says what to run. The paper's own numbers do not appear: they are in the columns named "paper".
"""

from __future__ import annotations

from statistics import median

from asot_paper.names import CALIBRATED, DESCRIBED, OURS, TU_SETS
from asot_paper.report_comparisons import error_ratios, loop_ratio, timed, with_paper
from asot_paper.report_data import EXACT, ReportData
from asot_paper.report_document import Card, counted, duration, listed, number, percent, quote, times

TITLE = "Anchor space optimal transport, run again"
LEAD = (
    "How far apart are two clouds of points? Optimal transport says: as far as the least work that turns one into the "
    "other. For a whole collection that is one small optimisation for every pair. A paper proposed a short cut. Here "
    "are its experiments, repeated on the same data sets, corrected, and continued."
)
_LEARNED = ("ASOT-ML", "ASOT-DL")
GRAPH_SETS = (*TU_SETS, "ZINC")
PART, NOT = "only in part", "not"


def cards(data: ReportData) -> list[Card]:
    """The three statements."""
    return [claimed(), holds(data), better(data)]


def made(data: ReportData) -> str:
    """Where the numbers are from, in a line."""
    days = sorted({str(cell["date"])[:10] for cell in data.finished if cell.get("date")})
    known = (cell["versions"].get("asot") for cell in data.finished)
    versions = dict.fromkeys(str(version) for version in known if version is not None)
    when = "" if not days else f", {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")
    return quote(f"{counted(len(data.finished), 'result')} of asot{' ' if versions else ''}{', '.join(versions)}{when}")


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
    compared = [one.agrees for one in with_paper(data, "rmse") if one.faithful]
    decided = [agrees for agrees in compared if agrees is not None]
    ranking, verdict = _ranking(data)
    headline = _headline(sum(decided), len(decided), verdict)
    agreement = _agreement(sum(decided), len(decided), len(compared) - len(decided))
    return Card("What holds", headline, _joined([agreement, _anchors_save_time(data), ranking]))


def _headline(agreeing: int, compared: int, ranking: str) -> str:
    if not compared:
        return {PART: f"Its ranking comes back {PART}", NOT: "Its ranking does not come back"}.get(
            ranking, "Not compared yet"
        )
    one = compared == 1
    which = "The one number at hand" if one else "The numbers at hand"
    which = which if agreeing in (0, compared) else "Some of the numbers at hand"
    comes = ("comes" if one else "come") if agreeing else ("does not come" if one else "do not come")
    again = ", its ranking does not" if agreeing else ", nor does its ranking"
    return f"{which} {comes} back" + {PART: f", its ranking {PART}", NOT: again}.get(ranking, "")


def better(data: ReportData) -> Card:
    """What this library adds."""
    gains, exact = error_ratios(data, "ASOT-k", CALIBRATED), timed(data, EXACT)
    parts = []
    if gains and median(gains.values()) > 1:
        parts.append(f"{times(median(gains.values()))} times less error")
    if exact:
        parts.append(f"{short_count(exact.n_pairs)} exact distances in {duration(exact.seconds[0])}")
    sentences = [_calibration(data), _training(data), _exactness(data)]
    headline = listed(parts) if parts else "Nothing yet" if any(sentences) else "Not run yet"
    return Card("What is better here", headline[0].upper() + headline[1:], _joined(sentences))


def _joined(sentences: list[str]) -> str:
    found = " ".join(sentence for sentence in sentences if sentence)
    return found or "The results file does not have the cells for this statement yet. `asot paper all` computes them."


# ------------------------------------------------------------------------------------------------------- what holds


def _agreement(agreeing: int, compared: int, open_ones: int) -> str:
    too_few = f"for {counted(open_ones, 'error')}{' more' if compared else ''} there are too few runs to tell"
    start, rest = "Run as its code runs,", "that we can put beside the paper's"
    if not compared:
        return f"{start} {too_few} whether they agree with the paper's." if open_ones else ""
    if compared == 1:
        found = f"{start} the one error {rest} {'agrees' if agreeing else 'differs'}"
    else:
        whole = "both" if compared == 2 else f"all {compared}"
        which = {0: "none", compared: whole}.get(agreeing, f"{agreeing} of {compared}")
        found = f"{start} {which} of the errors {rest} agree{'s' if agreeing == 1 else ''}"
    return f"{found}; {too_few}." if open_ones else f"{found}."


def _anchors_save_time(data: ReportData) -> str:
    both = timed(data, "eOT", "ASOT-k")
    if both is None:
        return ""
    where, (slow, fast) = f"on {quote(both.set)}{_on_threads(both.threads)}", both.seconds
    if slow <= fast:
        return f"Anchors do not save time {where}: {duration(fast)}, against {duration(slow)} without them."
    return (
        f"Anchors do save time: {where} ASOT-k takes {duration(fast)} with training, the usual approximation without "
        f"anchors (eOT) {duration(slow)}."
    )


def _on_threads(threads: int | None) -> str:
    return "" if threads is None else f" with {counted(threads, 'thread')}"


def _ranking(data: ReportData) -> tuple[str, str]:
    """On how many sets of graphs, as described, the trained spaces of the paper have a larger error than k-means.

    In words, and as `PART` or `NOT` where that is so on most sets for some of its methods or for all. Digits are left
    out: they have the features that the paper describes. Nothing is said where k-means loses everywhere.
    """
    parts: list[str] = []
    lost, some = 0, False
    for method in _LEARNED:
        ratios = error_ratios(data, method, "ASOT-k", trained=True)
        graphs = [ratio > 1.0 for name, ratio in ratios.items() if name in GRAPH_SETS]
        if graphs:
            which = "" if parts else " sets of graphs"
            parts.append(f"on {sum(graphs)} of {len(graphs)}{which} ({method})")
            lost += 2 * sum(graphs) > len(graphs)
            some = some or any(graphs)
    if not some:
        return "", ""
    words = (
        "Its graphs, though, did not have the features that its text describes. With those, anchors trained with its "
        f"losses have a larger error than plain k-means {listed(parts)}."
    )
    return words, "" if not lost else NOT if lost == len(parts) else PART


# --------------------------------------------------------------------------------------------------- what is better


def _calibration(data: ReportData) -> str:
    gains = error_ratios(data, "ASOT-k", CALIBRATED)
    if not gains:
        return ""
    middle = median(gains.values())
    if middle <= 1:
        return f"The correction of ASOT-k does not lower its error in the median of {counted(len(gains), 'set')}."
    before, after = (_error_range(data, list(gains), method) for method in ("ASOT-k", CALIBRATED))
    return (
        f"A correction that is fitted on a few exact distances takes the error of ASOT-k from {before} to {after} of "
        f"the mean distance: {times(middle)} times less {_in_median(len(gains))}."
    )


def _in_median(n_sets: int) -> str:
    return f"in the median of {n_sets} sets" if n_sets > 1 else "on one set"


def _error_range(data: ReportData, sets: list[str], method: str) -> str:
    runs = [data.runs(DESCRIBED, name, method) for name in sets]
    errors = [error for one in runs if one is not None and (error := one.mean("relative")) is not None]
    low, high = percent(min(errors)), percent(max(errors))
    return low if low == high else f"{low[:-2]}–{high}"


def _training(data: ReportData) -> str:
    first, second = (error_ratios(data, method, OURS, trained=True) for method in _LEARNED)
    gains = [min(first[name], second[name]) for name in first if name in second]
    if not gains:
        return ""
    where = _in_median(len(gains))
    if median(gains) <= 1:
        return f"Anchors trained on distances of clouds do not beat the better of ASOT-ML and ASOT-DL {where}."
    return (
        "Anchors trained on distances of clouds, not of points, have "
        f"{times(median(gains))} times less error than the better of ASOT-ML and ASOT-DL ({where})."
    )


def _exactness(data: ReportData) -> str:
    exact = timed(data, EXACT)
    if exact is None:
        return ""
    pairs, time = short_count(exact.n_pairs), duration(exact.seconds[0])
    where = f"{pairs} pairs of {quote(exact.set)} in {time}{_on_threads(exact.threads)}"
    return f"Exact distances are affordable: {where}. {_loop(data)}".strip()


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
