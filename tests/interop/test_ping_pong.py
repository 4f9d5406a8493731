"""Ping-pong: one table, written by Penstock and real Hudi in turn. After every round all readers see the same.

Each history is a list of rounds. A model in plain Python says what rows there are after each, and which commit wrote each of
them last; we, Hudi 0.15, hudi-rs and (at the end) Hudi 1.2 must find exactly those, in the same file groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.sides import (
    GENERATOR,
    HIVE_STYLE,
    INDEX,
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    PARTITION,
    SMALL_FILTERS,
    TRIPS_AND_METADATA,
    URL_ENCODE,
    Penstock,
    assert_all_read,
    assert_rows,
    assert_same_files,
    last_commit,
)
from tests.kit.oracle import Oracle
from tests.kit.readers import META_COLUMNS

US, HUDI = "us", "hudi"
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Round:
    """One write: its engine, operation, rows and index."""

    who: str
    operation: str
    rows: Sequence[Row]
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.operation} by {self.who} {dict(self.options)}"


@dataclass(frozen=True)
class History:
    """A table's columns and options, and the rounds of writes to it."""

    schema: pa.Schema
    key: tuple[str, ...]
    partition: tuple[str, ...]
    options: Mapping[str, str]
    rounds: Sequence[Round]


BLOOM, SIMPLE, GLOBAL = {INDEX: "BLOOM"}, {INDEX: "SIMPLE"}, {INDEX: "GLOBAL_SIMPLE"}
#: Hudi's cleaner runs after the write, and keeps one version of every file.
CLEANING = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"}
NO_CLEANING = {"hoodie.clean.automatic": "false"}

PARTITIONED = History(
    schema=pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "fare": pa.float64()}),
    key=("id",),
    partition=("city",),
    options={**TRIPS_AND_METADATA, **SMALL_FILTERS, "hoodie.embed.timeline.server": "true"},  # as Hudi does by default
    rounds=[
        Round(US, "bulk_insert", [(f"k{i}", ("berlin", "paris", "oslo")[i % 3], 1, float(i)) for i in range(12)]),
        Round(HUDI, "upsert", [("k0", "berlin", 2, 20.0), ("k1", "paris", 2, 21.0), ("n1", "rome", 2, 1.0)], BLOOM),
        Round(US, "upsert", [("k0", "berlin", 3, 30.0), ("n1", "rome", 3, 2.0), ("n2", "rome", 3, 3.0)], BLOOM),
        Round(HUDI, "delete", [("k3", "berlin", 0, None), ("n2", "rome", 0, None), ("no", "rome", 0, None)], SIMPLE),
        # k4 leaves paris for oslo, n1 rome for a new partition, k6 stays; n3 is new.
        Round(
            US,
            "upsert",
            [("k4", "oslo", 4, 4.5), ("n1", "kyiv", 4, 4.0), ("k6", "berlin", 4, 6.5), ("n3", "kyiv", 4, 5.0)],
            GLOBAL,
        ),
        # k4 goes on to berlin, n3 to rome; k5 stays.
        Round(HUDI, "upsert", [("k4", "berlin", 5, 5.5), ("n3", "rome", 5, 5.0), ("k5", "oslo", 5, 5.0)], GLOBAL),
        Round(US, "insert", [("n4", "berlin", 6, 1.0), ("n5", "lima", 6, 2.0)]),
        Round(HUDI, "insert", [("n6", "lima", 7, 1.0), ("n7", "paris", 7, 2.0)], CLEANING),
        Round(US, "delete", [("k4", "berlin", 0, None), ("n5", "lima", 0, None), ("k10", "nowhere", 0, None)], BLOOM),
        Round(HUDI, "bulk_insert", [("n8", "berlin", 8, 1.0), ("n9", "quito", 8, 2.0)], NO_CLEANING),
        # Every key that there is, and one more; berlin has two file groups now.
        Round(
            US,
            "upsert",
            [("n8", "berlin", 9, 9.0), ("n9", "quito", 9, 9.5), ("k0", "berlin", 9, 9.9), ("n6", "lima", 9, 8.0)],
            SIMPLE,
        ),
        Round(HUDI, "upsert", [("n8", "berlin", 10, 10.0), ("n4", "berlin", 10, 11.0), ("k9", "berlin", 10, 12.0)], BLOOM),
    ],
)

