"""Reads tables of a session's Hive catalog by name: `spark.table("db.t")`, and names in SQL queries.

A sync registers tables with the provider `hudi`, and Spark has no class of that name. So Spark fails on the table, and only then
Penstock looks it up in the session's metastore and reads it by its path. In a query, a temporary view takes the place of the
name. Each call reads the table as it is at that moment: there is nothing to refresh.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import Unsupported
from penstock.hive_metastore import Metastore
from penstock.spark.datasource import load
from penstock.spark.not_yet import blank_texts, is_unknown_provider
from penstock.sync.catalog import CatalogTable
from penstock.sync.metastore_client import MetastoreClient
from penstock.sync.spark_properties import PROVIDER, READ_OPTIMIZED
from penstock.workers.session_settings import is_connect

#: Spark's name of the session's own catalog, the Hive catalog. Others are there if `spark.sql.catalog.<name>` is set.
_CATALOG = "spark_catalog"
_URIS = "spark.hadoop.hive.metastore.uris"
_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_]\w*)"
_NAME = rf"{_PART}(?:\s*\.\s*{_PART}){{0,2}}"
#: Words after the name of a table that are not its alias.
_NO_ALIAS = (
    r"(?:where|join|inner|left|right|full|cross|semi|anti|natural|on|using|group|order|sort|cluster|distribute|having|limit|offset|"
    r"union|except|minus|intersect|lateral|window|tablesample|pivot|unpivot|qualify|for|version|timestamp|with|as|is|select|insert|"
    r"values)\b"
)
_ALIAS = rf"(?:(?:\s+as\s+{_PART}|\s+(?!{_NO_ALIAS}){_PART})(?!\w))?"
_TABLE = rf"{_NAME}(?![\w`])(?!\s*[.(]){_ALIAS}"
#: The tables of FROM and JOIN: names with aliases, separated by commas.
_TABLES = re.compile(rf"\b(?:from|join)\s+(?P<tables>{_TABLE}(?:\s*,\s*{_TABLE})*)", re.IGNORECASE)
_ONE_TABLE = re.compile(rf"(?P<name>{_NAME})(?P<alias>{_ALIAS})", re.IGNORECASE)
#: What stands around the name of a common table expression. The bracket begins its query, or the names of its columns.
_BEFORE_COMMON_TABLE = r"(?:\bwith\b\s*(?:recursive\b\s*)?|,\s*)"
_AFTER_COMMON_TABLE = r"\s*(?:max\s+recursion\s+level\s+\d+\s*)?(?:as\b\s*)?\("
_QUERY = re.compile(r"\s*(?:select|with|from|\()", re.IGNORECASE)


@dataclass(frozen=True)
class TableName:
    """The name of a table in the Hive catalog: its database and its own name."""

    database: str
    table: str

    @property
    def view(self) -> str:
        """The name of the view that stands for the table in queries.

        It holds the length of the database's name, so that no two tables have the same view.
        """
        return f"penstock_{len(self.database)}_{self.database}__{self.table}"


def read_table(session: Any, name: str, read: Callable[[], Any]) -> Any:
    """Return a table by its name: as Spark reads it, or, if Spark has no class for its provider, as Penstock reads it.

    Args:
        read: calls Spark's own method.
    """
    try:
        frame = read()
        if is_connect(session) and has_hive_catalog(session):
            _ = frame.schema  # the server looks the name up only now
        return frame
    except Exception as e:  # Spark's own errors, and those of py4j for a Java exception that PySpark does not know
        found = read_catalog_table(session, name) if is_unknown_provider(e) else None
        if found is None:
            raise
        return found


def has_hive_catalog(session: Any) -> bool:
    """Whether the tables of the session are in a Hive metastore."""
    return bool(session.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive")


def read_catalog_table(session: Any, name: str) -> Any:
    """Return a table of the session's Hive catalog as a DataFrame; None if the catalog has no Hudi table of this name.

    Raises:
        CatalogError: the metastore does not answer.
        Unsupported: the address of the metastore is not known.
    """
    parsed = parse_name(session, name) if has_hive_catalog(session) else None
    if parsed is None:
        return None
    found = _find_table(session, parsed)
    if found is None or found.properties.get(PROVIDER, "").lower() != "hudi":
        return None
    is_read_optimized = found.serde_properties.get(READ_OPTIMIZED) == "true"
    options = {"hoodie.datasource.query.type": "read_optimized"} if is_read_optimized else {}
    return load(session, [found.serde_properties.get("path") or found.location], options)


def replace_catalog_tables(session: Any, statement: str) -> str | None:
    """Return a query with temporary views in place of the Hudi tables of the catalog; None if it is no query, or names none."""
    if not has_hive_catalog(session):
        return None
    return replace_names(statement, lambda name: _make_view(session, name))


def replace_names(statement: str, find_view: Callable[[str], TableName | None]) -> str | None:
    """Return a query with views in place of the names of tables; None if it is no query, or no name has a view.

    A table without an alias gets its own name as alias, so that `t.id` still means the column of `FROM db.t`.

    Args:
        find_view: returns the table that a name stands for if the query is to read its view; None: the name stays.
    """
    code = blank_texts(statement)
    if not _QUERY.match(code):
        return None
    places: list[tuple[int, int, str]] = []
    for clause in _TABLES.finditer(code):
        for found in _ONE_TABLE.finditer(code, clause.start("tables"), clause.end("tables")):
            table = None if _is_common_table(code, found["name"]) else find_view(found["name"])
            if table is not None:
                alias = "" if found["alias"] else f" AS {_quote(table.table)}"
                places.append((found.start("name"), found.end("name"), f"{_quote(table.view)}{alias}"))
    for start, end, text in reversed(places):
        statement = statement[:start] + text + statement[end:]
    return statement if places else None


def parse_name(session: Any, name: str) -> TableName | None:
    """Return database and table of a name with up to three parts; None for a name of another catalog."""
    parts = _parts(name)
    if len(parts) == 3:
        return TableName(parts[1], parts[2]) if parts[0] == _CATALOG else None
    if session.catalog.currentCatalog() != _CATALOG:
        return None
    return TableName(*parts) if len(parts) == 2 else TableName(session.catalog.currentDatabase().lower(), parts[0])


def _parts(name: str) -> list[str]:
    """Return the parts of a name in lower case, without backticks around them."""
    parts: list[str] = re.findall(_PART, name)
    return [(part[1:-1].replace("``", "`") if part.startswith("`") else part).lower() for part in parts]


def _quote(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def _make_view(session: Any, name: str) -> TableName | None:
    """Create a temporary view of the Hudi table `name` of the catalog. Return the parsed name, which also names the view.

    Create nothing and return None if `name` is no Hudi table of the catalog, or is already a temporary view.
    """
    parsed = parse_name(session, name)
    if parsed is None or ("." not in name and _is_temporary_view(session, parsed.table)):
        return None
    frame = read_catalog_table(session, name)
    if frame is None:
        return None
    frame.createOrReplaceTempView(_quote(parsed.view))
    return parsed


def _is_temporary_view(session: Any, name: str) -> bool:
    """Whether a name without a database is a temporary view, which Spark finds before a table of that name."""
    found = session.sql("SHOW VIEWS").collect()
    return any(row["isTemporary"] and row["viewName"].lower() == name for row in found)


def _is_common_table(code: str, name: str) -> bool:
    """Whether a name may be a common table expression of the query: `WITH name AS (`, also without the optional AS.

    If the query only looks as if it had this expression, Spark looks the name up and fails. That is an error, but never wrong
    rows.

    Args:
        code: the query, with blanks in place of comments and string literals.
    """
    parts = _parts(name)
    if len(parts) > 1:
        return False
    bare = re.escape(_quote(parts[0])[1:-1])
    return re.search(rf"{_BEFORE_COMMON_TABLE}`?{bare}`?{_AFTER_COMMON_TABLE}", code, re.IGNORECASE) is not None


def _find_table(session: Any, name: TableName) -> CatalogTable | None:
    """Return the entry of a table in the session's Hive metastore; None if there is none.

    Raises:
        CatalogError: the metastore does not answer.
        Unsupported: the address of the metastore is not known.
    """
    uris = session.conf.get(_URIS, None) or session.conf.get("hive.metastore.uris", None)
    if not uris:
        raise Unsupported(
            f"{name.database}.{name.table} is a Hudi table, and Penstock does not know this session's metastore: set {_URIS} "
            "when the session is created, or read the table by its path with spark.read.format('hudi').load(path)"
        )
    client = MetastoreClient(Metastore.connect(uris, _URIS))
    try:
        return client.get_table(name.database, name.table)
    finally:
        client.close()
