"""Names of data files: what is written is read back, what is something else is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filegroup.names import (
    BaseName,
    LogName,
    base_file_name,
    is_marked_token,
    log_file_name,
    log_order,
    mark_token,
    next_log_version,
    parse_base_name,
    parse_log_name,
    partition_metafile,
    write_token,
)
from penstock.formats.properties import read_properties
from tests.kit.golden import golden_names, unpack_golden

FILE_IDS = st.builds(lambda uuid, n: f"{uuid}-{n}", st.uuids(version=4), st.integers(0, 99))
TOKENS = st.builds(write_token, st.integers(0, 10**6), st.integers(0, 10**4), st.integers(0, 10**9))
TIMES = st.from_regex(r"[0-9]{14}([0-9]{3})?", fullmatch=True)


@given(FILE_IDS, TOKENS, TIMES)
def test_a_base_file_name_is_parsed_into_its_parts(file_id: str, token: str, instant: str) -> None:
    assert parse_base_name(base_file_name(file_id, token, instant)) == BaseName(file_id, token, instant, ".parquet")


@given(FILE_IDS, TIMES, st.integers(1, 10**6), TOKENS, st.booleans())
def test_a_log_file_name_is_parsed_into_its_parts(file_id: str, base: str, version: int, token: str, cdc: bool) -> None:
    name = f".{file_id}_{base}.log.{version}_{token}{'.cdc' if cdc else ''}"
    assert parse_log_name(name) == LogName(file_id, base, version, token, cdc)
    assert parse_base_name(name) is None


@given(FILE_IDS, TIMES, st.integers(1, 10**6), TOKENS)
def test_a_built_log_file_name_is_parsed_into_its_parts(file_id: str, base: str, version: int, token: str) -> None:
    assert parse_log_name(log_file_name(file_id, base, version, token)) == LogName(file_id, base, version, token)


@given(TOKENS, TIMES, TIMES)
def test_a_log_file_tells_by_its_token_which_instant_wrote_it(token: str, instant: str, other: str) -> None:
    made = mark_token(token, instant)
    assert is_marked_token(made, instant)
    assert is_marked_token(made, other) == (instant == other)
    assert (made.split("-")[0], made.split("-")[2]) == (token.split("-")[0], token.split("-")[2])
    assert int(made.split("-")[1]) < 2**31, "Java reads it as an int"


@pytest.mark.parametrize("token", ["", "1-0-1", "0-0-0"])
def test_a_log_file_of_another_writer_names_no_instant(token: str) -> None:
    assert not is_marked_token(token, "20240101000000002")


def test_log_files_are_read_by_base_instant_then_number_of_version_then_token() -> None:
    names = [
        ".f_2.log.1_0-1-1",
        ".f_1.log.10_0-1-1",
        ".f_1.log.9_1-0-1",
        ".f_1.log.9_0-1-1.cdc",
        ".f_1.log.9_0-1-1",
        ".f_1.log.9",
    ]
    parsed = [log for name in names if (log := parse_log_name(name))]
    assert sorted(parsed, key=log_order) == parsed[::-1]


def test_the_next_log_file_has_the_version_after_the_greatest_of_its_slice() -> None:
    names = [LogName("f", "1", 9, ""), LogName("f", "1", 10, "1-0-1"), LogName("f", "2", 30, ""), LogName("g", "1", 40, "")]
    assert next_log_version(names, "f", "1") == 11
    assert next_log_version(names, "f", "3") == 1


def test_a_log_file_of_an_old_writer_has_no_token() -> None:
    assert parse_log_name(".f-0_20240101000000.log.3") == LogName("f-0", "20240101000000", 3, "")


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "part-00000.snappy.parquet",
        "f-0_1-0-1_20240101000000000.parquet.crc",
        ".f-0_1-0-1_20240101000000000.parquet.crc",
        "f-0_1-0-1_20240101000000000.parquet\n",
        "f-0_1-0-1_٢٠٢٤.parquet",
        "f-0_20240101000000000.parquet",
        "_SUCCESS",
        "",
    ],
)
def test_a_name_that_is_no_data_file_is_not_parsed(name: str) -> None:
    assert parse_base_name(name) is None
    assert parse_log_name(name) is None


def test_every_data_file_of_the_tables_of_hudi_is_known(tmp_path: Path) -> None:
    seen = 0
    for name in golden_names():
        base = unpack_golden(name, tmp_path / name)
        for path in base.rglob("*"):
            if ".hoodie" in path.parts or not path.is_file() or path.suffix == ".crc" or path.name == ".DS_Store":
                continue
            if path.name == ".hoodie_partition_metadata":
                continue
            assert (parse_base_name(path.name) or parse_log_name(path.name)) is not None, path
            seen += 1
    assert seen > 20


@pytest.mark.parametrize(("path", "depth"), [("", "0"), ("a", "1"), ("a/b=c/d", "3")])
def test_the_partition_metafile_names_instant_and_depth(path: str, depth: str) -> None:
    content = read_properties(partition_metafile("20240101000000000", path, "Mon Jan 01 00:00:00 UTC 2024"))
    assert content == {"commitTime": "20240101000000000", "partitionDepth": depth}
