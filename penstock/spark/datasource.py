"""`format("hudi")`: readers and writers that call Penstock for Hudi tables, and Spark for every other format.

`DataFrame.write` and `SparkSession.read` return an object of a subclass of Spark's own writer or reader. The object records
format, options and mode, and passes every call on to Spark. If the format is Hudi's, `save` and `load` call Penstock instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from penstock.commit.open_finished import open_finished
from penstock.door.read import open_query
from penstock.door.write import write
from penstock.errors import OptionError, Unsupported
from penstock.options import read_options
from penstock.read.query import parse_query
from penstock.write.rows.input_files import mark_bare

FORMATS = frozenset({"hudi", "org.apache.hudi"})


def is_hudi(source: str | None) -> bool:
    """Whether a format name is one of Hudi's, in any case."""
    return source is not None and source.lower() in FORMATS


#: An option of jobs on AWS Glue that names the data source. The format has named it already.
GLUE_CLASS_NAME = "className"


class CallRecorder:
    """Mixin for Spark's reader and writer: records in `_recorded` the format and the options that the user sets."""

    _recorded: dict[str, Any]

    def format(self, source: str) -> Any:
        self._recorded["format"] = source
        return super().format(source)  # type: ignore[misc]

    def option(self, key: str, value: Any) -> Any:
        self._recorded["options"][key] = value
        return super().option(key, value)  # type: ignore[misc]

    def options(self, **options: Any) -> Any:
        self._recorded["options"].update(options)
        return super().options(**options)  # type: ignore[misc]


class HudiWriter(CallRecorder):
    """Mixin for Spark's DataFrameWriter: if the format is Hudi's, `save` writes the table with Penstock."""

    def mode(self, saveMode: str | None) -> Any:
        self._recorded["mode"] = saveMode or self._recorded.get("mode")
        return super().mode(saveMode)  # type: ignore[misc]

    def partitionBy(self, *cols: Any) -> Any:
        self._recorded["partition_by"] = _names(cols)
        return super().partitionBy(*cols)  # type: ignore[misc]

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        notes = self._recorded
        if not _is_ours(format, notes):
            super().save(path, format, mode, partitionBy, **options)  # type: ignore[misc]
            return
        _refuse_buckets(notes)
        given = {**notes["options"], **options}
        by = _names([partitionBy]) if partitionBy is not None else notes["partition_by"]
        given = with_partition_by(given, by)
        target = os.fspath(path or given.get("path") or "")
        if not target:
            raise OptionError("'path' must be set: pass the folder of the table to save()")
        given.pop("path", None)
        given.pop(GLUE_CLASS_NAME, None)
        frame = notes["frame"]
        write(frame.sparkSession, frame, target, given, mode or notes["mode"])

    def saveAsTable(self, name: str, format: str | None = None, *args: Any, **kwargs: Any) -> None:
        _refuse_tables(_is_ours(format, self._recorded), "saveAsTable")
        super().saveAsTable(name, format, *args, **kwargs)  # type: ignore[misc]

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        _refuse_tables(_is_ours(None, self._recorded), "insertInto")
        super().insertInto(tableName, overwrite)  # type: ignore[misc]

    def bucketBy(self, *args: Any, **kwargs: Any) -> Any:
        self._recorded["buckets"] = "bucketBy"
        return super().bucketBy(*args, **kwargs)  # type: ignore[misc]

    def sortBy(self, *args: Any, **kwargs: Any) -> Any:
        self._recorded["buckets"] = "sortBy"
        return super().sortBy(*args, **kwargs)  # type: ignore[misc]


