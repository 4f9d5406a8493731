"""Log files for tests of what reads them: real ones of Hudi's, and the smallest of ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.formats.log import LogBlock, scan_blocks

LOGS = Path(__file__).resolve().parents[3] / "data" / "logs"
REAL = {path.stem: path.read_bytes() for path in sorted(LOGS.glob("*.bin"))}
SCHEMA = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
ONE_AND_MINUS_ONE = pa.table({"a": pa.array([1, -1], pa.int32())})
LAST_TIME = "20250101000000000"


def one(log: bytes) -> LogBlock:
    """The only block of a log."""
    (block,) = scan_blocks(log)
    return block
