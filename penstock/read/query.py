"""`Query`: what a read asks of a table, parsed from the paths and options of the read.

A read may finish the save mode `overwrite` of a process that died (`finish_overwrite`).

Change-data queries are not there yet: `INCREMENTAL_FORMAT` in `options/read.py` refuses them, `CDC_ENABLED` in
`options/table.py` is their writing half. A new kind of query is an option in `options/read.py`, `Query.kind`, a planner next to
`incremental.py`, and a branch in `door/plan_again.py`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock import options as o
from penstock.commit.swap_tables import finish_overwrite
from penstock.errors import CorruptFile, OptionError, TableNotFound
from penstock.options import Options
from penstock.options.storage import STORAGE_OPTIONS
from penstock.storage import Storage, is_file, open_storage
from penstock.table.config import TableConfig, find_config
from penstock.timeline.instant import parse_bound_time, parse_query_time


@dataclass(frozen=True)
class Query:
    """What one read asks of a table: the kind of query, its time or range, and the partitions, columns and values wanted."""

    base_path: str
    #: `snapshot`, `read_optimized` or `incremental`.
    kind: str
    options: Options
    #: The table as it was at this time; None: as it is now.
    as_of: str | None = None
    #: Patterns of partition paths, or of files in them, below the base path; None: the whole table.
    within: tuple[str, ...] | None = None
    #: The wanted columns, if the caller knows them before the DataFrame exists; None: all.
    columns: tuple[str, ...] | None = None
    #: (column, value) pairs that wanted rows have. The plan may leave out files that cannot hold them.
    equals: tuple[tuple[str, object], ...] = ()
    #: Of an incremental query: only rows written after `since`, and not after `until`.
    since: str | None = None
    until: str | None = None
    #: The properties of the table, which were read to find it. They save `open_table` a request.
    config: TableConfig | None = field(default=None, compare=False, repr=False)

    def asks_for(self, partition_path: str) -> bool:
        """Whether the query reads a partition: its path patterns match the partition, or may match files in it."""
        return self.within is None or any(_covers(pattern, partition_path) for pattern in self.within)

    def asks_for_file(self, partition_path: str, file_name: str) -> bool:
        """Whether the query reads a file: one of its path patterns matches the file, its partition or a folder above."""
        if self.within is None:
            return True
        path = f"{partition_path}/{file_name}" if partition_path else file_name
        return any(_covers(pattern, path) for pattern in self.within)


def _covers(pattern: str, path: str) -> bool:
    """Whether pattern and path match, component by component, as far as the shorter of the two goes.

    So a pattern covers everything below a folder that it matches, and every folder above a file that it may match.
    """
    components = path.split("/") if path else []
    wanted = pattern.split("/") if pattern else []
    # A name with brackets is equal to itself, though as a pattern it may not match itself.
    return all(name == glob or fnmatch.fnmatchcase(name, glob) for name, glob in zip(components, wanted, strict=False))


def parse_query(paths: Sequence[str], options: Options) -> Query:
    """Build the `Query` of a read from its paths and options.

    The table is found from the paths, which may lead to the table's base path or to partitions and files below it.

    Raises:
        OptionError: no path, paths of several tables, or options that do not go together.
        TableNotFound: a path is in no table.
    """
    all_paths = list(paths)
    for path in (options[o.READ_PATHS] or "").split(","):
        if path.strip():
            all_paths.append(path.strip())
    if not all_paths:
        raise OptionError("'path' or 'hoodie.datasource.read.paths' or both must be specified.")
    tables = [_find_table(path, options) for path in all_paths]
    base_paths = sorted({base_path for base_path, _, _ in tables})
    if len(base_paths) > 1:
        raise OptionError(f"the paths belong to different tables: {', '.join(base_paths)}; read them one by one and union them")
    _check_options(options)
    as_of = options[o.AS_OF_INSTANT]
    return Query(
        base_paths[0],
        options[o.QUERY_TYPE],
        options,
        parse_query_time(as_of) if as_of else None,
        _parse_patterns([rest for _, rest, _ in tables]),
        equals=options[o.READ_EQUALS],
        since=_parse_bound(options, o.BEGIN_INSTANT),
        until=_parse_bound(options, o.END_INSTANT),
        config=tables[0][2],
    )


def _parse_patterns(rests: Sequence[str]) -> tuple[str, ...] | None:
    """Return the path patterns of a query, with braces expanded; None if one of its paths is the table's base path.

    None means that the query reads the whole table.

    Args:
        rests: the part of each path below the base path; empty for the base path itself.
    """
    if "" in rests:
        return None
    patterns: list[str] = []
    for rest in rests:
        patterns += expand_braces(rest)
    return tuple(patterns)


def _check_options(options: Options) -> None:
    """Raise OptionError if options do not fit the kind of query.

    Options of incremental queries are refused in other queries, and `as.of.instant` is refused in an incremental query.
    """
    if options[o.QUERY_TYPE] != "incremental":
        only_incremental: tuple[o.Option[Any], ...] = (
            o.BEGIN_INSTANT,
            o.END_INSTANT,
            o.INCREMENTAL_GLOB,
            o.INCREMENTAL_FILTERS,
            o.INCREMENTAL_END_SCHEMA,
        )
        for option in only_incremental:
            if options[option]:
                raise OptionError(
                    f"{option.key}={options.raw[option.key]} is for incremental queries, and this one is "
                    f"{options[o.QUERY_TYPE]}: set {o.QUERY_TYPE.key}=incremental, or leave it out"
                )
    elif options[o.AS_OF_INSTANT]:
        raise OptionError(
            f"{o.AS_OF_INSTANT.key} is for snapshots, and this query is incremental: set {o.END_INSTANT.key} to end it at a time"
        )


def _parse_bound(options: Options, option: o.Option[str | None]) -> str | None:
    """Return the begin or end of an incremental query's range as an instant time; None if `option` is not set."""
    text = options[option]
    return parse_bound_time(text, option.key) if text else None


