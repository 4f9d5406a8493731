"""Real Hudi in a process of its own: one JSON request per line on stdin, one JSON answer per line on stdout.

Runs in the environment with PySpark 3.5, started by `oracle.py`; never imports penstock, so that nothing of Penstock can
change what Hudi does. Rows travel as Parquet files whose paths are in the requests; file groups and the timeline are
what Hudi's own meta client and file system view report.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TextIO

Request = dict[str, Any]

HUDI_CONF = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    # The bundle carries these; resolving them again fails where a Maven cache holds a pom without its jar.
    "spark.jars.excludes": "org.slf4j:slf4j-api,org.apache.hive:hive-storage-api",
}
SPARK_CONF = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": " ".join(
        [
            # The process runs for minutes: the optimising compiler costs more than it saves (half of all CPU time).
            "-XX:TieredStopAtLevel=1",
            # Without it Java reserves a fifth of the usual memory for compiled code, and Hudi needs more.
            "-XX:ReservedCodeCacheSize=240m",
            "-XX:+UseSerialGC",
            "-XX:MetaspaceSize=200m",
            # File system views answer with Java streams, which py4j may only walk when they are opened to it.
            "--add-opens=java.base/java.util.stream=ALL-UNNAMED",
        ]
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


class Server:
    """Runs requests on one Spark session with Hudi."""

    def __init__(self, spark: Any, hudi: str) -> None:
        self.spark = spark
        self.is_1x = hudi.startswith("1.")  # some methods have other names there
        self.jvm = spark._jvm
        self.operations: dict[str, Callable[[Request], Any]] = {
            "write": self.write,
            "read": self.read,
            "sql": self.sql,
            "files": self.files,
            "timeline": self.timeline,
            "commit_metadata": self.commit_metadata,
            "table_config": self.table_config,
            "schema": self.schema,
        }

    def write(self, request: Request) -> None:
        """Write the rows of a Parquet file to a table."""
        rows = self.spark.read.parquet(request["rows"])
        writer = rows.write.format("hudi").options(**request["options"]).mode(request["mode"])
        if request.get("partition_by"):
            writer = writer.partitionBy(*request["partition_by"])
        writer.save(request["path"])

    def read(self, request: Request) -> dict[str, Any]:
        """Query a table, and write the rows to the Parquet folder that the request names."""
        paths = request["path"]
        rows = self.spark.read.format("hudi").options(**request["options"]).load(paths)
        if request.get("where"):
            rows = rows.where(request["where"])
        if request.get("columns") is not None:
            rows = rows.select(*["`{}`".format(name.replace("`", "``")) for name in request["columns"]])
        rows.coalesce(1).write.mode("overwrite").parquet(request["into"])
        return {"into": request["into"]}

    def sql(self, request: Request) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        return [row.asDict(recursive=True) for row in self.spark.sql(request["statement"]).collect()]

    def files(self, request: Request) -> list[dict[str, Any]]:
        """Return the latest file slice of each file group, as Hudi's file system view lists them."""
        hudi = self.jvm.org.apache.hudi
        client = self._meta_client(request["path"])
        context = hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)
        config = hudi.common.config.HoodieMetadataConfig.newBuilder().enable(request["metadata"]).build()
        view = hudi.common.table.view.FileSystemViewManager.createInMemoryFileSystemView(context, client, config)
        try:
            return [
                _describe_slice(file_slice)
                for partition in self._partitions(context, client, config)
                for file_slice in _walk(view.getLatestFileSlices(partition))
            ]
        finally:
            view.close()

    def timeline(self, request: Request) -> list[dict[str, Any]]:
        """Return every instant of the active timeline."""
        instants = self._meta_client(request["path"]).getActiveTimeline().getInstants()
        return [
            {"time": self._instant_time(instant), "action": instant.getAction(), "state": instant.getState().name()}
            for instant in instants
        ]

    def commit_metadata(self, request: Request) -> dict[str, Any]:
        """Return a completed commit's metadata, as Hudi parsed it."""
        timeline = self._meta_client(request["path"]).getActiveTimeline().filterCompletedInstants()
        for instant in timeline.getInstants():
            if self._instant_time(instant) == request["instant"]:
                utils = self.jvm.org.apache.hudi.common.table.timeline.TimelineUtils
                parsed: dict[str, Any] = json.loads(utils.getCommitMetadata(instant, timeline).toJsonString())
                return parsed
        raise LookupError("no completed instant {} in {}".format(request["instant"], request["path"]))

    def table_config(self, request: Request) -> dict[str, str]:
        """Return the table's configuration, as Hudi loaded it."""
        return {str(k): str(v) for k, v in dict(self._meta_client(request["path"]).getTableConfig().getProps()).items()}

    def schema(self, request: Request) -> dict[str, Any]:
        """Return the table's Avro schema, as Hudi resolves it."""
        resolver = self.jvm.org.apache.hudi.common.table.TableSchemaResolver(self._meta_client(request["path"]))
        ask = resolver.getTableSchema if self.is_1x else resolver.getTableAvroSchema
        parsed: dict[str, Any] = json.loads(ask(request["meta_fields"]).toString())
        return parsed

    def _meta_client(self, path: str) -> Any:
        hudi = self.jvm.org.apache.hudi
        conf = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(self.spark.sparkContext._jsc.hadoopConfiguration())
        return hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build()

    def _partitions(self, context: Any, client: Any, config: Any) -> list[str]:
        utils = self.jvm.org.apache.hudi.common.fs.FSUtils
        if self.is_1x:
            found = utils.getAllPartitionPaths(context, client, config)
        else:
            base = client.getBasePathV2().toString()
            found = utils.getAllPartitionPaths(context, client.getStorage(), config, base)
        return sorted(found)

    def _instant_time(self, instant: Any) -> str:
        return str(instant.requestedTime() if self.is_1x else instant.getTimestamp())


