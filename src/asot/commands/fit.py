"""`asot fit`: learn an anchor space and keep it."""

from __future__ import annotations

from typing import Any

import click

from asot.commands import options
from asot.commands.info import describe_space


@click.command()
@options.collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write the anchor space (.npz).")
@options.n_anchors
@options.device
@options.random_state
def fit(collection: str, output: str, **how: Any) -> None:
    """Learn an anchor space on a COLLECTION.

    Example: asot fit patients.csv --n-anchors 32 -o anchors.npz
    """
    import asot
    from asot.anchors.files import save_space

    options.check_new(output, "an anchor space", [".npz"], collection)
    space = asot.KMeansAnchors(**how).fit(options.load(collection)).space_
    save_space(space, output)
    options.say(f"{output}: {describe_space(space)}")
