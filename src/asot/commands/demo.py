"""`asot demo`: the main task on data that everybody has."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from asot.commands import options


@click.command()
@click.option(
    "-o", "--output", type=click.Path(), default="asot-demo.png", show_default=True, help="The picture to draw."
)
@click.option("--n", type=click.IntRange(min=3), help="Number of digits.  [default: all 1,797]")
@options.n_anchors
@options.n_jobs
@options.random_state
def demo(output: str, n: int | None, **how: Any) -> None:
    """Distances between all of scikit-learn's digits: a table and a picture.

    Example: asot demo -o digits.png
    """
    from asot.demo import SUFFIXES, draw, run_demo

    options.check_new(output, "a picture", SUFFIXES)
    found = run_demo(n, **how)
    options.say(found.table())
    if find_spec("matplotlib") is None:
        options.say(f"{'picture':<18}needs matplotlib: pip install asot[plots]")
        return
    draw(found, output)
    options.say(f"{'picture':<18}{output}")
