"""The registry of users' merge functions: `@penstock.payload` and `@penstock.merger`. Their names are shared by both kinds."""

from __future__ import annotations

from collections.abc import Callable

from penstock.registered.registry import F, Kind, Registry

MERGE_FUNCTIONS = Registry(Kind.PAYLOAD, Kind.MERGER)


def payload(name: str) -> Callable[[F], F]:
    """Register a merge function that is called with one pair of rows: an old and a new row of the same key.

    The function is called as `function(old, new)` with dictionaries, column → value. It returns the merged row, or None to delete
    the key. `old` is None if the table has no row of the key. Rows of a batch, and of a log, are merged with one another in the
    same way, so the function has to be associative; `penstock.testing.check_merger` searches for rows that show that it is not.
    Deletes never reach the function.

    Args:
        name: the value of `hoodie.datasource.write.payload.class` that chooses the function. Merge-on-read tables store it.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.payload("longest_trip")
        ... def longest_trip(old, new):
        ...     return new if old is None or new["fare"] >= old["fare"] else {**old, "ts": new["ts"]}
        >>> _ = table.upsert(trips.selectExpr("id", "city", "ts + 1 as ts", "2.0D as fare"),
        ...                  {"hoodie.datasource.write.payload.class": "longest_trip"})
        >>> table.read(columns=["id", "ts", "fare"]).orderBy("id").collect()
        [Row(id='a', ts=2, fare=2.0), Row(id='b', ts=3, fare=2.5), Row(id='c', ts=4, fare=3.5)]
    """
    return MERGE_FUNCTIONS.decorator(Kind.PAYLOAD, name)


def merger(name: str) -> Callable[[F], F]:
    """Register a merge function that is called with many pairs of rows at once: an Arrow table of old rows and one of new rows.

    The function is called as `function(old, new)` and returns an Arrow table. Row i of all three has the same key. Their columns
    are those of the Hudi table, without Hudi's meta columns. The returned table may have one more, the boolean column
    `_hoodie_is_deleted`, which is true for keys to delete. Rows of a batch, and of a log, are merged with one another in the same
    way, so the function has to be associative. Deletes never reach the function. But rows of new keys are stored without a call
    of the function.

    Args:
        name: the value of `hoodie.datasource.write.payload.class` that chooses the function; or, with
            `hoodie.record.merge.mode=CUSTOM`, of `hoodie.write.record.merge.custom.implementation.classes`.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> import pyarrow.compute as pc
        >>> @penstock.merger("sum_of_fares")
        ... def sum_of_fares(old, new):
        ...     total = pc.add(old["fare"], new["fare"])
        ...     return new.set_column(new.column_names.index("fare"), "fare", total)
        >>> _ = table.upsert(trips, {"hoodie.datasource.write.payload.class": "sum_of_fares"})
        >>> table.read(columns=["id", "fare"]).orderBy("id").collect()
        [Row(id='a', fare=3.0), Row(id='b', fare=5.0), Row(id='c', fare=7.0)]
    """
    return MERGE_FUNCTIONS.decorator(Kind.MERGER, name)


def explain_registration(name: str) -> str:
    """Return a text for the end of an error message: how to register a merge function under the name, which is unknown."""
    return (
        f"register a function under this name first, @penstock.payload({name!r}) or @penstock.merger({name!r}), in this program "
        "or as an entry point of an installed package; no class is loaded because a table or an option names it"
    )
