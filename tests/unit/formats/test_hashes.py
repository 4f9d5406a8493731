"""Hashes of columns of texts are those that Java's libraries compute one by one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from penstock.formats import hashes
from penstock.formats.hashes import java_hash, xx_hash

TEXTS = ["", "a", "abc", "é1", "😀x", "z" * 300, "Nobody inspects the spammish repetition", "\ud7ff\ue000"]


def java_hash_of(text: str) -> int:
    """Compute `String.hashCode` unit by unit."""
    data = text.encode("utf-16-le")
    code = 0
    for at in range(0, len(data), 2):
        code = (31 * code + int.from_bytes(data[at : at + 2], "little")) % 2**32
    return code


def test_the_hash_of_a_string_is_that_of_java() -> None:
    drawn = random.Random(3)
    texts = TEXTS + ["".join(drawn.choice("ab:,é😀0_") for _ in range(drawn.randrange(40))) for _ in range(300)]
    assert java_hash(pa.array(texts)).tolist() == [java_hash_of(text) for text in texts]


def test_strings_of_one_length_have_the_hashes_of_single_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "_ROWS_AT_ONCE", 7)
    texts = [f"{number * 7919:036d}" for number in range(50)]
    assert java_hash(pa.array(["", *texts, ""]).slice(1, 50)).tolist() == [java_hash_of(text) for text in texts]
    assert java_hash(pa.array(["é", "è"])).tolist() == [java_hash_of("é"), java_hash_of("è")]


def test_a_slice_has_the_hashes_of_its_own_strings() -> None:
    texts = pa.array(TEXTS)
    assert java_hash(texts.slice(2, 4)).tolist() == [java_hash_of(text) for text in TEXTS[2:6]]
    assert java_hash(texts.slice(1, 0)).tolist() == []
    assert java_hash(pa.array([None, "b"], pa.string())).tolist() == [0, 98]


def test_xx_hash_returns_the_numbers_of_its_specification() -> None:
    known = {"": 0x02CC5D05, "a": 0x550D7456, "abc": 0x32D153FF, TEXTS[6]: 0xE2293B2F}
    assert xx_hash(pa.array(list(known))).tolist() == list(known.values())
    assert xx_hash(pa.array(["abc", "a", "", "abc"])).tolist() == [known["abc"], known["a"], known[""], known["abc"]]
