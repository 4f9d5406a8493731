"""File slices in memory, built block by block, for tests of what reads them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.clock import new_uuid
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import base_file_name, log_file_name, mark_token
from penstock.filegroup.slice_rows import MergeCounts, MergeRules, read_merged_rows
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block
from penstock.formats.log.deletes import build_deletes
from penstock.merge.merger import Merger
from penstock.merge.overwrite import OverwriteWithLatest
from penstock.schema import META_COLUMNS, arrow_to_avro, with_meta_columns
from penstock.storage import MemoryStorage

COLUMNS = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])
AVRO = with_meta_columns(arrow_to_avro(COLUMNS, "t"))
ALL_TIMES = CommittedTimes(frozenset(f"{n:02}" for n in range(100)))

#: Key, value, ordering value, and whether it says that the key is gone.
Row = tuple[Any, ...]


def rows(instant: str, *given: Row, columns: pa.Schema = COLUMNS) -> pa.Table:
    """Rows with meta columns: (id, v), (id, v, ts) or (id, v, ts, deleted)."""
    full = [(*row, *(None,) * (len(columns) - len(row))) for row in given]
    data = {name: [row[at] for row in full] for at, name in enumerate(columns.names)}
    meta = {name: pa.array(["m"] * len(full), pa.string()) for name in META_COLUMNS}
    meta["_hoodie_commit_time"] = pa.array([instant] * len(full), pa.string())
    meta["_hoodie_record_key"] = pa.array([row[0] for row in full], pa.string())
    body = {name: pa.array(values, columns.field(name).type) for name, values in data.items()}
    return pa.table({**meta, **body})


def data(instant: str, *given: Row, columns: pa.Schema = COLUMNS, parquet: bool = False) -> bytes:
    """A block of rows."""
    write = encode_parquet_block if parquet else encode_avro_block
    return write(rows(instant, *given, columns=columns), instant=instant, schema=with_meta_columns(arrow_to_avro(columns, "t")))


def deletes(instant: str, keys: Sequence[str], ordering: pa.Array | None = None) -> bytes:
    """A block of deleted keys."""
    return encode_delete_block(build_deletes(pa.array(keys), pa.array([""] * len(keys)), ordering), instant=instant, schema=AVRO)


@dataclass
class Slice:
    """A slice under construction."""

    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage(new_uuid()))
    made: FileSlice = field(default_factory=lambda: FileSlice("", "f-0", "01"))

    def base(self, *given: Row, columns: pa.Schema = COLUMNS, row_group: int = 2) -> Slice:
        sink = io.BytesIO()
        pq.write_table(rows("01", *given, columns=columns), sink, row_group_size=row_group)
        path = f"/t/{base_file_name('f-0', '0-0-0', '01')}"
        self.storage.write_new(path, sink.getvalue())
        self.made = replace(self.made, base_file=BaseFile(path, "f-0", "01", len(sink.getvalue())))
        return self

    def log(self, *blocks: bytes, of: str | None = None) -> Slice:
        """Add a log file with these blocks; one with a token of Penstock, if `of` names the instant that writes it."""
        content = b"".join(blocks)
        version = len(self.made.log_files) + 1
        token = mark_token("0-0-0", of) if of else "0-0-0"
        path = f"/t/{log_file_name('f-0', '01', version, token)}"
        self.storage.write_new(path, content)
        file = LogFile(path, "f-0", "01", version, token, len(content))
        self.made = replace(self.made, log_files=(*self.made.log_files, file))
        return self

    def merged(
        self, rules: MergeRules | None = None, columns: Sequence[str] | None = None, counts: MergeCounts | None = None
    ) -> pa.Table:
        parts = list(read_merged_rows(self.storage, self.made, rules or rules_of(), columns, counts=counts))
        return pa.concat_tables(parts) if parts else pa.table({name: [] for name in columns or COLUMNS.names})

    def values(self, rules: MergeRules | None = None) -> dict[str, Any]:
        """`id` → `v`, in order."""
        found = self.merged(rules, ["id", "v"])
        assert len(set(found["id"].to_pylist())) == found.num_rows
        return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def rules_of(merger: Merger | None = None, **more: Any) -> MergeRules:
    """Rules that see all instants from 00 to 99 and order log records by `ts`."""
    given = {"times": ALL_TIMES, "ordering": "ts", "memory_bytes": 1 << 30, "spill_folder": "/nowhere", "schema": AVRO, **more}
    return MergeRules(merger=merger or OverwriteWithLatest(), **given)
