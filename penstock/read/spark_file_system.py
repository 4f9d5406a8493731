"""Whether Spark itself can read the files of a table.

Spark reads object stores through file systems of Hadoop, which are jars: `s3a://` needs hadoop-aws. Clusters of cloud vendors
have them; PySpark from PyPI does not. Without them workers read the base files with Arrow and send the rows to Spark, so that a
table on S3 needs no jar. That is slower, because Spark cannot push filters and columns down to the files.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.storage.base import split_scheme
from penstock.table.config import PROPERTIES
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER
from penstock.user_warning import warn_user

#: A setting of the session that keeps the answer for a scheme.
_ANSWER = "penstock.spark.reads."


def spark_can_read(spark: SparkSession, table: TableState) -> bool:
    """Whether Spark can read files of the table's storage. If not, warn the user.

    Spark tries to read one file per session and scheme; the result is kept in the session's settings. A local path needs no try.
    """
    scheme, _ = split_scheme(table.uri)
    if not scheme:
        return True
    known = spark.conf.get(f"{_ANSWER}{scheme}", "")
    if known:
        return known == "true"
    reason = _try_to_read(spark, f"{table.uri}/{FOLDER}/{PROPERTIES}")
    spark.conf.set(f"{_ANSWER}{scheme}", "true" if reason is None else "false")
    if reason is not None:
        warn_user(
            f"Spark cannot read {scheme}:// itself, so Penstock's workers read the files, which is slower for large queries. Add "
            f"the jar of Hadoop for this storage to the session to change that ({reason})"
        )
    return reason is None


def _try_to_read(spark: SparkSession, uri: str) -> str | None:
    """Let Spark open the file at `uri`. Return the line of its error that names the cause; None if Spark can open the file."""
    try:
        # The schema: a Connect session looks at the file only when a result is asked for.
        # Twice: for a single path Spark checks whether it is the output of a stream, and logs a long stack trace.
        _ = spark.read.format("text").load([uri, uri]).schema
    except Exception as e:  # what is raised depends on the release and the kind of session
        lines = [line for line in str(e).strip().splitlines() if line.strip()]
        return _shorten(lines)
    return None


def _shorten(lines: list[str]) -> str:
    """Return the line of a Spark error that names a missing class or file system. If there is none, return the first line.

    Args:
        lines: the lines of the error's text that are not empty.
    """
    for line in lines:
        if "ClassNotFound" in line or "No FileSystem" in line:
            return line.strip()
    return lines[0].strip() if lines else "no reason given"
