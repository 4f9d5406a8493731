"""Options of the timeline: markers, rollback, heartbeats, archiving, and the main switch of table services."""

from __future__ import annotations

from typing import Final

from penstock.options.option import MIB, Family, Option, boolean, count, heartbeat_ms, positive, text, word

_BACKUPS: Final = "backups before a rollback"

MARKER_BATCHES: Final = Family(
    "hoodie.markers.timeline_server_based.", "Batching of markers in Hudi's timeline server, which Penstock does not use."
)

MARKERS_TYPE: Final = Option(
    "hoodie.write.markers.type",
    word,
    "TIMELINE_SERVER_BASED",
    "How a write records the files that it is about to create. DIRECT: an empty marker file for each. TIMELINE_SERVER_BASED: "
    "lines in a few marker files, in the format of Hudi's timeline server; Penstock's tasks write them without a server.",
    allowed=("DIRECT", "TIMELINE_SERVER_BASED"),
)
MARKERS_DELETE_PARALLELISM: Final = Option(
    "hoodie.markers.delete.parallelism",
    count,
    100,
    "Number of tasks that delete markers.",
    accepted=True,
)
FAILED_WRITES_POLICY: Final = Option(
    "hoodie.cleaner.policy.failed.writes",
    word,
    "EAGER",
    "When a failed write is rolled back. EAGER: at the next write. LAZY: later, when its heartbeat has expired. NEVER: not at "
    "all.",
    allowed=("EAGER", "LAZY", "NEVER"),
)
ROLLBACK_USING_MARKERS: Final = Option(
    "hoodie.rollback.using.markers",
    boolean,
    True,
    "Find the files of a failed write by its markers. If false, by listing partitions.",
)
ROLLBACK_PARALLELISM: Final = Option(
    "hoodie.rollback.parallelism",
    count,
    100,
    "Number of tasks of a rollback.",
    accepted=True,
)
ROLLBACK_BACKUP: Final = Option(
    "hoodie.rollback.instant.backup.enabled",
    boolean,
    False,
    "Copy the instant files of a commit before it is rolled back.",
    supported=("false",),
    ignored="a rollback keeps no copy of the files that it removes from the timeline; copy .hoodie before it",
)
ROLLBACK_BACKUP_FOLDER: Final = Option(
    "hoodie.rollback.instant.backup.dir",
    word,
    ".rollback_backup",
    "Folder of these copies, below `.hoodie`.",
    waits_for=_BACKUPS,
)
HEARTBEAT_INTERVAL_MS: Final = Option(
    "hoodie.client.heartbeat.interval_in_ms",
    heartbeat_ms,
    60_000,
    "Milliseconds between heartbeats of a writer.",
)
HEARTBEAT_TOLERABLE_MISSES: Final = Option(
    "hoodie.client.heartbeat.tolerable.misses",
    count,
    2,
    "Number of missed heartbeats after which a writer is considered dead.",
)
FINALIZE_PARALLELISM: Final = Option(
    "hoodie.finalize.write.parallelism",
    count,
    200,
    "Number of tasks that delete files of retried tasks.",
    accepted=True,
)
SKIP_DEFAULT_PARTITION_VALIDATION: Final = Option(
    "hoodie.skip.default.partition.validation",
    boolean,
    False,
    "Skip a check during the upgrade of old tables. Penstock does not upgrade tables.",
    accepted=True,
)
TABLE_SERVICES_ENABLED: Final = Option(
    "hoodie.table.services.enabled",
    boolean,
    True,
    "Run table services after a commit. If false, no cleaning, archiving, compaction or clustering runs.",
)
FAIL_ON_SERVICE_EXCEPTION: Final = Option(
    "hoodie.fail.writes.on.inline.table.service.exception",
    boolean,
    True,
    "Raise if a table service after the commit fails, although the rows are committed. If false, warn. Cleaning and archiving "
    "raise only if this option is set to true explicitly; they run again after the next write.",
)
ARCHIVE_AUTOMATIC: Final = Option(
    "hoodie.archive.automatic",
    boolean,
    True,
    "Move old instants from the timeline to the archive after a commit.",
)
ARCHIVE_ASYNC: Final = Option(
    "hoodie.archive.async",
    boolean,
    False,
    "Archive while rows are written, on a thread of the writer that the write waits for, instead of after the commit. A stream "
    "archives in its background.",
)
KEEP_MAX_COMMITS: Final = Option(
    "hoodie.keep.max.commits",
    positive,
    30,
    "Number of commits on the timeline above which archiving runs.",
)
KEEP_MIN_COMMITS: Final = Option(
    "hoodie.keep.min.commits",
    positive,
    20,
    "Number of commits that stay on the timeline after archiving.",
)
ARCHIVAL_BATCH: Final = Option(
    "hoodie.commits.archival.batch",
    positive,
    10,
    "Number of instants per block of an archive file.",
)
ARCHIVE_BEYOND_SAVEPOINT: Final = Option(
    "hoodie.archive.beyond.savepoint",
    boolean,
    False,
    "Archive commits after a savepoint, too.",
)
ARCHIVE_DELETE_PARALLELISM: Final = Option(
    "hoodie.archive.delete.parallelism",
    count,
    100,
    "Number of tasks that delete archived instants.",
    accepted=True,
)
ARCHIVE_MERGE: Final = Option(
    "hoodie.archive.merge.enable",
    boolean,
    False,
    "Merge small archive files.",
)
ARCHIVE_MERGE_BATCH: Final = Option(
    "hoodie.archive.merge.files.batch.size",
    positive,
    10,
    "Number of archive files that are merged at once.",
)
ARCHIVE_MERGE_SMALL_LIMIT: Final = Option(
    "hoodie.archive.merge.small.file.limit.bytes",
    positive,
    20 * MIB,
    "Archive files below this many bytes are merged.",
)
FAIL_ON_ARCHIVING: Final = Option(
    "hoodie.fail.on.timeline.archiving",
    boolean,
    True,
    "Stop archiving at an instant whose file cannot be read. If false, the instant stays on the timeline, with a warning.",
)
ATOMIC_CREATION_SCHEMES: Final = Option(
    "hoodie.fs.atomic_creation.support",
    text,
    "",
    "Storage schemes that can create a file atomically, in addition to Hudi's own list. Penstock's storages all can.",
    accepted=True,
)
