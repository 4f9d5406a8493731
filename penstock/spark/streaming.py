"""Streams into Hudi tables: `writeStream` with format "hudi".

Spark's own stream writer records the calls. If the format is Hudi's, `start` passes each batch to Penstock
(`penstock/streams`) by Spark's `foreachBatch`; other formats go to Spark unchanged.
"""

from __future__ import annotations

import os
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.modes import MULTI_WRITER
from penstock.errors import OptionError, Unsupported
from penstock.options import read_options
from penstock.spark.datasource import CallRecorder, _is_ours, _names, with_partition_by
from penstock.streams.carried import collect_functions
from penstock.streams.checkpoint import claim_checkpoint
from penstock.streams.sink import StreamSink, find_run, forget_run
from penstock.workers.prepare import prepare_workers
from penstock.workers.session_settings import is_connect

_CHECKPOINT = "checkpointLocation"
_CHECKPOINT_SETTING = "spark.sql.streaming.checkpointLocation"
#: The save mode of each batch, by the output mode of the stream. Hudi overwrites in the mode `update` too, and loses the rows
#: that did not change.
_SAVE_MODES = {"append": "append", "update": "append", "complete": "overwrite"}


class HudiStreamWriter(CallRecorder):
    """Mixin for Spark's DataStreamWriter: if the format is Hudi's, `start` writes each batch with Penstock."""

    def format(self, source: str) -> Any:
        self._recorded["format"] = source
        return self if self._is_hudi() else super(CallRecorder, self).format(source)  # type: ignore[misc]

    def outputMode(self, outputMode: str) -> Any:
        self._recorded["output_mode"] = outputMode
        return self

    def partitionBy(self, *cols: Any) -> Any:
        self._recorded["partition_by"] = _names(cols)
        return self

    def queryName(self, queryName: str) -> Any:
        self._recorded["name"] = queryName
        return super().queryName(queryName)  # type: ignore[misc]

    def foreach(self, f: Any) -> Any:
        self._recorded["format"] = None
        return super().foreach(f)  # type: ignore[misc]

    def foreachBatch(self, func: Any) -> Any:
        self._recorded["format"] = None
        return super().foreachBatch(func)  # type: ignore[misc]

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._note(outputMode, partitionBy, queryName)
        if not self._is_hudi(format):
            self._tell_spark()
            return super().start(path, format, **options)  # type: ignore[misc]
        given = {**self._recorded["options"], **options}
        target = os.fspath(path or given.get("path") or "")
        if not target:
            raise OptionError("'path' must be set: pass the folder of the table to start()")
        return self._start_hudi(target, given)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._note(outputMode, partitionBy, queryName)
        if not self._is_hudi(format):
            self._tell_spark()
            return super().toTable(tableName, format, **options)  # type: ignore[misc]
        given = {**self._recorded["options"], **options}
        target = os.fspath(given.get("path") or _find_location(self._recorded["session"], tableName))
        given.setdefault("hoodie.table.name", tableName.rpartition(".")[2].strip("`"))
        return self._start_hudi(target, given)

    def _is_hudi(self, source: str | None = None) -> bool:
        """Whether Penstock handles the stream: its format is Hudi's, and Penstock is enabled on its session.

        Args:
            source: the format that `start` was called with; None: the format that was set on the writer.
        """
        return _is_ours(source, self._recorded)

    def _note(self, output_mode: str | None, partition_by: Any, name: str | None) -> None:
        """Record the arguments of `start` or `toTable` that can also be set by a method of the writer; none that is None."""
        if output_mode is not None:
            self._recorded["output_mode"] = output_mode
        if partition_by is not None:
            self._recorded["partition_by"] = _names([partition_by])
        if name is not None:
            self.queryName(name)

    def _tell_spark(self) -> None:
        """Pass the output mode and the partition columns on to Spark's writer, because the format is not Hudi's.

        They were only recorded until the format was known.
        """
        if self._recorded["output_mode"] is not None:
            super().outputMode(self._recorded["output_mode"])  # type: ignore[misc]
        if self._recorded["partition_by"]:
            super().partitionBy(*self._recorded["partition_by"])  # type: ignore[misc]

    def _start_hudi(self, path: str, given: dict[str, Any]) -> Any:
        """Start the stream into the table at `path`.

        Args:
            given: the options as the user set them.

        Raises:
            OptionError: there is no checkpoint location, the checkpoint does not fit the table, or an option is wrong.
        """
        notes = self._recorded
        spark = notes["session"]
        given = with_partition_by(dict(given), notes["partition_by"])
        given.pop("path", None)
        output_mode = _parse_output_mode(notes["output_mode"])
        location = _find_checkpoint(spark, _pop_checkpoint(given), notes["name"])
        options = read_options(given)
        identifier = options[o.STREAMING_CHECKPOINT_ID]
        if options[o.CONCURRENCY_MODE].upper() == MULTI_WRITER and not options.is_set(o.STREAMING_CHECKPOINT_ID):
            raise OptionError(
                f"option '{o.STREAMING_CHECKPOINT_ID.key}' must be set for a stream with "
                f"{o.CONCURRENCY_MODE.key}={MULTI_WRITER}: it tells the batches of this stream from those of others. Choose a "
                "name of its own for each stream"
            )
        checkpoint_id = claim_checkpoint(location, path, options, identifier)
        prepare_workers(spark)
        carried = {"carried": collect_functions(options)} if is_connect(spark) else {}
        sink = StreamSink(
            clock.new_uuid(), path, options, _SAVE_MODES[output_mode], identifier, location, checkpoint_id, **carried
        )
        super().outputMode(output_mode)  # type: ignore[misc]
        super(CallRecorder, self).option(_CHECKPOINT, location)  # type: ignore[misc]
        super().foreachBatch(sink)  # type: ignore[misc]
        if is_connect(spark):
            return super().start()  # type: ignore[misc]
        return _start_here(sink, spark, super().start)  # type: ignore[misc]


