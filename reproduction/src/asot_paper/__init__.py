"""The paper's tables and figures, run again on the real data: ``asot paper``.

There are two conditions, which are never mixed: *as published*, what the authors' public code computes, and *as
described*, what the paper's text says (docs/method.md §11). The smallest piece of work is a cell: one method on one
fold of one set in one condition. A cell gives an error and times, is kept in a results file with everything that
produced it, and is never run twice.

```text
 conditions ─┐
 methods ────┼─▶ plans (tables, fig3, fig4, scatter, scaling) ─▶ runner ─▶ store (results.json) ─▶ report
 problems ───┘         a list of cells                       one by one       finished cells
```
"""
