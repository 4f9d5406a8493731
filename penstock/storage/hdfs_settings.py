"""Settings of HDFS: name nodes and name services, from Hadoop's keys, `HADOOP_CONF_DIR` and the path."""

from __future__ import annotations

from penstock.errors import OptionError
from penstock.storage.settings import Found, Setting, Sources

DEFAULT_FILE_SYSTEM = Setting("default file system", ("fs.defaultFS", "fs.default.name"))
CONF_DIR = Setting("Hadoop's conf folder", (), ("HADOOP_CONF_DIR",))
HOME = Setting("Hadoop's home", (), ("HADOOP_HOME",))
#: Hadoop's settings that the client uses. Others, such as passwords of key stores, do not travel to the workers.
_PREFIXES = ("dfs.", "fs.defaultFS", "hadoop.security.", "hadoop.rpc.", "fs.viewfs.")


def find_hdfs_settings(authority: str, sources: Sources) -> tuple[str, tuple[tuple[str, str], ...], tuple[Found, ...]]:
    """Return the arguments of `HdfsStorage`: the URL of the HDFS, Hadoop's settings for its client, and where they were found.

    The URL is `hdfs://` with the name node or name service; it is empty if `HADOOP_CONF_DIR` names the HDFS.

    Args:
        authority: the host and port or the name service in the path; empty: the default file system.

    Raises:
        OptionError: neither the path nor the settings name a file system.
    """
    default = sources.get(DEFAULT_FILE_SYSTEM)
    has_files = sources.get(CONF_DIR) or sources.get(HOME)
    if not authority:
        if default is not None and default.startswith("hdfs://"):
            authority = default.removeprefix("hdfs://").strip("/")
        elif not has_files:
            raise OptionError(
                "the path names no name node and there is no default file system; write hdfs://host:port/folder, or set "
                "fs.defaultFS or HADOOP_CONF_DIR"
            )
    config = {key: value for key, value in sources.hadoop.items() if key.startswith(_PREFIXES) and "password" not in key}
    if "dfs.nameservices" in config:
        sources.add("name services", config["dfs.nameservices"], "the setting dfs.nameservices")
    return f"hdfs://{authority}" if authority else "", tuple(sorted(config.items())), tuple(sources.found)