def _find_table(path: str, options: Options) -> tuple[str, str, TableConfig]:
    """Return the base path of the table that a path is in, the part of the path below the base path, and the table's properties.

    If there is no table, first finish an overwrite of the path that was interrupted between its two renames.

    Raises:
        TableNotFound: there is no table at the path or above it.
        CorruptFile: `hoodie.properties` and its backup are damaged, or missing although there is a timeline.
        Unsupported: the table has a table version, timeline layout or base file format that Penstock does not know.
    """
    storage, full_path = open_storage(path, options.prefixed(STORAGE_OPTIONS))
    base_path = full_path
    rest = ""
    while (config := _find_config(storage, base_path, options)) is None:
        parent, _, name = base_path.rpartition("/")
        if not parent or parent == base_path:
            # A writer that died between the two renames of an overwrite leaves no table at the path. Finish the overwrite.
            finish_overwrite(storage, full_path, options)
            config = find_config(storage, full_path)
            if config is not None:
                return storage.uri(full_path), "", config
            if is_file(storage, full_path):
                raise TableNotFound(f"{full_path} is a file, not a Hudi table; pass the folder of a table")
            raise TableNotFound(
                f"{full_path} is not a Hudi table, nor a folder of one: no .hoodie/hoodie.properties there or above. "
                "Check the path"
            )
        base_path = parent
        rest = f"{name}/{rest}" if rest else name
    return storage.uri(base_path), rest, config


def _find_config(storage: Storage, base_path: str, options: Options) -> TableConfig | None:
    """Return the properties of the table at `base_path`; None if there is no table.

    If the properties are damaged, first finish an overwrite of the table that was interrupted.

    Raises:
        CorruptFile: the properties are damaged, and no overwrite of the table was interrupted.
    """
    try:
        return find_config(storage, base_path)
    except CorruptFile:
        if not finish_overwrite(storage, base_path, options):
            raise
        return find_config(storage, base_path)


def expand_braces(pattern: str) -> list[str]:
    """Expand a pattern with braces to a list of patterns: `x/{a,b}` becomes `["x/a", "x/b"]`."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not match:
        return [pattern]
    before = pattern[: match.start()]
    after = pattern[match.end() :]
    patterns: list[str] = []
    for choice in match[1].split(","):
        patterns += expand_braces(before + choice + after)
    return patterns
