"""Errors that a row causes inside a Spark job, and the way back to a typed error on the driver.

An expression can only raise text. `marked_ends` enclose the message so that `typed_error` finds it again in whatever
Spark makes of it (a stack trace, an error class, a Connect status). Pure: the worker raises the same errors from Arrow
columns. What a worker raises while a query reads (`read_error`) comes out of Spark as a traceback inside an error of its own:
what went wrong is its last line.

Wording: Hudi's sentence first, because people search for it, then what to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock import errors
from penstock.errors import OptionError, PayloadError, PenstockError, RecordKeyError, SchemaError
from penstock.keys.model import RECORD_KEY_OPTION

_OPEN, _CLOSE = "<<penstock:", ">>"
_CLASSES: dict[str, type[PenstockError]] = {
    kind.__name__: kind for kind in (RecordKeyError, SchemaError, OptionError, PayloadError)
}
_MARKED = re.compile(rf"<<penstock:({'|'.join(_CLASSES)})\|(.*?)\|penstock>>", re.DOTALL)
_READING = "(while reading "
_RAISED = re.compile(rf"penstock\.errors\.(\w+): (.*?{re.escape(_READING)}[^\n]*\))", re.DOTALL)

_KEY_FIX = (
    f"Fix: filter these rows or fill the column, or choose other columns with {RECORD_KEY_OPTION}; "
    "without that option keys are generated."
)


def typed_error(message: str) -> PenstockError | None:
    """Give the error that an expression or a reading worker raised, found in the text of a Spark exception; None if none did."""
    if found := _MARKED.search(message):
        return _CLASSES[found.group(1)](found.group(2))
    if found := _RAISED.search(message):
        kind: type[PenstockError] = getattr(errors, found.group(1), PenstockError)
        return kind(found.group(2))
    return None


def read_error(error: PenstockError, place: str) -> PenstockError:
    """The same error for Spark to show, as a query meets it: details first, and last the line that says what is wrong, and where.

    Args:
        place: what was read.
    """
    said, _, details = str(error).partition("\n")
    lines = [details, f"{said} {_READING}{place})"] if details else [f"{said} {_READING}{place})"]
    return type(error)("\n".join(lines))


def marked_ends(kind: type[PenstockError] = RecordKeyError) -> tuple[str, str]:
    """Give what goes before and after a message that `typed_error` shall find."""
    return f"{_OPEN}{kind.__name__}|", f"|penstock{_CLOSE}"


def missing_key(field: str, value: str | None) -> RecordKeyError:
    """The error for a row whose single key field is null (None) or empty."""
    return RecordKeyError(missing_key_message(field, "null" if value is None else value))


def missing_key_message(field: str, shown: str) -> str:
    return f'recordKey value: "{shown}" for field: "{field}" cannot be null or empty. {_KEY_FIX}'


def all_parts_missing_message(fields: Sequence[str], shown: str) -> str:
    return f'recordKey values: "{shown}" for fields: [{", ".join(fields)}] cannot be entirely null or empty. {_KEY_FIX}'
