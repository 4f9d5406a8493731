"""`hoodie.properties`: read, checked, written in one step; and the table's schema."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from penstock.errors import AlreadyExists, CorruptFile, TableNotFound, Unsupported
from penstock.formats.properties import read_properties, write_properties
from penstock.options import Options
from penstock.storage import LocalStorage, MemoryStorage
from penstock.table.config import read_config, write_config
from penstock.table.state import TableState, open_table, read_table_schema, table_exists
from penstock.timeline.commit_file import CommitMetadata, write_commit
from penstock.timeline.store import load_timeline
from tests.kit.golden import golden_names, unpack_golden

PROPERTIES = {
    "hoodie.table.name": "trips",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
}
FILE = "/t/.hoodie/hoodie.properties"


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(uuid.uuid4().hex)


def put(storage: MemoryStorage, path: str = FILE, **changes: str | None) -> None:
    raw = {**PROPERTIES, **{k.replace("_", "."): v for k, v in changes.items()}}
    storage.replace(path, write_properties({k: v for k, v in raw.items() if v is not None}, "c", "d"))


@pytest.mark.parametrize("name", golden_names())
def test_the_properties_of_every_table_of_hudi_are_read(name: str, tmp_path: Path) -> None:
    table = open_table(str(unpack_golden(name, tmp_path)))
    assert table.config.name
    assert table.is_merge_on_read == ("mor" in name)
    assert table.config.populate_meta_fields == ("no_metafields" not in name)
    assert table.config.hive_style == ("nonhivestyle" not in name)


def test_a_written_configuration_is_read_back_with_its_checksum(storage: MemoryStorage) -> None:
    names = {"hoodie.database.name": "default", "hoodie.table.name": "v6_trips_8i1u"}
    write_config(storage, "/t", {**PROPERTIES, **names, "x": "a=b:c é"}, new=True)
    config = read_config(storage, "/t")
    assert config.raw["hoodie.table.checksum"] == "3843273058"
    assert config.raw["x"] == "a=b:c é"
    assert storage.read(FILE).startswith(b"#Properties saved on 2")


def test_a_table_is_created_once(storage: MemoryStorage) -> None:
    write_config(storage, "/t", PROPERTIES, new=True)
    with pytest.raises(AlreadyExists):
        write_config(storage, "/t", {**PROPERTIES, "hoodie.table.name": "other"}, new=True)
    assert read_config(storage, "/t").name == "trips"


def test_an_update_removes_the_backup_of_an_interrupted_one(storage: MemoryStorage) -> None:
    put(storage, FILE + ".backup", hoodie_table_name="old")
    write_config(storage, "/t", PROPERTIES)
    assert storage.stat(FILE + ".backup") is None
    assert storage.read(FILE).startswith(b"#Updated at 2")


def test_the_backup_is_read_while_an_update_is_under_way(storage: MemoryStorage) -> None:
    put(storage, FILE + ".backup")
    assert table_exists(storage, "/t")
    assert read_config(storage, "/t").name == "trips"


def test_the_backup_is_read_when_the_properties_are_torn(storage: MemoryStorage) -> None:
    put(storage, FILE + ".backup")
    storage.replace(FILE, b"#Properties sa")
    assert read_config(storage, "/t").name == "trips"


def test_a_path_without_properties_is_no_table(storage: MemoryStorage) -> None:
    storage.write_new("/t/file", b"")
    assert not table_exists(storage, "/t")
    with pytest.raises(TableNotFound, match="/t is not a Hudi table"):
        read_config(storage, "/t")


def test_folders_of_a_creation_that_died_are_no_table_yet(storage: MemoryStorage) -> None:
    storage.write_new("/t/.hoodie/archived/.keep", b"")
    assert not table_exists(storage, "/t")


def test_a_timeline_without_properties_is_a_damaged_table_and_not_a_new_one(storage: MemoryStorage) -> None:
    storage.write_new("/t/.hoodie/20240101000000000.commit", b"{}")
    assert table_exists(storage, "/t")
    with pytest.raises(CorruptFile, match=r"hoodie\.properties"):
        read_config(storage, "/t")


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x00\xff" * 50, b"hoodie.table.name=\\u12", b"hoodie.table.name="])
def test_damaged_properties_are_named(storage: MemoryStorage, data: bytes) -> None:
    storage.replace(FILE, data)
    with pytest.raises(CorruptFile, match=r"properties"):
        read_config(storage, "/t")


def test_a_wrong_checksum_is_named(storage: MemoryStorage) -> None:
    put(storage, hoodie_table_checksum="1")
    with pytest.raises(CorruptFile, match=r"hoodie\.table\.checksum"):
        read_config(storage, "/t")


def test_a_missing_checksum_is_accepted(storage: MemoryStorage) -> None:
    put(storage)
    assert read_config(storage, "/t").name == "trips"


@pytest.mark.parametrize("version", ["8", "9", "5", "0", "x", None])
def test_another_table_version_is_refused_with_its_number(storage: MemoryStorage, version: str | None) -> None:
    put(storage, hoodie_table_version=version)
    with pytest.raises(Unsupported, match=f"table version {version or 0}"):
        read_config(storage, "/t")


@pytest.mark.parametrize("change", [{"hoodie_timeline_layout_version": "2"}, {"hoodie_table_base_file_format": "ORC"}])
def test_another_layout_or_file_format_is_refused(storage: MemoryStorage, change: dict[str, str]) -> None:
    put(storage, **change)
    with pytest.raises(Unsupported):
        read_config(storage, "/t")


def test_a_table_of_a_newer_version_is_refused_before_its_backup_is_tried(storage: MemoryStorage) -> None:
    put(storage, hoodie_table_version="9")
    put(storage, FILE + ".backup")
    with pytest.raises(Unsupported):
        read_config(storage, "/t")


def commit(storage: MemoryStorage, name: str, operation: str = "UPSERT", schema: str | None = None) -> None:
    extra = {"schema": schema} if schema is not None else {}
    storage.write_new(f"/t/.hoodie/{name}", write_commit(CommitMetadata(operation=operation, extra=extra)))


def test_the_schema_is_that_of_the_newest_commit_with_one(storage: MemoryStorage) -> None:
    put(storage)
    commit(storage, "1.commit", schema="one")
    commit(storage, "2.commit", schema="two")
    commit(storage, "3.replacecommit", operation="CLUSTER", schema="three")
    commit(storage, "4.commit", operation="DELETE", schema="")
    commit(storage, "5.inflight", schema="five")
    table = TableState(storage, "/t", read_config(storage, "/t"), Options({}), load_timeline(storage, "/t"))
    assert read_table_schema(table) == "two"
    assert read_table_schema(table, as_of="1") == "one"
    assert read_table_schema(table, as_of="0") is None


def test_a_table_whose_writes_are_all_archived_has_the_schema_of_its_services(storage: MemoryStorage) -> None:
    put(storage, hoodie_table_create_schema="created")
    commit(storage, "1.replacecommit", operation="CLUSTER", schema="one")
    commit(storage, "2.replacecommit", operation="CLUSTER", schema="two")
    commit(storage, "3.deltacommit", operation="LOG_COMPACT", schema="")
    table = TableState(storage, "/t", read_config(storage, "/t"), Options({}), load_timeline(storage, "/t"))
    assert (read_table_schema(table), read_table_schema(table, as_of="1")) == ("two", "one")


def test_the_timeline_has_no_schema_for_an_archived_time(storage: MemoryStorage) -> None:
    put(storage, hoodie_table_create_schema="created")
    commit(storage, "1.commit", schema="one")
    storage.write_new("/t/.hoodie/1.savepoint", b"")
    commit(storage, "3.commit", schema="three")
    table = TableState(storage, "/t", read_config(storage, "/t"), Options({}), load_timeline(storage, "/t"))
    schemas = {time: read_table_schema(table, as_of=time) for time in ("0", "1", "2", "3")}
    assert schemas == {"0": None, "1": "one", "2": None, "3": "three"}


def test_a_table_without_a_commit_has_the_schema_it_was_created_with(storage: MemoryStorage) -> None:
    put(storage, hoodie_table_create_schema="created")
    assert read_table_schema(TableState(storage, "/t", read_config(storage, "/t"), Options({}))) == "created"


def test_properties_keep_their_order() -> None:
    data = write_properties(PROPERTIES, "c", "d")
    assert list(read_properties(data)) == list(PROPERTIES)


def test_local_tables_are_found_by_path(tmp_path: Path) -> None:
    write_config(LocalStorage(), str(tmp_path), PROPERTIES, new=True)
    assert open_table(f"file://{tmp_path}").base_path == str(tmp_path)
