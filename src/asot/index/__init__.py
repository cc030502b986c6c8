"""An index of distributions that grows, shrinks and lives on disk (docs/method.md §9).

Every lower bound of a search is a short vector per distribution, so members can be added without touching others:

- `settings`: which distance, and what is proven about it;
- `frame`: what all vectors refer to (axes, landmarks), made once;
- `columns`, `members`: growing storage, and what a query sees of it;
- `search`: bounds first, then exact solves in the order of bounds;
- `recall`: fewer solves for a stated share of the neighbors;
- `journal`, `folder`: the same columns as files, and what makes a change final;
- `growing`, `index`: what changes, what is asked, and together the public class `asot.Index`; `naming` reads its ids,
  and `served` remembers how much queries solved.
"""
