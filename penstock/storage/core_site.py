"""`read_core_site`: Hadoop's settings in `core-site.xml`, which a Spark session does not show.

On clusters the settings of S3, Google Cloud Storage and Azure may be in that file, and not in the session. Hadoop finds the file
on the class path of the JVM. Penstock looks into the folders that are on it: those of Hadoop, then that of Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from xml.etree import ElementTree

from penstock.errors import OptionError

_FILE = "core-site.xml"
#: Environment variables that name a folder with the file, and the folder below theirs.
_PLACES = (
    ("HADOOP_CONF_DIR", ""),
    ("YARN_CONF_DIR", ""),
    ("HADOOP_HOME", "etc/hadoop"),
    ("SPARK_CONF_DIR", ""),
    ("SPARK_HOME", "conf"),
)
_REFERENCE = re.compile(r"\$\{([^}]+)\}")
#: How many references may follow each other in a value, as in Hadoop.
_REFERENCES_MOST = 20


def read_core_site(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return the settings `fs.*` of the first `core-site.xml` that is found, and its path; `({}, "")` if there is none.

    Args:
        environment: the environment variables, which name the folders.

    Raises:
        OptionError: the file cannot be read or parsed. The message quotes nothing from the file, which may hold secrets.
    """
    for name, below in _PLACES:
        folder = environment.get(name)
        path = os.path.join(folder, below, _FILE) if folder else ""
        if path and os.path.isfile(path):
            values = _parse(path)
            settings = {key: _resolve(value, values, environment) for key, value in values.items() if key.startswith("fs.")}
            return settings, path
    return {}, ""


def _parse(path: str) -> dict[str, str]:
    """Return the properties in a file such as `core-site.xml`, name → value. References in the values are not replaced.

    Raises:
        OptionError: the file cannot be read or parsed.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as e:
        reason = type(e).__name__
    else:
        values: dict[str, str] = {}
        for each in root.iter("property"):
            name = (each.findtext("name") or "").strip()
            value = each.findtext("value")
            if name and value is not None:
                values[name] = value.strip()
        return values
    raise OptionError(f"the file {path} cannot be read ({reason}); repair it, or set the keys in the session's settings")


def _resolve(value: str, values: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return a value in which references to other properties and to environment variables (`${env.NAME}`) are replaced.

    A reference to a setting that is not there stays.
    """
    for _ in range(_REFERENCES_MOST):
        for reference in _REFERENCE.finditer(value):
            name = reference[1]
            found = environment.get(name.removeprefix("env.")) if name.startswith("env.") else values.get(name)
            if found is not None:
                value = value.replace(reference[0], found)
                break
        else:
            break
    return value
