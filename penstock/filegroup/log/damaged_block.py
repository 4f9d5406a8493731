"""`DamagedBlock`: a log block that cannot be read, and how much was lost with it.

A damaged block was written by a completed write, or it is not known by which write. A block that a crashed write left in part
does not count as damaged, because nothing committed is lost with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class DamagedBlock:
    """A block of a log file that cannot be read. Its rows and deletes are lost.

    `instant` is the write that wrote the block, `records` the most rows and deletes that are lost with it. Each is None if
    unknown.
    """

    #: The path of the log file.
    path: str
    #: Where the block begins in the file.
    offset: int
    size_bytes: int
    #: The completed write that wrote the block; None if it is not known.
    instant: str | None
    #: How many rows and deletes the write put into the log file, the most that can be lost; None if it is not known.
    records: int | None
    #: What is wrong, with the file and the byte.
    problem: str


def describe_loss(blocks: Collection[DamagedBlock]) -> str:
    """Return a text that counts damaged blocks, their bytes and log files, and the rows that are lost with them."""
    files = {block.path for block in blocks}
    size_bytes = sum(block.size_bytes for block in blocks)
    counted = f"{_count(len(blocks), 'damaged log block')} ({size_bytes:,} bytes) in {_count(len(files), 'log file')}"
    records = count_lost_records(blocks)
    lost = "an unknown number of" if records is None else f"up to {records:,}"
    return f"{counted}, with {lost} changed or deleted rows"


def count_lost_records(blocks: Collection[DamagedBlock]) -> int | None:
    """Return the most rows and deletes that damaged blocks can hold; None if the number is not known for one of the blocks.

    Several damaged blocks of one write in one log file are counted once: the write recorded the rows of all of them together.
    """
    by_write = {(block.path, block.instant): block.records for block in blocks}
    total = 0
    for records in by_write.values():
        if records is None:
            return None
        total += records
    return total


def _count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
