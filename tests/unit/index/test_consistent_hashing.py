"""Hash rings are Hudi's: the same parts, file ids and bytes. The numbers are from a table that Hudi 0.15 wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.consistent_hashing import (
    HashRings,
    default_ring,
    drop_changed_rings,
    has_rings,
    ring_text,
    save_changed_rings,
)
from penstock.options import Options
from penstock.storage import LocalStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.timeline import Timeline

OF_X = {
    536870912: "6b1b8823-089f-30f7-9d40-ca5aa7e1a38a",
    1073741824: "51af483f-fad2-322e-936f-62fa509b3513",
    1610612736: "d82fa86c-0779-31a8-9951-354669461166",
    2147483647: "f2f913ca-3b63-3359-8eb4-db4ace29a409",
}
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def state(folder: Path, *instants: Instant) -> TableState:
    return TableState(LocalStorage(), str(folder), TableConfig({}), Options({}), Timeline(tuple(instants)))


def test_the_default_ring_of_a_partition_is_hudis() -> None:
    ring = default_ring("x", 4)
    assert dict(zip(ring.values, ring.prefixes, strict=True)) == OF_X
    assert HashRings(4, ("id",)).new_file_id(1, "x") == f"{OF_X[1073741824]}-0"
    assert ring_text("x", ring).splitlines()[:8] == [
        "{",
        '  "version" : 0,',
        '  "partitionPath" : "x",',
        '  "instant" : "00000000000000",',
        '  "numBuckets" : 4,',
        '  "seqNo" : 0,',
        '  "nodes" : [ {',
        '    "value" : 536870912,',
    ]


def test_every_key_has_a_bucket_and_only_hash_columns_choose_it() -> None:
    rings = HashRings(4, ("id",))
    numbers = rings.numbers(pa.array([f"k{n}" for n in range(200)]), "x")
    assert set(numbers.tolist()) == {0, 1, 2, 3}
    one, other, plain = rings.numbers(pa.array(["id:k7,ts:1", "id:k7,ts:2", "k7"]), "x").tolist()
    assert one == other == plain


def test_rings_are_stored_with_the_table_and_the_newest_one_in_effect_is_used(tmp_path: Path) -> None:
    table, rings = state(tmp_path), HashRings(4, ("id",))
    assert not has_rings(table)
    rings.save_partitions(table, ["x", "a/b", "x"])
    rings.save_partitions(table, ["x"])
    assert has_rings(table)
    assert rings.load(table).stored == {"x": default_ring("x", 4), "a/b": default_ring("a/b", 4)}

    split = ring_text("x", default_ring("x", 8))
    (tmp_path / FOLDER / "x" / "002.hashing_meta").write_text(split)
    assert len(rings.load(table).ring("x").values) == 4  # its clustering is not done
    done = state(tmp_path, Instant("002", Action.REPLACE_COMMIT, State.COMPLETED))
    assert len(rings.load(done).ring("x").values) == 8
    (tmp_path / FOLDER / "x" / "002.commit").touch()
    assert len(rings.load(table).ring("x").values) == 8


def test_a_ring_of_an_archived_clustering_is_in_effect_if_its_file_groups_exist(tmp_path: Path) -> None:
    rings = HashRings(4, ("id",))
    rings.save_partitions(state(tmp_path), ["x"])
    first = rings.ring("x")
    split = first.apply(first.split_bucket(0) or ())
    save_changed_rings(state(tmp_path), "002", {"x": split})
    later = state(tmp_path, Instant("005", Action.DELTA_COMMIT, State.COMPLETED))
    assert rings.load(later).ring("x") == first, "no file group of it is there: the clustering was given up"
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / f"{first.prefixes[2]}-0_0-1-1_001.parquet").touch()
    assert rings.load(later).ring("x") == first, "both rings have this one"
    (tmp_path / "x" / f"{split.prefixes[0]}-0_0-1-1_002.parquet").touch()
    assert rings.load(later).ring("x") == split
    between = state(tmp_path, Instant("001", Action.DELTA_COMMIT, State.COMPLETED))
    assert rings.load(between).ring("x") == first, "the timeline goes back far enough to know it, and does not"
    pending = state(tmp_path, Instant("002", Action.REPLACE_COMMIT, State.INFLIGHT))
    assert rings.load(pending).ring("x") == first
    drop_changed_rings(later, "002")
    assert [p.name for p in (tmp_path / FOLDER / "x").iterdir()] == ["00000000000000.hashing_meta"]


def test_a_file_group_outside_its_ring_and_a_damaged_ring_are_refused(tmp_path: Path) -> None:
    table, rings = state(tmp_path), HashRings(4, ("id",))
    with pytest.raises(OptionError, match="in no part of its ring"):
        rings.number_of(FileSlice("x", "00000000-aaaa-4aaa-8aaa-aaaaaaaaaaaa-0", "001"))
    rings.save_partitions(table, ["x"])
    (tmp_path / FOLDER / "x" / "00000000000000.hashing_meta").write_text("{}")
    with pytest.raises(CorruptFile, match="is not the ring of a partition"):
        rings.load(table)
