"""Opens the client of a sync tool: `TOOLS` maps the names in `hoodie.meta.sync.client.tool.class` to functions.

A new catalog is one module with a `CatalogClient`, one line in `TOOLS`, and its name in `META_SYNC_TOOLS` (`options/sync.py`,
`supported` and `_are_sync_tools`). A mode of Hive sync is a line in `_MODES` and a value of `HIVE_SYNC_MODE` in that module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import options as o
from penstock.errors import OptionError
from penstock.hive_metastore import ANSWER_S, Metastore, parse_uris
from penstock.options import Options
from penstock.options.sync_tool_names import GLUE_SYNC_TOOL, HIVE_SYNC_TOOL
from penstock.registered.sync_tools import SYNC_TOOLS
from penstock.sync.catalog import CatalogClient
from penstock.sync.glue_client import GlueClient
from penstock.sync.metastore_client import MetastoreClient
from penstock.sync.settings import SyncSettings
from penstock.sync.statement_clients import HiveServer, HiveServerClient, SessionClient, parse_jdbc_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ClientRequest:
    """The arguments with which a client is opened: the settings of the sync, and the Spark session if there is one."""

    settings: SyncSettings
    spark: SparkSession | None = None
    #: How many seconds to wait for each answer of a metastore or of HiveServer2.
    answer_s: float = ANSWER_S

    @property
    def options(self) -> Options:
        """The options of the sync."""
        return self.settings.options


def open_client(tool: str, request: ClientRequest) -> CatalogClient:
    """Open the client of a sync tool.

    Args:
        tool: a name in `TOOLS`, or the name under which the user registered a tool with `@penstock.sync_tool`.

    Raises:
        OptionError: no tool has this name, or an option of the client is missing or has a wrong form.
        CatalogError: the catalog cannot be reached.
    """
    if tool in TOOLS:
        return TOOLS[tool](request)
    own = SYNC_TOOLS.find(tool)
    if own is None:
        raise OptionError(
            f"option '{o.META_SYNC_TOOLS.key}' names {tool!r}; use {', '.join(TOOLS)}, or register a tool of your own under this "
            f"name with @penstock.sync_tool({tool!r})"
        )
    client: Any = own.function(request.settings)
    missing = [name for name in _METHODS if not callable(getattr(client, name, None))]
    if missing:
        raise OptionError(f"sync tool {tool!r} returned a {type(client).__name__} without the methods {', '.join(missing)}")
    found: CatalogClient = client
    return found


def sync_mode(options: Options) -> str:
    """Return the mode of Hive sync, `hms`, `jdbc` or `hiveql`: the value of `hoodie.datasource.hive_sync.mode` if it is set.

    If it is not set: `jdbc`, or `hiveql` if `hoodie.datasource.hive_sync.use_jdbc` is false.
    """
    mode = options[o.HIVE_SYNC_MODE]
    if mode is not None:
        return mode
    return "jdbc" if options[o.HIVE_SYNC_USE_JDBC] else "hiveql"


def check_tools(options: Options) -> None:
    """Check the options of the sync tools. No catalog is called.

    Raises:
        OptionError: an option has a wrong form.
        Unsupported: the value of an option is refused.
    """
    options.require_support(o.HIVE_SYNC_BASE_FILE_FORMAT, o.HIVE_SYNC_PARTITION_EXTRACTOR, o.META_SYNC_REPLICATE_TIMESTAMP)
    if HIVE_SYNC_TOOL not in options[o.META_SYNC_TOOLS] or sync_mode(options) == "glue":
        return
    parse_uris(options[o.HIVE_SYNC_METASTORE_URIS], o.HIVE_SYNC_METASTORE_URIS.key)
    if sync_mode(options) == "jdbc":
        _find_server(options)


def _open_hive(request: ClientRequest) -> CatalogClient:
    """Open the client of Hive sync for the mode that the options name."""
    return _MODES[sync_mode(request.options)](request)


def _open_metastore(request: ClientRequest) -> CatalogClient:
    """Open the client of mode `hms`."""
    return MetastoreClient(_connect_metastore(request))


def _open_hive_server(request: ClientRequest) -> CatalogClient:
    """Open the client of mode `jdbc`."""
    server = _find_server(request.options)
    return HiveServerClient.connect(_connect_metastore(request), server, request.answer_s)


def _open_session(request: ClientRequest) -> CatalogClient:
    """Open the client of mode `hiveql`. If the options name no metastore, use the one in the settings of the Spark session."""
    uris = request.options[o.HIVE_SYNC_METASTORE_URIS]
    if request.spark is not None and not request.options.is_set(o.HIVE_SYNC_METASTORE_URIS):
        uris = request.spark.conf.get("spark.hadoop.hive.metastore.uris", uris) or uris
    key = o.HIVE_SYNC_METASTORE_URIS.key
    return SessionClient.of_session(lambda: Metastore.connect(uris, key, request.answer_s), request.spark)


def _open_glue(request: ClientRequest) -> CatalogClient:
    """Open the client of AWS Glue."""
    return GlueClient.connect(skip_archive=request.options[o.GLUE_SKIP_ARCHIVE])


def _find_server(options: Options) -> HiveServer:
    """Return the address and login of the HiveServer2 that the options name."""
    user = options[o.HIVE_SYNC_USERNAME]
    password = options[o.HIVE_SYNC_PASSWORD]
    return parse_jdbc_url(options[o.HIVE_SYNC_JDBC_URL], user, password, o.HIVE_SYNC_JDBC_URL.key)


def _connect_metastore(request: ClientRequest) -> Metastore:
    """Connect to the Hive metastore that the options name."""
    uris = request.options[o.HIVE_SYNC_METASTORE_URIS]
    return Metastore.connect(uris, o.HIVE_SYNC_METASTORE_URIS.key, request.answer_s)


_METHODS: Final = (
    "has_database",
    "create_database",
    "get_table",
    "create_table",
    "alter_table",
    "list_partitions",
    "add_partitions",
    "move_partitions",
    "drop_partitions",
    "close",
)
#: Modes of Hive sync → function that opens the client.
_MODES: Final[dict[str, Callable[[ClientRequest], CatalogClient]]] = {
    "hms": _open_metastore,
    "jdbc": _open_hive_server,
    "hiveql": _open_session,
    "glue": _open_glue,
}
#: Sync tools, by the names of Hudi's classes → function that opens the client.
TOOLS: Final[dict[str, Callable[[ClientRequest], CatalogClient]]] = {
    HIVE_SYNC_TOOL: _open_hive,
    GLUE_SYNC_TOOL: _open_glue,
}
