"""Options of cleaning: which old file versions are deleted, and when."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, Options, boolean, count, positive, word

CLEAN_AUTOMATIC: Final = Option(
    "hoodie.clean.automatic",
    boolean,
    True,
    "Clean after a commit: delete old file versions.",
)
CLEAN_ASYNC: Final = Option(
    "hoodie.clean.async",
    boolean,
    False,
    "Clean while rows are written, on a thread of the writer that the write waits for, instead of after the commit. A stream "
    "cleans in its background.",
    aliases=("hoodie.clean.async.enabled",),
)
CLEANER_POLICY: Final = Option(
    "hoodie.cleaner.policy",
    word,
    "KEEP_LATEST_COMMITS",
    "Which file versions are kept. If not set, the retention option that is set determines the policy, if it is only one.",
    allowed=("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"),
)
CLEANER_COMMITS_RETAINED: Final = Option(
    "hoodie.cleaner.commits.retained",
    count,
    10,
    "KEEP_LATEST_COMMITS: number of latest commits whose files are kept.",
)
CLEANER_HOURS_RETAINED: Final = Option(
    "hoodie.cleaner.hours.retained",
    count,
    24,
    "KEEP_LATEST_BY_HOURS: number of hours for which files are kept.",
)
CLEANER_FILE_VERSIONS_RETAINED: Final = Option(
    "hoodie.cleaner.fileversions.retained",
    positive,
    3,
    "KEEP_LATEST_FILE_VERSIONS: number of versions of each file group that are kept.",
)
CLEAN_TRIGGER_STRATEGY: Final = Option(
    "hoodie.clean.trigger.strategy",
    word,
    "NUM_COMMITS",
    "What makes cleaning due.",
    allowed=("NUM_COMMITS",),
)
CLEAN_MAX_COMMITS: Final = Option(
    "hoodie.clean.max.commits",
    positive,
    1,
    "Number of commits since the last clean after which the next is due.",
)
CLEAN_ALLOW_MULTIPLE: Final = Option(
    "hoodie.clean.allow.multiple",
    boolean,
    False,
    "Plan a clean while another one is pending.",
)
CLEANER_INCREMENTAL: Final = Option(
    "hoodie.cleaner.incremental.mode",
    boolean,
    True,
    "Check only partitions that were written since the last clean.",
)
CLEANER_PARALLELISM: Final = Option(
    "hoodie.cleaner.parallelism",
    count,
    200,
    "Number of tasks that delete files.",
    accepted=True,
)
CLEANER_DELETE_BOOTSTRAP: Final = Option(
    "hoodie.cleaner.delete.bootstrap.base.file",
    boolean,
    False,
    "Delete the original files of a bootstrapped table, too. Penstock does not delete files outside of the table.",
    supported=("false",),
    ignored="it applies to bootstrapped tables only, and Penstock deletes no files outside of a table",
)

#: Each retention option, with the cleaning policy that uses it.
_POLICY_OF: Final = (
    (CLEANER_COMMITS_RETAINED, "KEEP_LATEST_COMMITS"),
    (CLEANER_HOURS_RETAINED, "KEEP_LATEST_BY_HOURS"),
    (CLEANER_FILE_VERSIONS_RETAINED, "KEEP_LATEST_FILE_VERSIONS"),
)


def cleaning_policy(options: Options) -> str:
    """Return the cleaning policy: `hoodie.cleaner.policy` if set, otherwise that of the only retention option that is set.

    If no retention option is set, or several are, it is the default of `hoodie.cleaner.policy`.
    """
    retentions = retentions_given(options)
    if options.is_set(CLEANER_POLICY) or len(retentions) != 1:
        return options[CLEANER_POLICY]
    _, policy = retentions[0]
    return policy


def retentions_given(options: Options) -> list[tuple[Option[int], str]]:
    """Return (option, cleaning policy that uses it) for each option that is set and says how much a clean keeps.

    An example is hoodie.cleaner.commits.retained, which the policy KEEP_LATEST_COMMITS uses.
    """
    return [(option, policy) for option, policy in _POLICY_OF if options.is_set(option)]
