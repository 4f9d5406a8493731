"""Typed errors as text, and back: how an error inside a Spark job reaches the driver as the same error.

An expression can only raise text. `marked_ends` encloses the message, so that `typed_error` finds it in whatever Spark makes of
it: a stack trace, an error class, a Connect status. An error that a worker raises while a query reads (`read_error`) comes out of
Spark as a traceback inside another error; its last line says what went wrong.
"""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import OptionError, PayloadError, PenstockError, RecordKeyError, SchemaError

_OPEN, _CLOSE = "<<penstock:", ">>"
_CLASSES: dict[str, type[PenstockError]] = {
    kind.__name__: kind for kind in (RecordKeyError, SchemaError, OptionError, PayloadError)
}
_MARKED = re.compile(rf"<<penstock:({'|'.join(_CLASSES)})\|(.*?)\|penstock>>", re.DOTALL)
_READING = "(while reading "
_RAISED = re.compile(rf"penstock\.errors\.(\w+): (.*?{re.escape(_READING)}[^\n]*\))", re.DOTALL)


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
