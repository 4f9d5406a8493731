"""Partition paths as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RecordKeyError
from penstock.keys.partition_path import (
    DEFAULT_PARTITION,
    check_partition_path,
    escape_path_value,
    partition_values,
    unescape_path_value,
)


def test_special_characters_are_escaped_as_hive_does() -> None:
    assert escape_path_value("a/b c:d=e%é\t{x}[y]^~") == "a%2Fb c%3Ad%3De%25é%09%7Bx}%5By%5D%5E~"


def test_an_empty_value_is_the_default_partition() -> None:
    assert escape_path_value("") == DEFAULT_PARTITION == "__HIVE_DEFAULT_PARTITION__"


@given(st.text(min_size=1))
def test_escaping_can_be_undone_and_leaves_one_folder_name(text: str) -> None:
    escaped = escape_path_value(text)
    assert unescape_path_value(escaped) == text
    assert not set(escaped) & set("/:=\x00\n")


@pytest.mark.parametrize(("text", "plain"), [("a%2", "a%2"), ("%zz", "%zz"), ("100%", "100%"), ("%2f%2F", "//")])
def test_only_a_percent_sign_with_two_hex_digits_is_an_escape(text: str, plain: str) -> None:
    assert unescape_path_value(text) == plain


@pytest.mark.parametrize(
    "path", ["", "2024", "2024/02/29", "dt=2024-02-29", "a b", "日本/é", DEFAULT_PARTITION, "x" * 255, ".a", "...", "1/t:2"]
)
def test_ordinary_paths_pass(path: str) -> None:
    check_partition_path(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("..", "leave"),
        ("../../etc", "leave"),
        ("a/../b", "leave"),
        ("a/./b", "leave"),
        ("/a", "slash"),
        ("a/", "slash"),
        ("/", "slash"),
        ("a//b", "empty"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("a\x7f", "control character"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        (".hoodie", "belong to the table"),
        ("a/.hoodie_partition_metadata", "belong to the table"),
        ("a:b", "colon"),
        ("t=09:54/b", "colon"),
    ],
)
def test_a_path_that_is_no_plain_folder_below_the_table_is_refused(path: str, why: str) -> None:
    with pytest.raises(RecordKeyError, match=why) as refusal:
        check_partition_path(path)
    assert "Fix:" in str(refusal.value)


def test_the_refusal_shows_the_value_but_not_all_of_a_long_one() -> None:
    with pytest.raises(RecordKeyError) as refusal:
        check_partition_path("x" * 300)
    assert "xxx..." in str(refusal.value)
    assert len(str(refusal.value)) < 350


@given(st.text(min_size=1, max_size=20))
def test_an_escaped_value_is_refused_only_for_its_name(text: str) -> None:
    escaped = escape_path_value(text)
    if escaped in (".", "..") or escaped.startswith(".hoodie"):
        with pytest.raises(RecordKeyError):
            check_partition_path(escaped)
    else:
        check_partition_path(escaped)


def test_values_come_out_of_a_path_by_position() -> None:
    assert partition_values("a/b", ["x", "y"], hive_style=False, url_encoded=False) == {"x": "a", "y": "b"}


def test_values_come_out_of_a_hive_style_path_by_name() -> None:
    path = "x=a%2Fb/y.z=k=v"
    assert partition_values(path, ["x", "y.z"], hive_style=True, url_encoded=True) == {"x": "a/b", "y.z": "k=v"}
    assert partition_values(path, ["x", "y.z"], hive_style=True, url_encoded=False) == {"x": "a%2Fb", "y.z": "k=v"}


def test_the_default_partition_is_no_value() -> None:
    path = f"x={DEFAULT_PARTITION}/y=1"
    assert partition_values(path, ["x", "y"], hive_style=True, url_encoded=False) == {"x": None, "y": "1"}


def test_a_single_value_may_have_slashes() -> None:
    assert partition_values("2024/02/29", ["ts"], hive_style=False, url_encoded=False) == {"ts": "2024/02/29"}
    assert partition_values("ts=2024/02/29", ["ts"], hive_style=True, url_encoded=False) == {"ts": "2024/02/29"}


@pytest.mark.parametrize(
    ("path", "fields", "hive_style"),
    [("a/b/c", ["x", "y"], False), ("a", ["x", "y"], False), ("x=1/z=2", ["x", "y"], True), ("1", ["x"], True), ("a", [], False)],
)
def test_a_path_that_does_not_fit_the_fields_gives_no_values(path: str, fields: list[str], hive_style: bool) -> None:
    assert partition_values(path, fields, hive_style=hive_style, url_encoded=False) is None


def test_a_table_without_partitions_has_no_values() -> None:
    assert partition_values("", [], hive_style=True, url_encoded=True) == {}
    assert partition_values("", ["x"], hive_style=False, url_encoded=False) is None
