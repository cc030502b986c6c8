"""
On a GPU
========

The same call with ``device="auto"`` uses a GPU if there is one and the job is large enough. This page is built on
machines without a GPU, so it shows the times stored in ``benchmarks/results/gpu.md``, which
``python -m benchmarks gpu`` measured on one NVIDIA H200, on the day that the table names.
"""

from pathlib import Path

import matplotlib.pyplot as plt

results = next(
    path
    for folder in Path.cwd().parents
    if (path := folder / "benchmarks" / "results" / "gpu.md").is_file()
)
rows = (
    results.read_text(encoding="utf-8")
    .split("**Exact**")[1]
    .split("**Entropic**")[0]
    .splitlines()
)
cells = [
    [cell.strip() for cell in row.split("|")[1:-1]]
    for row in rows
    if row.startswith("| ")
][2:]
names = [f"{size.split(': ')[1]}: {pairs} pairs" for size, pairs, *_ in cells]


def seconds(text):
    """``11.7 ms (met: < 15 ms)`` as a number of seconds."""
    return float(text.split(" ms")[0].replace(",", "")) / 1000


# %%
# All pairs, exact, from NumPy arrays to NumPy results.

fig, ax = plt.subplots(layout="constrained")
for shift, (name, column) in enumerate(
    {"all threads of the CPU": 5, "one H200": 2}.items()
):
    places = [y + 0.35 * shift for y in range(len(cells))]
    ax.barh(
        places, [seconds(row[column]) for row in cells], height=0.3, label=name
    )
ax.set_xscale("log")
ax.set_yticks([y + 0.175 for y in range(len(cells))], names)
ax.set_xlabel("seconds")
ax.set_ylim(-0.4, len(cells) + 0.6)
faster = [seconds(row[5]) / seconds(row[2]) for row in cells]
ax.set_title(f"{min(faster):.0f} to {max(faster):.0f} times faster")
ax.legend(ncols=2, loc="upper right")
