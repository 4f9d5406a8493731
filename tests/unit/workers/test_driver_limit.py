"""Which work runs on the driver, by the options of small batches."""

from __future__ import annotations

import pytest

from penstock.options import read_options
from penstock.workers.driver_limit import fits_on_driver

LIMITS = {"penstock.small.batch.rows": "10", "penstock.small.batch.bytes": "100"}


@pytest.mark.parametrize(("rows", "size_bytes", "fits"), [(10, 100, True), (11, 100, False), (10, 101, False), (0, 0, True)])
def test_rows_and_bytes_must_both_be_within_the_limits(rows: int, size_bytes: int, fits: bool) -> None:
    assert fits_on_driver(read_options(LIMITS), rows=rows, size_bytes=size_bytes) is fits


def test_an_unknown_number_of_rows_leaves_the_limit_of_bytes() -> None:
    options = read_options(LIMITS)
    assert fits_on_driver(options, size_bytes=100)
    assert not fits_on_driver(options, size_bytes=101)


def test_a_limit_of_no_rows_turns_the_driver_off() -> None:
    options = read_options({**LIMITS, "penstock.small.batch.rows": "0"})
    assert not fits_on_driver(options)
    assert not fits_on_driver(options, rows=1)
