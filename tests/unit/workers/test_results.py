"""Results and errors of kernels as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_origin

import pytest

from penstock.errors import OptionError, PenstockError, SchemaError
from penstock.timeline.commit_file import WriteStat
from penstock.workers import results
from penstock.workers.results import decode_result, encode_results


@dataclass(frozen=True)
class Inner:
    name: str
    size: int = 0


@dataclass(frozen=True)
class Outer:
    items: tuple[Inner, ...]
    pairs: tuple[tuple[str, int], ...]
    maybe: Inner | None = None
    many: list[Inner] | None = None


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        (Inner("a", 1), Inner),
        ([Inner("a"), Inner("b")], list[Inner]),
        (Outer((Inner("a"),), (("p", 3),)), Outer),
        (Outer((), (), Inner("b"), [Inner("c")]), Outer),
        ([WriteStat("f", None, "p/f", min_event_time=3, log={"logFiles": ["x"]})], list[WriteStat]),
        ("text", str),
        (["text", ["a", 3]], list[Any]),
        (None, Any),
    ],
)
def test_a_result_is_the_same_after_its_journey(value: Any, returns: Any) -> None:
    (text,) = encode_results(lambda: [value])
    assert decode_result(text, returns) == value


def test_the_types_of_a_result_are_examined_once_for_thousands_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = encode_results(lambda: [Outer((Inner("a"),), (("p", 3),))])
    examined: list[Any] = []

    def count(kind: Any) -> Any:
        examined.append(kind)
        return get_origin(kind)

    monkeypatch.setattr("penstock.workers.results.get_origin", count)
    results._converter.cache_clear()
    first = decode_result(text, Outer)
    once = len(examined)
    assert all(decode_result(text, Outer) == first for _ in range(1_000))
    assert (len(examined), once > 0) == (once, True)


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("error", [OptionError("a is missing"), SchemaError("b is text")])
def test_an_error_of_penstock_is_raised_on_the_driver_with_its_type_and_message(error: PenstockError) -> None:
    (text,) = encode_results(lambda: _raise(error))
    with pytest.raises(type(error), match=str(error)):
        decode_result(text, Inner)


def test_any_other_error_is_left_to_spark() -> None:
    with pytest.raises(ZeroDivisionError):
        encode_results(lambda: _raise(ZeroDivisionError()))


def test_an_error_of_an_unknown_name_is_a_penstock_error() -> None:
    with pytest.raises(PenstockError, match="hello"):
        decode_result('{"error": "NewerError", "message": "hello"}', Inner)
