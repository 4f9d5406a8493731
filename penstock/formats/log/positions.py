"""Encodes and decodes the record positions in the header of a log block.

A position is the row number, in the base file, of a row that the block changes or deletes. The positions of a block are stored as
a 64-bit Roaring bitmap in its portable form, in Base64. A 64-bit bitmap is a list of 32-bit bitmaps, each preceded by the upper
32 bits of its numbers. A 32-bit bitmap is a list of containers, one for each set of numbers with the same upper 16 bits. A
container is a sorted array of 16-bit numbers if they are few, a set of 65,536 bits if they are many, or a list of runs (ranges of
consecutive numbers). Penstock reads runs and does not write them.
"""

from __future__ import annotations

import base64
import binascii
import struct

import numpy as np
import numpy.typing as npt

from penstock.errors import CorruptFile

Positions = npt.NDArray[np.int64]

# Numbers of the Roaring format specification.
_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
#: The most numbers in a container that is an array.
_MOST_IN_ARRAY = 4096
#: The size of a container that is a set of bits.
_BITSET_BYTES = 8192
#: A bitmap with runs has offsets only if it has at least this many containers.
_FEWEST_FOR_OFFSETS = 4


def encode_positions(positions: Positions) -> str:
    """Encode positions (row numbers in the base file), in any order, as the Base64 string for the header of a log block."""
    numbers = np.unique(positions)
    uppers, starts = np.unique(numbers >> 32, return_index=True)
    parts = [struct.pack("<q", len(uppers))]
    # Not strict: without numbers, `np.split` returns one empty part.
    for upper, part in zip(uppers.tolist(), np.split(numbers, starts[1:]), strict=False):
        parts += [struct.pack("<I", upper), _encode_bitmap(part & 0xFFFFFFFF)]
    return base64.b64encode(b"".join(parts)).decode()


def decode_positions(text: str) -> Positions:
    """Decode the Base64 string in a log block's header; return the positions (row numbers in the base file), ascending.

    Raises:
        CorruptFile: the string is not a 64-bit Roaring bitmap in Base64.
    """
    try:
        data = base64.b64decode(text, validate=True)
        (count,) = struct.unpack_from("<q", data)
        at = 8
        if not 0 <= count <= len(data):
            raise ValueError(f"{count} parts")
        parts = [np.empty(0, np.int64)]
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", data, at)
            numbers, at = _decode_bitmap(data, at + 4)
            parts.append(numbers + (upper << 32))
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes behind it")
    except (binascii.Error, struct.error, ValueError, OverflowError) as cause:
        raise CorruptFile(f"positions of records cannot be read: {cause}") from cause
    return np.concatenate(parts)


def _encode_bitmap(numbers: Positions) -> bytes:
    """Encode ascending numbers below 2**32 as a 32-bit Roaring bitmap in portable form. No container is a list of runs."""
    keys, starts, counts = np.unique(numbers >> 16, return_index=True, return_counts=True)
    containers = [_encode_container(part) for part in np.split((numbers & 0xFFFF).astype("<u2"), starts[1:])]
    head = struct.pack("<II", _COOKIE_WITHOUT_RUNS, len(keys))
    descriptions = np.column_stack([keys, counts - 1]).astype("<u2").tobytes()
    first_container = len(head) + len(descriptions) + 4 * len(keys)
    offsets = first_container + np.cumsum([0, *(len(container) for container in containers[:-1])])
    return b"".join([head, descriptions, offsets.astype("<u4").tobytes(), *containers])


def _encode_container(numbers: npt.NDArray[np.uint16]) -> bytes:
    """Encode ascending 16-bit numbers as a container: an array if they are few, otherwise a set of bits."""
    if len(numbers) <= _MOST_IN_ARRAY:
        return numbers.tobytes()
    bits = np.zeros(8 * _BITSET_BYTES, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _decode_bitmap(data: bytes, at: int) -> tuple[Positions, int]:
    """Return (numbers in the 32-bit bitmap at offset `at`, offset after the bitmap). Raises ValueError if it is malformed."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        container_count = (cookie >> 16) + 1
        flag_bytes = (container_count + 7) // 8
        flags = np.unpackbits(np.frombuffer(data, np.uint8, flag_bytes, at), bitorder="little")
        has_runs = flags[:container_count].astype(bool)
        at += flag_bytes
    elif cookie == _COOKIE_WITHOUT_RUNS:
        (container_count,) = struct.unpack_from("<I", data, at)
        at += 4
        has_runs = np.zeros(min(container_count, len(data)), np.bool_)  # a damaged count must not allocate more memory
    else:
        raise ValueError(f"cookie {cookie}")
    descriptions = np.frombuffer(data, "<u2", 2 * container_count, at).reshape(-1, 2).astype(np.int64)
    at += 4 * container_count
    if cookie == _COOKIE_WITHOUT_RUNS or container_count >= _FEWEST_FOR_OFFSETS:
        at += 4 * container_count  # the offsets of the containers: all of them are read, one after the other
    parts = [np.empty(0, np.int64)]
    for (key, count_less_one), is_run in zip(descriptions.tolist(), has_runs.tolist(), strict=True):
        count = count_less_one + 1
        numbers, at = _decode_container(data, at, count, is_run)
        if len(numbers) != count or (np.diff(numbers) <= 0).any():
            raise ValueError(f"{len(numbers)} numbers in a container of {count}, or not in order")
        parts.append(numbers + (key << 16))
    return np.concatenate(parts), at


def _decode_container(data: bytes, at: int, count: int, is_run: bool) -> tuple[Positions, int]:
    """Return (numbers in the container at offset `at`, offset after the container).

    Args:
        count: how many numbers the container has.
        is_run: whether the container is a list of runs (first number and length of each range). Otherwise `count` decides whether
            it is an array or a set of bits.
    """
    if is_run:
        (run_count,) = struct.unpack_from("<H", data, at)
        runs = np.frombuffer(data, "<u2", 2 * run_count, at + 2).reshape(-1, 2).astype(np.int64)
        lengths = runs[:, 1] + 1
        if int(lengths.sum()) != count:  # before arrays of that length are allocated
            raise ValueError(f"runs of {int(lengths.sum())} numbers in a container of {count}")
        numbers_before = np.cumsum(lengths) - lengths
        shifts = np.repeat(runs[:, 0] - numbers_before, lengths)
        return shifts + np.arange(count), at + 2 + 4 * run_count
    if count <= _MOST_IN_ARRAY:
        return np.frombuffer(data, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITSET_BYTES, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), at + _BITSET_BYTES
