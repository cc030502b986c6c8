"""Which kernel takes which pair of distributions, and how much memory it needs: size classes.

A pair with many points left needs more memory, and the more memory a pair has, the fewer of them run side by side. So
there is a kernel for every size, and a pair goes to the first one that has room for it. Small pairs are the work of a
warp each, larger ones that of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

MOST_POINTS = 2048
"""Points that may be left on either side of a pair."""

MOST_NARROW_ROWS = 32

LINE_WORDS = 32
"""Of a cache line."""

RESERVED_BYTES, MOST_THREADS, REGISTERS, REGISTERS_PER_THREAD = 1024, 1536, 2**16, 80
"""Shared memory that CUDA takes of each block; threads of a multiprocessor, its registers, and what one should have."""

FOUR_WARPS = 128
"""Threads by which registers are given out: a multiprocessor has four parts, each with its own."""


class Launch(NamedTuple):
    """How a kernel is compiled and launched."""

    blocks: int
    threads: int
    shared_bytes: int
    far_words: int
    """32-bit words of global memory that all warps work in: whole cache lines, so that what follows begins with one."""
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

    @property
    def least_bytes(self) -> int:
        """Shared memory without which nothing runs."""
        return self.warp_bytes

    def launch(self, shared_memory: int, far_bytes: int, most_blocks: int, source: dict[str, int]) -> Launch:
        """As many warps as fit: into the shared memory of a block, and into ``far_bytes`` of global memory in all.

        ``source`` defines where distances come from.
        """
        warps = min(self.most_warps, shared_memory // self.warp_bytes)
        defines = self.defines | source | {"WARP_BYTES": self.warp_bytes, "THREADS": 32 * warps, "BLOCKS": 1}
        blocks = most_blocks
        if self.far_words:
            most = max(1, far_bytes // (4 * self.far_words))
            warps = max(1, min(warps, most // most_blocks))
            blocks = min(most_blocks, most)
        words = blocks * warps * self.far_words or LINE_WORDS
        return Launch(blocks, 32 * warps, warps * self.warp_bytes, words, defines)


@dataclass(frozen=True)
class BlockClass:
    """Pairs that are the work of a whole block each (``block_simplex.cuh``)."""

    most_rows: int
    most_columns: int
    threads: int
    kernel: str = "points_block"
    far_flow: bool = False
    """Whether flows lie in global memory, so that the rest of a tree fits."""

    @property
    def least_bytes(self) -> int:
        """Shared memory of a block."""
        nodes = self.most_rows + self.most_columns
        tree = (20 if self.far_flow else 28) * nodes + 4 * -(-nodes // 32)
        own = 16 if self.kernel == "points_block" else 32 + 4 * nodes
        return -(-tree // 16) * 16 + self.threads + own

    @property
    def far_words(self) -> int:
        """32-bit words of global memory that a block works in."""
        flows = 2 * (self.most_rows + self.most_columns) if self.far_flow else 0
        return 2 * self.most_rows * self.most_columns + flows

    def launch(self, shared_memory: int, far_bytes: int, most_blocks: int, source: dict[str, int]) -> Launch:
        """As `SizeClass.launch`; a multiprocessor has as many blocks as fit."""
        beside = min(shared_memory // (self.least_bytes + RESERVED_BYTES), MOST_THREADS // self.threads) or 1
        blocks = max(1, min(beside * most_blocks, far_bytes // (4 * self.far_words)))
        threads = REGISTERS // (REGISTERS_PER_THREAD * FOUR_WARPS) * FOUR_WARPS
        defines = source | {
            "ROWS": self.most_rows,
            "COLUMNS": self.most_columns,
            "THREADS": self.threads,
            "FAR_FLOW": int(self.far_flow),
            "COST_BITS": 52 - max(0, (self.most_rows - 1).bit_length() - 9),
            "BLOCK_BYTES": self.least_bytes,
            "BLOCKS": min(beside, threads // self.threads) or 1,
        }
        return Launch(blocks, self.threads, self.least_bytes, blocks * self.far_words, defines)


Class = TypeVar("Class", bound=SizeClass | BlockClass)


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


BLOCKS = (
    BlockClass(32, 32, 32),
    BlockClass(64, 64, 32),
    BlockClass(128, 128, 32),
    BlockClass(160, 160, 64),
    BlockClass(192, 192, 64),
    BlockClass(256, 256, 64),
    BlockClass(320, 320, 96),
    BlockClass(416, 416, 128),
    BlockClass(512, 512, 128),
    BlockClass(768, 768, 192),
    BlockClass(1024, 1024, 256),
    BlockClass(1536, 1536, 384),
    BlockClass(2048, 2048, 512),
)
"""A pair per block, from small to large."""

CLASSES = (
    narrow_class(1, low_is_near=False, most_warps=32),
    narrow_class(2, low_is_near=False, most_warps=20),
    wide_class(2, 2, most_warps=20),
    narrow_class(4, low_is_near=False, most_warps=12),
    wide_class(2, 4, most_warps=20),
    *BLOCKS[2:],
)
"""From small to large: a pair belongs to the first that has room for it. A warp is as fast as a block up to 64 rows."""


CLASSES_FROM_COORDINATES = (narrow_class(1, low_is_near=True, most_warps=24), *CLASSES[1:])
"""Where distances are summed from coordinates, both words of a sum are read and written often."""


LONG_CLASSES = (CLASSES_FROM_COORDINATES[0], *BLOCKS[1:])
"""Where points are long, too: warps of a block measure them together (``LONG`` of ``points_pair.cuh``)."""

LONG = 32
"""Coordinates from which that is so."""


def classes_for(largest: int, shared_memory: int, classes: Sequence[Class]) -> list[Class]:
    """The classes that pairs of distributions of at most ``largest`` points can need, where they fit."""
    needed: list[Class] = []
    for own in classes:
        if own.least_bytes <= shared_memory:
            needed.append(own)
            if largest <= own.most_rows and largest <= own.most_columns:
                break
    return needed
