"""What is asked of a table, as a value."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock import options as o
from penstock.commit.overwrite import finish_overwrite
from penstock.errors import OptionError, TableNotFound
from penstock.options import Options
from penstock.storage import open_storage
from penstock.table import table_exists
from penstock.timeline.instant import parse_bound_time, parse_query_time


@dataclass(frozen=True)
class Query:
    """A read, fully decided."""

    base_path: str
    kind: str
    options: Options
    as_of: str | None = None
    #: Patterns of partition paths below the base path; None for the whole table.
    within: tuple[str, ...] | None = None
    #: The columns that are wanted, where the caller knows them already; None: whatever is asked for later.
    columns: tuple[str, ...] | None = None
    #: Only rows whose columns have these values are wanted; files without any may be left out.
    equals: tuple[tuple[str, object], ...] = ()
    #: An incremental query: only rows written after this time, and not after that.
    since: str | None = None
    until: str | None = None

    def asks_for(self, partition_path: str) -> bool:
        """Whether a partition belongs to the paths that were given."""
        return self.within is None or any(_covers(pattern, partition_path) for pattern in self.within)

    def asks_for_file(self, partition_path: str, name: str) -> bool:
        """Whether a file of such a partition does; a path may name files."""
        if self.within is None:
            return True
        path = f"{partition_path}/{name}" if partition_path else name
        return any(_covers(pattern, path) for pattern in self.within)


def _covers(pattern: str, path: str) -> bool:
    """Component by component; a pattern may end above the path, or go on below it."""
    parts, wanted = path.split("/") if path else [], pattern.split("/") if pattern else []
    return all(p == w or fnmatch.fnmatchcase(p, w) for p, w in zip(parts, wanted, strict=False))


def parse_query(paths: Sequence[str], options: Options) -> Query:
    """Decide what a read asks for: the table above the paths, the kind of query, the time."""
    given = [*paths, *(p.strip() for p in (options[o.READ_PATHS] or "").split(",") if p.strip())]
    if not given:
        raise OptionError("'path' or 'hoodie.datasource.read.paths' or both must be specified.")
    found = [_find_table(p) for p in given]
    bases = sorted({base for base, _ in found})
    if len(bases) > 1:
        raise OptionError(f"the paths belong to different tables: {', '.join(bases)}; read them one by one and union them")
    within = None if any(rest == "" for _, rest in found) else tuple(p for _, rest in found for p in alternatives(rest))
    as_of = options[o.AS_OF_INSTANT]
    _check_range(options)
    return Query(
        bases[0],
        options[o.QUERY_TYPE],
        options,
        parse_query_time(as_of) if as_of else None,
        within,
        equals=options[o.READ_EQUALS],
        since=_bound(options, o.BEGIN_INSTANT),
        until=_bound(options, o.END_INSTANT),
    )


def _check_range(options: Options) -> None:
    """What belongs to one kind of query means nothing to another."""
    if options[o.QUERY_TYPE] != "incremental":
        ranges: tuple[o.Option[Any], ...] = (
            o.BEGIN_INSTANT,
            o.END_INSTANT,
            o.INCREMENTAL_GLOB,
            o.INCREMENTAL_FILTERS,
            o.INCREMENTAL_END_SCHEMA,
        )
        if given := next((one for one in ranges if options[one]), None):
            raise OptionError(
                f"{given.key}={options.raw[given.key]} is of incremental queries, and this one is {options[o.QUERY_TYPE]}: set "
                f"{o.QUERY_TYPE.key}=incremental, or leave it out"
            )
    elif options[o.AS_OF_INSTANT]:
        raise OptionError(
            f"{o.AS_OF_INSTANT.key} is of snapshots, and this query is incremental: set {o.END_INSTANT.key} to end it at a time"
        )


def _bound(options: Options, option: o.Option[str | None]) -> str | None:
    text = options[option]
    return parse_bound_time(text, option.key) if text else None


def _find_table(path: str) -> tuple[str, str]:
    """The base path of the table that a path lies in, and the rest of the path."""
    storage, full = open_storage(path)
    base, rest = full, ""
    while True:
        if table_exists(storage, base):
            return base, rest
        parent, _, name = base.rpartition("/")
        if not parent or parent == base:
            finish_overwrite(storage, full)  # an overwrite may have been cut off between two renames
            if table_exists(storage, full):
                return full, ""
            raise TableNotFound(
                f"{full} is not a Hudi table, nor a folder of one: no .hoodie/hoodie.properties there or above. Check the path"
            )
        base, rest = parent, f"{name}/{rest}" if rest else name


def alternatives(pattern: str) -> list[str]:
    """A pattern with `{a,b}` as the patterns it stands for."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if not match:
        return [pattern]
    head, tail = pattern[: match.start()], pattern[match.end() :]
    return [found for choice in match[1].split(",") for found in alternatives(head + choice + tail)]
