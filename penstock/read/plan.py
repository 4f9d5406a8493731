"""From a query to the file slices it reads. Only partitions that are asked for are listed."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import OptionError, SchemaError
from penstock.filegroup.model import FileSlice
from penstock.metadata.listing import latest_slices, list_partitions
from penstock.read.query import Query
from penstock.table import TableState, table_schema
from penstock.timeline.instant import Action, State


@dataclass(frozen=True)
class Plan:
    """What a query reads, and in which schema."""

    table: TableState
    query: Query
    #: Avro schema without meta columns, JSON; None for a table that never had rows.
    schema: str | None
    slices: dict[str, list[FileSlice]]


def plan(query: Query, table: TableState) -> Plan:
    """Decide which file slices answer the query."""
    _check_time(query, table)
    schema = table_schema(table, query.as_of)
    if not table.timeline.writes:
        return Plan(table, query, schema, {})
    partitions = None
    if query.within is not None:
        partitions = _partitions(query, table)
    return Plan(table, query, schema, latest_slices(table, partitions, query.as_of))


def _partitions(query: Query, table: TableState) -> list[str]:
    """The partitions a query's paths name; those without a pattern are not looked for by listing the table."""
    assert query.within is not None
    depth = len(table.config.partition_fields)
    literal = [w for w in query.within if not any(c in w for c in "*?[") and len(w.split("/")) == depth]
    if len(literal) == len(query.within):
        return sorted(set(literal))
    found = [p for p in list_partitions(table) if query.asks_for(p)]
    if not found:
        raise OptionError(f"no partition of {table.base_path} matches {', '.join(query.within)}; check the path")
    return found


def _check_time(query: Query, table: TableState) -> None:
    """Refuse a time whose answer could still change or is gone."""
    if query.as_of is None:
        return
    writes = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
    open_ones = [i.time for s in (State.REQUESTED, State.INFLIGHT) for i in table.timeline.of(*writes, state=s)]
    if open_ones and query.as_of >= min(open_ones):
        raise OptionError(
            f"Time travel's timestamp '{query.as_of}' must be earlier than the first incomplete commit timestamp "
            f"'{min(open_ones)}'; choose an earlier time, or finish that write first"
        )


def require_schema(plan: Plan) -> str:
    """The schema, where a query cannot do without."""
    if plan.schema is None:
        raise SchemaError(f"{plan.table.base_path} has no schema: nothing was ever written to it")
    return plan.schema
