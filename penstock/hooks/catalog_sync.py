"""The hook `catalog sync`: registers the table in Hive or another catalog after each commit that changes rows.

Compaction and clustering change neither columns nor partitions, so their commits are not followed by a sync.
"""

from __future__ import annotations

from penstock import options as o
from penstock.errors import CatalogError, PenstockError
from penstock.hooks.commit_hook import Hook, HookContext, PendingCommit, PublishedCommit
from penstock.sync import check_tools_before_commit, run_tools
from penstock.table.state import KEEPS_SCHEMA


class CatalogSync(Hook):
    """Checks a commit against the catalog before it is published, and syncs the table afterwards."""

    def __init__(self, context: HookContext) -> None:
        self._context = context

    def before_commit(self, commit: PendingCommit) -> None:
        """Stop the commit with an error if the sync after it would fail, because of an option or of what a catalog holds.

        A catalog that does not answer stops no commit. Nothing is checked for a compaction or clustering.

        Raises:
            OptionError: an option has a wrong form, or does not fit the partition paths of the commit.
            CatalogConflict: a catalog holds what a sync may not change.
        """
        if commit.operation not in KEEPS_SCHEMA:
            check_tools_before_commit(self._context.final_table, commit.metadata, self._context.spark)

    def after_commit(self, commit: PublishedCommit) -> None:
        """Sync the table to every catalog that the options name. Do nothing after a compaction or clustering.

        Raises:
            CatalogError: a sync failed.
        """
        if commit.operation in KEEPS_SCHEMA:
            return
        try:
            run_tools(self._context.table, self._context.spark)
        except PenstockError as e:
            path = self._context.path
            raise CatalogError(f"{e}. Run Table.open({path!r}).sync(…) or penstock sync {path} with the same options") from e


def make_catalog_sync(context: HookContext) -> Hook | None:
    """Return the hook that syncs catalogs after each commit; None if the options do not turn catalog sync on."""
    options = context.table.options
    if options[o.HIVE_SYNC_ENABLE] or options[o.META_SYNC_ENABLE]:
        return CatalogSync(context)
    return None
