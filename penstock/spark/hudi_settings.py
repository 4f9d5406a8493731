"""Settings of a session that name classes of Hudi's jar, as scripts written for Hudi set them.

Without the jar, Spark only warns about Hudi's class in `spark.sql.extensions`. But a missing catalog class stops every query, and
a missing Kryo registrator stops every job. `enable` unsets Hudi's catalog, and raises an error for Hudi's Kryo registrator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import Unsupported
from penstock.user_warning import warn_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG = "spark.sql.catalog.spark_catalog"
_REGISTRATOR = "spark.kryo.registrator"
_HUDI_CATALOG = "org.apache.spark.sql.hudi."
_HUDI_REGISTRATOR = "Hoodie"


def settle_hudi_settings(spark: SparkSession) -> None:
    """Unset `spark.sql.catalog.spark_catalog`, with a warning, if it names Hudi's catalog and that class is missing.

    Raises:
        Unsupported: Hudi's Kryo registrator is set and its class is missing. A running session cannot change this setting.
    """
    catalog = spark.conf.get(_CATALOG, None) or ""
    if catalog.startswith(_HUDI_CATALOG) and _fails(spark.catalog.currentDatabase, catalog):
        spark.conf.unset(_CATALOG)
        warn_user(
            f"{_CATALOG}={catalog} names a class of Hudi's jar, which is not there. Penstock has unset it for this session: "
            "reads and writes need no catalog",
            UserWarning,
        )
    registrator = spark.conf.get(_REGISTRATOR, None) or ""
    if _HUDI_REGISTRATOR in registrator and _fails(lambda: spark.range(1).collect(), "Kryo"):
        raise Unsupported(
            f"{_REGISTRATOR}={registrator} names a class of Hudi's jar, which is not there, and no Spark job can run with it. "
            "Remove the setting from the session's builder or from spark-submit; Penstock does not need it"
        )


def _fails(action: Callable[[], object], text: str) -> bool:
    """Run an action of Spark, such as a small query; return whether it fails with an error that contains `text`."""
    try:
        action()
    except Exception as e:  # the class of the error depends on the Spark release and on the kind of session
        return text in str(e)
    return False