class HudiReader(CallRecorder):
    """Mixin for Spark's DataFrameReader: if the format is Hudi's, `load` reads the table with Penstock."""

    def schema(self, schema: Any) -> Any:
        self._recorded["schema"] = schema
        return super().schema(schema)  # type: ignore[misc]

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        notes = self._recorded
        if not _is_ours(format, notes):
            frame = super().load(path, format, schema, **options)  # type: ignore[misc]
            bare = (format or notes["format"]) == "parquet" and schema is None and not options
            return self._mark_plain_parquet(frame) if bare else frame
        if schema is not None or notes["schema"] is not None:
            raise OptionError("a Hudi table brings its own schema; leave schema() out and select() the columns you want")
        given = {**notes["options"], **options}
        default = given.pop("path", None)
        given.pop(GLUE_CLASS_NAME, None)
        paths = [path] if isinstance(path, str | os.PathLike) else list(path or ([default] if default else []))
        return load(notes["session"], [os.fspath(p) for p in paths], given)

    def table(self, tableName: str) -> DataFrame:
        spark_table = super().table  # type: ignore[misc]
        notes = self._recorded
        if not notes["enabled"](notes["session"]):
            return spark_table(tableName)
        return notes["read_table"](notes["session"], tableName, lambda: spark_table(tableName))

    def parquet(self, *paths: Any, **options: Any) -> DataFrame:
        frame = super().parquet(*paths, **options)  # type: ignore[misc]
        return frame if options else self._mark_plain_parquet(frame)

    def _mark_plain_parquet(self, frame: DataFrame) -> DataFrame:
        """Mark a DataFrame over Parquet files as a plain read, unless the reader has options or a schema.

        A write of a marked DataFrame may read the Parquet files directly on the workers.
        """
        return frame if self._recorded["options"] or self._recorded["schema"] is not None else mark_bare(frame)


def load(session: Any, paths: Sequence[str], raw_options: dict[str, Any]) -> DataFrame:
    """Open the query that paths and read options describe, and return its lazy DataFrame.

    Args:
        session: the Spark session.
        raw_options: the options as the user set them.
    """
    query = parse_query(paths, read_options(raw_options))
    return open_query(session, query, open_finished(query.base_path, query.options, query.config))


def wrap_spark_object(original: Any, mixin: type, notes: dict[str, Any]) -> Any:
    """Return a copy of Spark's reader, writer or catalog whose class also inherits from the mixin.

    Args:
        original: Spark's reader, writer or catalog.
        mixin: the class to inherit from, such as `HudiReader` or `HudiWriter`.
        notes: the dict in which the mixin records format, options and mode; it becomes `_recorded`.
    """
    kind = type(original)
    if (mixin, kind) not in _MERGED:
        _MERGED[mixin, kind] = type(mixin.__name__, (mixin, kind), {})
    made: Any = object.__new__(_MERGED[mixin, kind])
    made.__dict__.update(original.__dict__)
    made._recorded = notes
    return made


_MERGED: dict[tuple[type, type], type] = {}


def with_partition_by(options: dict[str, Any], by: Sequence[str]) -> dict[str, Any]:
    """Return write options with `hoodie.datasource.write.partitionpath.field` set to the columns of `partitionBy`.

    If that option is set already, or `by` is empty, the options are returned unchanged.

    Args:
        options: the options as the user set them.
        by: the columns of `partitionBy`.
    """
    key = "hoodie.datasource.write.partitionpath.field"
    if not by or any(k.lower() == key for k in options):
        return options
    generator = str(options.get("hoodie.datasource.write.keygenerator.class", ""))
    if generator.endswith(("CustomKeyGenerator", "CustomAvroKeyGenerator")):
        by = [name if ":" in name else f"{name}:SIMPLE" for name in by]
    return {**options, key: ",".join(by)}


def _names(columns: Sequence[Any]) -> list[str]:
    """Return the column names in the arguments of `partitionBy`, which may be strings or lists of strings."""
    found: list[str] = []
    for column in columns:
        found.extend([column] if isinstance(column, str) else list(column or []))
    return found


def _is_ours(source: str | None, notes: dict[str, Any]) -> bool:
    """Whether Penstock handles a reader or writer: its format is Hudi's, and Penstock is enabled on its session.

    Args:
        source: the format that `save` or `load` was called with; None: the recorded format.
        notes: what the mixin recorded.
    """
    return is_hudi(source or notes["format"]) and bool(notes["enabled"](notes["session"]))


def _refuse_buckets(notes: dict[str, Any]) -> None:
    """Raise OptionError if `bucketBy` or `sortBy` was called on the writer."""
    if notes["buckets"]:
        raise OptionError(f"{notes['buckets']} is for Spark's own tables; Hudi's bucket index is hoodie.index.type=BUCKET")


def _refuse_tables(is_ours: bool, method: str) -> None:
    """Raise Unsupported if Penstock handles the writer, because it cannot write to catalog tables.

    Args:
        is_ours: whether Penstock handles the writer.
        method: the method that was called, `saveAsTable` or `insertInto`.
    """
    if is_ours:
        raise Unsupported(f"{method} with format 'hudi' is not supported yet; use save(path)")
