"""Row numbers in a block's header: a 64-bit Roaring bitmap, as Java's library writes it."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptFile
from penstock.formats.log.positions import decode_positions, encode_positions


@given(st.lists(st.integers(0, 2**40)))
def test_positions_are_read_back_ascending(numbers: list[int]) -> None:
    assert decode_positions(encode_positions(np.array(numbers, np.int64))).tolist() == sorted(set(numbers))


@pytest.mark.parametrize("count", [4095, 4096, 4097, 65536, 200_000])
def test_dense_positions_are_read_back(count: int) -> None:
    numbers = np.arange(count) * 3
    assert np.array_equal(decode_positions(encode_positions(numbers)), numbers)


def test_the_bytes_are_the_portable_form() -> None:
    """Two numbers in the first container, one in the second."""
    bitmap = struct.pack("<II4H2I3H", 12346, 2, 0, 1, 1, 0, 24, 28, 1, 7, 5)
    whole = struct.pack("<qI", 1, 0) + bitmap
    assert base64.b64decode(encode_positions(np.array([65536 + 5, 7, 1]))) == whole


def test_runs_that_other_writers_write_are_read() -> None:
    """Containers 0 (a run of 10 from 3, one of 1 from 100) and 2 (a list of one)."""
    bitmap = (
        struct.pack("<IB4H", 12347 | (1 << 16), 0b01, 0, 10, 2, 0) + struct.pack("<5H", 2, 3, 9, 100, 0) + struct.pack("<H", 9)
    )
    text = base64.b64encode(struct.pack("<qI", 1, 1) + bitmap).decode()
    assert decode_positions(text).tolist() == [2**32 + n for n in [*range(3, 13), 100, 131072 + 9]]


@pytest.mark.parametrize("text", ["no base 64!", "AAAA", base64.b64encode(struct.pack("<qII", 1, 0, 99)).decode()])
def test_a_text_that_is_not_a_bitmap_is_refused(text: str) -> None:
    with pytest.raises(CorruptFile, match="positions of records cannot be read"):
        decode_positions(text)


def test_a_truncated_bitmap_is_refused() -> None:
    data = base64.b64decode(encode_positions(np.arange(0, 100_000, 7)))
    for end in range(9, len(data), 997):
        with pytest.raises(CorruptFile):
            decode_positions(base64.b64encode(data[:end]).decode())


def test_a_flipped_bit_in_a_bitmap_raises_an_error_or_keeps_the_number_of_positions() -> None:
    """One bit makes runs of lists, and lists could be runs of gigabytes; another would leave all numbers out."""
    numbers = np.concatenate([np.arange(0, 9_000, 9), np.arange(65_536, 75_536)])
    data = bytearray(base64.b64decode(encode_positions(numbers)))
    for at in [*range(60), *range(60, len(data), 331)]:
        for bit in range(8):
            data[at] ^= 1 << bit
            try:
                found = len(decode_positions(base64.b64encode(data).decode()))
            except CorruptFile:
                found = len(numbers)
            assert found == len(numbers), (at, bit)
            data[at] ^= 1 << bit


def test_runs_longer_than_their_container_are_refused_before_anything_is_allocated() -> None:
    runs = struct.pack("<H", 60_000) + struct.pack("<2H", 0, 65_535) * 60_000
    bitmap = struct.pack("<IB2H", 12347, 1, 0, 65_535) + runs
    with pytest.raises(CorruptFile, match="runs of 3932160000 numbers in a container of 65536"):
        decode_positions(base64.b64encode(struct.pack("<qI", 1, 0) + bitmap).decode())
