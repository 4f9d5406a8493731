"""Options of writes: operation, merging of rows, sort modes, schema evolution."""

from __future__ import annotations

from typing import Final

from penstock.options.features import ENGINE_PROPERTIES, JAVA_CLASSES, OTHER_VERSIONS, SCHEMA_EVOLUTION
from penstock.options.operation import Operation, spellings
from penstock.options.option import Option, boolean, comma_list, count, filled, text, word, words
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.hooks import VALIDATORS

_MODEL: Final = "org.apache.hudi.common.model"


def payload_class(raw: str) -> str:
    """Parse the name of a payload: a name that the user registered, or a Java class, whose full name is returned.

    A Java class name without a package gets the package of Hudi's payloads, or that of its Debezium payloads.
    """
    name = filled(raw)
    if MERGE_FUNCTIONS.has(name):
        return name
    if name.endswith("DebeziumAvroPayload") and name.rpartition(".")[0] in ("", "debezium"):
        return f"{_MODEL}.debezium.{name.rpartition('.')[2]}"
    return _with_package(_MODEL, name)


def merger_class(raw: str) -> str:
    """Parse the name of a record merger: a name that the user registered, or a Java class, whose full name is returned."""
    return payload_class(raw)


def _with_package(package: str, raw: str) -> str:
    """Return a class name with `package` in front, unless the name has a package (a dot) or names a module (a colon)."""
    name = filled(raw)
    return name if "." in name or ":" in name else f"{package}.{name}"


