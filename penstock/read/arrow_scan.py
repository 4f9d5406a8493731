"""Reads the file slices of a query plan as Arrow record batches, without Spark.

Threads read the slices by the same kernels as Spark's workers do. Partitions that the filter excludes are not opened, and of base
files without logs only the row groups that may have a row of the filter are read. Other rows are filtered after the merge,
because a log may change the columns of the filter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock import options as o
from penstock.error_text import read_error
from penstock.errors import OptionError, PenstockError, SchemaError
from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, read_merged_rows
from penstock.read.folder_values import FolderValues, find_places, keeps_values_in_folders
from penstock.read.ordered_reads import read_in_order
from penstock.read.plan import QueryPlan
from penstock.read.row_readers import COMMIT_TIME, build_query_rules, choose_log_reader, keep_changed_rows
from penstock.schema import META_COLUMNS, avro_to_arrow, with_meta_columns

#: Bytes of rows that threads may read ahead of the caller.
_AHEAD_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class ArrowScan:
    """A query that is read without Spark: its plan, the wanted columns, and the condition that rows must fulfil.

    `batches` reads the rows.
    """

    plan: QueryPlan
    #: The columns of the batches, with their types.
    schema: pa.Schema
    #: The condition that rows must fulfil; None: all rows are wanted.
    where: pc.Expression | None = None
    #: How many slices are read at once; None: as many as the machine has cores.
    threads: int | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the order of the plan's slices.

        Raises:
            CorruptFile: a file is missing or damaged.
            SchemaError: a stored column cannot be cast to its current type.
        """
        if self.plan.schema is None or not self.plan.all_slices:
            return
        for rows in self._read_slices():
            yield from rows.to_batches()

    def _read_slices(self) -> Iterator[pa.Table]:
        """Yield the rows of all slices that the filter does not exclude."""
        reading = _Reading.of(self)
        slices: list[FileSlice] = []
        for path in reading.wanted_partitions():
            slices += self.plan.slices[path]
        threads = self.threads or os.cpu_count() or 1
        # A single file is read by Arrow's own threads, column by column.
        sources = [partial(reading.read, file_slice, use_threads=len(slices) < threads) for file_slice in slices]
        yield from read_in_order(sources, threads, _AHEAD_BYTES)


def scan_arrow(
    plan: QueryPlan, columns: Sequence[str] | None = None, where: pc.Expression | None = None, threads: int | None = None
) -> ArrowScan:
    """Return the scan of a plan's rows.

    Args:
        columns: the columns to return, in this order; None: meta columns, then the table's columns.
        where: the condition that rows must fulfil; None: all rows.
        threads: how many slices are read at once; None: as many as the machine has cores.

    Raises:
        SchemaError: the table does not have one of the columns.
        OptionError: the condition cannot be evaluated on the table's columns, or the query has conditions in SQL.
    """
    if plan.query.options[o.INCREMENTAL_FILTERS]:
        raise OptionError(f"{o.INCREMENTAL_FILTERS.key} holds conditions in SQL, which need Spark; pass where= instead")
    known = all_columns(plan)
    for name in columns or ():
        if name not in known.names:
            raise SchemaError(f"the table has no column {name!r}; it has {', '.join(known.names)}")
    if where is not None:
        try:
            known.empty_table().filter(where)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, TypeError) as e:
            raise OptionError(f"where={where} cannot be evaluated on the table's columns {', '.join(known.names)}: {e}") from e
    schema = known if columns is None else pa.schema([known.field(name) for name in columns])
    return ArrowScan(plan, schema, where, threads)


def all_columns(plan: QueryPlan) -> pa.Schema:
    """Return the columns of a query: meta columns, the table's columns, and partition columns that files do not store."""
    if plan.schema is None:
        return pa.schema([pa.field(name, pa.string()) for name in META_COLUMNS])
    stored = avro_to_arrow(with_meta_columns(plan.schema))
    fields = [stored.field(name) for name in META_COLUMNS]
    fields += [field for field in stored if field.name not in META_COLUMNS]
    if plan.table.config.drop_partition_columns:
        fields += [pa.field(name, pa.string()) for name in plan.table.config.partition_fields if name not in stored.names]
    return pa.schema(fields)