UNPARTITIONED = History(
    schema=pa.schema({"id": pa.int64(), "line": pa.int32(), "ts": pa.int64(), "note": pa.string()}),
    key=("id", "line"),
    partition=(),
    options={
        NAME: "lines",
        KEY: "id,line",
        ORDERING: "ts",
        GENERATOR: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        **SMALL_FILTERS,
    },
    rounds=[
        Round(HUDI, "bulk_insert", [(i, j, 1, f"{i} {j}") for i in range(3) for j in range(2)]),
        Round(US, "upsert", [(0, 1, 2, "ours"), (7, 0, 2, "new")], BLOOM),
        Round(HUDI, "upsert", [(0, 1, 3, "theirs"), (7, 0, 3, None), (8, 0, 3, "new")], BLOOM),
        Round(US, "delete", [(2, 0, 0, None), (8, 0, 0, None)], SIMPLE),
        Round(HUDI, "upsert", [(2, 0, 4, "back"), (1, 1, 4, "changed")], SIMPLE),
        Round(US, "upsert", [(2, 0, 5, "again"), (9, 9, 5, "new")], SIMPLE),
    ],
)

#: No empty text: Hudi reads the partition column from the path, and returns null for it.
ODD = [
    "a b",
    "x/y",
    "ü",
    "c=d",
    "100%",
    "q?#*",
    "{[]}",
    "it's",
    'say "hi"',
    "back\\slash",
    "colon:",
    ".dot",
    "~",
    "+",
    "&;,",
    None,
]


def odd_rows(*, every: int, ts: int) -> list[Row]:
    """Return one row per unusual partition value, or for every second, third, … of them."""
    return [(f"k{i}", place, 20_000, ts) for i, place in enumerate(ODD) if i % every == 0]


ODD_PARTITIONS = History(
    schema=pa.schema({"id": pa.string(), "place": pa.string(), "day": pa.date32(), "ts": pa.int64()}),
    key=("id",),
    partition=("place", "day"),
    options={
        NAME: "odd",
        KEY: "id",
        PARTITION: "place,day",
        ORDERING: "ts",
        GENERATOR: "org.apache.hudi.keygen.ComplexKeyGenerator",
        HIVE_STYLE: "true",
        URL_ENCODE: "true",
        **SMALL_FILTERS,
    },
    rounds=[
        Round(US, "bulk_insert", odd_rows(every=1, ts=1)),
        Round(HUDI, "upsert", [*odd_rows(every=2, ts=2), ("n", "new / one", 20_001, 2)], BLOOM),
        Round(US, "upsert", [*odd_rows(every=3, ts=3), ("n", "new / one", 20_001, 3)], BLOOM),
        Round(HUDI, "delete", [*odd_rows(every=4, ts=0), ("n", "new / one", 20_001, 0)], SIMPLE),
    ],
)

HISTORIES = {"partitioned": PARTITIONED, "unpartitioned": UNPARTITIONED, "odd partitions": ODD_PARTITIONS}


class Model:
    """The rows that the table must hold: each key's row, and the commit that wrote it."""

    def __init__(self, history: History) -> None:
        self._key, self._partition = history.key, history.partition
        self._rows: dict[Row, tuple[dict[str, Any], str]] = {}

    def apply(self, operation: str, batch: pa.Table, commit: str) -> None:
        """Apply the operation to the rows."""
        for row in batch.to_pylist():
            key = tuple(row[name] for name in self._key)
            if operation == "delete":
                old = self._rows.get(key)
                if old is not None and all(old[0][name] == row[name] for name in self._partition):
                    del self._rows[key]
            else:
                self._rows[key] = (row, commit)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, each with the commit that wrote it."""
        return [{**row, "_hoodie_commit_time": commit} for row, commit in self._rows.values()]


@pytest.mark.parametrize("name", HISTORIES)
def test_after_every_round_all_readers_see_the_same_rows_and_files(
    us: Penstock, hudi015: Oracle, hudi12: Oracle, table_path: str, name: str
) -> None:
    history, model = HISTORIES[name], Model(HISTORIES[name])
    for number, each in enumerate(history.rounds):
        side = us if each.who == US else hudi015
        batch = table_of(history, each.rows)
        side.write(
            table_path,
            batch,
            {**history.options, **each.options, OPERATION: each.operation},
            mode="append" if number else "overwrite",
        )
        model.apply(each.operation, batch, last_commit(table_path))
        agree(table_path, model, us, hudi015, f"round {number + 1}: {each}")
    agree(table_path, model, us, hudi12, "in the end")


def table_of(history: History, rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table."""
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, history.schema.types, strict=True)], schema=history.schema
    )


def agree(path: str | Path, model: Model, us: Penstock, hudi: Oracle, when: str) -> None:
    """Check that all readers find the model's rows, in the same files, with the same meta columns."""
    try:
        found = assert_all_read(path, us, hudi)
        assert_rows(found.drop_columns(list(META_COLUMNS[1:])), model.rows(), "us")
        assert_same_files(path, hudi)
    except AssertionError as problem:
        raise AssertionError(f"{when}: {problem}") from problem
