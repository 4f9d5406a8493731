"""Encodes the blocks of log files: rows as Avro or Parquet, deletes, and rollback commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats.avro.block import encode_avro_content
from penstock.formats.cast import fit_to_schema
from penstock.formats.log.block import FORMAT_VERSION, FRONT, INT, INT_PAIR, LONG, MAGIC, ROLLBACK, BlockType, HeaderKey
from penstock.formats.log.deletes import Deletes, encode_deletes
from penstock.formats.log.positions import Positions, encode_positions
from penstock.formats.parquet import open_writer
from penstock.schema import avro_text, avro_to_arrow
from penstock.schema.avro import Avro

#: Hudi reads the content of a block into a Java array, whose size is an int.
_MOST_SIZE = 2**31 - 1


def encode_avro_block(
    rows: pa.Table, *, instant: str, schema: Avro, positions: Positions | None = None, compacted_instants: Sequence[str] = ()
) -> bytes:
    """Encode rows as the bytes of an Avro data block.

    Args:
        rows: the rows with meta columns.
        instant: the time of the instant that writes the block.
        schema: the Avro schema of the rows, with meta columns.
        positions: for each row, the position in the base file of the row with the same key; None: some position is unknown.
        compacted_instants: for a block of a log compaction, the times of the instants whose blocks this block replaces.

    Raises:
        SchemaError: the rows do not fit the schema, or the block is larger than Hudi can read.
    """
    return encode_block(
        BlockType.AVRO_DATA, _data_header(instant, schema, positions, compacted_instants), encode_avro_content(rows, schema)
    )


def encode_parquet_block(
    rows: pa.Table,
    *,
    instant: str,
    schema: Avro,
    codec: str = "gzip",
    positions: Positions | None = None,
    compacted_instants: Sequence[str] = (),
) -> bytes:
    """Encode rows as the bytes of a Parquet data block.

    Args:
        rows: the rows with meta columns.
        instant: the time of the instant that writes the block.
        schema: the Avro schema of the rows, with meta columns.
        codec: the compression codec, by Hudi's name.
        positions: for each row, the position in the base file of the row with the same key; None: some position is unknown.
        compacted_instants: for a block of a log compaction, the times of the instants whose blocks this block replaces.

    Raises:
        SchemaError: the rows do not fit the schema, or the block is larger than Hudi can read.
    """
    fitted = fit_to_schema(rows, avro_to_arrow(schema))
    sink = pa.BufferOutputStream()
    with open_writer(sink, fitted, codec) as writer:
        writer.write_table(fitted)
        writer.add_key_value_metadata({"parquet.avro.schema": _text(schema), "writer.model.name": "avro"})
    return encode_block(BlockType.PARQUET_DATA, _data_header(instant, schema, positions, compacted_instants), sink.getvalue())


def encode_delete_block(
    deletes: Deletes, *, instant: str, schema: Avro, positions: Positions | None = None, compacted_instants: Sequence[str] = ()
) -> bytes:
    """Encode deleted keys as the bytes of a delete block.

    Args:
        instant: the time of the instant that writes the block.
        schema: the Avro schema of the table's rows, with meta columns.
        positions: for each key, the position of its row in the base file; None: some position is unknown.
        compacted_instants: for a block of a log compaction, the times of the instants whose blocks this block replaces.
    """
    return encode_block(BlockType.DELETE, _data_header(instant, schema, positions, compacted_instants), encode_deletes(deletes))


def encode_rollback_block(*, instant: str, target_instant: str) -> bytes:
    """Encode the bytes of a rollback block, which cancels all earlier blocks of `target_instant` in the file group's log.

    Args:
        instant: the time of the rollback.
    """
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK,
        HeaderKey.TARGET_INSTANT_TIME: target_instant,
    }
    return encode_block(BlockType.COMMAND, header, b"")


def encode_block(
    kind: BlockType, header: Mapping[HeaderKey, str], content: Any, footer: Mapping[HeaderKey, str] | None = None
) -> bytes:
    """Encode a log block of any type from its header, its encoded content and its footer.

    Raises:
        SchemaError: the block is larger than Hudi can read.
    """
    body = b"".join(
        [
            INT_PAIR.pack(FORMAT_VERSION, kind),
            _encode_map(header),
            LONG.pack(memoryview(content).nbytes),
            content,
            _encode_map(footer or {}),
        ]
    )
    size = len(body) + LONG.size
    if size > _MOST_SIZE:
        raise SchemaError(f"a log block of {size} bytes; readers take less than 2 GiB: lower hoodie.logfile.data.block.max.size")
    return b"".join([FRONT.pack(MAGIC, size), body, LONG.pack(size + len(MAGIC))])


def _encode_map(entries: Mapping[HeaderKey, str]) -> bytes:
    """Encode a header or footer map: the number of entries, then key, size and text of each entry."""
    parts = [INT.pack(len(entries))]
    for key, text in entries.items():
        value = text.encode()
        parts += [INT_PAIR.pack(key, len(value)), value]
    return b"".join(parts)


def _data_header(
    instant: str, schema: Avro, positions: Positions | None, compacted_instants: Sequence[str]
) -> dict[HeaderKey, str]:
    """Build the header of a data or delete block.

    Args:
        instant: the time of the instant that writes the block.
        schema: the Avro schema of the rows, with meta columns.
        positions: the positions in the base file of the rows that the block changes or deletes; None: they are not in the header.
        compacted_instants: the times of the instants whose blocks this block replaces; empty: they are not in the header.
    """
    header = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: _text(schema)}
    if compacted_instants:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(compacted_instants)
    if positions is not None:
        header[HeaderKey.RECORD_POSITIONS] = encode_positions(positions)
    return header


def _text(schema: Avro) -> str:
    """Return an Avro schema as JSON."""
    return schema if isinstance(schema, str) else avro_text(schema)
