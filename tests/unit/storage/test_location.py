"""When two locations are the same folder."""

from __future__ import annotations

import pytest

from penstock.storage.location import Location, is_same_location, parse_location


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("/data/trips/", Location("", "", "/data/trips")),
        ("file:/data/trips", Location("file", "", "/data/trips")),
        ("S3A://lake/a b/c:d", Location("s3a", "lake", "/a b/c:d")),
        ("hdfs://nn:8020/data", Location("hdfs", "nn:8020", "/data")),
    ],
)
def test_a_location_is_split_into_its_parts(text: str, location: Location) -> None:
    assert parse_location(text) == location


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("s3://a/t", "s3://a/t/", True),
        ("s3://a/t", "s3a://a/t", True),
        ("s3n://a/t", "s3a://a/t", True),
        ("s3://a/t", "s3://b/t", False),
        ("s3://a/t", "gs://a/t", False),
        ("s3://a/t", "s3://a/u", False),
        ("abfss://c@a/t", "abfs://c@a/t", True),
        ("hdfs:/data/t", "hdfs://nn:8020/data/t", True),
        ("hdfs://other:8020/data/t", "hdfs://nn:8020/data/t", False),
        ("/data/t", "file:///data/t", True),
        ("/data/t", "hdfs://nn/data/t", True),
        ("file:/data/t", "s3://data/data/t", False),
    ],
)
def test_scheme_and_authority_count_where_both_locations_have_them(one: str, other: str, is_same: bool) -> None:
    assert is_same_location(one, other) is is_same_location(other, one) is is_same
