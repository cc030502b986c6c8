"""The sections of the report that are tables of errors, in both conditions.

Each function returns a `Section`, or None where no cell for it exists. Words say what was done; numbers in them and in
the tables come from the results, those of the paper stand in columns named "paper".
"""

from __future__ import annotations

from collections.abc import Sequence

from asot_paper.names import DESCRIBED, PAPER_METHODS, PUBLISHED
from asot_paper.published import Published
from asot_paper.report_comparisons import AGREEMENT, LEAST_RUNS, Comparison, with_paper
from asot_paper.report_data import EXACT, Record, ReportData, Runs
from asot_paper.report_document import Block, Entry, Section, Table, Text, listed, number, quote, with_error

NOT_AT_HAND = "not at hand"
NOT_RUN = "not run"
METHODS_WORDS = (
    "The methods: OT-EMD is exact. SW, sliced transport, is the mean distance along random lines; in many dimensions "
    "it is far smaller than the exact one. eOT is entropic transport, Sinkhorn's iterations pair by pair, and BDS-eOT "
    "the same for many pairs at once. ASOT is exact on anchors, from k-means (k), metric learning (ML) or dictionary "
    "learning (DL); eASOT is entropic on the same anchors. Calibrated and learned (ours) are of this library, not of "
    "the paper."
)
MEAN_AND_ERROR = "mean ± standard error over runs"
SAME = 1e-3  # means that differ by less than this share are equally good
SETS_PER_TABLE = 4  # beside each other, with the paper's columns, on a page of ordinary width

WHY_NOT_AT_HAND = (
    f'"{NOT_AT_HAND}": this project had no access to the tables of the paper, and does not guess. Whoever has them can '
    "type them into a file; `asot paper report --published FILE` shows them in these columns."
)


# ------------------------------------------------------------------------------------------------ table 1, as published


def published_errors(data: ReportData) -> Section | None:
    """Table 1 as published: our errors beside the paper's."""
    sets = data.sets(PUBLISHED)
    if not sets:
        return None
    blocks: list[Block] = [Text(words) for words in (*_published_setup(data), METHODS_WORDS)]
    blocks += _learners(data, PUBLISHED)
    for part, names in enumerate(in_parts(sets), 1):
        caption = f"Root mean square error, {MEAN_AND_ERROR}, as published: {listed(quoted(names))}."
        rows = [_published_row(data, method, names) for method in data.methods(PUBLISHED)]
        blocks.append(paired_table(f"published-{part}", caption, names, ("ours", "paper"), rows))
    methods = [method for method in data.methods(PUBLISHED) if method in PAPER_METHODS]
    if any(data.paper("rmse", name, method) is None for name in sets for method in methods):
        blocks.append(Text(WHY_NOT_AT_HAND))
    blocks += _differences(with_paper(data, "rmse"))
    return Section("as-published", "Table 1, as published", blocks)


def _published_setup(data: ReportData) -> list[str]:
    runs = [data.runs(PUBLISHED, name, method) for name in data.sets(PUBLISHED) for method in data.methods(PUBLISHED)]
    cells = [cell for one in runs if one is not None for cell in one.cells]
    setting = _setting(cells, "max_iter")
    iterations = f", {setting} Sinkhorn iterations" if setting else ""
    rule = (
        "**The row-0 rule is on**: row and column 0 of all matrices but those of Sinkhorn's iterations (eOT, BDS-eOT, "
        "eASOT) count as zero, as in the paper's code. `--no-row-zero-rule` switches it off."
        if data.rule_is_on(PUBLISHED)
        else "**The row-0 rule is off** (`--no-row-zero-rule`), so these errors are not those of the paper's code."
    )
    other = "; for what a user gets, see [as described](#as-described)" if data.sets(DESCRIBED) else ""
    learned = any("objective paper" in str(cell["settings"].get("learner")) for cell in cells)
    digits = " The code has no digits, so ASOT-ML and ASOT-DL are trained by this library there." if learned else ""
    return [
        "What the public code of the paper computes, computed again. The features of a node are five copies of its "
        f"label, ε is fixed{iterations}, and the error is taken over the full N × N matrix with its diagonal. "
        f"Digits (MNIST) are the same data in both conditions.{digits} This condition is there to be compared with "
        f"the paper{other}.",
        rule,
        runs_words(data, PUBLISHED),
    ]


