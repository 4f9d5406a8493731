"""The way of an error through the text of a Spark exception."""

from __future__ import annotations

from penstock.errors import OptionError, RecordKeyError
from penstock.keys import missing_key, typed_error
from penstock.keys.failures import marked_ends


def test_a_marked_message_is_found_in_any_text_around_it() -> None:
    opening, closing = marked_ends()
    error = typed_error(f"[USER_RAISED_EXCEPTION] {opening}no key\nin row{closing} SQLSTATE: P0001\n\tat Task.run(Task.scala)")
    assert isinstance(error, RecordKeyError)
    assert str(error) == "no key\nin row"


def test_the_class_of_the_error_comes_back() -> None:
    opening, closing = marked_ends(OptionError)
    assert type(typed_error(f"{opening}x{closing}")) is OptionError


def test_other_texts_are_no_error_of_ours() -> None:
    assert typed_error("java.lang.OutOfMemoryError: <<penstock:Unknown|x|penstock>>") is None


def test_a_missing_key_is_told_in_hudis_words_with_a_fix() -> None:
    assert 'recordKey value: "null" for field: "id" cannot be null or empty.' in str(missing_key("id", None))
    assert 'recordKey value: "" for field: "id" cannot be null or empty.' in str(missing_key("id", ""))
    assert "hoodie.datasource.write.recordkey.field" in str(missing_key("id", None))
