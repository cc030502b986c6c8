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

ax = asot.plots.plan(digits, 1, 7)
ax.set_axis_off()