def _describe_slice(file_slice: Any) -> dict[str, Any]:
    base = file_slice.getBaseFile()
    return {
        "partition": file_slice.getPartitionPath(),
        "file_id": file_slice.getFileId(),
        "base_instant": file_slice.getBaseInstantTime(),
        "base_file": base.get().getFileName() if base.isPresent() else None,
        "base_size": base.get().getFileSize() if base.isPresent() else None,
        "log_files": [log.getFileName() for log in _walk(file_slice.getLogFiles())],
    }


def _walk(stream: Any) -> Iterator[Any]:
    rest = stream.iterator()
    while rest.hasNext():
        yield rest.next()


def start_spark(hudi: str, ivy: str, folder: str, packages: list[str], settings: dict[str, str]) -> Any:
    """Start a session with the given Hudi, and more packages, on its class path."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("oracle-" + hudi)
    bundle = "org.apache.hudi:hudi-spark3.5-bundle_2.12:" + hudi
    builder = builder.config("spark.jars.packages", ",".join([bundle, *packages]))
    builder = builder.config("spark.jars.ivy", ivy)
    builder = builder.config("spark.sql.warehouse.dir", os.path.join(folder, "warehouse"))
    for key, value in {**SPARK_CONF, **HUDI_CONF, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def serve(server: Server, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until `stop` or the end of input."""
    for line in requests:
        request = json.loads(line)
        if request["op"] == "stop":
            break
        try:
            answer: Request = {"ok": True, "result": server.operations[request["op"]](request)}
        except Exception as problem:
            answer = {"ok": False, **_describe_problem(problem)}
        _send(answers, {"id": request["id"], **answer})


def _describe_problem(problem: Exception) -> dict[str, Any]:
    """Return class and message of the error and of each cause, with Java's names for an error of Java."""
    causes: list[dict[str, Any]] = []
    java: Any | None = getattr(problem, "java_exception", None) or getattr(problem, "_origin", None)
    while java is not None and len(causes) < 20:
        causes.append({"class": java.getClass().getName(), "message": java.getMessage()})
        java = java.getCause()
    if not causes:
        causes = [{"class": type(problem).__name__, "message": str(problem)}]
    return {"causes": causes, "trace": traceback.format_exc()}


def _send(answers: TextIO, message: Request) -> None:
    answers.write(json.dumps(message, default=str) + "\n")
    answers.flush()


def _keep_stdout_for_answers() -> TextIO:
    """Return a stream onto stdout, and send everything else that is printed there (by the JVM too) to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def main() -> None:
    """Start Spark, say `ready`, serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hudi", required=True)
    parser.add_argument("--ivy", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--packages", type=json.loads, default=[])
    parser.add_argument("--settings", type=json.loads, default={})
    arguments = parser.parse_args()
    answers = _keep_stdout_for_answers()
    began = time.monotonic()
    spark = start_spark(arguments.hudi, arguments.ivy, arguments.folder, arguments.packages, arguments.settings)
    try:
        _send(answers, {"ready": True, "hudi": arguments.hudi, "seconds": round(time.monotonic() - began, 1)})
        serve(Server(spark, arguments.hudi), sys.stdin, answers)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
