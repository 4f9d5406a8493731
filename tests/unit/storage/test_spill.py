"""Spill files: rows are read back in order, and the file is deleted afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StorageError
from penstock.storage.spill import SpillFile, spill_tables


def test_spilled_rows_come_back_in_order_and_leave_no_file(tmp_path: Path) -> None:
    tables = [pa.table({"a": [1, 2]}), pa.table({"a": [3]})]
    spilled = spill_tables(iter(tables), str(tmp_path))
    assert [table.to_pylist() for table in spilled] == [table.to_pylist() for table in tables]
    assert list(tmp_path.iterdir()) == []


def test_a_spill_file_without_rows_is_never_created(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path / "spill"))
    assert file.read() == []
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_not_read_is_deleted_when_it_is_closed(tmp_path: Path) -> None:
    file = SpillFile(str(tmp_path))
    file.write(pa.table({"a": [1]}))
    assert len(list(tmp_path.iterdir())) == 1
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created_raises_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        spill_tables([pa.table({"a": [1]})], str(tmp_path / "file"))
