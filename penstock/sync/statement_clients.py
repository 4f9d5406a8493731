"""The clients of modes `jdbc` and `hiveql`: they create databases and tables by SQL statements, and read them from the metastore.

As in Hudi, both modes also need a connection to the metastore. Properties are read and changed there. Columns are changed there
as well, because other servers of HiveServer2's protocol have no equivalent of Hive's `REPLACE COLUMNS`.

- `jdbc` sends statements to HiveServer2, through impyla (`penstock[hive]`). Partitions are changed by statements too, unless the
  server has no Hudi jar.
- `hiveql` runs statements in the Spark session, which must have Hive support. Spark refuses statements about partitions of a
  table that it reads as a data source, so partitions are changed in the metastore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.errors import CatalogError, OptionError, Unsupported
from penstock.hive_metastore import Metastore
from penstock.sync.catalog import Buckets, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.metastore_client import DATABASE_DESCRIPTION, MetastoreClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_PORT: Final = 10000
#: The format of a new table until the metastore stores the wanted one: a server without Hudi's jar cannot load Hudi's formats.
_LOADABLE_INPUT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
#: What the errors of a server say that cannot load the classes of a table, or manages no partitions of it.
_UNKNOWN_TABLE: Final = ("ClassNotFound", "DATA_SOURCE_NOT_FOUND", "PARTITION_MANAGEMENT", "partition metadata is not stored")


class SessionClient(MetastoreClient):
    """The client of mode `hiveql`: a Spark session with Hive support creates databases and tables."""

    def __init__(self, metastore: Metastore, run: Callable[[str], object]) -> None:
        super().__init__(metastore)
        self._run = run

    @classmethod
    def of_session(cls, connect: Callable[[], Metastore], spark: SparkSession | None) -> SessionClient:
        """Return the client of a Spark session.

        Args:
            connect: connects to the metastore of the session.

        Raises:
            OptionError: there is no session, or the session has no Hive support.
        """
        if spark is None:
            raise OptionError(
                "mode hiveql runs statements in a Spark session, and there is none: use mode hms, or pass a session"
            )
        if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive":
            raise OptionError(
                "mode hiveql needs a Spark session with Hive support (spark.sql.catalogImplementation=hive): create the session "
                "with enableHiveSupport(), or use mode hms"
            )
        return cls(connect(), spark.sql)

    def create_database(self, name: str) -> None:
        """Create a database. Does nothing if it exists."""
        self.run(f"CREATE DATABASE IF NOT EXISTS {quote(name)} COMMENT {literal(DATABASE_DESCRIPTION)}")

    def create_table(self, database: str, table: CatalogTable) -> None:
        """Create a table. Does nothing if it exists.

        The statement names formats that every server can load, and no properties, because Spark refuses properties that begin
        with `spark.sql.`. Afterwards the metastore stores Hudi's formats and the properties.
        """
        if self.get_table(database, table.name) is not None:
            return
        self.run(create_table_statement(database, replace(table, input_format=_LOADABLE_INPUT)))
        found = self.get_table(database, table.name)
        if found is not None:
            properties = {**found.properties, **table.properties}
            columns = {"columns": table.columns, "partition_keys": table.partition_keys, "input_format": table.input_format}
            changed = {**columns, "properties": properties, "serde_properties": table.serde_properties}
            self.alter_table(database, replace(found, **changed))  # type: ignore[arg-type]

    def run(self, statement: str) -> None:
        """Run a SQL statement that creates or changes an entry of the catalog.

        Raises:
            CatalogError: the server refuses the statement.
        """
        try:
            self._run(statement)
        except Exception as e:  # Spark and impyla raise errors of many classes
            reason = str(e).strip().partition("\n")[0]
            raise CatalogError(f"{type(e).__name__}: {reason} (statement: {statement[:200]})") from e


class HiveServerClient(SessionClient):
    """The client of mode `jdbc`: HiveServer2 runs all statements, also those about partitions."""

    def __init__(self, metastore: Metastore, connection: Any) -> None:
        self._connection = connection
        cursor = connection.cursor()
        super().__init__(metastore, cursor.execute)

    @classmethod
    def connect(cls, metastore: Metastore, server: HiveServer, answer_s: float) -> HiveServerClient:
        """Connect to HiveServer2 and return the client.

        Args:
            metastore: the connection to the Hive metastore, for what the client does without statements.
            server: the address and login of HiveServer2.
            answer_s: how many seconds to wait for each answer.

        Raises:
            OptionError: impyla is not installed.
            CatalogError: the server does not answer, or refuses the user.
        """
        try:
            from impala.dbapi import connect
        except ImportError:
            raise OptionError("mode jdbc needs the package impyla: install penstock[hive], or use mode hms") from None
        try:
            return cls(metastore, connect(**server.arguments(), timeout=answer_s, retries=1))
        except Exception as e:  # errors of thrift, of SASL and of sockets
            reason = str(e).strip().partition("\n")[0]
            raise CatalogError(
                f"HiveServer2 does not answer at {server.host}:{server.port}, or refuses the user {server.user!r}: "
                f"{type(e).__name__}: {reason}"
            ) from e

    def add_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions. Partitions that exist are not changed."""
        clauses = [f"PARTITION ({_spec(table, each.values)}) LOCATION {literal(each.location)}" for each in partitions]
        if not self._runs(f"ALTER TABLE {quote(database)}.{quote(table.name)} ADD IF NOT EXISTS {' '.join(clauses)}"):
            super().add_partitions(database, table, partitions)

    def move_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Change the location of partitions that exist."""
        self.run(f"USE {quote(database)}")  # Hive 2 ignores the database in the statement that follows
        for partition in partitions:
            spec = _spec(table, partition.values)
            if not self._runs(f"ALTER TABLE {quote(table.name)} PARTITION ({spec}) SET LOCATION {literal(partition.location)}"):
                super().move_partitions(database, table, partitions)
                return

    def drop_partitions(self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions from the catalog, given by their values in the order of the partition keys. No file is deleted.

        The statement would delete the files of a managed table, so partitions of a managed table are dropped in the metastore.
        """
        clauses = [f"PARTITION ({_spec(table, each)})" for each in values]
        if not table.is_external or not self._runs(
            f"ALTER TABLE {quote(database)}.{quote(table.name)} DROP IF EXISTS {', '.join(clauses)}"
        ):
            super().drop_partitions(database, table, values)

    def _runs(self, statement: str) -> bool:
        """Run a statement about a table's partitions. Return whether the server can handle the table.

        If not, the caller changes the partitions in the metastore. A server without Hudi's jar cannot load the table's formats,
        and Spark's Thrift Server refuses partitions of a table that it takes for a data source.

        Raises:
            CatalogError: the server refuses the statement for another reason, such as missing permissions.
        """
        try:
            self.run(statement)
        except CatalogError as e:
            if any(sign in str(e) for sign in _UNKNOWN_TABLE):
                return False
            raise
        return True

    def close(self) -> None:
        """End the connections to HiveServer2 and to the metastore."""
        with suppress(Exception):  # the server may be gone; what was done stays done
            self._connection.close()
        super().close()


