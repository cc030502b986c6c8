"""What was found about the published numbers: the section that says what the paper's tables were computed on.

The findings themselves are words (docs/method.md §11). What the results say of them is computed: how many pairs had not
converged, and what the row-0 rule changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from asot_paper.names import PUBLISHED
from asot_paper.report_comparisons import open_shares, row_zero_effects
from asot_paper.report_data import ReportData
from asot_paper.report_document import Block, Bullets, Entry, Section, Text, counted, listed, percent, quote, with_error
from asot_paper.report_sections import gap, in_parts, paired_table, quoted


def findings(data: ReportData) -> Section:
    """What the paper's numbers were computed on, in our words, with what the results say of it."""
    items = [
        "**The graphs had no structure.** The text describes four rounds of sums over neighbours. In the public code "
        "that step has no effect: a node's features are its one-hot label, written five times. The exact distance is "
        "then √10 times the total variation between two graphs' shares of labels; edges do not matter. Labels whose "
        "numbers have gaps get a column for every number in between, which changes the directions of sliced transport.",
        "**Row and column 0 are empty.** The loop over pairs leaves them out in the exact and the sliced matrices, but "
        "not in the Sinkhorn ones. Errors are then averaged over the whole matrix with its diagonal, and the distances "
        "in row 0 of a Sinkhorn matrix are compared with zeros that are not distances.",
        "**One pass of k-means.** Anchors of ASOT-k come from a single pass of mini-batch k-means. It misses rare "
        "labels by chance, and that is ASOT-k's published error. Where there are no more labels than anchors, a full "
        "k-means has none.",
        "**Iterations stop early.** On graphs, the error of entropic transport is not the bias of ε, which is small "
        "there. It is that of iterations which have not converged.",
    ]
    blocks: list[Block] = [
        Text("The paper's public code tells what its numbers were computed on. Four things matter."),
        Bullets(items),
    ]
    blocks += _convergence(data)
    blocks += _row_zero_table(data)
    blocks += _unmatched(data)
    blocks.append(
        Text(
            "So there are two conditions, never mixed. *As published* repeats all of this, to be compared with the "
            "paper. *As described* does what the text says."
        )
    )
    return Section("found", "What was found about the published numbers", blocks)


def _convergence(data: ReportData) -> list[Block]:
    found = open_shares(data, PUBLISHED)
    parts = []
    for method in data.methods(PUBLISHED):
        shares = [share for (_, which), share in found.items() if which == method and share]
        if shares:
            parts.append(f"{quote(method)} {_share_range(shares)} ({counted(len(shares), 'set')})")
    if not parts:
        return []
    words = (
        "Pairs whose iterations had not converged when they were stopped (more than 1 % of the mass was not where it "
        f"belongs), as published: {listed(parts)}."
    )
    ready = [name for name in data.sets(PUBLISHED) if found.get((name, "eOT")) == 0.0]
    if ready:
        words += f" On {listed(quoted(ready))} all pairs of eOT had: there, its error is the bias of ε."
    return [Text(words)]


UNMATCHED = (("SW", "ENZYMES"), ("eOT", "NCI1"))
"""Published cells that the public code does not give."""


def _unmatched(data: ReportData) -> list[Block]:
    """Ours for these cells, with the rule and without; a cell of the paper that is at hand speaks for itself."""
    effects = {(one.method, one.set): one.unruled for one in row_zero_effects(data)}
    parts = []
    for method, name in UNMATCHED:
        runs = data.runs(PUBLISHED, name, method)
        summary = None if runs is None else runs.summary("rmse")
        if summary is not None and data.paper("rmse", name, method) is None:
            other = effects.get((method, name))
            without = "" if other is None else f" ({with_error(other, decimals=4)} without the row-0 rule)"
            parts.append(f"{quote(method)} on {quote(name)} is {with_error(summary, decimals=4)}{without}")
    if not parts:
        return []
    return [
        Text(
            "Two cells of the paper, SW on ENZYMES and eOT on NCI1, are known not to come out of its public code. Here "
            f"{listed(parts)}. `python -m benchmarks published` computes the first a second time, by plain loops over "
            "pairs. To look for the cause, the paper's tables would be needed."
        )
    ]


def _share_range(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"


def _row_zero_table(data: ReportData) -> list[Block]:
    effects = {(one.set, one.method): one for one in row_zero_effects(data)}
    if not effects:
        return [Text("No method was run both with the row-0 rule and without, so its effect is not shown here.")]
    names = [name for name in data.sets(PUBLISHED) if any(where[0] == name for where in effects)]
    methods = [method for method in data.methods(PUBLISHED) if any(where[1] == method for where in effects)]
    blocks: list[Block] = []
    for part, some in enumerate(in_parts(names), 1):
        rows = []
        for method in methods:
            row = [Entry(quote(method))]
            for name in some:
                effect = effects.get((name, method))
                both = (None, None) if effect is None else (effect.ruled, effect.unruled)
                row += [gap() if one is None else Entry(with_error(one, decimals=4)) for one in both]
            rows.append(row)
        caption = f"Error with the row-0 rule and without it, as published: {listed(quoted(some))}."
        blocks.append(paired_table(f"row-zero-{part}", caption, some, ("with", "without"), rows))
    return blocks
