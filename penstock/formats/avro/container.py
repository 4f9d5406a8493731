"""Avro container files of the timeline. Each file holds one record: the plan or the result of a table service.

Records are dicts, files are bytes. `timeline_schemas.py` holds the schemas. Written files are deterministic: the sync marker,
which other Avro writers choose at random, is a digest of the record.

A file is read with the schema inside the file. Fields that only a newer Hudi has are kept. Fields that the file lacks get the
default of Penstock's schema. A file may name classes of strategies; none of them is imported or called.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Mapping
from copy import copy
from typing import Any

from penstock.errors import CorruptFile
from penstock.formats.avro.timeline_schemas import RECORDS, SCHEMAS, AvroType

try:
    import fastavro
except ImportError:  # Spark workers import this module, but never read the timeline: they do not need fastavro
    fastavro = None  # type: ignore[assignment]


def write_container(name: str, record: Mapping[str, Any]) -> bytes:
    """Return the bytes of an Avro container file with one record. Missing fields get their defaults.

    Args:
        name: the name of the record's schema in `timeline_schemas.py`, such as `HoodieCleanerPlan`.
    """
    head = io.BytesIO()
    body = encode_record(name, record)
    marker = hashlib.blake2b(body, digest_size=16, key=name.encode()).digest()
    fastavro.writer(head, _parse_schema(name), [], codec="null", sync_marker=marker)
    record_count = _encode_long(1)
    return b"".join((head.getvalue(), record_count, _encode_long(len(body)), body, marker))


def _encode_long(value: int) -> bytes:
    """Encode a number that is not negative as an Avro long: zigzag, seven bits per byte, low bits first."""
    encoded = bytearray()
    rest = value << 1
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_container(data: bytes) -> dict[str, Any]:
    """Read the single record of an Avro container file. Missing fields get the defaults of Penstock's schema for the record.

    Raises:
        CorruptFile: the bytes are not an Avro container, are truncated, or do not hold exactly one record.
    """
    try:
        reader = fastavro.reader(io.BytesIO(data))
        records = list(reader)
        schema: Any = reader.writer_schema
        name = str(schema["name"]).rpartition(".")[2]
    except Exception as cause:  # fastavro has no error class: malformed bytes raise whatever fails first
        raise CorruptFile(f"not an Avro file of the timeline: {cause or type(cause).__name__}") from cause
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptFile(f"an Avro file of the timeline holds one record, this one holds {len(records)}")
    record: dict[str, Any] = records[0]
    return _add_defaults(name, record) if name in RECORDS else record


def encode_record(name: str, record: Mapping[str, Any]) -> bytes:
    """Encode a record as plain Avro, without the header of a container file: for blocks of archive files.

    Args:
        name: the name of the record's schema in `timeline_schemas.py`.
    """
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _parse_schema(name), record, strict_allow_default=True)
    return body.getvalue()


def decode_record(data: bytes, schema: str) -> dict[str, Any]:
    """Decode a record of an archive file, which is plain Avro without the header of a container file.

    Missing fields get the defaults of Penstock's schema.

    Args:
        schema: the Avro schema that the record was written with, as JSON.

    Raises:
        CorruptFile: the bytes are not a record of the schema.
    """
    try:
        parsed = _parse_schema_text(schema)
        record: Any = fastavro.schemaless_reader(io.BytesIO(data), parsed, None)
        name = str(parsed["name"]).rpartition(".")[2]
        completed: dict[str, Any] = _add_defaults(name, record)
        return completed
    except Exception as cause:  # fastavro has no error class, as above
        raise CorruptFile(f"not a record of the timeline: {cause or type(cause).__name__}") from cause


def _add_defaults(kind: AvroType, value: Any) -> Any:
    """Return a copy of `value` in which missing fields have the defaults of Penstock's schemas, in nested records too.

    Args:
        kind: the Avro type of the value; a record is named, as in `timeline_schemas.py`.
    """
    if not isinstance(value, (dict, list)):
        return value
    match kind, value:
        case [_, branch], _:  # a union: if the second branch is "null", neither branch has fields
            return _add_defaults(branch, value)
        case {"items": items}, list():
            return [_add_defaults(items, item) for item in value]
        case {"values": values}, dict():
            return {key: _add_defaults(values, item) for key, item in value.items()}
        case str(), dict() if kind in RECORDS:
            return _add_record_defaults(kind, value)
    return value


def _add_record_defaults(name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a record in which missing fields have the defaults of its schema, in nested records too.

    Args:
        name: the name of the record's schema in `timeline_schemas.py`.
    """
    fields = _fields(name)
    defaults = {field_name: copy(field.get("default")) for field_name, field in fields.items()}
    completed = {}
    for key, value in (defaults | record).items():
        completed[key] = _add_defaults(fields[key]["type"], value) if key in fields else value
    return completed


@functools.cache
def _fields(name: str) -> Mapping[str, Any]:
    """Return the fields of the schema with this name in `timeline_schemas.py`, by field name."""
    return {field["name"]: field for field in RECORDS[name]}


@functools.cache
def _parse_schema(name: str) -> Any:
    """Return the schema with this name in `timeline_schemas.py`, as parsed by fastavro."""
    return fastavro.parse_schema(SCHEMAS[name])


@functools.lru_cache(maxsize=8)
def _parse_schema_text(schema: str) -> Any:
    """Return an Avro schema, given as JSON, as parsed by fastavro."""
    return fastavro.parse_schema(json.loads(schema))