def runs_words(data: ReportData, condition: str) -> str:
    """How many runs the means of a condition's tables are of."""
    runs = [data.runs(condition, name, method) for name in data.sets(condition) for method in data.methods(condition)]
    counts = [len(one.cells) for one in runs if one is not None]
    if max(counts) == 1:
        return "Every number is of one run, so how much chance there is in it is not known."
    return (
        f"Means are of {_count_words(counts)} runs. A number without ± is of one run, or its runs did not differ. Runs "
        "on a set of graphs share most of what they learn from, so ± tells how runs differ, not how new data would."
    )


def _published_row(data: ReportData, method: str, names: Sequence[str]) -> list[Entry]:
    row = [Entry(quote(method))]
    for name in names:
        row.append(error_entry(data, data.runs(PUBLISHED, name, method), "rmse", decimals=4))
        paper = data.paper("rmse", name, method)
        row.append(Entry(NOT_AT_HAND, quiet=True) if paper is None else Entry(paper_number(paper)))
    return row


def paper_number(paper: Published) -> str:
    """A number of the paper, as it was typed in."""
    spread = "" if paper.spread is None else f" ± {paper.spread:,g}"
    return f"{paper.value:,g}{spread}"


def _differences(compared: Sequence[Comparison]) -> list[Block]:
    if not compared:
        return [
            Text("No cell has both a number of ours and one of the paper, so there is no difference to explain yet.")
        ]
    rows = [
        [
            Entry(f"{quote(one.set)}, {quote(one.method)}"),
            Entry(with_error(one.ours, decimals=4)),
            Entry(paper_number(one.paper)),
            Entry(f"{one.ours.mean - one.paper.value:+.4f}"),
            Entry(_verdict(one)),
        ]
        for one in compared
    ]
    caption = (
        f"Where both are at hand. Two errors agree if they differ by at most {AGREEMENT:g} or by two standard errors "
        f"of ours. Where chance has a part, standard errors count from {LEAST_RUNS} runs on. The paper's own spread is "
        "not counted."
    )
    columns = ("set, method", "ours", "paper", "difference", "what we know of it")
    return [Table("differences", caption, columns, rows, n_words=1)]


def _verdict(one: Comparison) -> str:
    if one.agrees:
        return "agrees"
    found = "differs" if one.agrees is False else f"too few runs to tell ({one.ours.n} of at least {LEAST_RUNS})"
    why = explanation(one.set, one.method) if one.faithful else _not_faithful(one)
    return f"{found}. {why}".strip()


def _not_faithful(one: Comparison) -> str:
    if one.quick:
        return "Ours is from a quick run."
    if one.set == "MNIST":
        return "There is no public code for digits; ours is trained by this library."
    return "Ours was not run as the public code runs: without the row-0 rule, or with another number of epochs."


def explanation(name: str, method: str) -> str:
    """Why a number of a method on a set may differ from the paper's, in one sentence."""
    if name == "MNIST":
        return "Which digits the paper drew is not known."
    if method in ("eOT", "BDS-eOT"):
        return "The iterations stop long before convergence, so start, order and precision of the updates show."
    if method == "SW":
        return "Directions are random, and the paper's are not known."
    if method.endswith("-k"):
        return "One pass of k-means misses rare labels by chance; which ones depends on the seed and the order of data."
    if method in ("OT-EMD", "ASOT-k calibrated", "learned (ours)"):
        return ""
    return (
        "Training starts from random weights and is stopped, not converged; folds and seeds of the paper are not known."
    )


# ------------------------------------------------------------------------------------------------ table 1, as described


def described_errors(data: ReportData) -> Section | None:
    """Table 1 as described: all sets and methods, ours among them."""
    names, methods = data.sets(DESCRIBED), data.methods(DESCRIBED)
    if not names:
        return None
    blocks: list[Block] = [
        Text(
            "What the text of the paper describes, and what a user would have: the features of a node are its label "
            "and four rounds of sums over its neighbours, ε is in proportion to the costs, and the error is the root "
            "mean square over distinct pairs. The smallest error of each set, apart from the exact method, is in bold."
        ),
        Text(runs_words(data, DESCRIBED)),
    ]
    if not data.sets(PUBLISHED):
        blocks.append(Text(METHODS_WORDS))
    blocks += _learners(data, DESCRIBED)
    columns = ("method", *(quote(name) for name in names))
    for field, caption, factor, decimals in (
        ("relative", f"Error in percent of the mean distance, {MEAN_AND_ERROR}.", 100.0, 1),
        ("rmse", "The same errors in units of the distance (RMSE).", 1.0, None),
    ):
        rows = []
        for method in methods:
            entries = []
            for name in names:
                best = None if method == EXACT else data.best(DESCRIBED, name, field)
                runs = data.runs(DESCRIBED, name, method)
                entries.append(error_entry(data, runs, field, factor=factor, decimals=decimals, best=best))
            rows.append([Entry(quote(method)), *entries])
        blocks.append(Table(f"described-{field}", caption, columns, rows))
    blocks.append(_sets_table(data))
    return Section("as-described", "Table 1, as described", blocks)


