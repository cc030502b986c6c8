"""Which kernel takes which pair of distributions, and how much memory it needs: size classes.

A warp needs more memory for a pair with many points left, and the more memory a warp has, the fewer of them run side by
side. So there is a kernel for every size, and a pair goes to the first one that has room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

MOST_POINTS = 512
"""Points that may be left on either side of a pair."""

MOST_NARROW_ROWS = 32


class Launch(NamedTuple):
    """How a kernel is compiled and launched."""

    blocks: int
    threads: int
    shared_bytes: int
    far_words: int
    """32-bit words of global memory that all warps work in."""
    defines: dict[str, int]


@dataclass(frozen=True)
class SizeClass:
    """Pairs with at most this many points left on one side (rows, the fewer) and on the other."""

    kernel: str
    most_rows: int
    most_columns: int
    defines: dict[str, int]
    warp_bytes: int
    """Shared memory of a warp."""
    far_words: int
    """32-bit words of global memory that a warp works in."""
    most_warps: int
    """Warps of a block, at most: more would have too few registers."""

    def launch(self, shared_memory: int, far_bytes: int, most_blocks: int, source: dict[str, int]) -> Launch:
        """As many warps as fit: into the shared memory of a block, and into ``far_bytes`` of global memory in all.

        ``source`` defines where distances come from.
        """
        warps = min(self.most_warps, shared_memory // self.warp_bytes)
        blocks = most_blocks
        if self.far_words:
            most = max(1, far_bytes // (4 * self.far_words))
            warps = max(1, min(warps, most // most_blocks))
            blocks = min(most_blocks, most)
        defines = self.defines | source | {"WARP_BYTES": self.warp_bytes, "THREADS": 32 * warps, "BLOCKS": 1}
        return Launch(blocks, 32 * warps, warps * self.warp_bytes, max(1, blocks * warps * self.far_words), defines)


def narrow_class(column_words: int, *, low_is_near: bool, most_warps: int) -> SizeClass:
    """``points_narrow.cu``: at most 32 rows, and 32 columns for each of the words."""
    columns = 32 * column_words
    plane, nodes = 32 * (columns + 1), 32 + columns
    flow_at = -(-(4 * plane * (2 if low_is_near else 1) + 4 * 32 + 4 * columns) // 8) * 8
    return SizeClass(
        kernel="points_narrow",
        most_rows=MOST_NARROW_ROWS,
        most_columns=columns,
        defines={"COLUMN_WORDS": column_words, "LOW_IS_NEAR": int(low_is_near)},
        warp_bytes=-(-(flow_at + 12 * nodes) // 16) * 16,
        far_words=0 if low_is_near else plane,
        most_warps=most_warps,
    )


def wide_class(row_words: int, column_words: int, most_warps: int) -> SizeClass:
    """``points_wide.cu``: 32 rows and 32 columns for each of the words."""
    words = row_words + column_words
    nodes, rows, columns = 32 * words, 32 * row_words, 32 * column_words
    below = 4 * (words | 1) * nodes
    warp_bytes = 8 * nodes + -(-below // 8) * 8 + 8 * rows + 2 * nodes + 2 * rows
    return SizeClass(
        kernel="points_wide",
        most_rows=rows,
        most_columns=columns,
        defines={"ROW_WORDS": row_words, "COLUMN_WORDS": column_words},
        warp_bytes=-(-warp_bytes // 16) * 16,
        far_words=2 * rows * columns,
        most_warps=most_warps,
    )


CLASSES = (
    narrow_class(1, low_is_near=False, most_warps=32),
    narrow_class(2, low_is_near=False, most_warps=20),
    wide_class(2, 2, most_warps=20),
    narrow_class(4, low_is_near=False, most_warps=12),
    wide_class(2, 4, most_warps=20),
    wide_class(3, 4, most_warps=20),
    wide_class(4, 4, most_warps=16),
    wide_class(4, 6, most_warps=16),
    wide_class(6, 6, most_warps=12),
    wide_class(6, 8, most_warps=8),
    wide_class(8, 8, most_warps=8),
    wide_class(12, 12, most_warps=4),
    wide_class(16, 16, most_warps=4),
)
"""From small to large: a pair belongs to the first that has room for it."""


CLASSES_FROM_COORDINATES = (narrow_class(1, low_is_near=True, most_warps=24), *CLASSES[1:])
"""Where distances are summed from coordinates, both words of a sum are read and written often."""


def classes_for(largest: int, shared_memory: int, classes: tuple[SizeClass, ...] = CLASSES) -> list[SizeClass]:
    """The classes that pairs of distributions of at most ``largest`` points can need, where a warp fits."""
    needed: list[SizeClass] = []
    for own in classes:
        if own.warp_bytes <= shared_memory:
            needed.append(own)
            if largest <= own.most_rows and largest <= own.most_columns:
                break
    return needed