PATH: Final[Option[str | None]] = Option(
    "path",
    text,
    None,
    "Base path of the table. `save(path)` and `load(path)` set it.",
)
BASE_PATH: Final[Option[str | None]] = Option(
    "hoodie.base.path",
    text,
    None,
    "Internal copy of the base path. `path` is used instead.",
    accepted=True,
)
OPERATION: Final = Option(
    "hoodie.datasource.write.operation",
    Operation,
    Operation.UPSERT,
    "What the write does. If not set: `upsert`, or `bulk_insert` without a record key.",
    allowed=spellings(
        Operation.UPSERT,
        Operation.INSERT,
        Operation.BULK_INSERT,
        Operation.DELETE,
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
        Operation.UPSERT_PREPPED,
        Operation.INSERT_PREPPED,
        Operation.BULK_INSERT_PREPPED,
        Operation.DELETE_PREPPED,
        Operation.BOOTSTRAP,
        Operation.CLUSTER,
        Operation.COMPACT,
        Operation.ALTER_SCHEMA,
    ),
    supported=spellings(
        Operation.BULK_INSERT,
        Operation.INSERT,
        Operation.UPSERT,
        Operation.DELETE,
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    ),
    lacks="operations on rows with known locations, bootstrap, and table services as operations",
)
TABLE_TYPE: Final = Option(
    "hoodie.datasource.write.table.type",
    word,
    "COPY_ON_WRITE",
    "Type of a new table. An existing table keeps its type.",
    aliases=("hoodie.datasource.write.storage.type",),
    allowed=("COPY_ON_WRITE", "MERGE_ON_READ"),
)
WRITE_TABLE_NAME: Final[Option[str | None]] = Option(
    "hoodie.datasource.write.table.name",
    word,
    None,
    "Old second name of the table, for catalogs. `hoodie.table.name` is used instead.",
    accepted=True,
)
PRECOMBINE_FIELD: Final = Option(
    "hoodie.datasource.write.precombine.field",
    word,
    "ts",
    "Ordering column: of two rows with the same key the row with the greater value wins. Stored in the table only if it is set.",
)
PAYLOAD_CLASS: Final = Option(
    "hoodie.datasource.write.payload.class",
    payload_class,
    f"{_MODEL}.OverwriteWithLatestAvroPayload",
    "How an incoming row is merged with the stored row of the same key. By default the incoming row wins whatever its ordering "
    "value is; `DefaultHoodieRecordPayload` keeps the row with the greater ordering value. A copy-on-write table does not "
    "store the payload class: set it on every write.",
    supported=(*HUDI_PAYLOADS, *PENSTOCK_PAYLOADS),
    case_sensitive=True,
    is_also_supported=MERGE_FUNCTIONS.has,
    lacks=JAVA_CLASSES,
    instead="choose a payload of Hudi, or register your own under that name with @penstock.payload or @penstock.merger",
)
FLINK_PAYLOAD_CLASS: Final[Option[str | None]] = Option(
    "payload.class",
    payload_class,
    None,
    "Flink's name of the payload class. Hudi's Spark writers do not read it.",
    supported=(),
    ignored="Hudi's Spark writers do not read Flink's option either, and hoodie.datasource.write.payload.class decides",
)
PAYLOAD_ORDERING_FIELD: Final = Option(
    "hoodie.payload.ordering.field",
    word,
    "ts",
    "Ordering column that Hudi passes to payloads. Penstock always passes the precombine field.",
    accepted=True,
)
PAYLOAD_EVENT_TIME_FIELD: Final[Option[str | None]] = Option(
    "hoodie.payload.event.time.field",
    word,
    None,
    "Column with event times in seconds or milliseconds. Its least and greatest values are stored in the write stats. Used by "
    "`DefaultHoodieRecordPayload` and `FirstValueAvroPayload`.",
)
PAYLOAD_DELETE_FIELD: Final[Option[str | None]] = Option(
    "hoodie.payload.delete.field",
    word,
    None,
    "Column that marks a row as a delete, instead of `_hoodie_is_deleted`. Used by `DefaultHoodieRecordPayload` and "
    "`FirstValueAvroPayload`.",
)
PAYLOAD_DELETE_MARKER: Final[Option[str | None]] = Option(
    "hoodie.payload.delete.marker",
    text,
    None,
    "Value of the delete column that marks a delete.",
)
IS_UPDATE_FOR_MOR: Final[Option[bool | None]] = Option(
    "hoodie.is.update.record.for.mor",
    boolean,
    None,
    "Internal: Hudi passes it to payloads while it appends to log files.",
    supported=(),
    ignored="Hudi sets it itself while it appends to log files, for payloads written in Java",
)
RECORD_MERGER_IMPLS: Final = Option(
    "hoodie.datasource.write.record.merger.impls",
    merger_class,
    f"{_MODEL}.HoodieAvroRecordMerger",
    "Record merger. The default uses the payload class. A merger of your own is given by its registered name.",
    aliases=("hoodie.write.record.merge.custom.implementation.classes",),
    supported=(f"{_MODEL}.HoodieAvroRecordMerger",),
    case_sensitive=True,
    is_also_supported=MERGE_FUNCTIONS.has,
    lacks=JAVA_CLASSES,
    instead="choose a payload class, or register a merger of your own under that name with @penstock.merger",
)
RECORD_MERGER_STRATEGY: Final = Option(
    "hoodie.datasource.write.record.merger.strategy",
    word,
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "Id of the merge strategy. Hudi chooses a merger with this id.",
    supported=("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",),
    lacks=JAVA_CLASSES,
    instead="leave it out and choose a payload class",
)
RECORD_MERGE_MODE: Final[Option[str | None]] = Option(
    "hoodie.record.merge.mode",
    word,
    None,
    "Hudi 1.x: how rows are merged, instead of a payload class.",
    aliases=("hoodie.write.record.merge.mode",),
    allowed=("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING", "CUSTOM"),
)
WRITE_TABLE_VERSION: Final = Option(
    "hoodie.write.table.version",
    count,
    6,
    "Hudi 1.x: table version to write.",
    supported=("6",),
    lacks=OTHER_VERSIONS,
    instead="leave it out to write version 6, which Hudi 0.14 to 1.x read",
)
AUTO_UPGRADE: Final = Option(
    "hoodie.write.auto.upgrade",
    boolean,
    False,
    "Hudi 1.x: whether a write may upgrade the table's version.",
    supported=("false",),
    ignored="the table stays at version 6, which Hudi 0.14 to 1.x read",
)
COMBINE_BEFORE_INSERT: Final = Option(
    "hoodie.combine.before.insert",
    boolean,
    False,
    "Combine the incoming rows to one row per key before `insert` and `bulk_insert`.",
)
COMBINE_BEFORE_UPSERT: Final = Option(
    "hoodie.combine.before.upsert",
    boolean,
    True,
    "Combine the incoming rows to one row per key before `upsert`. If false, the last row of a key is merged with the stored "
    "row, whatever its ordering value is, and a new file group takes all rows of a key, as in Hudi. A log takes all rows too; "
    "its readers combine them by the payload, and a delete among them deletes the key.",
)
COMBINE_BEFORE_DELETE: Final = Option(
    "hoodie.combine.before.delete",
    boolean,
    True,
    "Combine the incoming keys before `delete`. Penstock always deletes a key once.",
    accepted=True,
)
INSERT_DROP_DUPLICATES: Final = Option(
    "hoodie.datasource.write.insert.drop.duplicates",
    boolean,
    False,
    "Drop incoming rows whose key is already in the table, and combine the others to one row per key. Turns `upsert` into "
    "`insert`.",
)
INSERT_DUP_POLICY: Final = Option(
    "hoodie.datasource.insert.dup.policy",
    word,
    "none",
    "What SQL INSERT does with keys that are already in the table. It has no effect on DataFrame writes in Hudi.",
    allowed=("none", "drop", "fail"),
    supported=("none",),
    ignored="it applies to SQL INSERT only, as in Hudi 0.15; to drop rows with known keys, set "
    "hoodie.datasource.write.insert.drop.duplicates=true",
)
MERGE_ALLOW_DUPLICATE_ON_INSERTS: Final = Option(
    "hoodie.merge.allow.duplicate.on.inserts",
    boolean,
    True,
    "If true, an `insert` that fills a small file appends its rows to the rows of the file. If false, it merges rows with the "
    "same key.",
)
MERGE_DATA_VALIDATION: Final = Option(
    "hoodie.merge.data.validation.enabled",
    boolean,
    False,
    "Fail if a merged file has fewer rows than the old file, taking deletes into account.",
    supported=("false",),
    ignored="Penstock does not count the rows of a merged file a second time",
)
COMMIT_METADATA_KEY_PREFIX: Final = Option(
    "hoodie.datasource.write.commitmeta.key.prefix",
    text,
    "_",
    "Options whose keys begin with this prefix are stored in the commit's extra metadata.",
)
ALLOW_EMPTY_COMMIT: Final = Option(
    "hoodie.allow.empty.commit",
    boolean,
    True,
    "Complete a commit that wrote no rows. If false, a write without rows succeeds and leaves no commit.",
)
ALLOW_OPERATION_FIELD: Final = Option(
    "hoodie.allow.operation.metadata.field",
    boolean,
    False,
    "Add the sixth meta column `_hoodie_operation`, which holds the operation that produced a row: I, -U, U or D. Rows with D "
    "are deletes; a log file keeps them as rows. A table that has the column keeps it.",
)
AUTO_COMMIT: Final = Option(
    "hoodie.auto.commit",
    boolean,
    True,
    "Commit automatically, for Hudi's Java client. A DataFrame write always commits at its end.",
    accepted=True,
)
ROW_WRITER_ENABLE: Final = Option(
    "hoodie.datasource.write.row.writer.enable",
    boolean,
    True,
    "Whether Hudi's `bulk_insert` writes Spark rows or Avro records. Penstock writes columns.",
    accepted=True,
)
BULK_INSERT_SORT_MODE: Final = Option(
    "hoodie.bulkinsert.sort.mode",
    word,
    "NONE",
    "How `bulk_insert` sorts and distributes rows before it writes files. All modes except NONE need the meta columns.",
    allowed=(
        "NONE",
        "GLOBAL_SORT",
        "PARTITION_SORT",
        "PARTITION_PATH_REPARTITION",
        "PARTITION_PATH_REPARTITION_AND_SORT",
    ),
)
BULK_INSERT_PARTITIONER_CLASS: Final[Option[str | None]] = Option(
    "hoodie.bulkinsert.user.defined.partitioner.class",
    word,
    None,
    "Partitioner of `bulk_insert`, instead of a sort mode. The two supported classes sort by partition path and by the columns "
    "of the next option.",
    supported=(
        "org.apache.hudi.execution.bulkinsert.RowCustomColumnsSortPartitioner",
        "org.apache.hudi.execution.bulkinsert.RDDCustomColumnsSortPartitioner",
    ),
    case_sensitive=True,
    refused_if=((OPERATION.key, Operation.BULK_INSERT.value),),
    lacks=JAVA_CLASSES,
    instead="use hoodie.bulkinsert.sort.mode, or repartition the DataFrame before the write",
)
BULK_INSERT_PARTITIONER_SORT_COLUMNS: Final[Option[str | None]] = Option(
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
    comma_list,
    None,
    "Columns by which the partitioner of `bulk_insert` sorts.",
)
BULK_INSERT_SHUFFLE_PARALLELISM: Final = Option(
    "hoodie.bulkinsert.shuffle.parallelism",
    count,
    0,
    "Number of tasks with which a sorting `bulk_insert` writes. 0: the number of partitions of the DataFrame.",
)
INSERT_SHUFFLE_PARALLELISM: Final = Option(
    "hoodie.insert.shuffle.parallelism",
    count,
    0,
    "Number of tasks with which Hudi combines rows before `insert`. Penstock uses Spark's shuffle settings.",
    accepted=True,
)
UPSERT_SHUFFLE_PARALLELISM: Final = Option(
    "hoodie.upsert.shuffle.parallelism",
    count,
    0,
    "Number of tasks with which Hudi combines rows before `upsert`. Penstock uses Spark's shuffle settings.",
    accepted=True,
)
DELETE_SHUFFLE_PARALLELISM: Final = Option(
    "hoodie.delete.shuffle.parallelism",
    count,
    0,
    "Number of tasks with which Hudi combines keys before `delete`. Penstock uses Spark's shuffle settings.",
    accepted=True,
)
PARTITIONS_TO_DELETE: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.datasource.write.partitions.to.delete",
    words,
    (),
    "Partition paths that `delete_partition` deletes; `*` matches any characters. If not set, the partitions of the incoming "
    "rows.",
)
OVERWRITE_MODE: Final[Option[str | None]] = Option(
    "hoodie.datasource.overwrite.mode",
    word,
    None,
    "Whether SQL INSERT OVERWRITE replaces the whole table or only the partitions of the incoming rows. If not set, Spark's "
    "setting decides.",
    allowed=("STATIC", "DYNAMIC"),
    supported=(),
    ignored="it applies to SQL INSERT OVERWRITE only, as in Hudi; a DataFrame write chooses the operation insert_overwrite or "
    "insert_overwrite_table",
)
BULK_INSERT_OVERWRITE_OPERATION: Final[Option[str | None]] = Option(
    "hoodie.bulkinsert.overwrite.operation.type",
    word,
    None,
    "Internal: the overwrite operation that a bulk insert runs.",
    allowed=spellings(Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE),
    supported=(),
    lacks=ENGINE_PROPERTIES,
    instead="leave it out and choose the operation insert_overwrite or insert_overwrite_table",
)
STATIC_OVERWRITE_PARTITIONS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.static.overwrite.partition.paths",
    words,
    (),
    "Partitions that `insert_overwrite` replaces. If not set, the partitions of the incoming rows.",
)
BULK_INSERT_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.bulkinsert.schema.ddl",
    text,
    None,
    "Internal: the schema of the rows of a bulk insert.",
    supported=(),
    lacks=ENGINE_PROPERTIES,
    instead="leave it out, the schema is the DataFrame's",
)
AVRO_SCHEMA_VALIDATE: Final = Option(
    "hoodie.avro.schema.validate",
    boolean,
    False,
    "Check by Avro's strict rules, names included, that the incoming schema can read the table's schema.",
)
RECONCILE_SCHEMA: Final = Option(
    "hoodie.datasource.write.reconcile.schema",
    boolean,
    False,
    "If the incoming rows lack columns of the table, keep the table's schema and write null to these columns.",
)
SET_NULL_FOR_MISSING_COLUMNS: Final = Option(
    "hoodie.write.set.null.for.missing.columns",
    boolean,
    False,
    "Write null to columns of the table that the incoming rows lack. If false, missing columns are an error.",
)
ALLOW_COLUMN_DROP: Final = Option(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    boolean,
    False,
    "Drop columns from the table's schema that the incoming rows lack.",
)
NEW_COLUMNS_NULLABLE: Final = Option(
    "hoodie.datasource.write.new.columns.nullable",
    boolean,
    False,
    "Hudi 0.14: make new columns nullable. Penstock always does.",
    accepted=True,
)
CANONICALIZE_SCHEMA: Final = Option(
    "hoodie.internal.write.schema.canonicalize",
    boolean,
    True,
    "Internal: adapt nullability and promotable types of the incoming rows to the table's schema.",
    supported=("true",),
    lacks=SCHEMA_EVOLUTION,
    instead="leave it out",
)
SCHEMA_ON_READ: Final = Option(
    "hoodie.schema.on.read.enable",
    boolean,
    False,
    "Full schema evolution: columns can be renamed, dropped and retyped, and are tracked by column ids.",
    supported=("false",),
    ignored="columns are added and types are promoted without it",
)
INTERNAL_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.internal.schema",
    text,
    None,
    "Internal: the schema with column ids.",
    supported=(),
    lacks=SCHEMA_EVOLUTION,
    instead="leave it out, the schema is the DataFrame's",
)
WRITE_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.write.schema",
    text,
    None,
    "Avro schema with which rows are written.",
    supported=(),
    lacks=SCHEMA_EVOLUTION,
    instead="leave it out and cast the DataFrame to the schema you want",
)
AVRO_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.avro.schema",
    text,
    None,
    "Avro schema with which rows are written.",
    supported=(),
    lacks=SCHEMA_EVOLUTION,
    instead="leave it out and cast the DataFrame to the schema you want",
)
AVRO_EXTERNAL_TRANSFORMATION: Final = Option(
    "hoodie.avro.schema.external.transformation",
    boolean,
    False,
    "Rewrite stored rows to the incoming schema while merging. Penstock writes all rows of a merged file with one schema.",
    aliases=("hoodie.avro.schema.externalTransformation",),
    accepted=True,
)
_VALIDATORS: Final = "org.apache.hudi.client.validator."
EQUALITY_VALIDATOR: Final = f"{_VALIDATORS}SqlQueryEqualityPreCommitValidator"
INEQUALITY_VALIDATOR: Final = f"{_VALIDATORS}SqlQueryInequalityPreCommitValidator"
SINGLE_RESULT_VALIDATOR: Final = f"{_VALIDATORS}SqlQuerySingleResultPreCommitValidator"