def _learners(data: ReportData, condition: str) -> list[Block]:
    """Who trained the spaces of each method, with the sets where that differs between sets."""
    found = []
    for method in data.methods(condition):
        sets: dict[str, list[str]] = {}
        for name in data.sets(condition):
            runs = data.runs(condition, name, method)
            learner = None if runs is None else runs.cells[0]["settings"].get("learner")
            if learner:
                sets.setdefault(quote(learner), []).append(quote(name))
        if sets and not method.startswith("e"):
            one = len(sets) == 1
            parts = [learner if one else f"{learner} ({', '.join(names)})" for learner, names in sets.items()]
            found.append(f"{quote(method)}: {', '.join(parts)}")
    words = f"Who trained: {'; '.join(found)}."
    if "objective" in words:
        words += " (MetricAnchors and DictionaryAnchors are this library's; *objective paper* is the paper's loss.)"
    return [Text(words)] if found else []


def _sets_table(data: ReportData) -> Table:
    rows = []
    for name in data.sets(DESCRIBED):
        row = [Entry(quote(name))]
        found = [data.runs(DESCRIBED, name, method) for method in data.methods(DESCRIBED)]
        runs = [one for one in found if one is not None]
        for field in ("n_distributions", "n_pairs", "k", "mean_distance"):
            means = [mean for one in runs if (mean := one.mean(field)) is not None]
            row.append(
                Entry(number(max(means), 3) if field == "mean_distance" else f"{max(means):,.0f}") if means else gap()
            )
        rows.append([*row, Entry(_count_words([len(one.cells) for one in runs]))])
    columns = ("set", "distributions", "pairs", "anchors k", "mean exact distance", "runs of a method")
    return Table("sets", "The sets, as described. k is the mean size of a distribution.", columns, rows)


def _count_words(counts: Sequence[int]) -> str:
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"


def error_entry(
    data: ReportData,
    runs: Runs | None,
    field: str,
    *,
    decimals: int | None = None,
    factor: float = 1.0,
    best: float | None = None,
) -> Entry:
    """The field of a table for an error: mean ± standard error, or that it was not run."""
    summary = None if runs is None else runs.summary(field)
    if runs is None or summary is None:
        return gap()
    small = 0 < factor * summary.mean < 1 and decimals == 1
    words = with_error(summary, decimals=2 if small else decimals, factor=factor)
    mark = data.mark(runs)
    return Entry(words + mark, best=best is not None and not mark and summary.mean <= best * (1 + SAME))


def gap() -> Entry:
    """The field of a cell that has not been run."""
    return Entry(NOT_RUN, quiet=True)


# ------------------------------------------------------------------------------------------------------------- helpers


def paired_table(
    name: str, caption: str, sets: Sequence[str], pair: Sequence[str], rows: Sequence[Sequence[Entry]]
) -> Table:
    """A table with as many columns for each set as ``pair`` has names."""
    if len(pair) == 1:
        return Table(name, caption, ("method", *quoted(sets)), rows)
    return Table(name, caption, ("method", *(one for _ in sets for one in pair)), rows, quoted(sets))


def in_parts(names: Sequence[str]) -> list[Sequence[str]]:
    """Names in groups of nearly equal size, none above `SETS_PER_TABLE`."""
    count = -(-len(names) // SETS_PER_TABLE)
    size = -(-len(names) // max(1, count))
    return [names[start : start + size] for start in range(0, len(names), size)] if names else []


def quoted(names: Sequence[str]) -> list[str]:
    """Names from data, as words."""
    return [quote(name) for name in names]


def _setting(cells: Sequence[Record], name: str) -> str:
    """The values that a setting has in cells, in words; empty where none has it."""
    values = dict.fromkeys(cell["settings"][name] for cell in cells if cell["settings"].get(name) is not None)
    return listed([quote(value) for value in values]) if values else ""
