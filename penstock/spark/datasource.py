"""`format("hudi")`: readers and writers that hand over to Penstock, and leave every other format to Spark.

`DataFrame.write` and `SparkSession.read` give back an object of a subclass of Spark's own reader or writer. It notes what
is said to it and passes everything on; only when the format is Hudi's does `save` or `load` come to us.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from penstock.door.read import open_query
from penstock.door.write import write
from penstock.errors import OptionError, Unsupported
from penstock.options import read_options
from penstock.read.query import parse_query
from penstock.table import open_table
from penstock.write.rows.input_files import mark_bare

FORMATS = frozenset({"hudi", "org.apache.hudi"})


def is_hudi(source: str | None) -> bool:
    """Whether a format's name is ours."""
    return source is not None and source.lower() in FORMATS


class Noting:
    """Notes the format and the options that Spark's own class is told."""

    _notes: dict[str, Any]

    def format(self, source: str) -> Any:
        self._notes["format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._notes["options"][key] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._notes["options"].update(options)
        return super().options(**options)  # type: ignore[misc]


class HudiWriter(Noting):
    """Mixed into Spark's DataFrameWriter."""

    def mode(self, saveMode: str | None) -> Any:
        self._notes["mode"] = saveMode or self._notes.get("mode")
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self._notes["partition_by"] = _names(cols)
        return super().partitionBy(*cols)  # type: ignore[misc]

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        notes = self._notes
        if not _is_ours(format, notes):
            super().save(path, format, mode, partitionBy, **options)  # type: ignore[misc]
            return
        _refuse_buckets(notes)
        given = {**notes["options"], **options}
        by = _names([partitionBy]) if partitionBy is not None else notes["partition_by"]
        given = with_partition_by(given, by)
        target = os.fspath(path or given.get("path") or "")
        if not target:
            raise OptionError("'path' must be set: give the table's folder to save()")
        given.pop("path", None)
        frame = notes["frame"]
        write(frame.sparkSession, frame, target, given, mode or notes["mode"])

    def saveAsTable(self, name: str, format: str | None = None, *args: Any, **kwargs: Any) -> None:
        _refuse_tables(_is_ours(format, self._notes), "saveAsTable")
        super().saveAsTable(name, format, *args, **kwargs)  # type: ignore[misc]

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        _refuse_tables(_is_ours(None, self._notes), "insertInto")
        super().insertInto(tableName, overwrite)  # type: ignore[misc]

    def bucketBy(self, *args: Any, **kwargs: Any) -> Any:
        self._notes["buckets"] = "bucketBy"
        return super().bucketBy(*args, **kwargs)  # type: ignore[misc]

    def sortBy(self, *args: Any, **kwargs: Any) -> Any:
        self._notes["buckets"] = "sortBy"
        return super().sortBy(*args, **kwargs)  # type: ignore[misc]


class HudiReader(Noting):
    """Mixed into Spark's DataFrameReader."""

    def schema(self, schema: Any) -> Any:
        self._notes["schema"] = schema
        return super().schema(schema)  # type: ignore[misc]

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        notes = self._notes
        if not _is_ours(format, notes):
            frame = super().load(path, format, schema, **options)  # type: ignore[misc]
            bare = (format or notes["format"]) == "parquet" and schema is None and not options
            return self._noted(frame) if bare else frame
        if schema is not None or notes["schema"] is not None:
            raise OptionError("a Hudi table brings its own schema; leave schema() out and select() the columns you want")
        given = {**notes["options"], **options}
        default = given.pop("path", None)
        paths = [path] if isinstance(path, str | os.PathLike) else list(path or ([default] if default else []))
        return load(notes["session"], [os.fspath(p) for p in paths], given)

    def parquet(self, *paths: Any, **options: Any) -> DataFrame:
        frame = super().parquet(*paths, **options)  # type: ignore[misc]
        return frame if options else self._noted(frame)

    def _noted(self, frame: DataFrame) -> DataFrame:
        return frame if self._notes["options"] or self._notes["schema"] is not None else mark_bare(frame)


def load(session: Any, paths: Sequence[str], raw_options: dict[str, Any]) -> DataFrame:
    """A lazy DataFrame over a table."""
    query = parse_query(paths, read_options(raw_options))
    return open_query(session, query, open_table(query.base_path, query.options))


def take_over(original: Any, mixin: type, notes: dict[str, Any]) -> Any:
    """Spark's reader or writer as an object of a subclass that also knows Hudi."""
    kind = type(original)
    if (mixin, kind) not in _MERGED:
        _MERGED[mixin, kind] = type(mixin.__name__, (mixin, kind), {})
    made: Any = object.__new__(_MERGED[mixin, kind])
    made.__dict__.update(original.__dict__)
    made._notes = notes
    return made


_MERGED: dict[tuple[type, type], type] = {}


def with_partition_by(options: dict[str, Any], by: Sequence[str]) -> dict[str, Any]:
    """`partitionBy` fills the option of the same meaning where it was not given."""
    key = "hoodie.datasource.write.partitionpath.field"
    if not by or any(k.lower() == key for k in options):
        return options
    generator = str(options.get("hoodie.datasource.write.keygenerator.class", ""))
    if generator.endswith(("CustomKeyGenerator", "CustomAvroKeyGenerator")):
        by = [name if ":" in name else f"{name}:SIMPLE" for name in by]
    return {**options, key: ",".join(by)}


def _names(columns: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for column in columns:
        found.extend([column] if isinstance(column, str) else list(column or []))
    return found


def _is_ours(source: str | None, notes: dict[str, Any]) -> bool:
    """Whether a reader or writer is to be served by us: by its format, and on a session that was enabled."""
    return is_hudi(source or notes["format"]) and bool(notes["enabled"](notes["session"]))


def _refuse_buckets(notes: dict[str, Any]) -> None:
    if notes["buckets"]:
        raise OptionError(f"{notes['buckets']} is for Spark's own tables; Hudi's bucket index is hoodie.index.type=BUCKET")


def _refuse_tables(is_ours: bool, method: str) -> None:
    if is_ours:
        raise Unsupported(f"{method} with format 'hudi' is not supported yet; use save(path)")
