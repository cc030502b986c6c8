"""Error against time, from the table that ``python -m benchmarks strategy_rivals`` wrote.

``python -m benchmarks.estimates.strategy_picture docs/images/which-error.png``
"""

from __future__ import annotations

import sys

from benchmarks.common import RESULTS

TABLE = RESULTS / "strategy_rivals.md"
OURS, EXACT, RIVALS = "#1f6fb4", "#222222", "#c2762d"
LEAST_SHOWN = 0.05
"""Percent: where exact answers stand on a logarithmic axis."""


def read_table(text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Per collection and method: error in percent and seconds, from the table of rivals."""
    lines = text[text.index("Error in percent / CPU seconds") :].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header, found = rows[0], {}
    for row in rows[2:]:
        if len(row) != len(header):
            break
        points = [tuple(float(part) for part in cell.split("/")) for cell in row[1:]]
        found[row[0]] = {name: (error, seconds) for name, (error, seconds) in zip(header[1:], points, strict=True)}
    return found


def draw(path: str) -> None:
    """One panel for each collection."""
    import matplotlib.pyplot as plt

    table = read_table(TABLE.read_text())
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.2), layout="constrained")
    for panel, (name, methods) in zip(axes.flat, table.items(), strict=False):
        ours = [(e, s) for method, (e, s) in methods.items() if method.startswith("error=")]
        panel.plot([s for _, s in ours], [max(e, LEAST_SHOWN) for e, _ in ours], "-", color=OURS, lw=1, zorder=1)
        rivals = iter("osD^vPX")
        for method, (error, seconds) in methods.items():
            mine = method.startswith("error=")
            color, marker = (OURS, "o") if mine else (EXACT, "*") if method == "exact" else (RIVALS, next(rivals))
            label = "asot, error=…" if method == 'error="2%"' else "_" if mine else method
            panel.plot(
                seconds, max(error, LEAST_SHOWN), marker, color=color, ms=10 if marker == "*" else 6, label=label
            )
            if mine and error > LEAST_SHOWN:
                words = {"xytext": (6, 4), "textcoords": "offset points", "fontsize": 8, "color": color}
                panel.annotate(method.partition("=")[2].strip('"'), (seconds, error), **words)
        panel.set(xscale="log", yscale="log", title=name, ylim=(LEAST_SHOWN / 1.5, 120))
        panel.axhline(2, color="#bbbbbb", lw=0.8, ls="--", zorder=0)
        panel.margins(x=0.25)
        panel.grid(alpha=0.25)
    for panel in axes[:, 0]:
        panel.set_ylabel("error, % of the mean distance")
    for panel in axes[-1]:
        panel.set_xlabel("CPU seconds for all pairs")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(sys.argv[1])
