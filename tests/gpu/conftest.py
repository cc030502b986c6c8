"""The tests of this folder need a GPU; they say so where there is none."""

from __future__ import annotations

import pytest

from asot.run import devices


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if "/gpu/" in item.path.as_posix()]
    obstacle = devices._obstacle(("cupy", "torch", "triton")) if here else None
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if obstacle is not None:
            item.add_marker(pytest.mark.skip(reason=obstacle))
