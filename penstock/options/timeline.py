"""Options of the timeline: markers, rollback, heartbeats and archiving."""

from __future__ import annotations

from typing import Final

from penstock.options.option import MIB, Family, Option, boolean, count, heartbeat_ms, positive, text, word

MARKER_BATCHES: Final = Family(
    "hoodie.markers.timeline_server_based.", "Batching of markers in the timeline server, which is not there."
)

MARKERS_TYPE: Final = Option(
    "hoodie.write.markers.type",
    word,
    "TIMELINE_SERVER_BASED",
    "How files are announced before they are written: an empty file each, or lines of a few common files, as Hudi's timeline "
    "server keeps them (Penstock's tasks write these themselves; there is no server).",
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
    "When a write that died is rolled back: at the next write, later when its heartbeat is old, or not at all.",
    allowed=("EAGER", "LAZY", "NEVER"),
)
ROLLBACK_USING_MARKERS: Final = Option(
    "hoodie.rollback.using.markers",
    boolean,
    True,
    "Find the files of a failed write by its markers; with false by listing.",
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
    instead="copy .hoodie yourself before a rollback",
)
ROLLBACK_BACKUP_FOLDER: Final = Option(
    "hoodie.rollback.instant.backup.dir",
    word,
    ".rollback_backup",
    "Where to, below `.hoodie`.",
    waits_for="backups before a rollback",
)
HEARTBEAT_INTERVAL_MS: Final = Option(
    "hoodie.client.heartbeat.interval_in_ms",
    heartbeat_ms,
    60_000,
    "How often a lazy writer shows that it lives.",
)
HEARTBEAT_TOLERABLE_MISSES: Final = Option(
    "hoodie.client.heartbeat.tolerable.misses",
    count,
    2,
    "Heartbeats that may be missed before the writer counts as dead.",
)
FINALIZE_PARALLELISM: Final = Option(
    "hoodie.finalize.write.parallelism",
    count,
    200,
    "Number of tasks that remove files of retried tasks.",
    accepted=True,
)
SKIP_DEFAULT_PARTITION_VALIDATION: Final = Option(
    "hoodie.skip.default.partition.validation",
    boolean,
    False,
    "Skip a check while upgrading old tables. Penstock upgrades none.",
    accepted=True,
)
TABLE_SERVICES_ENABLED: Final = Option(
    "hoodie.table.services.enabled",
    boolean,
    True,
    "Main switch of cleaning, archiving, compaction and clustering after a commit.",
)
FAIL_ON_SERVICE_EXCEPTION: Final = Option(
    "hoodie.fail.writes.on.inline.table.service.exception",
    boolean,
    True,
    "Raise when a service after the commit fails, although the rows are committed. If false, it is a warning. Cleaning and "
    "archiving raise only if this is set to true; they are tried again after the next write.",
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
    "Archive beside the write. Penstock archives right after the commit either way.",
    accepted=True,
)
KEEP_MAX_COMMITS: Final = Option(
    "hoodie.keep.max.commits",
    positive,
    30,
    "Archive when the timeline has more commits than this.",
)
KEEP_MIN_COMMITS: Final = Option(
    "hoodie.keep.min.commits",
    positive,
    20,
    "Commits that stay after archiving.",
)
ARCHIVAL_BATCH: Final = Option(
    "hoodie.commits.archival.batch",
    positive,
    10,
    "Instants per block of an archive file.",
)
ARCHIVE_BEYOND_SAVEPOINT: Final = Option(
    "hoodie.archive.beyond.savepoint",
    boolean,
    False,
    "Archive commits after a savepoint too.",
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
    "Join small archive files.",
)
ARCHIVE_MERGE_BATCH: Final = Option(
    "hoodie.archive.merge.files.batch.size",
    positive,
    10,
    "How many at once.",
)
ARCHIVE_MERGE_SMALL_LIMIT: Final = Option(
    "hoodie.archive.merge.small.file.limit.bytes",
    positive,
    20 * MIB,
    "Bytes below which an archive file is small.",
)
FAIL_ON_ARCHIVING: Final = Option(
    "hoodie.fail.on.timeline.archiving",
    boolean,
    True,
    "Stop archiving at an instant whose file cannot be read. If false, it stays on the timeline, with a warning.",
)
ATOMIC_CREATION_SCHEMES: Final = Option(
    "hoodie.fs.atomic_creation.support",
    text,
    "",
    "Storage schemes beyond Hudi's own list that create a file only if it is new. Penstock knows its storages.",
    accepted=True,
)
