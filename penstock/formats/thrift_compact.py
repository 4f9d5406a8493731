"""Thrift's compact protocol, in which Parquet writes its footer: bytes to nested values and back, without a schema.

A struct becomes a dict of field id → `Value`. A value keeps its type on the wire, so a decoded struct is encoded to the same
fields, those of newer versions of Parquet included. Fields are written in ascending order of their ids, as Thrift does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from penstock.errors import CorruptFile


class Wire(IntEnum):
    """The type of a value in Thrift's compact protocol. The value of a member is the number that the protocol uses."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


@dataclass
class Value:
    """A value of a Thrift struct, with its type in the compact protocol.

    `content` is an int, a float, bytes, a `Struct`, or for a list a pair of the type of its items and the list of their contents.
    """

    wire: Wire
    content: Any


#: Field id → value.
Struct = dict[int, Value]

_INTS = (Wire.I16, Wire.I32, Wire.I64)
_DOUBLE = struct.Struct("<d")
_LONG_LIST = 15


def decode_struct(data: bytes) -> Struct:
    """Decode a Thrift struct from the bytes of the compact protocol. Return its values by field number.

    Raises:
        CorruptFile: the bytes are not a Thrift struct.
    """
    try:
        return _Decoder(data).read_struct()
    except (IndexError, ValueError, struct.error) as e:
        raise CorruptFile(f"{len(data)} bytes that are no Thrift struct: {e}") from e


def encode_struct(fields: Struct) -> bytes:
    """Encode a Thrift struct, whose values are given by field number, in the compact protocol."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Decoder:
    """Decodes values of Thrift's compact protocol from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_struct(self) -> Struct:
        """Read a struct up to its end; return its values by field number."""
        fields: Struct = {}
        last = 0
        while head := self._read_byte():
            delta = head >> 4
            last = last + delta if delta else _from_zigzag(self._read_varint())
            wire = Wire(head & 15)
            fields[last] = Value(wire, self._read(wire) if wire not in (Wire.TRUE, Wire.FALSE) else None)
        return fields

    def _read(self, wire: Wire) -> Any:
        """Read a value of the type `wire`. A boolean field has no bytes to read: its type is TRUE or FALSE."""
        if wire in _INTS:
            return _from_zigzag(self._read_varint())
        if wire is Wire.BINARY:
            return self._read_bytes(self._read_varint())
        if wire is Wire.STRUCT:
            return self.read_struct()
        if wire in (Wire.LIST, Wire.SET):
            return self._read_list()
        if wire is Wire.DOUBLE:
            return _DOUBLE.unpack(self._read_bytes(_DOUBLE.size))[0]
        if wire is Wire.MAP:
            raise ValueError("a map, which Parquet does not use")
        return self._read_byte()  # also a boolean in a list

    def _read_list(self) -> tuple[Wire, list[Any]]:
        """Read a list; return the type of its items, and a list of the items."""
        head = self._read_byte()
        size = head >> 4
        if size == _LONG_LIST:
            size = self._read_varint()
        wire = Wire(head & 15)
        return wire, [self._read(wire) for _ in range(size)]

    def _read_varint(self) -> int:
        """Read an unsigned integer, seven bits per byte, the lowest first."""
        number = shift = 0
        while (byte := self._read_byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def _read_byte(self) -> int:
        """Read one byte as a number."""
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _read_bytes(self, size: int) -> bytes:
        """Read `size` bytes."""
        if self._at + size > len(self._data):
            raise ValueError("a value that ends after the data")
        self._at += size
        return self._data[self._at - size : self._at]


def _from_zigzag(number: int) -> int:
    """Return the signed integer that an unsigned one encodes: 0, 1, 2, 3 and so on stand for 0, -1, 1, -2 and so on."""
    return (number >> 1) ^ -(number & 1)


def _to_zigzag(number: int) -> int:
    """Return the unsigned integer that encodes a signed one: 0, 1, 2, 3 and so on stand for 0, -1, 1, -2 and so on."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def _write_struct(out: bytearray, fields: Struct) -> None:
    """Append the encoded fields of a struct, and the byte that ends it, to `out`."""
    last = 0
    for field_id in sorted(fields):
        value = fields[field_id]
        delta = field_id - last
        if 0 < delta < 16:
            out.append(delta << 4 | value.wire)
        else:
            out.append(value.wire)
            _write_varint(out, _to_zigzag(field_id))
        last = field_id
        if value.wire not in (Wire.TRUE, Wire.FALSE):
            _write(out, value.wire, value.content)
    out.append(0)


def _write(out: bytearray, wire: Wire, content: Any) -> None:
    """Append a value of the type `wire` to `out`. A boolean field has no bytes to write: its type is TRUE or FALSE."""
    if wire in _INTS:
        _write_varint(out, _to_zigzag(content))
    elif wire is Wire.BINARY:
        _write_varint(out, len(content))
        out += content
    elif wire is Wire.STRUCT:
        _write_struct(out, content)
    elif wire in (Wire.LIST, Wire.SET):
        _write_list(out, *content)
    elif wire is Wire.DOUBLE:
        out += _DOUBLE.pack(content)
    else:
        out.append(content)


def _write_list(out: bytearray, wire: Wire, items: list[Any]) -> None:
    """Append a list whose items have the type `wire` to `out`."""
    if len(items) < _LONG_LIST:
        out.append(len(items) << 4 | wire)
    else:
        out.append(_LONG_LIST << 4 | wire)
        _write_varint(out, len(items))
    for item in items:
        _write(out, wire, item)


def _write_varint(out: bytearray, number: int) -> None:
    """Append an unsigned integer to `out`: seven bits per byte, the lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
