"""Streams of Hudi tables, `readStream` and `writeStream` with format "hudi". Penstock has none yet: each is one typed error."""

from __future__ import annotations

from typing import Any

from penstock.spark.not_yet import RefusingMixin

_READ_STREAM = (
    "readStream with format 'hudi' is not supported yet. Read what changed since the last run with "
    "Table.open(path).read_changes(since=...), or with spark.read and hoodie.datasource.query.type=incremental"
)
_WRITE_STREAM = (
    "writeStream with format 'hudi' is not supported yet. Write each batch with foreachBatch: "
    "foreachBatch(lambda batch, _: batch.write.format('hudi').options(**hoodie).mode('append').save(path))"
)


class NoStreamReader(RefusingMixin):
    """Mixin for Spark's DataStreamReader: raises Unsupported if the format is Hudi's."""

    def format(self, source: str) -> Any:
        self.refuse(source, _READ_STREAM)
        return super().format(source)  # type: ignore[misc]

    def load(self, path: str | None = None, format: str | None = None, *args: Any, **options: Any) -> Any:
        self.refuse(format, _READ_STREAM)
        return super().load(path, format, *args, **options)  # type: ignore[misc]


class NoStreamWriter(RefusingMixin):
    """Mixin for Spark's DataStreamWriter: raises Unsupported if the format is Hudi's."""

    def format(self, source: str) -> Any:
        self.refuse(source, _WRITE_STREAM)
        return super().format(source)  # type: ignore[misc]

    def start(self, path: str | None = None, format: str | None = None, *args: Any, **options: Any) -> Any:
        self.refuse(format, _WRITE_STREAM)
        return super().start(path, format, *args, **options)  # type: ignore[misc]

    def toTable(self, tableName: str, format: str | None = None, *args: Any, **options: Any) -> Any:
        self.refuse(format, _WRITE_STREAM)
        return super().toTable(tableName, format, *args, **options)  # type: ignore[misc]