@dataclass(frozen=True)
class _Reading:
    """What the threads of one `ArrowScan` share: its plan, its merge rules and the columns to read.

    Some columns are not read from files: their values are in the names of folders.
    """

    scan: ArrowScan
    rules: MergeRules
    #: The columns to read: those of the scan, of its filter, and the commit time of an incremental query.
    schema: pa.Schema
    folders: FolderValues

    @classmethod
    def of(cls, scan: ArrowScan) -> _Reading:
        """Return the `_Reading` of a scan: find the columns to read, and the columns whose values are in the names of folders."""
        plan = scan.plan
        known = all_columns(plan)
        names = {*scan.schema.names, *_find_columns(scan.where, known)}
        if plan.changes is not None:
            names.add(COMMIT_TIME)
        # A row needs one column at least, if only to be counted.
        schema = pa.schema([field for field in known if field.name in names] or [known.field(KEY_COLUMN)])
        return cls(scan, build_query_rules(plan), schema, _find_folder_values(plan, known))

    def wanted_partitions(self) -> list[str]:
        """Return the partition paths of the plan, without partitions in which no row can fulfil the scan's condition."""
        paths = list(self.scan.plan.slices)
        if self.scan.where is None or not self.folders.places:
            return paths
        import pyarrow.dataset as ds  # imports pandas, which takes longer than the rest of a small query
        from pyarrow.fs import LocalFileSystem

        # Arrow prunes the fragments of a dataset by what is known of each. Nothing is opened for that.
        form = ds.ParquetFileFormat()
        no_files = LocalFileSystem()
        fragments = []
        for number, path in enumerate(paths):
            fragments.append(form.make_fragment(str(number), no_files, self._known_of(path)))
        dataset = ds.FileSystemDataset(fragments, all_columns(self.scan.plan), form, no_files)
        return [paths[int(fragment.path)] for fragment in dataset.get_fragments(self.scan.where)]

    def _known_of(self, partition_path: str) -> pc.Expression | None:
        """Return a condition that every row of a partition fulfils: column = value, for each value that the partition path has.

        None if the path determines the value of no column.
        """
        known = all_columns(self.scan.plan)
        nulls = self.folders.nulls_of(partition_path)
        parts: list[pc.Expression] = []
        for name in self.folders.places:
            if name in nulls:
                continue  # the rows have null, or an empty string
            try:
                value = pa.scalar(self.folders.text_in(name, partition_path)).cast(known.field(name).type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
            parts.append(pc.field(name) == value)
        if not parts:
            return None
        together = parts[0]
        for part in parts[1:]:
            together &= part
        return together

    def read(self, file_slice: FileSlice, *, use_threads: bool) -> Iterator[pa.Table]:
        """Yield the rows of a slice that the scan wants, with its columns. An error names the file group.

        Args:
            use_threads: whether Arrow reads columns of a base file on threads of its own.
        """
        plan = self.scan.plan
        try:
            for rows in self._read_stored(file_slice, use_threads):
                if plan.changes is not None:
                    rows = keep_changed_rows(rows, plan.changes)
                rows = self._add_folder_columns(rows, file_slice.partition_path)
                if self.scan.where is not None:
                    rows = rows.filter(self.scan.where)
                if rows.num_rows:
                    yield rows.select(self.scan.schema.names).cast(self.scan.schema)
        except PenstockError as e:
            place = f"file group {file_slice.file_id} of partition {file_slice.partition_path!r}"
            raise read_error(e, place) from None

    def _read_stored(self, file_slice: FileSlice, use_threads: bool) -> Iterator[pa.Table]:
        """Yield the rows of a slice, log files merged into the base file, with those columns of `schema` that the files store.

        Partition columns whose values are only in the partition path are missing; `_add_folder_columns` adds them.

        Args:
            use_threads: whether Arrow reads columns of a base file on threads of its own.
        """
        plan = self.scan.plan
        storage = plan.table.storage
        stored = self.rules.arrow
        names = [name for name in self.schema.names if name in stored.names] or [KEY_COLUMN]
        if not file_slice.log_files and file_slice.base_file is not None:
            path = file_slice.base_file.path
            file = open_base_file(storage, path)
            groups = _wanted_row_groups(file, self.scan.where, all_columns(plan), partial(storage.open, path))
            return read_row_groups(file, path, stored, names, row_groups=groups, use_threads=use_threads)
        log_scan = plan.log_scans.get(file_slice)
        read_rows = choose_log_reader(self.rules) if plan.needs_only_log(file_slice) else read_merged_rows
        return read_rows(storage, file_slice, self.rules, names, log_scan)

    def _add_folder_columns(self, rows: pa.Table, partition_path: str) -> pa.Table:
        """Return the rows with the wanted partition columns that no file stores. Their values come from the partition path."""
        nulls = self.folders.nulls_of(partition_path)
        for field in self.schema:
            if field.name in rows.column_names:
                continue
            is_known = field.name in self.folders.places and field.name not in nulls
            text = self.folders.text_in(field.name, partition_path) if is_known else None
            rows = rows.append_column(field.name, pa.repeat(pa.scalar(text, pa.string()), rows.num_rows))
        return rows


def _find_folder_values(plan: QueryPlan, known: pa.Schema) -> FolderValues:
    """Return the partition columns whose values are taken from the partition path. All other columns are read from files.

    Args:
        known: all columns of the query, with their types.
    """
    config = plan.table.config
    if not config.partition_fields or not keeps_values_in_folders(plan):
        return FolderValues()
    texts = [field.name for field in known if pa.types.is_string(field.type)]
    exact = [field.name for field in known if _is_one_to_one(field.type)]
    places = find_places(plan, exact, texts)
    depth = len(next(iter(plan.slices)).split("/"))
    return FolderValues(places, depth, config.hive_style, config.url_encode)


def _is_one_to_one(kind: pa.DataType) -> bool:
    """Whether the text of a folder determines a value of this type exactly."""
    checks = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_decimal)
    return any(check(kind) for check in checks)


def _find_columns(where: pc.Expression | None, known: pa.Schema) -> set[str]:
    """Return the names of the columns that a condition refers to; an empty set if the condition is None.

    Arrow cannot list these columns. So, for each known column, the condition is evaluated on an empty table without that
    column. If the evaluation fails, the condition refers to the column.

    Args:
        known: all columns that the condition may refer to.
    """
    if where is None:
        return set()
    needed: set[str] = set()
    for position, name in enumerate(known.names):
        try:
            known.remove(position).empty_table().filter(where)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            needed.add(name)
    return needed


def _wanted_row_groups(
    file: pq.ParquetFile, where: pc.Expression | None, known: pa.Schema, open_again: Callable[[], pa.NativeFile]
) -> list[int] | None:
    """Return the numbers of the row groups that may hold rows which fulfil a condition, by their statistics.

    None means that all row groups are to be read.

    Args:
        where: the condition; None: all rows are wanted.
        known: the columns of the table.
        open_again: opens the Parquet file once more, for Arrow's reader of statistics.
    """
    if where is None or file.metadata.num_row_groups < 2:
        return None
    import pyarrow.dataset as ds

    fragment = ds.ParquetFileFormat().make_fragment(open_again())
    try:
        return [group.id for group in fragment.subset(where, schema=known).row_groups]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # the file has a column in another type than the condition is for
