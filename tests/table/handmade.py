"""Merge-on-read tables made file by file, so that a test decides what is committed, pending, rolled back or compacted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, log_file_name, partition_metafile
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block
from penstock.formats.log.deletes import build_deletes
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_text, with_meta_columns
from penstock.storage import LocalStorage
from penstock.table.config import write_config
from penstock.timeline.commit_file import CommitMetadata, write_commit

COLUMNS = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])


def at(number: int) -> str:
    """Return the time of an instant."""
    return f"202401010000{number:02}000"


@dataclass
class HandMade:
    """Trips by city; the greater ts is newer. The payload overwrites by default."""

    path: Path
    columns: pa.Schema = field(default_factory=lambda: COLUMNS)
    properties: dict[str, str] = field(default_factory=dict)
    #: Whether meta columns are filled.
    meta: bool = True

    def __post_init__(self) -> None:
        raw = {
            "hoodie.table.name": "trips",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "city",
            "hoodie.table.precombine.field": "ts",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
        }
        write_config(LocalStorage(), str(self.path), {**raw, **self.properties}, new=True)

    def base(self, number: int, city: str, *rows: tuple[Any, ...], group: str = "") -> HandMade:
        """Write a base file. Each city has one file group, unless `group` names another."""
        pq.write_table(self._rows(number, city, rows), self._folder(city) / base_file_name(_id(city, group), "0-0-0", at(number)))
        return self

    def log(self, base: int, city: str, version: int, *blocks: bytes, group: str = "") -> HandMade:
        """Write a log file on top of the base file of an instant."""
        name = log_file_name(_id(city, group), at(base), version, "0-0-0")
        (self._folder(city) / name).write_bytes(b"".join(blocks))
        return self

    def rows(self, number: int, city: str, *rows: tuple[Any, ...], parquet: bool = False) -> bytes:
        """Return a block of rows."""
        write = encode_parquet_block if parquet else encode_avro_block
        return write(self._rows(number, city, rows), instant=at(number), schema=self._avro)

    def deletes(self, number: int, city: str, *keys: str, ordering: pa.Array | None = None) -> bytes:
        """Return a block of deleted keys."""
        gone = build_deletes(pa.array(keys), pa.array([city] * len(keys)), ordering)
        return encode_delete_block(gone, instant=at(number), schema=self._avro)

    def instant(self, number: int, action: str = "deltacommit", **more: Any) -> HandMade:
        """Write a file of the timeline: `deltacommit`, `commit`, `deltacommit.inflight`, `compaction.requested`, …"""
        schema = {"schema": avro_text(arrow_to_avro(self.columns, "trips"))}
        content = write_commit(CommitMetadata(operation="UPSERT", extra=schema, **more)) if "." not in action else b""
        (self.path / ".hoodie" / f"{at(number)}.{action}").write_bytes(content)
        return self

    @property
    def _avro(self) -> str:
        return avro_text(with_meta_columns(arrow_to_avro(self.columns, "trips")))

    def _rows(self, number: int, city: str, rows: tuple[tuple[Any, ...], ...]) -> pa.Table:
        meta = {
            "_hoodie_commit_time": [at(number)] * len(rows),
            "_hoodie_commit_seqno": [f"{at(number)}_0_{n}" for n in range(len(rows))],
            "_hoodie_record_key": [row[0] for row in rows],
            "_hoodie_partition_path": [city] * len(rows),
            "_hoodie_file_name": ["f"] * len(rows),
        }
        data = {f.name: pa.array([row[i] for row in rows], f.type) for i, f in enumerate(self.columns)}
        nothing = [None] * len(rows)
        return pa.table({**{name: pa.array(meta[name] if self.meta else nothing, pa.string()) for name in META_COLUMNS}, **data})

    def _folder(self, city: str) -> Path:
        folder = self.path / city
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PARTITION_METAFILE).write_bytes(partition_metafile(at(1), city, "Mon Jan 01 00:00:00 UTC 2024"))
        return folder


def _id(city: str, group: str) -> str:
    return f"{group or city.replace('/', '-').replace('_', '-').replace('=', '-')}-0"
