"""Bloom filters, compared with the filters in Hudi's files and with a simple filter that adds one key at a time."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import random
import struct
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptFile, OptionError, RecordKeyError, Unsupported
from penstock.formats.bloom import BloomFilter, read_bloom, size_filter
from penstock.formats.murmur import Rounds, hash_few, key_spans, murmur
from tests.unit.golden import NAMES, golden_files

WORD = 0xFFFFFFFF
M = 0x5BD1E995

keys_of_all_kinds = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def slow_murmur(key: str, seed: int) -> int:
    data = key.encode()
    state = (seed ^ len(data)) & WORD
    whole = len(data) // 4
    for at in range(whole):
        k = int.from_bytes(data[4 * at : 4 * at + 4], "little") * M & WORD
        state = (state * M & WORD) ^ ((k ^ k >> 24) * M & WORD)
    over = len(data) - 4 * whole
    for back in range(over, 0, -1):
        signed = int.from_bytes(data[-back : len(data) - back + 1], "big", signed=True)
        state ^= signed << 8 * (back - 1) & WORD
    if over:
        state = state * M & WORD
    state = (state ^ state >> 13) * M & WORD
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


class SlowFilter:
    """A dynamic filter that takes one key at a time and keeps sets of positions."""

    def __init__(self, entries: int, error_rate: float, max_entries: int) -> None:
        self.entries = entries
        self.max_entries = max_entries
        self.bits = math.ceil(entries * (-math.log(error_rate) / math.log(2) ** 2))
        self.hashes = math.ceil(math.log(2) * self.bits / entries)
        self.rows: list[set[int]] = [set()]
        self.count = 0
        self.is_full = False
        self.turn = 0

    def add(self, key: str) -> None:
        if self.is_full:
            row = self.rows[self.turn % len(self.rows)]
            self.turn += 1
        elif self.count < self.entries:
            row = self.rows[-1]
        elif len(self.rows) * self.entries < self.max_entries:
            self.rows.append(row := set())
            self.count = 0
        else:
            self.is_full = True
            row = self.rows[0]
        value = 0
        for _ in range(self.hashes):
            value = slow_murmur(key, value)
            row.add(abs(int(math.fmod(value, self.bits))))
        self.count += 1

    def to_text(self) -> str:
        head = struct.pack(">iibi", -1, self.hashes, 1, self.bits)
        rows = [head + self._packed(row) for row in self.rows]
        return base64.b64encode(head + struct.pack(">iii", self.entries, self.count, len(rows)) + b"".join(rows)).decode()

    def _packed(self, row: set[int]) -> bytes:
        packed = bytearray((self.bits + 7) // 8)
        for position in row:
            packed[position // 8] |= 1 << position % 8
        return bytes(packed)


def uuids(count: int, seed: int = 0) -> pa.Array:
    source = random.Random(seed)
    return pa.array([str(uuid.UUID(int=source.getrandbits(128))) for _ in range(count)])


@pytest.mark.parametrize(("key", "expected"), [("1", 1228156847), ("id:1,name:Alice", 71696166), ("é", -384040333)])
def test_the_hash_is_hudis(key: str, expected: int) -> None:
    assert murmur(pa.array([key]), 0).tolist() == [expected]


@settings(deadline=None)
@given(st.lists(keys_of_all_kinds, min_size=1), st.integers(-(2**31), 2**31 - 1))
def test_many_keys_have_the_hashes_of_single_keys(keys: list[str], seed: int) -> None:
    assert murmur(pa.array(keys), seed).tolist() == [slow_murmur(key, seed) for key in keys]


@given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 5))
def test_few_keys_of_one_length_have_the_hashes_of_single_keys_in_every_round(length: int, count: int, seed: int) -> None:
    source = random.Random(seed)
    keys = ["".join(chr(source.randrange(1, 128)) for _ in range(length)) for _ in range(count)]
    (span,) = key_spans(pa.array(keys))
    (block,) = span.blocks()
    hashes = hash_few(block, 3).view(np.int32).T.tolist()
    for key, found in zip(keys, hashes, strict=True):
        first = slow_murmur(key, 0)
        second = slow_murmur(key, first)
        assert found == [first, second, slow_murmur(key, second)]


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_a_filter_of_few_keys_is_built_without_rounds_of_numpy_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = uuids(20)
    monkeypatch.setattr("penstock.formats.bloom._FEW_KEYS", 0)
    expected = BloomFilter.create(kind, 8, 1e-9, 16)
    expected.add(keys)
    monkeypatch.undo()
    monkeypatch.delattr("penstock.formats.bloom.Rounds")
    found = BloomFilter.create(kind, 8, 1e-9, 16)
    found.add(keys)
    assert found.to_text() == expected.to_text()


def test_a_simple_filter_of_one_key_is_the_one_hudi_wrote() -> None:
    made = BloomFilter.create("SIMPLE", 10, 0.01, 0)
    made.add(pa.array(["id:1,name:Alice"]))

    assert made.to_text() == "/////wAAAAcBAAAAYECAAAEAGAAAAAAQIA=="
    assert made.type_code == "SIMPLE"


@pytest.mark.parametrize(
    ("entries", "error_rate", "size"),
    [
        (60000, 1e-9, (2587966, 30)),
        (1000, 1e-6, (28756, 20)),
        (20, 1e-9, (863, 30)),
        (50, 0.01, (480, 7)),
        (10, 0.01, (96, 7)),
    ],
)
def test_a_filter_has_the_size_of_hudis_filter(entries: int, error_rate: float, size: tuple[int, int]) -> None:
    assert size_filter(entries, error_rate) == size


def test_the_default_filter_has_hudis_bytes() -> None:
    made = BloomFilter.create("DYNAMIC_V0", 60000, 1e-9, 100000)
    made.add(uuids(3))
    text = made.to_text()

    assert len(text) == 431380
    head = bytes.fromhex("ffffffff0000001e0100277d3e0000ea600000000300000001ffffffff0000001e0100277d3e")
    assert base64.b64decode(text).startswith(head)
    assert len(base64.b64decode(text)) == 323534
    assert made.type_code == "DYNAMIC_V0"


@pytest.mark.parametrize("name", NAMES)
def test_every_filter_of_a_golden_table_is_rebuilt_bit_for_bit(name: str) -> None:
    for path, data in golden_files(name, "*.parquet").items():
        file = pq.ParquetFile(io.BytesIO(data))
        footer = file.metadata.metadata
        if b"org.apache.hudi.bloomfilter" not in footer:
            assert name.endswith("no_metafields"), path
            continue
        text = footer[b"org.apache.hudi.bloomfilter"].decode()
        code = footer[b"hoodie_bloom_filter_type_code"].decode()
        keys = file.read(["_hoodie_record_key"]).column(0)

        ours = BloomFilter.create(code, 60000, 1e-9, 100000)
        ours.add(keys)

        assert ours.to_text() == text
        stored = read_bloom(text, code)
        assert stored.might_contain(keys).all()
        assert not stored.might_contain(uuids(500)).any()
        assert stored.to_text() == text


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("DYNAMIC_V0", "c50bd1d5537d7cef8eca8589b31f877b8a0555cb9549fee5b95274ed8521d1d0"),
        ("SIMPLE", "950410dd792397d01da02f4ea56674974c1bd92c0dc4063731f401264e6cdd41"),
    ],
)
def test_ten_times_as_many_keys_as_planned_make_the_filter_that_hudi_wrote(kind: str, digest: str) -> None:
    """The digests are of the footers of files that Hudi 0.15.0 wrote with these keys and settings."""
    made = BloomFilter.create(kind, 100, 0.001, 250)
    made.add(pa.array([f"key-{number:04d}-{'é€x'[number % 3] * (number % 5)}" for number in range(1000)]))

    assert hashlib.sha256(made.to_text().encode()).hexdigest() == digest


@settings(deadline=None)
@given(
    keys=st.lists(keys_of_all_kinds, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    entries=st.integers(1, 12),
    max_entries=st.integers(0, 30),
    reread=st.booleans(),
)
def test_batches_fill_and_overflow_a_dynamic_filter_as_single_keys_do(
    keys: list[str], cuts: list[int], entries: int, max_entries: int, reread: bool
) -> None:
    slow = SlowFilter(entries, 0.01, max_entries)
    for key in keys:
        slow.add(key)
    fast = BloomFilter.create("DYNAMIC_V0", entries, 0.01, max_entries)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(keys)], strict=True):
        fast.add(pa.array(keys[start:stop], pa.string()))
        if reread:
            fast = read_bloom(fast.to_text(), "DYNAMIC_V0", max_entries)

    assert fast.to_text() == slow.to_text()
    assert fast.might_contain(pa.array(keys, pa.string())).all()


def test_the_first_two_overflowing_keys_go_to_row_0() -> None:
    keys = [f"key-{number}" for number in range(8)]  # 2 rows of 2, then 0 0 1 0
    slow = SlowFilter(2, 0.01, 3)
    fast = BloomFilter.create("DYNAMIC_V0", 2, 0.01, 3)
    for key in keys:
        slow.add(key)
    fast.add(pa.array(keys))

    assert len(slow.rows) == 2
    assert fast.to_text() == slow.to_text()


@pytest.mark.parametrize("make", [lambda keys: keys, lambda keys: [f"{key[: number % 31]}#" for number, key in enumerate(keys)]])
def test_the_size_of_blocks_does_not_change_the_filter(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.array(make(uuids(1000).to_pylist()))  # type: ignore[operator]
    whole = BloomFilter.create("DYNAMIC_V0", 300, 1e-3, 500)
    whole.add(keys)
    probe = pa.concat_arrays([keys, uuids(1000, seed=1)])
    expected = whole.might_contain(probe)

    monkeypatch.setattr("penstock.formats.murmur._BLOCK_KEYS", 97)
    monkeypatch.setattr("penstock.formats.murmur._BLOCK_BYTES", 1500)
    monkeypatch.setattr("penstock.formats.bloom._UNPACKED_BYTES", 1500)
    pieces = BloomFilter.create("DYNAMIC_V0", 300, 1e-3, 500)
    pieces.add(keys)

    assert pieces.to_text() == whole.to_text()
    assert (pieces.might_contain(probe) == expected).all()
    assert (murmur(keys, 5) == [slow_murmur(key, 5) for key in keys.to_pylist()]).all()


def has_casts_of_views() -> bool:
    try:
        pa.array(["a"]).cast(pa.string_view())
    except pa.ArrowNotImplementedError:
        return False
    return True


VIEWS = pytest.param(
    pa.string_view(), marks=pytest.mark.skipif(not has_casts_of_views(), reason="this pyarrow casts nothing to or from views")
)


@pytest.mark.parametrize("kind", [pa.large_string(), VIEWS, pa.dictionary(pa.int32(), pa.string()), pa.binary()])
def test_keys_of_any_string_type_are_the_same_keys(kind: pa.DataType) -> None:
    keys = pa.array(["a", "bé", "ccc€", "a"])
    plain, other = (BloomFilter.create("SIMPLE", 10, 0.01, 0) for _ in range(2))
    plain.add(keys)
    other.add(keys.cast(kind) if not pa.types.is_dictionary(kind) else keys.dictionary_encode())

    assert other.to_text() == plain.to_text()


@pytest.mark.parametrize("keys", [["abcdefgh"], ["abcd", "efgh"], ["abcd", "efghi"]])
def test_the_callers_keys_are_not_changed(keys: list[str]) -> None:
    array = pa.array(keys)
    BloomFilter.create("SIMPLE", 10, 0.01, 0).add(array)

    assert array.to_pylist() == keys


def test_of_slices_and_chunks_only_their_own_keys_are_added() -> None:
    keys = uuids(100)
    plain, other = (BloomFilter.create("DYNAMIC_V0", 20, 0.01, 40) for _ in range(2))
    plain.add(pa.array(keys.to_pylist()[10:70]))
    other.add(pa.chunked_array([keys[10:11], keys[11:11], keys[11:70]]))

    assert other.to_text() == plain.to_text()


def test_answers_have_the_order_of_the_keys() -> None:
    made = BloomFilter.create("DYNAMIC_V0", 60000, 1e-9, 100000)
    inside = pa.array([f"in-{'x' * (number % 9)}{number}" for number in range(1000)])
    made.add(inside)
    probe = []
    for added, other in zip(inside.to_pylist(), uuids(1000).to_pylist(), strict=True):
        probe += [added, other]

    assert made.might_contain(pa.array(probe)).tolist() == [True, False] * 1000


def test_a_filter_has_no_more_false_positives_than_configured() -> None:
    made = BloomFilter.create("SIMPLE", 2000, 0.01, 0)
    made.add(uuids(2000))

    assert 0 < made.might_contain(uuids(20000, seed=1)).mean() < 0.02


def test_a_dynamic_filter_keeps_its_rate_of_false_positives_up_to_the_bound_and_not_beyond() -> None:
    keys = pa.array(np.arange(1_000_000)).cast(pa.string())
    asked = pa.array(np.arange(2_000_000, 2_040_000)).cast(pa.string())
    grown, capped = (BloomFilter.create("DYNAMIC_V0", 50_000, 0.001, most) for most in (1_000_000, 50_000))
    for rows, part in ((5, keys[:250_000]), (20, keys[250_000:])):
        grown.add(part)
        assert 0 < grown.might_contain(asked).mean() < 1.5 * rows * 0.001, "each row may err once in a thousand times"
    assert grown.might_contain(keys).all()
    capped.add(keys[:250_000])
    assert capped.might_contain(asked).mean() > 0.2


def test_an_empty_filter_contains_no_key_and_adding_no_keys_changes_nothing() -> None:
    made = BloomFilter.create("DYNAMIC_V0", 10, 0.01, 20)
    before = made.to_text()
    made.add(pa.array([], pa.string()))
    made.add(pa.chunked_array([], pa.string()))

    assert made.to_text() == before
    assert not made.might_contain(uuids(100)).any()
    assert made.might_contain(pa.array([], pa.string())).tolist() == []


def test_keys_can_be_looked_up_between_two_batches() -> None:
    made = BloomFilter.create("DYNAMIC_V0", 10, 0.01, 20)
    keys = uuids(30)
    for at in range(0, 30, 3):
        made.add(keys[at : at + 3])
        assert made.might_contain(keys[: at + 3]).all()


@pytest.mark.parametrize("keys", [["a", ""], ["", ""], ["a", None], [None]])
@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_an_empty_or_null_key_is_refused_and_no_key_is_added(kind: str, keys: list[str | None]) -> None:
    made = BloomFilter.create(kind, 10, 0.01, 20)
    before = made.to_text()

    with pytest.raises(RecordKeyError, match="at least one byte"):
        made.add(pa.chunked_array([pa.array(["fine"]), pa.array(keys, pa.string())]))
    with pytest.raises(RecordKeyError):
        made.might_contain(pa.array(keys, pa.string()))

    assert made.to_text() == before


@pytest.mark.parametrize(
    ("kind", "entries", "error_rate", "named"),
    [
        ("DYNAMIC", 10, 0.01, "hoodie.bloom.index.filter.type"),
        ("SIMPLE", 0, 0.01, "hoodie.index.bloom.num_entries"),
        ("SIMPLE", 10, 0.0, "hoodie.index.bloom.fpp"),
        ("SIMPLE", 10, 1.0, "hoodie.index.bloom.fpp"),
        ("SIMPLE", 10, float("nan"), "hoodie.index.bloom.fpp"),
        ("SIMPLE", 10**9, 1e-9, "hoodie.index.bloom.num_entries"),
    ],
)
def test_a_size_out_of_range_is_refused_with_the_name_of_its_option(
    kind: str, entries: int, error_rate: float, named: str
) -> None:
    with pytest.raises(OptionError, match=named):
        BloomFilter.create(kind, entries, error_rate, 100)


def test_a_filter_without_type_code_is_a_simple_one() -> None:
    assert read_bloom("/////wAAAAcBAAAAYECAAAEAGAAAAAAQIA==", None).might_contain(pa.array(["id:1,name:Alice"])).all()


@pytest.mark.parametrize("code", ["SIMPLE", "DYNAMIC_V0"])
def test_a_damaged_filter_is_a_corrupt_file(code: str) -> None:
    made = BloomFilter.create(code, 10, 0.01, 20)
    data = base64.b64decode(made.to_text())

    for length in range(len(data)):
        with pytest.raises(CorruptFile):
            read_bloom(base64.b64encode(data[:length]).decode(), code)
    with pytest.raises(CorruptFile):
        read_bloom(base64.b64encode(data + b"\0").decode(), code)
    with pytest.raises(CorruptFile):
        read_bloom("not base64!", code)


def test_an_unknown_kind_or_hash_is_unsupported() -> None:
    text = BloomFilter.create("SIMPLE", 10, 0.01, 0).to_text()
    with_jenkins = bytearray(base64.b64decode(text))
    with_jenkins[8] = 0

    with pytest.raises(Unsupported, match="DYNAMIC_V9"):
        read_bloom(text, "DYNAMIC_V9")
    with pytest.raises(Unsupported, match="hash type 0"):
        read_bloom(base64.b64encode(with_jenkins).decode(), "SIMPLE")


def test_the_smallest_int_has_a_position() -> None:
    """Java's abs(MIN_VALUE % bits): the absolute value of MIN_VALUE itself does not fit an int."""
    block = next(iter(key_spans(pa.array(["any"]))[0].blocks()))
    rounds = Rounds(block)
    rounds.hash = lambda: None  # type: ignore[method-assign]
    rounds.state[:] = np.int32(-(2**31))

    assert rounds.next_positions(np.array(2587966, np.uint32)).tolist() == [2**31 % 2587966]