def _are_validators(names: str) -> bool:
    """Whether all validators of a comma-separated list are Hudi's SQL validators, or functions that the user registered."""
    known = (EQUALITY_VALIDATOR, INEQUALITY_VALIDATOR, SINGLE_RESULT_VALIDATOR)
    return all(name in known or VALIDATORS.has(name) for name in words(names))


PRECOMMIT_VALIDATORS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.precommit.validators",
    words,
    (),
    "Validators, which check the table as it would be after the commit, and may refuse the commit: Hudi's classes "
    f"`{EQUALITY_VALIDATOR}`, `{INEQUALITY_VALIDATOR}` and `{SINGLE_RESULT_VALIDATOR}`, and names that are registered with "
    "`@penstock.validator`. Writes are checked, table services are not.",
    supported=("", EQUALITY_VALIDATOR, INEQUALITY_VALIDATOR, SINGLE_RESULT_VALIDATOR),
    is_also_supported=_are_validators,
    case_sensitive=True,
    lacks=JAVA_CLASSES,
    instead="use Hudi's SQL validators, or register a Python function under this name with @penstock.validator",
)
PRECOMMIT_EQUALITY_QUERIES: Final = Option(
    "hoodie.precommit.validators.equality.sql.queries",
    text,
    "",
    "SQL queries, separated by `;`, whose result must be the same before and after the write. `<TABLE_NAME>` stands for the "
    "table.",
)
PRECOMMIT_INEQUALITY_QUERIES: Final = Option(
    "hoodie.precommit.validators.inequality.sql.queries",
    text,
    "",
    "SQL queries, separated by `;`, whose result must differ before and after the write. `<TABLE_NAME>` stands for the table.",
)
PRECOMMIT_SINGLE_VALUE_QUERIES: Final = Option(
    "hoodie.precommit.validators.single.value.sql.queries",
    text,
    "",
    "SQL queries with the single value that each must return after the write: `<query>#<value>`, separated by `;`. "
    "`<TABLE_NAME>` stands for the table.",
)
