"""Options of cleaning: which old file versions go."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, Options, boolean, count, positive, word

CLEAN_AUTOMATIC: Final = Option(
    "hoodie.clean.automatic",
    boolean,
    True,
    "Remove old file versions after a commit.",
)
CLEAN_ASYNC: Final = Option(
    "hoodie.clean.async",
    boolean,
    False,
    "Clean beside the write. Penstock cleans right after the commit either way.",
    accepted=True,
)
CLEANER_POLICY: Final = Option(
    "hoodie.cleaner.policy",
    word,
    "KEEP_LATEST_COMMITS",
    "What decides which versions stay. When not given, the one retention option that is set chooses it.",
    allowed=("KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS"),
)
CLEANER_COMMITS_RETAINED: Final = Option(
    "hoodie.cleaner.commits.retained",
    count,
    10,
    "Commits whose files stay readable.",
)
CLEANER_HOURS_RETAINED: Final = Option(
    "hoodie.cleaner.hours.retained",
    count,
    24,
    "Hours for which files stay readable.",
)
CLEANER_FILE_VERSIONS_RETAINED: Final = Option(
    "hoodie.cleaner.fileversions.retained",
    positive,
    3,
    "Versions of each file group that stay.",
)
CLEAN_TRIGGER_STRATEGY: Final = Option(
    "hoodie.clean.trigger.strategy",
    word,
    "NUM_COMMITS",
    "What makes a clean due.",
    allowed=("NUM_COMMITS",),
)
CLEAN_MAX_COMMITS: Final = Option(
    "hoodie.clean.max.commits",
    positive,
    1,
    "Commits after the last clean that make the next due.",
)
CLEAN_ALLOW_MULTIPLE: Final = Option(
    "hoodie.clean.allow.multiple",
    boolean,
    False,
    "Plan a clean while another is pending.",
)
CLEANER_INCREMENTAL: Final = Option(
    "hoodie.cleaner.incremental.mode",
    boolean,
    True,
    "Look only at partitions written since the last clean.",
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
    "Delete adopted files of a bootstrapped table too. Penstock leaves files outside of the table alone.",
    supported=("false",),
    instead="delete them yourself",
)

_POLICY_OF: Final = (
    (CLEANER_COMMITS_RETAINED, "KEEP_LATEST_COMMITS"),
    (CLEANER_HOURS_RETAINED, "KEEP_LATEST_BY_HOURS"),
    (CLEANER_FILE_VERSIONS_RETAINED, "KEEP_LATEST_FILE_VERSIONS"),
)


def cleaning_policy(options: Options) -> str:
    """The policy in force: the one given, else that of the only retention option given, else the default."""
    given = retentions_given(options)
    if options.is_set(CLEANER_POLICY) or len(given) != 1:
        return options[CLEANER_POLICY]
    return given[0][1]


def retentions_given(options: Options) -> list[tuple[Option[int], str]]:
    """The retention options that are given, each with the policy that it belongs to."""
    return [(option, policy) for option, policy in _POLICY_OF if options.is_set(option)]
