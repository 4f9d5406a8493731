"""The table of indexes, and what the options make of each of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index import INDEXES, Index, index_class, make_index
from penstock.index.pruning import Pruning
from penstock.options import Options, read_options


@pytest.mark.parametrize("name", INDEXES)
def test_every_line_of_the_table_names_an_index_and_is_a_value_of_the_option(name: str) -> None:
    assert issubclass(index_class(name), Index)
    assert o.INDEX_TYPE.supports(name)
    hbase = {o.HBASE_TABLE.key: "trips", o.HBASE_QUORUM.key: "zk"}
    assert make_index(Options({o.INDEX_TYPE.key: name, o.RECORD_KEY_FIELD.key: "id", **hbase})).name == name


@pytest.mark.parametrize(
    ("name", "is_global", "pruning"),
    [
        ("SIMPLE", False, Pruning()),
        ("BLOOM", False, Pruning(ranges=True, blooms=True)),
        ("GLOBAL_SIMPLE", True, Pruning()),
        ("GLOBAL_BLOOM", True, Pruning(ranges=True, blooms=True)),
    ],
)
def test_the_name_of_an_index_says_its_reach_and_pruning(name: str, is_global: bool, pruning: Pruning) -> None:
    index = make_index(Options({o.INDEX_TYPE.key: name}))
    assert (index.name, index.is_global, index.pruning, index.moves_rows) == (name, is_global, pruning, is_global)


def test_an_index_ignores_the_options_of_other_indexes() -> None:
    def made(name: str, **more: str) -> Any:
        return make_index(Options({o.INDEX_TYPE.key: name, **more}))

    simple, bloom = o.SIMPLE_UPDATE_PARTITION_PATH.key, o.BLOOM_UPDATE_PARTITION_PATH.key
    assert not made("GLOBAL_SIMPLE", **{simple: "false"}).moves_rows
    assert made("GLOBAL_SIMPLE", **{bloom: "false"}).moves_rows
    assert not made("GLOBAL_BLOOM", **{bloom: "false"}).moves_rows
    assert made("GLOBAL_BLOOM", **{o.BLOOM_PRUNE_BY_RANGES.key: "false"}).pruning == Pruning(blooms=True)
    with pytest.raises(Unsupported, match=r"hoodie\.index\.type=FLINK_STATE"):
        made("FLINK_STATE")


def test_the_record_index_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(Unsupported, match="RECORD_INDEX.*use GLOBAL_SIMPLE or GLOBAL_BLOOM, or BUCKET where a key stays"):
        read_options({o.INDEX_TYPE.key: "RECORD_INDEX"})