@dataclass(frozen=True)
class HiveServer:
    """The address of a HiveServer2, and how to log in."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of impyla's `connect`."""
        found: dict[str, Any] = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        found["auth_mechanism"] = "NOSASL" if self.settings.get("auth", "").lower() == "nosasl" else "PLAIN"
        found["use_ssl"] = self.settings.get("ssl", "").lower() == "true"
        if self.settings.get("transportmode", "").lower() == "http":
            found["use_http_transport"] = True
            found["http_path"] = self.settings.get("httppath", "cliservice")
        return found


def parse_jdbc_url(url: str, user: str, password: str, option: str) -> HiveServer:
    """Return the address and login of the server that a JDBC URL names, such as `jdbc:hive2://host:10000/default;ssl=true`.

    Args:
        url: the URL. It may have a password, so no error shows it.
        user: the user, if the URL names none.
        password: the password, if the URL has none.
        option: the key of the option that holds the URL, for errors.

    Raises:
        OptionError: the URL has another form.
        Unsupported: the server requires Kerberos.
    """
    expected = f"{option} has a wrong form; expected jdbc:hive2://host:10000"
    address, *settings = url.strip().split(";")
    if not address.startswith("jdbc:hive2://"):
        raise OptionError(expected)
    try:
        parts = urlsplit(address[len("jdbc:") :])
        port = parts.port or _DEFAULT_PORT
    except ValueError:
        raise OptionError(expected) from None
    if not parts.hostname:
        raise OptionError(expected)
    pairs = {}
    for setting in settings:
        key, _, value = setting.partition("?")[0].partition("=")
        pairs[key.strip().lower()] = value.strip()
    if "principal" in pairs:
        raise Unsupported(f"{option} asks for Kerberos, which Penstock does not support: use mode hms")
    return HiveServer(parts.hostname, port, pairs.get("user", user), pairs.get("password", password), pairs)


def create_table_statement(database: str, table: CatalogTable) -> str:
    """Return the statement that creates a table, without table properties."""
    lines = [
        f"CREATE {'EXTERNAL ' if table.is_external else ''}TABLE IF NOT EXISTS {quote(database)}.{quote(table.name)} "
        f"({_columns(table.columns)})"
    ]
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({_columns(table.partition_keys)})")
    if table.buckets is not None:
        lines.append(_buckets(table.buckets))
    lines.append(f"ROW FORMAT SERDE {literal(table.serde)}")
    if table.serde_properties:
        pairs = [f"{literal(key)}={literal(value)}" for key, value in sorted(table.serde_properties.items())]
        lines.append(f"WITH SERDEPROPERTIES ({', '.join(pairs)})")
    lines.append(f"STORED AS INPUTFORMAT {literal(table.input_format)} OUTPUTFORMAT {literal(table.output_format)}")
    lines.append(f"LOCATION {literal(table.location)}")
    return "\n".join(lines)


def quote(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a string as a literal of HiveQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _columns(columns: Sequence[CatalogColumn]) -> str:
    """Return columns as a list of names, types and comments for a SQL statement."""
    listed = []
    for column in columns:
        comment = f" COMMENT {literal(column.comment)}" if column.comment else ""
        listed.append(f"{quote(column.name)} {column.type}{comment}")
    return ", ".join(listed)


def _buckets(buckets: Buckets) -> str:
    """Return the clause `CLUSTERED BY … INTO … BUCKETS` of a statement that creates a table."""
    order = ", ".join(f"{quote(name)} {'ASC' if is_ascending else 'DESC'}" for name, is_ascending in buckets.sorted_by)
    sorting = f" SORTED BY ({order})" if order else ""
    return f"CLUSTERED BY ({', '.join(map(quote, buckets.columns))}){sorting} INTO {buckets.count} BUCKETS"


def _spec(table: CatalogTable, values: Sequence[str]) -> str:
    """Return the keys and values of a partition as a SQL statement names them: `key='value', key='value'`.

    Args:
        values: the values, in the order of the partition keys.
    """
    keys = [key.name for key in table.partition_keys]
    return ", ".join(f"{quote(key)}={literal(value)}" for key, value in zip(keys, values, strict=True))
