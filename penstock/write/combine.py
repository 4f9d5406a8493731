"""Stage 3 of inserts: one row per key, where the options ask for it.

A Spark aggregation over whole rows. Upserts and deletes need no shuffle for this: they combine in the task that already
holds all rows of a key (`merge/`). A payload that makes one row of several needs the rows staged (`fold.py`).
"""

from __future__ import annotations

from pyspark.sql import functions as F

from penstock import options as o
from penstock.errors import SchemaError, Unsupported
from penstock.index import index_of
from penstock.keys.failures import marked_ends
from penstock.merge.mergers import Merger, ignores_ordering
from penstock.merge.runs import Folding
from penstock.write.prepare import Prepared, quoted
from penstock.write.settings import WriteSettings

_ROW, _ARRIVAL = "_penstock_row", "_penstock_arrival"


def combine(prepared: Prepared, settings: WriteSettings, merger: Merger) -> Prepared:
    """Keep the row with the greatest ordering value of each key, per partition unless the index is a global one.

    Among equals the last one stays, as payloads decide it; a bulk_insert keeps the first.

    Raises:
        Unsupported: the payload makes a row of several.
    """
    layout, options = prepared.layout, settings.options
    if not wants_one_row(prepared, settings) or layout.key is None:
        return prepared
    if isinstance(merger, Folding):
        raise Unsupported(
            f"{o.PAYLOAD_CLASS.key}={settings.payload_class} makes one row of several of a key, which "
            f"{settings.operation} does not do, since it writes rows as they come; use insert or upsert, or set "
            f"{o.COMBINE_BEFORE_INSERT.key} and {o.INSERT_DROP_DUPLICATES.key} to false"
        )
    ordering = settings.ordering_field
    assert ordering is not None  # or it was missed above
    before, after = marked_ends(SchemaError)
    message = (
        f"{before}Ordering value is null in column {ordering}: fill the column, or set "
        f"{o.COMBINE_BEFORE_INSERT.key} to false{after}"
    )
    value = F.col(ordering if "." in ordering else quoted(ordering))
    checked = F.when(value.isNull(), F.raise_error(F.lit(message)).cast(_type_of(prepared, ordering))).otherwise(value)
    if ignores_ordering(merger):
        checked = F.lit(0)
    arrival = F.col(_ARRIVAL) * (-1 if settings.operation == "bulk_insert" else 1)
    by = (layout.key,) if index_of(options).is_global else (layout.key, layout.path)
    keys = [F.col(quoted(c)) for c in by if c]
    names = prepared.rows.columns
    rows = (
        prepared.rows.withColumn(_ARRIVAL, F.monotonically_increasing_id())
        .groupBy(*(k.alias(f"_penstock_by_{i}") for i, k in enumerate(keys)))
        .agg(F.max_by(F.struct(*(F.col(quoted(n)) for n in names)), F.struct(checked, arrival)).alias(_ROW))
        .select(*(F.col(_ROW)[n].alias(n) for n in names))
    )
    return prepared.changed(rows)


def wants_one_row(prepared: Prepared, settings: WriteSettings) -> bool:
    """Whether rows of one key are to become one before they are inserted.

    Raises:
        SchemaError: they are, and lack the ordering column.
    """
    options, ordering = settings.options, settings.ordering_field
    drops = options[o.INSERT_DROP_DUPLICATES] and not settings.operation.startswith("insert_overwrite")
    if not (options[o.COMBINE_BEFORE_INSERT] or drops) or prepared.layout.key is None:
        return False
    if ordering is None or ordering.split(".")[0] not in prepared.rows.columns:
        raise SchemaError(
            f"Pre-combine field {ordering or options[o.PRECOMBINE_FIELD]} is missing in the rows: set "
            f"{o.PRECOMBINE_FIELD.key} to one of {', '.join(prepared.layout.schema.names)}, or "
            f"{o.COMBINE_BEFORE_INSERT.key} to false"
        )
    return True


def _type_of(prepared: Prepared, ordering: str) -> str:
    field = ordering if "." in ordering else quoted(ordering)
    return prepared.rows.select(F.col(field)).schema[0].dataType.simpleString()