def _start_here(sink: StreamSink, spark: Any, start: Any) -> Any:
    """Start a stream whose batches this process writes, and return its query.

    The table services that run in the background for the stream end with the query.

    Args:
        start: starts the query, and returns it.
    """
    run = find_run(sink, spark)
    run.is_starting = True
    try:
        run.query = start()
    except BaseException:
        forget_run(sink)
        raise
    finally:
        run.is_starting = False
    return run.query


def _parse_output_mode(mode: str | None) -> str:
    """Return an output mode in lower case; `append` for None.

    Raises:
        OptionError: the mode is not one of Spark's.
    """
    name = (mode or "append").strip().lower()
    if name not in _SAVE_MODES:
        raise OptionError(f"output mode {mode!r} is not known; use {', '.join(_SAVE_MODES)}")
    return name


def _pop_checkpoint(given: dict[str, Any]) -> str | None:
    """Remove the checkpoint location from the options, and return it; None if it is not set. Spark ignores its case."""
    found = None
    for key in list(given):
        if key.lower() == _CHECKPOINT.lower():
            found = given.pop(key)
    return os.fspath(found) if found else None


def _find_checkpoint(spark: Any, location: str | None, name: str | None) -> str:
    """Return the folder of the stream's checkpoint.

    Args:
        location: the option `checkpointLocation`; None: the checkpoint is in the folder that the session's settings name, in a
            subfolder with the name of the query.
        name: the name of the query; None if it has none.

    Raises:
        OptionError: the folder is not known, because an option, setting or name is missing. Spark would use a temporary folder,
            and write all rows again after a restart.
    """
    if location:
        return location
    setting = spark.conf.get(_CHECKPOINT_SETTING, None)
    if setting and name:
        return f"{setting.rstrip('/')}/{name}"
    raise OptionError(
        f"option '{_CHECKPOINT}' must be set: a stream to a Hudi table stores there which rows it has read. Set it to a folder "
        f"of its own, or set queryName() and {_CHECKPOINT_SETTING}"
    )


def _find_location(spark: Any, name: str) -> str:
    """Return the path of a Hudi table in Spark's catalog.

    Raises:
        Unsupported: the catalog has no Hudi table of this name.
    """
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except Exception:  # the error depends on the release and the kind of session
        rows = []
    described = {row[0]: row[1] for row in rows}
    if str(described.get("Provider", "")).lower() == "hudi" and described.get("Location"):
        return str(described["Location"])
    raise Unsupported(
        f"toTable({name!r}): Spark's catalog has no Hudi table of this name, and Penstock does not create tables there yet. Use "
        "start(path), or set the option 'path' too"
    )
