"""
What goes where
===============

A distance is one number. The plan behind it says which part moves where, and that is often the better answer.
"""

import asot

digits, labels, _ = asot.datasets.load_digits(10)
plan = asot.plan(digits, 1, 7, exact=True)
print(f"W1 = {plan.cost:.4f} in {plan.nnz} parts")

# %%
# From a one to a seven: lines are what moves, and their width is how much.


def upright(i):
    """Columns to the right, rows down, as images are seen."""
    points, ink = digits[i]
    return points[:, ::-1] * [1, -1], ink


two = asot.Distributions.from_list(
    [upright(1), upright(7)], ids=["one", "seven"]
)
ax = asot.plots.plan(two, "one", "seven")
ax.set_axis_off()
