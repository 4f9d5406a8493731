"""Makes the blocks of log files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats.avro.block import encode_avro_content
from penstock.formats.cast import fit_to_schema
from penstock.formats.log.block import FORMAT_VERSION, FRONT, INT, KIND, LONG, MAGIC, ROLLBACK, BlockType, HeaderKey
from penstock.formats.log.deletes import Deletes, encode_deletes
from penstock.formats.log.positions import Positions, encode_positions
from penstock.formats.parquet import open_writer
from penstock.schema import avro_text, avro_to_arrow
from penstock.schema.avro import Avro

_MOST_SIZE = 2**31 - 1  # Java reads sizes as ints


def encode_avro_block(
    rows: pa.Table, *, instant: str, schema: Avro, positions: Positions | None = None, compacted_instants: Sequence[str] = ()
) -> bytes:
    """A block of rows as Avro records. `schema` has the meta columns, as `rows` have.

    Args:
        positions: where in the base file the row of each key stands, if that is known of all.
        compacted_instants: the instants whose blocks it is made of, if log compaction makes it.

    Raises:
        SchemaError: the rows do not fit the schema.
    """
    return encode_block(
        BlockType.AVRO_DATA, _headers(instant, schema, positions, compacted_instants), encode_avro_content(rows, schema)
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
    """A block of rows as a Parquet file; all but the codec as of an Avro block.

    Raises:
        SchemaError: the rows do not fit the schema.
    """
    fitted = fit_to_schema(rows, avro_to_arrow(schema))
    sink = pa.BufferOutputStream()
    with open_writer(sink, fitted, codec) as writer:
        writer.write_table(fitted)
        writer.add_key_value_metadata({"parquet.avro.schema": _text(schema), "writer.model.name": "avro"})
    return encode_block(BlockType.PARQUET_DATA, _headers(instant, schema, positions, compacted_instants), sink.getvalue())


def encode_delete_block(
    deletes: Deletes, *, instant: str, schema: Avro, positions: Positions | None = None, compacted_instants: Sequence[str] = ()
) -> bytes:
    """A block of deleted keys; `positions` and `compacted_instants` as of an Avro block."""
    return encode_block(BlockType.DELETE, _headers(instant, schema, positions, compacted_instants), encode_deletes(deletes))


def encode_rollback_block(*, instant: str, target_instant: str) -> bytes:
    """A block that takes back all blocks of `target_instant` before it."""
    header = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK,
        HeaderKey.TARGET_INSTANT_TIME: target_instant,
    }
    return encode_block(BlockType.COMMAND, header, b"")


def encode_block(
    kind: BlockType, header: Mapping[HeaderKey, str], content: Any, footer: Mapping[HeaderKey, str] | None = None
) -> bytes:
    """A whole block.

    Raises:
        SchemaError: it is larger than any reader takes.
    """
    body = b"".join(
        [
            KIND.pack(FORMAT_VERSION, kind),
            _map_bytes(header),
            LONG.pack(memoryview(content).nbytes),
            content,
            _map_bytes(footer or {}),
        ]
    )
    size = len(body) + LONG.size
    if size > _MOST_SIZE:
        raise SchemaError(f"a log block of {size} bytes; readers take less than 2 GiB: lower hoodie.logfile.data.block.max.size")
    return b"".join([FRONT.pack(MAGIC, size), body, LONG.pack(size + len(MAGIC))])


def _map_bytes(entries: Mapping[HeaderKey, str]) -> bytes:
    parts = [INT.pack(len(entries))]
    for key, text in entries.items():
        value = text.encode()
        parts += [KIND.pack(key, len(value)), value]
    return b"".join(parts)


def _headers(instant: str, schema: Avro, positions: Positions | None, compacted_instants: Sequence[str]) -> dict[HeaderKey, str]:
    headers = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: _text(schema)}
    if compacted_instants:
        headers[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(compacted_instants)
    return headers if positions is None else {**headers, HeaderKey.RECORD_POSITIONS: encode_positions(positions)}


def _text(schema: Avro) -> str:
    return schema if isinstance(schema, str) else avro_text(schema)
