"""A fault at any storage call of cleaning and archiving loses no row, and the next run finishes the work.

The table is made by hand, so that no Spark is needed: two file groups that are rewritten, one that is replaced with the
partition it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, partition_metafile
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.storage import LocalStorage
from penstock.table.config import write_config
from penstock.table.state import TableState, open_table
from penstock.timeline.archive import entry_key, list_archive_files, read_entries
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from tests.crash.every_call import CRASHES, ERRORS, Rehearsal, calls_in_one_order
from tests.kit.faults import Fault
from tests.kit.plain import pending, plain_rows
from tests.table.tables import base_files, timeline

COMMITS = 9
#: At this commit the only file group of a partition is replaced.
REPLACED = 3
OPTIONS = {
    "hoodie.cleaner.commits.retained": 2,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.archive.merge.enable": True,
    "hoodie.archive.merge.files.batch.size": 1,
}
ROWS = [("a", "berlin", COMMITS, 1.5), ("b", "paris", COMMITS, 1.5)]


def at(number: int) -> str:
    return f"202401010000{number:02d}000"


def make_table(path: Path) -> None:
    """Write a copy-on-write table, commit by commit."""
    config = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "6",
        "hoodie.table.partition.fields": "city",
        "hoodie.archivelog.folder": "archived",
    }
    storage = LocalStorage()
    write_config(storage, str(path), config, new=True)
    before: dict[str, str] = {}
    for number in range(1, COMMITS + 1):
        groups = {"a": "berlin", "b": "paris"} | ({"x": "oslo"} if number == 1 else {})
        stats = []
        for key, city in groups.items():
            name = base_file_name(key, "0-0-0", at(number))
            (path / city).mkdir(exist_ok=True)
            (path / city / PARTITION_METAFILE).write_bytes(partition_metafile(at(1), city, "now"))
            (path / city / f".{PARTITION_METAFILE}.crc").write_bytes(b"as Hadoop leaves it")
            pq.write_table(pa.table({"id": [key], "city": [city], "ts": [number], "fare": [1.5]}), path / city / name)
            stats.append(WriteStat(key, city, f"{city}/{name}", prev_commit=before.get(key, "null"), num_writes=1))
            before[key] = at(number)
        is_replace = number == REPLACED
        replaced = {"oslo": ("x",)} if is_replace else None
        content = write_commit(CommitMetadata(tuple(stats), operation="UPSERT", replaced=replaced))
        action = "replacecommit" if is_replace else "commit"
        inflight = "replacecommit.inflight" if is_replace else "inflight"
        for end, data in ((f"{action}.requested", b""), (inflight, b""), (action, content)):
            storage.write_new(str(path / ".hoodie" / f"{at(number)}.{end}"), data)


@pytest.fixture(scope="module")
def rehearsal(folder: Path) -> Iterator[Rehearsal]:
    make_table(folder / "made")
    with calls_in_one_order():
        yield Rehearsal(folder / "made", folder, serve, check, calls_min=40)


def serve(path: str) -> None:
    """Run the services that follow a commit."""

    def table() -> TableState:
        return open_table(path, read_options(OPTIONS))

    clean(None, table(), Stages("", "off"))
    archive(table())


def files(path: Path) -> list[str]:
    return [f.name for f in base_files(path)]


def archived(path: Path) -> list[tuple[str, str, str]]:
    storage = LocalStorage()
    return [entry_key(e) for f in list_archive_files(storage, str(path)) for e in read_entries(storage.read(f.path), f.name)]


def check(path: Path, what: str) -> None:
    """Check that all rows are there before and after the next run, which leaves what a run without a fault leaves."""
    assert plain_rows(path) == ROWS, what
    for _ in range(2):  # what could not be deleted is looked at by the clean after the next commit
        with suppress(PenstockError):
            clean(None, open_table(str(path), read_options(OPTIONS)), Stages("", "off"), due=True)
    serve(str(path))
    assert plain_rows(path) == ROWS, what
    assert pending(path) == [], what
    wanted = [base_file_name(k, "0-0-0", at(n)) for k in ("a", "b") for n in (COMMITS - 2, COMMITS - 1, COMMITS)]
    assert files(path) == wanted, what
    assert not (path / "oslo").exists(), what
    fewer = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    archive(open_table(str(path), read_options(OPTIONS | fewer)))
    stays = {f"{at(n)}.commit" for n in range(COMMITS - 2, COMMITS + 1)}
    assert {n for n in timeline(path) if n.endswith("commit")} <= stays, what
    keys = archived(path)
    assert len(keys) == len(set(keys)), what
    assert {key[0] for key in keys} >= {at(n) for n in range(1, COMMITS - 2)}, what


@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_at_any_call_loses_nothing(rehearsal: Rehearsal, fault: Fault) -> None:
    rehearsal.fail_at_every_call(fault)


@pytest.mark.parametrize("fault", ERRORS)
def test_an_error_at_any_call_loses_nothing(rehearsal: Rehearsal, fault: Fault) -> None:
    rehearsal.fail_at_every_call(fault)
