"""Thrift structs come back as the bytes they were, whatever fields they have; damaged bytes are refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import CorruptFile
from penstock.formats.thrift_compact import Struct, Value, Wire, decode_struct, encode_struct

NUMBERS = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.one_of(
    st.builds(Value, st.just(Wire.I64), NUMBERS),
    st.builds(Value, st.sampled_from([Wire.I32, Wire.I16]), st.integers(-(2**15), 2**15 - 1)),
    st.builds(Value, st.just(Wire.BINARY), st.binary(max_size=200)),
    st.builds(Value, st.sampled_from([Wire.TRUE, Wire.FALSE]), st.none()),
    st.builds(Value, st.just(Wire.BYTE), st.integers(0, 255)),
    st.builds(Value, st.just(Wire.DOUBLE), st.floats(allow_nan=False)),
    st.builds(Value, st.just(Wire.LIST), st.tuples(st.just(Wire.I64), st.lists(NUMBERS, max_size=20))),
    st.builds(Value, st.just(Wire.LIST), st.tuples(st.just(Wire.TRUE), st.lists(st.sampled_from([1, 2]), max_size=20))),
)


def structs(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Struct]:
    """Return a strategy for structs with these values; ids of fields may be far apart."""
    return st.dictionaries(st.integers(1, 2000), values, max_size=6)


NESTED = st.one_of(
    PLAIN,
    st.builds(Value, st.just(Wire.STRUCT), structs(PLAIN)),
    st.builds(Value, st.just(Wire.LIST), st.tuples(st.just(Wire.STRUCT), st.lists(structs(PLAIN), max_size=3))),
)


@given(structs(NESTED))
def test_a_struct_is_decoded_to_what_was_encoded(fields: Struct) -> None:
    assert decode_struct(encode_struct(fields)) == fields


def test_a_footer_of_parquet_is_encoded_to_the_same_bytes() -> None:
    sink = pa.BufferOutputStream()
    columns = {f"column{number}": pa.array([number, None, -number]) for number in range(40)}
    pq.write_table(pa.table({**columns, "text": ["a", "b", None], "flag": [True, False, None]}), sink, write_page_index=True)
    data = sink.getvalue().to_pybytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8]
    assert encode_struct(decode_struct(footer)) == footer


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x18\x05ab", b"\x1b\x01", b"\x1f\x00", b"\x19\xfc"])
def test_bytes_that_end_too_early_or_hold_an_unknown_type_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile, match=f"{len(data)} bytes that are no Thrift struct"):
        decode_struct(data)
