"""Which slices are left to Spark's own reader."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.filegroup.log.scan import scan_slice, touched_positions
from penstock.formats.log import encode_avro_block
from penstock.merge.merger import Merger
from penstock.merge.overwrite import EventTimeOrdering, OverwriteWithLatest
from penstock.read.log_slices import _choose_skipped_rows
from tests.unit.filegroup.slices import ALL_TIMES, AVRO, Slice, rows, rules_of


def slice_with(position: int) -> Slice:
    """Ten base rows, and a log that says something about one of them."""
    block = encode_avro_block(rows("02", ("a", 2, 2)), instant="02", schema=AVRO, positions=np.array([position]))
    return Slice().base(*((str(i), 1, 1) for i in range(10))).log(block, of="02")


@pytest.mark.parametrize("merger", [OverwriteWithLatest(), EventTimeOrdering("ts")], ids=["logs win", "rows are compared"])
def test_positions_beyond_all_bounds_take_no_memory_and_are_not_believed(merger: Merger) -> None:
    for position, is_believed in ((9, True), (1 << 60, False)):
        of = slice_with(position)
        positions = touched_positions(of.made, scan_slice(of.storage, of.made, ALL_TIMES))
        assert positions is not None
        assert bool(_choose_skipped_rows({of.made: positions}, rules_of(merger))) == is_believed
