"""Row numbers as a log block's header holds them: a 64-bit Roaring bitmap in its portable form, in Base64. Kernel.

A bitmap is cut by the upper 48 bits of its numbers into containers of 65,536: a sorted list of 16-bit numbers where these are
few, a field of bits where they are many, and, in files of others, runs.
"""

from __future__ import annotations

import base64
import binascii
import struct

import numpy as np
import numpy.typing as npt

from penstock.errors import CorruptFile

Positions = npt.NDArray[np.int64]

_PLAIN, _WITH_RUNS = 12346, 12347
_MOST_LISTED = 4096  # numbers in a container that is a list
_FIELD_BYTES = 8192
_OFFSETS_FROM = 4  # containers from which a bitmap with runs has offsets


def encode_positions(positions: Positions) -> str:
    """Row numbers, in any order, as header text."""
    numbers = np.unique(positions)
    uppers, starts = np.unique(numbers >> 32, return_index=True)
    parts = [struct.pack("<q", len(uppers))]
    for upper, its in zip(uppers.tolist(), np.split(numbers, starts[1:]), strict=False):  # of nothing, one empty part
        parts += [struct.pack("<I", upper), _bitmap(its & 0xFFFFFFFF)]
    return base64.b64encode(b"".join(parts)).decode()


def decode_positions(text: str) -> Positions:
    """Row numbers, ascending.

    Raises:
        CorruptFile: the text is no such bitmap.
    """
    try:
        data = base64.b64decode(text, validate=True)
        (count,) = struct.unpack_from("<q", data)
        at, found = 8, [np.empty(0, np.int64)]
        if not 0 <= count <= len(data):
            raise ValueError(f"{count} parts")
        for _ in range(count):
            (upper,) = struct.unpack_from("<I", data, at)
            numbers, at = _numbers(data, at + 4)
            found.append(numbers + (upper << 32))
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes behind it")
    except (binascii.Error, struct.error, ValueError, OverflowError) as cause:
        raise CorruptFile(f"positions of records cannot be read: {cause}") from cause
    return np.concatenate(found)


def _bitmap(numbers: Positions) -> bytes:
    """The portable form of numbers below 2**32, without runs."""
    keys, starts, counts = np.unique(numbers >> 16, return_index=True, return_counts=True)
    contents = [_container(its) for its in np.split((numbers & 0xFFFF).astype("<u2"), starts[1:])]
    front = 8 + 8 * len(keys)
    offsets = front + np.cumsum([0, *(len(content) for content in contents[:-1])])
    described = np.column_stack([keys, counts - 1]).astype("<u2").tobytes()
    return b"".join([struct.pack("<II", _PLAIN, len(keys)), described, offsets.astype("<u4").tobytes(), *contents])


def _container(numbers: npt.NDArray[np.uint16]) -> bytes:
    if len(numbers) <= _MOST_LISTED:
        return numbers.tobytes()
    bits = np.zeros(8 * _FIELD_BYTES, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _numbers(data: bytes, at: int) -> tuple[Positions, int]:
    """The numbers of one 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        is_run = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, at), bitorder="little")[:count].astype(bool)
        at += (count + 7) // 8
    elif cookie == _PLAIN:
        (count,) = struct.unpack_from("<I", data, at)
        at, is_run = at + 4, np.zeros(min(count, len(data)), np.bool_)
    else:
        raise ValueError(f"cookie {cookie}")
    described = np.frombuffer(data, "<u2", 2 * count, at).reshape(-1, 2).astype(np.int64)
    at += 4 * count
    if cookie == _PLAIN or count >= _OFFSETS_FROM:
        at += 4 * count
    found = [np.empty(0, np.int64)]
    for (key, less_one), run in zip(described.tolist(), is_run.tolist(), strict=True):
        numbers, at = _contents(data, at, less_one + 1, run)
        if len(numbers) != less_one + 1 or (np.diff(numbers) <= 0).any():
            raise ValueError(f"{len(numbers)} numbers in a container of {less_one + 1}, or not in order")
        found.append(numbers + (key << 16))
    return np.concatenate(found), at


def _contents(data: bytes, at: int, count: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).reshape(-1, 2).astype(np.int64)
        lengths = pairs[:, 1] + 1
        if int(lengths.sum()) != count:  # before anything is made of them
            raise ValueError(f"runs of {int(lengths.sum())} numbers in a container of {count}")
        first = np.repeat(pairs[:, 0] - np.cumsum(lengths) + lengths, lengths)
        return first + np.arange(int(lengths.sum())), at + 2 + 4 * runs
    if count <= _MOST_LISTED:
        return np.frombuffer(data, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _FIELD_BYTES, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), at + _FIELD_BYTES
