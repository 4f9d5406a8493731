"""Keys find their buckets as in Hudi, and file groups say theirs. The numbers of the first test are Hudi 0.15's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.bucket_hash import FixedBuckets, hash_keys, have_bucket_ids
from tests.unit.formats.test_hashes import java_hash_of


def list_hash(*values: str | None) -> int:
    """`List.hashCode` of Java texts."""
    found = 1
    for value in values:
        found = (31 * found + (0 if value is None else java_hash_of(value))) % 2**32
    return found


@pytest.mark.parametrize(
    ("key", "fields", "values"),
    [
        ("k1", ("id",), ["k1"]),
        ("é7", ("id",), ["é7"]),
        ("k:5", ("id",), []),  # taken for a column k
        ("a,b", ("id",), ["a,b"]),
        ("id:a,,", ("id",), ["a"]),
        ("k:1,b", ("id",), ["b"]),
        ("id:1,ts:5", ("id",), ["1"]),
        ("id:1,ts:5", ("ts", "id"), ["1", "5"]),  # in the order of the key
        ("id:x:y,ts:5", ("id",), ["x:y"]),
        ("id:__null__,ts:__empty__", ("id", "ts"), [None, ""]),
    ],
)
def test_the_hash_of_a_key_is_that_of_the_list_of_its_values(key: str, fields: tuple[str, ...], values: list[str | None]) -> None:
    assert hash_keys(pa.array(["plain", key]), fields).tolist() == [list_hash("plain"), list_hash(*values)]


def test_a_file_id_begins_with_the_bucket() -> None:
    buckets = FixedBuckets(300, ("id",))
    file_id = buckets.new_file_id(255)
    assert (file_id[:9], file_id[-2:], len(file_id)) == ("00000255-", "-0", 38)
    assert buckets.number_of(slice_of(file_id)) == 255


def test_a_file_group_that_cannot_be_a_bucket_of_the_table_is_refused() -> None:
    buckets = FixedBuckets(4, ("id",))
    with pytest.raises(OptionError, match=r"not a bucket.*hoodie.index.type=BUCKET would make duplicates"):
        buckets.number_of(slice_of("1f2e3d4c-0000-4000-8000-000000000000-0"))
    with pytest.raises(OptionError, match=r"is bucket 4, but hoodie.bucket.index.num.buckets is 4"):
        buckets.number_of(slice_of(FixedBuckets(5, ()).new_file_id(4)))
    twice = [slice_of(buckets.new_file_id(1)) for _ in range(2)]
    with pytest.raises(CorruptFile, match="belongs to the same bucket id = 1"):
        buckets.by_number(twice)


def test_a_file_with_keys_of_other_buckets_is_refused_as_written_with_another_number_of_buckets() -> None:
    keys = pa.array([f"k{i}" for i in range(40)])
    eight = FixedBuckets(8, ("id",))
    number = int(eight.numbers(keys)[0])
    own = [key for key, at in zip(keys.to_pylist(), eight.numbers(keys).tolist(), strict=True) if at == number]
    slice_ = slice_of(eight.new_file_id(number))
    eight.check_keys(slice_, own)
    with pytest.raises(OptionError, match=r"not written with hoodie.bucket.index.num.buckets=7"):
        FixedBuckets(7 if number < 7 else 9, ("id",)).check_keys(slice_, own)


def test_file_ids_with_bucket_numbers_differ_from_random_ones() -> None:
    assert have_bucket_ids(["00000012-aaaa-4aaa-8aaa-aaaaaaaaaaaa-0"])
    assert not have_bucket_ids(["00000012-aaaa-4aaa-8aaa-aaaaaaaaaaaa-0", "12345678-aaaa-4aaa-8aaa-aaaaaaaaaaaa-0"])


def slice_of(file_id: str) -> FileSlice:
    return FileSlice("p", file_id, "001")
