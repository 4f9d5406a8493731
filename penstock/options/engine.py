"""Options of Hudi's JVM engine, most without effect in Penstock, and switches of servers that Hudi can use."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import Family, Option, boolean, text, word

TIMELINE_SERVER: Final = Family("hoodie.embed.timeline.server.", "Tuning of Hudi's timeline server, which Penstock does not use.")
FILE_SYSTEM_VIEW: Final = Family("hoodie.filesystem.", "File system view and retries of the JVM engine.")
CONSISTENCY_CHECK: Final = Family(
    "hoodie.consistency.check.", "Waiting for object stores to become consistent. Object stores are consistent today."
)
CONSISTENCY_GUARD: Final = Family(
    "hoodie.optimistic.consistency.guard.",
    "Waiting a fixed time for object stores to become consistent. Object stores are consistent today.",
)
WRITE_EXECUTOR: Final = Family("hoodie.write.executor.", "Queue between the reading and the writing thread of a JVM task.")
WRITE_BUFFER: Final = Family(
    "hoodie.write.buffer.", "Size of the queue between the reading and the writing thread of a JVM task."
)
METASERVER: Final = Family("hoodie.metaserver.", "Server that stores the timeline. `hoodie.metaserver.enabled` is refused.")
SERVICE_MANAGER: Final = Family(
    "hoodie.table.service.manager.", "Server that runs table services. `hoodie.table.service.manager.enabled` is refused."
)
ERROR_TABLE: Final = Family("hoodie.errortable.", "Table of failed rows. `hoodie.errortable.enable` has no effect.")
BOOTSTRAP: Final = Family("hoodie.bootstrap.", "Tables over existing files. `hoodie.bootstrap.base.path` is refused.")

EMBEDDED_TIMELINE_SERVER: Final = Option(
    "hoodie.embed.timeline.server",
    boolean,
    True,
    "Run a server on the driver that caches the timeline and the list of files. Penstock needs no server.",
    accepted=True,
)
TAGGED_STORAGE_LEVEL: Final = Option(
    "hoodie.write.tagged.record.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Spark storage level of rows with their locations.",
    accepted=True,
)
STATUS_STORAGE_LEVEL: Final = Option(
    "hoodie.write.status.storage.level",
    word,
    "MEMORY_AND_DISK_SER",
    "Spark storage level of write results.",
    accepted=True,
)
RELEASE_RESOURCES: Final = Option(
    "hoodie.release.resource.on.completion.enable",
    boolean,
    True,
    "Free cached data after the write.",
    accepted=True,
)
SCHEMA_CACHE: Final = Option(
    "hoodie.schema.cache.enable",
    boolean,
    False,
    "Cache Avro schemas.",
    accepted=True,
)
SENSITIVE_KEYS: Final = Option(
    "hoodie.sensitive.config.keys",
    text,
    "ssl,tls,sasl,auth,credentials",
    "Options whose values are not logged.",
    accepted=True,
)
AVRO_WRITE_SUPPORT: Final = Option(
    "hoodie.avro.write.support.class",
    word,
    "org.apache.hudi.avro.HoodieAvroWriteSupport",
    "Class that writes Avro records to Parquet.",
    supported=("org.apache.hudi.avro.HoodieAvroWriteSupport",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
ROW_WRITE_SUPPORT: Final = Option(
    "hoodie.parquet.spark.row.write.support.class",
    word,
    "org.apache.hudi.io.storage.row.HoodieRowParquetWriteSupport",
    "Class that writes Spark rows to Parquet.",
    supported=("org.apache.hudi.io.storage.row.HoodieRowParquetWriteSupport",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
STORAGE_CLASS: Final = Option(
    "hoodie.storage.class",
    word,
    "org.apache.hudi.storage.hadoop.HoodieHadoopStorage",
    "Class that accesses the storage.",
    supported=("org.apache.hudi.storage.hadoop.HoodieHadoopStorage",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out, the path's scheme chooses the storage",
)
IO_FACTORY_CLASS: Final = Option(
    "hoodie.io.factory.class",
    word,
    "org.apache.hudi.io.hadoop.HoodieHadoopIOFactory",
    "Class that opens readers and writers.",
    supported=("org.apache.hudi.io.hadoop.HoodieHadoopIOFactory",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
WRITE_STATUS_CLASS: Final = Option(
    "hoodie.writestatus.class",
    word,
    "org.apache.hudi.client.WriteStatus",
    "Class that collects write results.",
    supported=("org.apache.hudi.client.WriteStatus",),
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="leave it out",
)
METASERVER_ENABLED: Final = Option(
    "hoodie.metaserver.enabled",
    boolean,
    False,
    "Store the timeline in a server.",
    supported=("false",),
    lacks="Hudi's metaserver",
    instead="leave it out, the timeline is kept in the table",
)
SERVICE_MANAGER_ENABLED: Final = Option(
    "hoodie.table.service.manager.enabled",
    boolean,
    False,
    "Let a server run table services.",
    supported=("false",),
    ignored="table services run after a write, or by penstock services run",
)
ERROR_TABLE_ENABLE: Final = Option(
    "hoodie.errortable.enable",
    boolean,
    False,
    "Write rows that fail to another table.",
    supported=("false",),
    ignored="it applies to HoodieStreamer only, as in Hudi; a row that cannot be written fails the write",
)
