"""Options of clustering: rewriting small or unsorted files into larger, sorted ones."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Option, boolean, count, positive, text, whole, word, words

_CLIENT: Final = "org.apache.hudi.client.clustering"
_PLAN: Final = "hoodie.clustering.plan.strategy."

CLUSTERING_INLINE: Final = Option(
    "hoodie.clustering.inline",
    boolean,
    False,
    "Cluster after a write.",
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
CLUSTERING_SCHEDULE_INLINE: Final = Option(
    "hoodie.clustering.schedule.inline",
    boolean,
    False,
    "Plan clustering after a write and leave it to another process.",
)
CLUSTERING_ASYNC: Final = Option(
    "hoodie.clustering.async.enabled",
    boolean,
    False,
    "Another process plans and runs clusterings, once enough commits were made; a write does nothing about it.",
    aliases=("hoodie.datasource.clustering.async.enable",),
)
CLUSTERING_INLINE_MAX_COMMITS: Final = Option(
    "hoodie.clustering.inline.max.commits",
    positive,
    4,
    "Commits that make inline clustering due.",
)
CLUSTERING_ASYNC_MAX_COMMITS: Final = Option(
    "hoodie.clustering.async.max.commits",
    positive,
    4,
    "Commits that make asynchronous clustering due.",
)
CLUSTERING_PLAN_STRATEGY: Final = Option(
    f"{_PLAN}class",
    word,
    f"{_CLIENT}.plan.strategy.SparkSizeBasedClusteringPlanStrategy",
    "Which files a plan takes.",
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
    instead="choose partitions with hoodie.clustering.plan.partition.filter.mode",
)
CLUSTERING_EXECUTION_STRATEGY: Final = Option(
    "hoodie.clustering.execution.strategy.class",
    word,
    f"{_CLIENT}.run.strategy.SparkSortAndSizeExecutionStrategy",
    "How a plan is carried out.",
    supported=tuple(
        f"{_CLIENT}.run.strategy.{name}"
        for name in (
            "SparkSortAndSizeExecutionStrategy",
            "SparkSingleFileSortExecutionStrategy",
            "SparkConsistentBucketClusteringExecutionStrategy",
        )
    ),
    instead="leave it out, and name columns with hoodie.clustering.plan.strategy.sort.columns",
)
CLUSTERING_UPDATES_STRATEGY: Final = Option(
    "hoodie.clustering.updates.strategy",
    word,
    f"{_CLIENT}.update.strategy.SparkRejectUpdateStrategy",
    "What happens to updates of file groups that wait to be clustered: they are refused, or make the plan void.",
    supported=tuple(f"{_CLIENT}.update.strategy.{name}" for name in ("SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy")),
    instead="leave it out, which refuses such updates",
)
CLUSTERING_ROLLBACK_ON_CONFLICT: Final = Option(
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
    boolean,
    False,
    "Roll a pending clustering back when a write updates its files.",
)
CLUSTERING_MAX_PARALLELISM: Final = Option(
    "hoodie.clustering.max.parallelism",
    positive,
    15,
    "Groups that are clustered at the same time. Here Spark's cores decide.",
    accepted=True,
)
CLUSTERING_PARTITION_FILTER: Final = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    word,
    "NONE",
    "Which partitions a plan looks at.",
    allowed=("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
)
CLUSTERING_LOOKBACK_PARTITIONS: Final = Option(
    f"{_PLAN}daybased.lookback.partitions",
    whole,
    2,
    "RECENT_DAYS: how many of the newest partitions. 0 or less: all.",
)
CLUSTERING_SKIP_LATEST_PARTITIONS: Final = Option(
    f"{_PLAN}daybased.skipfromlatest.partitions",
    count,
    0,
    "RECENT_DAYS: how many of the newest are left out.",
)
CLUSTERING_BEGIN_PARTITION: Final[Option[str | None]] = Option(
    f"{_PLAN}cluster.begin.partition",
    text,
    None,
    "SELECTED_PARTITIONS: the first.",
)
CLUSTERING_END_PARTITION: Final[Option[str | None]] = Option(
    f"{_PLAN}cluster.end.partition",
    text,
    None,
    "SELECTED_PARTITIONS: the last.",
)
CLUSTERING_PARTITION_REGEX: Final[Option[str | None]] = Option(
    f"{_PLAN}partition.regex.pattern",
    text,
    None,
    "Only partitions whose whole path matches.",
)
CLUSTERING_PARTITIONS: Final[Option[tuple[str, ...]]] = Option(
    f"{_PLAN}partition.selected",
    words,
    (),
    "Only these partitions.",
)
CLUSTERING_SMALL_FILE_LIMIT: Final = Option(
    f"{_PLAN}small.file.limit",
    whole,
    300 * MIB,
    "Only files with fewer bytes.",
)
CLUSTERING_TARGET_FILE_BYTES: Final = Option(
    f"{_PLAN}target.file.max.bytes",
    positive,
    GIB,
    "Bytes of a new file.",
)
CLUSTERING_MAX_BYTES_PER_GROUP: Final = Option(
    f"{_PLAN}max.bytes.per.group",
    positive,
    2 * GIB,
    "Bytes that are rewritten together.",
)
CLUSTERING_MAX_GROUPS: Final = Option(
    f"{_PLAN}max.num.groups",
    positive,
    30,
    "Groups in one plan.",
)
CLUSTERING_SINGLE_GROUP: Final = Option(
    f"{_PLAN}single.group.clustering.enabled",
    boolean,
    True,
    "Rewrite a group of one file too.",
)
CLUSTERING_SORT_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_PLAN}sort.columns",
    words,
    (),
    "Columns the new files are sorted by.",
)
CLUSTERING_PRESERVE_META: Final = Option(
    "hoodie.clustering.preserve.commit.metadata",
    boolean,
    True,
    "Rows keep their commit time and sequence number, so that clustering is nothing new to incremental queries.",
)
LAYOUT_OPTIMIZE_STRATEGY: Final = Option(
    "hoodie.layout.optimize.strategy",
    word,
    "LINEAR",
    "Order of the rows: by one column after the other, or along a curve through all of them.",
    allowed=("LINEAR", "ZORDER", "Z-ORDER", "HILBERT"),
)
LAYOUT_CURVE_METHOD: Final = Option(
    "hoodie.layout.optimize.curve.build.method",
    word,
    "DIRECT",
    "Compute the curve from the values, or from a sample of them.",
    allowed=("DIRECT", "SAMPLE"),
)
LAYOUT_CURVE_SAMPLE: Final = Option(
    "hoodie.layout.optimize.build.curve.sample.size",
    positive,
    200_000,
    "Rows in that sample.",
)
LAYOUT_OPTIMIZE_ENABLE: Final = Option(
    "hoodie.layout.optimize.enable",
    boolean,
    False,
    "No effect in Hudi either.",
    accepted=True,
)
LAYOUT_DATA_SKIPPING: Final = Option(
    "hoodie.layout.optimize.data.skipping.enable",
    boolean,
    True,
    "No effect in Hudi either.",
    accepted=True,
)
