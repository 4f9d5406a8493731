"""Java properties files, against rules of the Java library and files that Hudi wrote."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptFile
from penstock.formats.properties import java_date, read_properties, table_checksum, write_properties
from tests.unit.golden import NAMES, golden_files


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_hudi_is_written_back_byte_for_byte(name: str) -> None:
    (data,) = golden_files(name, "hoodie.properties").values()
    comment, date = (line.decode().removeprefix("#") for line in data.splitlines()[:2])

    assert write_properties(read_properties(data), comment, date) == data


@given(st.datetimes(timezones=st.just(timezone.utc)))
def test_dates_in_comments_have_the_form_of_java(moment: datetime) -> None:
    assert datetime.strptime(java_date(moment), "%a %b %d %H:%M:%S UTC %Y") == moment.replace(microsecond=0, tzinfo=None)


def test_the_names_of_days_and_months_are_english() -> None:
    assert java_date(datetime(2024, 5, 7, 3, 4, 5, tzinfo=timezone.utc)) == "Tue May 07 03:04:05 UTC 2024"


@pytest.mark.parametrize("name", NAMES)
def test_the_checksum_is_the_one_hudi_stored(name: str) -> None:
    (data,) = golden_files(name, "hoodie.properties").values()
    properties = read_properties(data)

    checksum = table_checksum(properties.get("hoodie.database.name"), properties["hoodie.table.name"])

    assert str(checksum) == properties["hoodie.table.checksum"]


@pytest.mark.parametrize("name", ["cow_v6_complexkeygen_hivestyle", "trips_mor_avro_v6_trips_8i1u"])
def test_a_partition_metadata_file_is_read(name: str) -> None:
    files = golden_files(name, ".hoodie_partition_metadata")

    assert files
    for path, data in files.items():
        assert read_properties(data)["partitionDepth"] == str(path.count("/"))


@pytest.mark.parametrize(
    ("database", "table", "checksum"),
    [
        ("default", "v6_trips_8i1u", 3843273058),
        (None, "hudi-v6-table-mor_table", 1066950656),
        ("", "hudi-v6-table-mor_table", 1066950656),
    ],
)
def test_the_checksum_of_a_table_without_database_keeps_the_dot(database: str | None, table: str, checksum: int) -> None:
    assert table_checksum(database, table) == checksum


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a:b\na2 = b2\na3 b3\na4\t:\fb4\n", {"a": "b", "a2": "b2", "a3": "b3", "a4": "b4"}),
        (b"  \t a  =  b  \r\nc=d\re=f", {"a": "b  ", "c": "d", "e": "f"}),
        (b"# a=b\n ! c=d\n\n \t\ne=f#g", {"e": "f#g"}),
        (b"a=b\\\n   c\\\r\n\td", {"a": "bcd"}),
        (b"a=b\\\n# no comment", {"a": "b# no comment"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=b\\", {"a": "b"}),
        (b"a\\ b\\=c\\:d=e=f:g", {"a b=c:d": "e=f:g"}),
        (b"a==b\nc=:d\ne: =f", {"a": "=b", "c": ":d", "e": "=f"}),
        (b"a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        (b"a=\\u00e9\\u20AC\\uD83D\\uDE00", {"a": "é€😀"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a=\\uD83D", {"a": "\ud83d"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a\n=b\n:c", {"a": "", "": "c"}),
        (b"", {}),
    ],
)
def test_everything_that_java_accepts_is_read_as_by_java(data: bytes, expected: dict[str, str]) -> None:
    assert read_properties(data) == expected


def test_special_characters_are_escaped_as_in_java() -> None:
    values = {"a b": "  c d", "e=f": "g:h#i!j\\k", "é": "\t\n\r\f\x00\x7f€😀"}

    assert write_properties(values, "made by é", "now\nlater").decode("ascii").splitlines() == [
        "#made by \\u00E9",
        "#now",
        "#later",
        r"a\ b=\ \ c d",
        r"e\=f=g\:h\#i\!j\\k",
        r"\u00E9=\t\n\r\f\u0000\u007F\u20AC\uD83D\uDE00",
    ]


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text()))
def test_written_properties_are_read_back(values: dict[str, str]) -> None:
    assert read_properties(write_properties(values, "comment", "date")) == values


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_properties(data)
    except CorruptFile:
        assert b"\\u" in data


@pytest.mark.parametrize("data", [b"a=\\u12", b"a=\\u12G4", b"\\u=b"])
def test_a_broken_unicode_escape_is_a_corrupt_file(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="hex digits"):
        read_properties(data)
