"""Partition paths as text: the default partition, escapes, which paths are allowed, and the values in a path.

This module does not import pyspark. The writer checks every new path with it before it creates the folder, and readers take
values out of a path. The expressions that make paths from columns are in `partition_path_column.py` and use the same table of
escapes, so both modules agree on every character.

Promise: a path that `check_partition_path` accepts stays below the table's base path, and is a plain folder there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.errors import RecordKeyError

#: The folder of null and empty values.
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

SEPARATOR = "/"

#: Characters that url encoding replaces by `%XX`; all others, also a blank and non-ASCII ones, stay.
ESCAPED_CHARACTERS = "".join(map(chr, range(0x20))) + "\x7f" + "\"#%'*/:=?\\{[]^"

#: The longest folder name that common file systems take.
COMPONENT_BYTES_MAX = 255

_ESCAPES = {ord(character): f"%{ord(character):02X}" for character in ESCAPED_CHARACTERS}
_ESCAPE_SEQUENCE = re.compile(r"%([0-9A-Fa-f]{2})")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_URL_ENCODING = "hoodie.datasource.write.partitionpath.urlencode=true"


def escape_path_value(text: str) -> str:
    """Return a partition value as a folder name: Hive's special characters become `%XX`, an empty text the default partition."""
    return text.translate(_ESCAPES) if text else DEFAULT_PARTITION


def unescape_path_value(text: str) -> str:
    """Return the text with every `%XX`, where XX are two hex digits, replaced by its character. Any other `%` stays."""
    return _ESCAPE_SEQUENCE.sub(lambda match: chr(int(match.group(1), 16)), text)


def check_partition_path(path: str) -> None:
    """Raise RecordKeyError unless a partition path is empty or names a folder below the table's base path.

    Raises:
        RecordKeyError: a folder name is empty, `.`, `..`, too long, hidden like `.hoodie`, or has a control character, or the
            first one has a colon.
    """
    if not path:
        return
    if path.startswith(SEPARATOR) or path.endswith(SEPARATOR):
        raise _invalid_path(path, "it starts or ends with a slash", _ENCODE)
    components = path.split(SEPARATOR)
    if ":" in components[0]:
        # Hadoop takes the text before a colon for the scheme of a URL, so Hudi could not open the folder.
        raise _invalid_path(path, "its first folder name has a colon, and real Hudi cannot open such a folder", _ENCODE)
    for component in components:
        _check_component(path, component)


def partition_values(path: str, fields: Sequence[str], *, hive_style: bool, url_encoded: bool) -> dict[str, str | None] | None:
    """Return the partition values in a path as field → text; None if the path does not have the expected form.

    A text of None stands for the default partition. If the table has one partition field, the whole path is its value, because
    values may hold slashes that were not encoded. Otherwise the number of folders must be the number of fields. If the result is
    None, the values are known only from the rows.

    Args:
        fields: the partition fields of the table.
        hive_style: whether each folder must start with `<field>=`.
        url_encoded: whether values were escaped, so that `%XX` stands for a character.
    """
    fragments = path.split(SEPARATOR) if path else []
    if len(fields) == 1 and fragments:
        fragments = [path]
    if len(fragments) != len(fields):
        return None
    values: dict[str, str | None] = {}
    for field, fragment in zip(fields, fragments, strict=True):
        if hive_style:
            if not fragment.startswith(f"{field}="):
                return None
            fragment = fragment[len(field) + 1 :]
        values[field] = _parse_value(fragment, url_encoded=url_encoded)
    return values


_ENCODE = f"set {_URL_ENCODING} when the table is created, or change the value"
_CHANGE = "change the value, or partition by another column"


def _check_component(path: str, component: str) -> None:
    """Raise RecordKeyError if one folder name of a partition path is not allowed.

    A name is not allowed if it is empty, `.`, `..`, too long, hidden like `.hoodie`, or has a control character.

    Args:
        path: the partition path, for the message.
        component: the folder name.
    """
    if not component:
        raise _invalid_path(path, "it has an empty folder name", _ENCODE)
    if component in (".", ".."):
        raise _invalid_path(path, f"the folder name {component!r} would leave its place in the table", _CHANGE)
    if component.startswith(".hoodie"):
        raise _invalid_path(path, "folder names that start with '.hoodie' belong to the table itself", _CHANGE)
    if _CONTROL_CHARACTER.search(component):
        raise _invalid_path(path, "it has a control character", _ENCODE)
    if len(component.encode("utf-8", "surrogatepass")) > COMPONENT_BYTES_MAX:
        raise _invalid_path(path, f"a folder name is longer than {COMPONENT_BYTES_MAX} bytes", _CHANGE)


def _invalid_path(path: str, why: str, fix: str) -> RecordKeyError:
    """Return the error about a partition path that is not allowed. A long path is cut in the message.

    Args:
        why: what is wrong with the path, for the message.
        fix: what the user should do, for the message.
    """
    short = path if len(path) <= 120 else f"{path[:117]}..."
    return RecordKeyError(f"partition path {short!r} cannot be used: {why}. Fix: {fix}.")


def _parse_value(fragment: str, *, url_encoded: bool) -> str | None:
    """Return the partition value in a folder name, without `<field>=`; None for the default partition."""
    if fragment == DEFAULT_PARTITION:
        return None
    return unescape_path_value(fragment) if url_encoded else fragment
