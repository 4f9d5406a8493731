"""A task's incoming rows: reduced to one per key, gathered from several pieces, spilled when they are too many."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError, StorageError
from penstock.filegroup.task_output import FileSettings
from penstock.storage import LocalStorage
from penstock.write.rows.crossing_columns import KEY
from penstock.write.rows.staging import ARRIVAL, Piece, Staging
from penstock.write.tasks import task_rows as task_rows_module
from penstock.write.tasks.task_rows import TaskRows, choose_task_rows, load_task_rows
from tests.unit.write.engine import TRIPS, settings_at, stage_pieces, table_of, task_rows_settings, trips, with_keys


@pytest.fixture
def files(tmp_path: Path) -> FileSettings:
    return settings_at(tmp_path / "table", TRIPS)


def rows_of(table: pa.Table, column: str = "v") -> list[str]:
    values: list[str] = table[column].to_pylist()
    return values


def test_rows_of_several_pieces_are_returned_in_the_order_of_their_numbers() -> None:
    parts = [with_keys(trips(*((f"k{i}", "c", 1, f"v{i}") for i in range(at, at + 3)))) for at in (0, 3, 6)]
    incoming = TaskRows(parts, np.arange(9), pa.array([f"k{i}" for i in range(9)]))
    assert incoming.rows_held == 9
    assert rows_of(incoming.take(np.array([8, 0, 4, 4, 1]))) == ["v8", "v0", "v4", "v4", "v1"]
    assert rows_of(incoming.take(np.array([], np.int64))) == []
    assert incoming.take(np.array([5])).column_names == [*TRIPS.names, KEY]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.data())
def test_any_rows_of_any_pieces_are_gathered(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    starts = np.cumsum([0, *sizes])
    parts = [
        with_keys(trips(*((f"k{n}", "c", n, f"v{n}") for n in range(a, a + s)))) for a, s in zip(starts, sizes, strict=False)
    ]
    numbers = data.draw(st.lists(st.integers(0, total - 1), max_size=8)) if total else []
    found = TaskRows(parts, np.arange(total), pa.array([], pa.string())).take(np.array(numbers, np.int64))
    assert rows_of(found) == [f"v{n}" for n in numbers]


def test_a_batch_is_reduced_to_one_row_per_key(files: FileSettings) -> None:
    first = trips(("a", "c", 1, "a1"), ("b", "c", 5, "b5"), ("a", "c", 3, "a3"))
    second = trips(("a", "c", 2, "a2"), ("b", "c", 5, "b5 later"), ("d", "c", 0, "d0"))
    staging, pieces = stage_pieces(files, first, second)
    incoming = load_task_rows(task_rows_settings(staging), pieces)
    assert sorted(zip(incoming.keys.to_pylist(), rows_of(incoming.take(incoming.rows)), strict=True)) == [
        ("a", "a3"),
        ("b", "b5 later"),
        ("d", "d0"),
    ]
    assert incoming.rows_held == 6


def test_without_an_ordering_column_the_last_row_of_a_key_counts(files: FileSettings) -> None:
    staging, pieces = stage_pieces(files, trips(("a", "c", 9, "first"), ("a", "c", 1, "last")))
    assert rows_of(rows_that_count(load_task_rows(task_rows_settings(staging, None), pieces))) == ["last"]


def test_an_ordering_field_inside_a_struct_decides(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("meta", pa.struct([("at", pa.int64())])), ("v", pa.string())])
    files = settings_at(tmp_path, schema)
    rows = table_of(schema, ("a", {"at": 2}, "two"), ("a", {"at": 1}, "one"))
    staging, pieces = stage_pieces(files, rows)
    assert rows_of(rows_that_count(load_task_rows(task_rows_settings(staging, "meta.at"), pieces))) == ["two"]
    with pytest.raises(SchemaError, match=r"Ordering value is null for 1 of 1 rows: column 'meta\.at'"):
        load_task_rows(task_rows_settings(staging, "meta.at"), stage_pieces_again(tmp_path, schema, ("a", None, "x")))


def stage_pieces_again(folder: Path, schema: pa.Schema, *rows: tuple[object, ...]) -> list[Piece]:
    return stage_pieces(settings_at(folder, schema, "002"), table_of(schema, *rows))[1]


def test_null_ordering_values_are_refused(files: FileSettings) -> None:
    staging, pieces = stage_pieces(files, trips(("a", "c", None, "x"), ("b", "c", 1, "y")))
    with pytest.raises(SchemaError, match="Ordering value is null for 1 of 2 rows"):
        load_task_rows(task_rows_settings(staging), pieces)


def test_a_missing_ordering_column_is_refused_by_name(files: FileSettings) -> None:
    staging, pieces = stage_pieces(files, trips(("a", "c", 1, "x")))
    with pytest.raises(SchemaError, match=r"nosuch\(Part -nosuch\) field not found in record.*\[id, city, ts, v\].*precombine"):
        load_task_rows(task_rows_settings(staging, "nosuch"), pieces)


def test_of_equal_rows_in_different_partitions_the_one_that_arrived_last_counts(files: FileSettings) -> None:
    first = trips(("k", "x", 1, "early"), ("l", "y", 1, "l"), ("k", "y", 1, "later"))
    second = trips(("k", "x", 1, "last"), ("m", "y", 1, "m"))
    staging, pieces = stage_pieces(files, first, second, path="city", numbered=True)
    assert [p.path for p in pieces] == ["x", "y"]  # the pieces alone would put "later" last
    incoming = load_task_rows(task_rows_settings(staging), pieces)
    assert sorted(rows_of(rows_that_count(incoming))) == ["l", "last", "m"]
    assert ARRIVAL not in incoming.take(incoming.rows).column_names


def rows_that_count(incoming: TaskRows) -> pa.Table:
    return incoming.take(incoming.rows)


# --- spilling

FEW_KB = 4 * 1024


def big_batch(files: FileSettings, batches: int = 6) -> tuple[Staging, list[Piece], pa.Table]:
    """Rows of several times a few kilobytes, in pieces of their own."""
    rows = trips(*((f"k{n % 250:03}", "c", n, f"{n:05}" + "x" * 60) for n in range(300)))
    pieces: list[Piece] = []
    size = rows.num_rows // batches
    for i in range(batches):
        part = settings_at(files.base_path, TRIPS, f"9{i:02}")
        staging, its = stage_pieces(part, rows.slice(i * size, size))
        pieces += its
    assert sum(p.size_bytes for p in pieces) > 4 * FEW_KB
    return staging, pieces, rows


def mapped_spills(folder: Path) -> list[str]:
    """Spill files that this process has mapped, whether or not they still have a name."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]


