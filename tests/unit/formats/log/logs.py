"""Log files for tests: real ones that Hudi wrote, and the smallest that Penstock writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.formats.log import LogBlock, scan_blocks

LOGS = Path(__file__).resolve().parents[3] / "data" / "logs"
REAL = {path.stem: path.read_bytes() for path in sorted(LOGS.glob("*.bin"))}
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
ONE_AND_MINUS_ONE = pa.table({"a": pa.array([1, -1], pa.int32())})
LAST_TIME = "20250101000000000"


def only_block(log: bytes) -> LogBlock:
    """Return the only block of a log."""
    (block,) = scan_blocks(log)
    return block
