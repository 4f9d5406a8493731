"""The way of an error through the text of a Spark exception."""

from __future__ import annotations

import traceback

import pytest

from penstock.error_text import marked_ends, read_error
from penstock.errors import CorruptFile, OptionError, PayloadError, RecordKeyError
from penstock.keys import missing_key, typed_error


def test_a_marked_message_is_found_in_any_text_around_it() -> None:
    opening, closing = marked_ends()
    error = typed_error(f"[USER_RAISED_EXCEPTION] {opening}no key\nin row{closing} SQLSTATE: P0001\n\tat Task.run(Task.scala)")
    assert isinstance(error, RecordKeyError)
    assert str(error) == "no key\nin row"


def test_the_class_of_the_error_comes_back() -> None:
    opening, closing = marked_ends(OptionError)
    assert type(typed_error(f"{opening}x{closing}")) is OptionError


@pytest.mark.parametrize(
    "error", [CorruptFile("log file f, block at byte 7: odd"), PayloadError("payload 'p' raised\n  in fails")]
)
def test_what_a_reading_worker_raised_says_last_what_is_wrong_and_comes_back(error: Exception) -> None:
    told = read_error(error, "file group g of partition 'x'")  # type: ignore[arg-type]
    shown = "".join(traceback.format_exception_only(told))
    assert shown.splitlines()[-1].endswith(f"{str(error).splitlines()[0]} (while reading file group g of partition 'x')")
    assert all(line in shown for line in str(error).splitlines())
    for text in (shown, f"Job aborted: Traceback:\n{shown}\n\tat java.lang (X)\n\tat (Y)"):
        found = typed_error(text)
        assert (type(found), str(found)) == (type(error), str(told))


def test_other_texts_are_no_error_of_ours() -> None:
    assert typed_error("penstock.errors.CorruptFile: raised elsewhere") is None
    assert typed_error("java.lang.OutOfMemoryError: <<penstock:Unknown|x|penstock>>") is None


def test_a_missing_key_is_told_in_hudis_words_with_a_fix() -> None:
    assert 'recordKey value: "null" for field: "id" cannot be null or empty.' in str(missing_key("id", None))
    assert 'recordKey value: "" for field: "id" cannot be null or empty.' in str(missing_key("id", ""))
    assert "hoodie.datasource.write.recordkey.field" in str(missing_key("id", None))