def test_rows_beyond_the_memory_of_a_task_are_spilled_and_the_file_goes_with_them(files: FileSettings, tmp_path: Path) -> None:
    staging, pieces, rows = big_batch(files)
    folder = tmp_path / "spill"
    incoming = load_task_rows(task_rows_settings(staging, "ts", FEW_KB, str(folder)), pieces)
    assert mapped_spills(folder)  # in use: the rows come from a file below the folder
    assert list(folder.iterdir()) == []  # which no crash can leave behind, since it has no name any more
    expected = {r["id"]: r["v"] for r in rows.to_pylist()}
    assert dict(zip(incoming.keys.to_pylist(), rows_of(rows_that_count(incoming)), strict=True)) == expected
    del incoming
    gc.collect()
    assert mapped_spills(folder) == []


def test_rows_within_the_memory_of_a_task_are_not_copied(files: FileSettings, tmp_path: Path) -> None:
    staging, pieces, _ = big_batch(files)
    incoming = load_task_rows(task_rows_settings(staging, "ts", 1 << 20, str(tmp_path / "spill")), pieces)
    assert len(rows_that_count(incoming)) == 250
    assert not (tmp_path / "spill").exists()


def test_spilling_holds_one_piece_beyond_the_limit_at_most(
    files: FileSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, pieces, _ = big_batch(files, batches=30)
    read, alive, most = task_rows_module.read_pieces, [], 0

    def counting(*arguments: object) -> object:
        nonlocal most
        for table in read(*arguments):  # type: ignore[arg-type]
            copied = pa.table({n: pa.array(table[n].to_pylist(), table[n].type) for n in table.column_names})
            alive.append(weak(copied))
            most = max(most, sum(size for size, ref in ((s, r()) for s, r in alive) if ref is not None))
            yield copied
            del copied

    monkeypatch.setattr(task_rows_module, "read_pieces", counting)
    load_task_rows(task_rows_settings(staging, "ts", FEW_KB, str(tmp_path / "spill")), pieces)
    one = max(p.size_bytes for p in pieces)
    assert most <= FEW_KB + 2 * one


def weak(table: pa.Table) -> tuple[int, object]:
    import weakref

    return table.nbytes, weakref.ref(table)


@pytest.mark.parametrize("memory", [FEW_KB, 1 << 20])
def test_a_task_that_knows_the_numbers_of_its_rows_copies_only_those(files: FileSettings, tmp_path: Path, memory: int) -> None:
    staging, pieces, rows = big_batch(files)
    wanted = np.array([299, 7, 7, 120, 50])
    incoming = choose_task_rows(task_rows_settings(staging, None, memory, str(tmp_path / "spill")), pieces, wanted)
    assert rows_of(incoming.take(wanted)) == [rows["v"][int(n)].as_py() for n in wanted]
    assert incoming.rows_held == (4 if memory == FEW_KB else 300)


def test_a_task_that_needs_no_row_has_no_rows(files: FileSettings, tmp_path: Path) -> None:
    staging, pieces, _ = big_batch(files)
    incoming = choose_task_rows(task_rows_settings(staging, None, 1, str(tmp_path / "spill")), pieces, np.empty(0, np.int64))
    assert incoming.take(np.empty(0, np.int64)).schema.names == [*TRIPS.names, KEY]


def test_only_the_named_columns_are_loaded(files: FileSettings) -> None:
    staging, pieces, _ = big_batch(files)
    incoming = load_task_rows(task_rows_settings(staging), pieces, columns=("_hoodie_is_deleted",))
    assert incoming.take(np.array([0])).column_names == ["ts", KEY]


def test_a_spill_folder_that_cannot_be_written_is_a_storage_error_and_leaves_nothing(
    files: FileSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, pieces, _ = big_batch(files)
    folder = tmp_path / "spill"

    def full(self: LocalStorage, path: str) -> pa.NativeFile:
        folder.mkdir(exist_ok=True)
        Path(path).touch()
        return pa.OSFile("/dev/full", "wb")

    monkeypatch.setattr(LocalStorage, "create", full)
    with pytest.raises(StorageError, match="No space left"):
        load_task_rows(task_rows_settings(staging, "ts", FEW_KB, str(folder)), pieces)
    assert list(folder.iterdir()) == []
