"""Options of clustering: rewriting small or unsorted files into larger, sorted ones."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import GIB, MIB, Option, boolean, count, positive, text, whole, word, words

_CLIENT: Final = "org.apache.hudi.client.clustering"
_PLAN: Final = "hoodie.clustering.plan.strategy."

CLUSTERING_INLINE: Final = Option(
    "hoodie.clustering.inline",
    boolean,
    False,
    "Cluster after a write, if it is due.",
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
CLUSTERING_SCHEDULE_INLINE: Final = Option(
    "hoodie.clustering.schedule.inline",
    boolean,
    False,
    "Schedule a clustering after a write, if it is due. Another process runs it.",
)
CLUSTERING_ASYNC: Final = Option(
    "hoodie.clustering.async.enabled",
    boolean,
    False,
    "A stream clusters in its background, if it is due. Next to batch writes, another process schedules and runs clusterings.",
    aliases=("hoodie.datasource.clustering.async.enable",),
)
#: The options with which a write plans or runs clusterings.
_CLUSTERS: Final = (
    (CLUSTERING_INLINE.key, "true"),
    (CLUSTERING_SCHEDULE_INLINE.key, "true"),
    (CLUSTERING_ASYNC.key, "true"),
)
CLUSTERING_INLINE_MAX_COMMITS: Final = Option(
    "hoodie.clustering.inline.max.commits",
    positive,
    4,
    "Number of commits after which a clustering after a write is due.",
)
CLUSTERING_ASYNC_MAX_COMMITS: Final = Option(
    "hoodie.clustering.async.max.commits",
    positive,
    4,
    "Number of commits after which a clustering by another process is due.",
)
CLUSTERING_PLAN_STRATEGY: Final = Option(
    f"{_PLAN}class",
    word,
    f"{_CLIENT}.plan.strategy.SparkSizeBasedClusteringPlanStrategy",
    "Which files a clustering plan contains.",
    supported=tuple(
        f"{_CLIENT}.plan.strategy.{name}"
        for name in (
            "SparkSizeBasedClusteringPlanStrategy",
            "SparkRecentDaysClusteringPlanStrategy",
            "SparkSelectedPartitionsClusteringPlanStrategy",
            "SparkSingleFileSortPlanStrategy",
            "SparkConsistentBucketClusteringPlanStrategy",
        )
    ),
    refused_if=_CLUSTERS,
    lacks=JAVA_CLASSES,
    instead="leave it out and choose partitions with hoodie.clustering.plan.partition.filter.mode",
)
CLUSTERING_EXECUTION_STRATEGY: Final = Option(
    "hoodie.clustering.execution.strategy.class",
    word,
    f"{_CLIENT}.run.strategy.SparkSortAndSizeExecutionStrategy",
    "How a clustering plan is run.",
    supported=tuple(
        f"{_CLIENT}.run.strategy.{name}"
        for name in (
            "SparkSortAndSizeExecutionStrategy",
            "SparkSingleFileSortExecutionStrategy",
            "SparkConsistentBucketClusteringExecutionStrategy",
        )
    ),
    refused_if=_CLUSTERS,
    lacks=JAVA_CLASSES,
    instead="leave it out and name columns with hoodie.clustering.plan.strategy.sort.columns",
)
CLUSTERING_UPDATES_STRATEGY: Final = Option(
    "hoodie.clustering.updates.strategy",
    word,
    f"{_CLIENT}.update.strategy.SparkRejectUpdateStrategy",
    "What happens to updates of file groups with a pending clustering. SparkRejectUpdateStrategy: the write fails. "
    "SparkAllowUpdateStrategy: the write succeeds, and the clustering plan becomes void.",
    supported=tuple(f"{_CLIENT}.update.strategy.{name}" for name in ("SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy")),
    refused_if=_CLUSTERS,
    lacks=JAVA_CLASSES,
    instead="leave it out, so that a write to file groups with a pending clustering fails",
)
CLUSTERING_ROLLBACK_ON_CONFLICT: Final = Option(
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
    boolean,
    False,
    "Roll back a pending clustering if a write updates its files.",
)
CLUSTERING_MAX_PARALLELISM: Final = Option(
    "hoodie.clustering.max.parallelism",
    positive,
    15,
    "Number of groups that Hudi clusters at the same time. In Penstock the number of Spark's cores decides.",
    accepted=True,
)
CLUSTERING_PARTITION_FILTER: Final = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    word,
    "NONE",
    "Which partitions a clustering plan considers.",
    allowed=("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
)
CLUSTERING_LOOKBACK_PARTITIONS: Final = Option(
    f"{_PLAN}daybased.lookback.partitions",
    whole,
    2,
    "RECENT_DAYS: number of latest partitions to consider. 0 or less: all.",
)
CLUSTERING_SKIP_LATEST_PARTITIONS: Final = Option(
    f"{_PLAN}daybased.skipfromlatest.partitions",
    count,
    0,
    "RECENT_DAYS: number of latest partitions to leave out.",
)
CLUSTERING_BEGIN_PARTITION: Final[Option[str | None]] = Option(
    f"{_PLAN}cluster.begin.partition",
    text,
    None,
    "SELECTED_PARTITIONS: first partition to consider.",
)
CLUSTERING_END_PARTITION: Final[Option[str | None]] = Option(
    f"{_PLAN}cluster.end.partition",
    text,
    None,
    "SELECTED_PARTITIONS: last partition to consider.",
)
CLUSTERING_PARTITION_REGEX: Final[Option[str | None]] = Option(
    f"{_PLAN}partition.regex.pattern",
    text,
    None,
    "Consider only partitions whose whole path matches this regular expression.",
)
CLUSTERING_PARTITIONS: Final[Option[tuple[str, ...]]] = Option(
    f"{_PLAN}partition.selected",
    words,
    (),
    "Consider only these partitions.",
)
CLUSTERING_SMALL_FILE_LIMIT: Final = Option(
    f"{_PLAN}small.file.limit",
    whole,
    300 * MIB,
    "Cluster only files with fewer bytes.",
)
CLUSTERING_TARGET_FILE_BYTES: Final = Option(
    f"{_PLAN}target.file.max.bytes",
    positive,
    GIB,
    "Target size of a new file in bytes.",
)
CLUSTERING_MAX_BYTES_PER_GROUP: Final = Option(
    f"{_PLAN}max.bytes.per.group",
    positive,
    2 * GIB,
    "Greatest number of bytes that are rewritten together as a group.",
)
CLUSTERING_MAX_GROUPS: Final = Option(
    f"{_PLAN}max.num.groups",
    positive,
    30,
    "Greatest number of groups in one plan.",
)
CLUSTERING_SINGLE_GROUP: Final = Option(
    f"{_PLAN}single.group.clustering.enabled",
    boolean,
    True,
    "Also rewrite groups of a single file.",
)
CLUSTERING_SORT_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_PLAN}sort.columns",
    words,
    (),
    "Columns by which the rows of new files are sorted.",
)
CLUSTERING_PRESERVE_META: Final = Option(
    "hoodie.clustering.preserve.commit.metadata",
    boolean,
    True,
    "Rows keep their commit time and sequence number, so that incremental queries do not return them again.",
)
LAYOUT_OPTIMIZE_STRATEGY: Final = Option(
    "hoodie.layout.optimize.strategy",
    word,
    "LINEAR",
    "Order of the rows. LINEAR: by one column after the other. ZORDER and HILBERT: along a curve through all columns.",
    allowed=("LINEAR", "ZORDER", "Z-ORDER", "HILBERT"),
)
LAYOUT_CURVE_METHOD: Final = Option(
    "hoodie.layout.optimize.curve.build.method",
    word,
    "DIRECT",
    "Compute the curve from the values, or from a sample of the values.",
    allowed=("DIRECT", "SAMPLE"),
)
LAYOUT_CURVE_SAMPLE: Final = Option(
    "hoodie.layout.optimize.build.curve.sample.size",
    positive,
    200_000,
    "Number of rows in the sample for the curve.",
)
LAYOUT_OPTIMIZE_ENABLE: Final = Option(
    "hoodie.layout.optimize.enable",
    boolean,
    False,
    "Old switch. Hudi does not use it either.",
    accepted=True,
)
LAYOUT_DATA_SKIPPING: Final = Option(
    "hoodie.layout.optimize.data.skipping.enable",
    boolean,
    True,
    "Old switch. Hudi does not use it either.",
    accepted=True,
)
