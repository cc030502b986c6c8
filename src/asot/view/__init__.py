"""One page to explore a result: `asot view`."""

from asot.view.page import write_page

__all__ = ["write_page"]
