"""Joda-Time patterns: their parts, and the ways to read them."""

from __future__ import annotations

import re

import pytest

from penstock.errors import OptionError
from penstock.keys.joda_pattern import Token, parse_print_pattern, parse_read_pattern

OPTION = "hoodie.keygen.timebased.output.dateformat"


def test_a_pattern_falls_into_runs_of_letters_and_text() -> None:
    assert parse_print_pattern("yyyy-MM'T'HH", option=OPTION) == (
        Token("y", 4),
        Token(text="-"),
        Token("M", 2),
        Token(text="T"),
        Token("H", 2),
    )


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("''", "'"), ("'it''s'", "it's"), ("'a' 'b'", "a b"), ("'day='", "day="), ("'open", "open"), ("''''", "''")],
)
def test_quotes_enclose_text_and_two_make_one(pattern: str, text: str) -> None:
    assert parse_print_pattern(pattern, option=OPTION) == (Token(text=text),)


@pytest.mark.parametrize("pattern", ["yyyy-MM-ddTHH", "uuuu", "z", "L", "n", "b"])
def test_a_letter_without_a_sure_meaning_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"{OPTION}={pattern}")):
        parse_print_pattern(pattern, option=OPTION)


@pytest.mark.parametrize("pattern", ["yyyy G", "CC", "yyyy z", "ww", "xxxx-MM", ""])
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="hoodie.in"):
        parse_read_pattern(pattern, option="hoodie.in")


@pytest.mark.parametrize(
    ("pattern", "fixed"),
    [
        ("yyyy-MM-dd", True),
        ("yyyyMMdd", True),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", True),
        ("yyyy-M-d", False),
        ("yy-MM-dd", False),
        ("dd MMM yyyy", False),
        ("Z yyyy", False),
        ("yyyy-DDD", False),
    ],
)
def test_padded_numbers_can_be_read_by_position(pattern: str, fixed: bool) -> None:
    assert (parse_read_pattern(pattern, option=OPTION).fixed_regex is not None) is fixed


def test_positions_count_the_text_between_the_numbers() -> None:
    reading = parse_read_pattern("'on' yyyy-MM-dd HH", option=OPTION)
    assert reading.starts == (3, 8, 11, 14)
    assert [token.letter for token in reading.groups] == ["y", "M", "d", "H"]


def test_a_year_before_another_number_takes_no_more_than_its_width() -> None:
    assert r"\d{1,4}+" in parse_read_pattern("yyyyMM", option=OPTION).regex
    assert r"\d{1,9}+" in parse_read_pattern("yyyy-MM", option=OPTION).regex


def test_the_last_of_two_fields_with_one_letter_counts() -> None:
    assert parse_read_pattern("yyyy yyyy", option=OPTION).position("y") == 1
    assert parse_read_pattern("yyyy", option=OPTION).position("M") is None
