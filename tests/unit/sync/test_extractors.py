"""Partition paths → values, for each extractor of Hudi."""

from __future__ import annotations

import pytest

from penstock.errors import OptionError
from penstock.options.sync_tool_names import (
    EXTRACTOR_NAMES,
    HIVE_STYLE_EXTRACTOR,
    MULTI_PART_EXTRACTOR,
    NON_PARTITIONED_EXTRACTOR,
    SINGLE_PART_EXTRACTOR,
    SLASH_DAY_EXTRACTOR,
    SLASH_HOUR_EXTRACTOR,
)
from penstock.sync.extractors import DEFAULT_PARTITION, EXTRACTORS, extract_values, infer_extractor


def test_every_name_of_the_option_has_an_extractor() -> None:
    assert set(EXTRACTORS) == set(EXTRACTOR_NAMES)


@pytest.mark.parametrize(
    ("name", "path", "values"),
    [
        (MULTI_PART_EXTRACTOR, "eu/berlin", ("eu", "berlin")),
        (MULTI_PART_EXTRACTOR, "continent=eu/city=berlin", ("eu", "berlin")),
        (SINGLE_PART_EXTRACTOR, "berlin", ("berlin",)),
        (SINGLE_PART_EXTRACTOR, "2024/03/09", ("2024-03-09",)),
        (HIVE_STYLE_EXTRACTOR, "city=berlin", ("berlin",)),
        (NON_PARTITIONED_EXTRACTOR, "", ()),
        (SLASH_DAY_EXTRACTOR, "2024/3/9", ("2024-03-09",)),
        (SLASH_DAY_EXTRACTOR, "year=2024/month=03/day=09", ("2024-03-09",)),
        (SLASH_HOUR_EXTRACTOR, "2024/03/09/7", ("2024-03-09-07",)),
        (SLASH_DAY_EXTRACTOR, DEFAULT_PARTITION, (DEFAULT_PARTITION,)),
    ],
)
def test_a_path_becomes_values(name: str, path: str, values: tuple[str, ...]) -> None:
    assert extract_values(name, path, ["c"] * len(values)) == values


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (MULTI_PART_EXTRACTOR, "a=b=c"),
        (HIVE_STYLE_EXTRACTOR, "berlin"),
        (HIVE_STYLE_EXTRACTOR, "a=1/b=2"),
        (SLASH_DAY_EXTRACTOR, "2024/03"),
        (SLASH_DAY_EXTRACTOR, "2024/march/09"),
        (SLASH_HOUR_EXTRACTOR, "2024/03/09"),
    ],
)
def test_a_path_of_another_form_is_refused_with_the_path_and_the_option(name: str, path: str) -> None:
    with pytest.raises(OptionError, match="hoodie.datasource.hive_sync.partition_extractor_class") as raised:
        extract_values(name, path, ["c"])
    assert repr(path) in str(raised.value)


def test_another_number_of_values_than_columns_is_refused_with_an_extractor_that_fits() -> None:
    with pytest.raises(OptionError, match="SinglePartPartitionValueExtractor would fit"):
        extract_values(MULTI_PART_EXTRACTOR, "eu/berlin", ["city"])


def test_escaped_paths_are_decoded_only_if_asked_for() -> None:
    assert extract_values(SINGLE_PART_EXTRACTOR, "a%3Ab", ["c"]) == ("a%3Ab",)
    assert extract_values(SINGLE_PART_EXTRACTOR, "a%3Ab", ["c"], decode=True) == ("a:b",)


def test_the_partitioning_decides_which_extractor_fits() -> None:
    assert infer_extractor(0, False) == NON_PARTITIONED_EXTRACTOR
    assert infer_extractor(1, False) == SINGLE_PART_EXTRACTOR
    assert infer_extractor(1, True) == HIVE_STYLE_EXTRACTOR
    assert infer_extractor(2, True) == MULTI_PART_EXTRACTOR
