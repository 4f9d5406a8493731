"""What Spark offers for a table format and Penstock does not have yet: `readStream`, `writeTo`, tables of a catalog, SQL.

Without this module Spark would look for Hudi's jar, and its error would tell the user to find one. Here each attempt raises one
`Unsupported` that says what to do instead. Statements of other formats go to Spark unchanged: a SQL statement is looked at only
after Spark has failed on it, and if Spark's error says that it does not know Hudi.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import Unsupported
from penstock.spark.datasource import is_hudi

_READ_STREAM = (
    "readStream with format 'hudi' is not supported yet. Read what changed since the last run with "
    "Table.open(path).read_changes(since=...), or with spark.read and hoodie.datasource.query.type=incremental"
)
_WRITE_TO = (
    "writeTo(...).using('hudi') is not supported yet. Write to a path with df.write.format('hudi').options(**hoodie).save(path)"
)
_USING = (
    "SQL with USING hudi is not supported yet. Create the table with penstock.Table.create(path, ...), and query it as a view: "
    "spark.read.format('hudi').load(path).createOrReplaceTempView(name)"
)
_CREATE_TABLE = (
    "catalog.createTable with source 'hudi' is not supported yet. Create the table with penstock.Table.create(path, ...), and "
    "query it as a view: spark.read.format('hudi').load(path).createOrReplaceTempView(name)"
)
_CALL = (
    "CALL of Hudi's procedures is not supported yet. They are methods of penstock.Table.open(path), such as compact, "
    "cluster, clean, savepoint and rollback, and commands of the program `penstock services`"
)
_PATH = (
    "hudi.`path` in SQL is not supported yet. Make a view of the table and query that: "
    "spark.read.format('hudi').load(path).createOrReplaceTempView(name)"
)

_HUDI = r"`?(?:org\.apache\.)?hudi`?"
#: Comments and string literals, in which a statement may say anything.
_TEXT = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
#: What Spark's error says if it has no class for Hudi's format.
_SOURCE_NOT_FOUND = re.compile(r"data source: (?:org\.apache\.)?hudi\b|\bhudi\.DefaultSource\b", re.IGNORECASE)
#: What Spark's error says if it takes hudi.`path` for the name of a table.
_PATH_NOT_FOUND = re.compile(r"(?:TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY)[^\n]*hudi\b", re.IGNORECASE)
#: What Spark's error says if it has no CALL (PySpark 3.5), no catalog with procedures, or no procedure of this name.
_NO_PROCEDURE = re.compile(
    r"at or near 'call'|ROUTINE_NOT_FOUND|UNRESOLVED_ROUTINE|does not support procedures|procedure \S+ not found", re.IGNORECASE
)
#: The statements on Hudi tables that Spark alone cannot run: what they contain, what Spark's error says, and Penstock's error.
_STATEMENTS = [
    (re.compile(rf"(?<![\w.`]){_HUDI}\s*\.\s*`", re.IGNORECASE), _PATH_NOT_FOUND, _PATH),
    (re.compile(r"^\s*call\s+(?:system\s*\.\s*)?\w+\s*\(", re.IGNORECASE), _NO_PROCEDURE, _CALL),
]


class RefusingMixin:
    """Base class of the mixins for Spark's readers and writers that raise Unsupported for Hudi's format.

    `_recorded` holds the session, and a function that returns whether Penstock is enabled on it.
    """

    _recorded: dict[str, Any]

    def refuse(self, source: str | None, message: str) -> None:
        """Raise Unsupported if the format `source` is Hudi's and Penstock is enabled on the session.

        Args:
            message: the message of the error.
        """
        if is_hudi(source) and self._recorded["enabled"](self._recorded["session"]):
            raise Unsupported(message)


class NoStreamReader(RefusingMixin):
    """Mixin for Spark's DataStreamReader: raises Unsupported if the format is Hudi's."""

    def format(self, source: str) -> Any:
        self.refuse(source, _READ_STREAM)
        return super().format(source)  # type: ignore[misc]

    def load(self, path: str | None = None, format: str | None = None, *args: Any, **options: Any) -> Any:
        self.refuse(format, _READ_STREAM)
        return super().load(path, format, *args, **options)  # type: ignore[misc]

    def table(self, tableName: str, *args: Any, **options: Any) -> Any:
        try:
            return super().table(tableName, *args, **options)  # type: ignore[misc]
        except Exception as e:
            if is_unknown_provider(e):
                self.refuse("hudi", _READ_STREAM)
            raise


class NoCatalog(RefusingMixin):
    """Mixin for Spark's Catalog: raises Unsupported for a new table of Hudi's format."""

    def createTable(self, tableName: str, path: str | None = None, source: str | None = None, *args: Any, **options: Any) -> Any:
        self.refuse(source, _CREATE_TABLE)
        return super().createTable(tableName, path, source, *args, **options)  # type: ignore[misc]


class NoTableWriter(RefusingMixin):
    """Mixin for Spark's DataFrameWriterV2: raises Unsupported if the format is Hudi's."""

    def using(self, provider: str) -> Any:
        self.refuse(provider, _WRITE_TO)
        return super().using(provider)  # type: ignore[misc]


def refused_statement(statement: str, error: Exception) -> Unsupported | None:
    """Return the error to raise for a SQL statement on which Spark failed because it does not know Hudi; otherwise None.

    If Spark failed for another reason, such as a syntax error, its own error says what is wrong.

    Args:
        statement: the text of the statement.
        error: the error that Spark raised.
    """
    code = blank_texts(statement)
    for pattern, reason, message in _STATEMENTS:
        if pattern.search(code) and reason.search(str(error)):
            return Unsupported(message)
    return Unsupported(_USING) if is_unknown_provider(error) else None


def is_unknown_provider(error: Exception) -> bool:
    """Whether Spark failed because it has no class for Hudi's format."""
    return _SOURCE_NOT_FOUND.search(str(error)) is not None


def blank_texts(statement: str) -> str:
    """Return a statement with spaces in place of its comments and string literals. Every other character stays at its place."""
    return _TEXT.sub(lambda found: " " * len(found.group()), statement)
