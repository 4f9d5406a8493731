"""Validators: checks of the table as it would be after a commit. If a validator refuses the commit, the write is undone.

There are the three SQL validators of Hudi, by their Java names, and Python functions of users. They run for writes and before
expired partitions are deleted, not for compactions and clusterings, which change no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.errors import OptionError, PenstockError, ValidationFailed
from penstock.hooks.commit_hook import Hook, HookContext, PendingCommit
from penstock.hooks.notice import CommitNotice, make_notice
from penstock.options import Option, Options
from penstock.registered.hooks import find_validator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TABLE = "<TABLE_NAME>"
#: How many rows of a result an error shows.
_ROWS_SHOWN = 5


class TablePreview:
    """A table before and after a commit that is not published yet. Validators of users are called with it.

    Args:
        context: the table, its session, and the function that reads the table.
        commit: the commit that is about to be published.
    """

    def __init__(self, context: HookContext, commit: PendingCommit) -> None:
        self._context = context
        self._commit = commit

    @cached_property
    def notice(self) -> CommitNotice:
        """What the commit would write: the operation, counts of rows, partitions, write stats and options."""
        return make_notice(self._context.table, self._commit)

    @cached_property
    def after(self) -> DataFrame:
        """The rows of the table as they would be after the commit, with meta columns."""
        return self._read(self._commit)

    @cached_property
    def before(self) -> DataFrame:
        """The rows of the table as they are now. A table without commits has no rows, and the columns of `after`."""
        if not self._context.table.timeline.writes:
            return self.after.limit(0)
        return self._read(None)

    def _read(self, commit: PendingCommit | None) -> DataFrame:
        """Return the rows that the table would have after `commit`; None: the rows that it has now."""
        context = self._context
        assert context.read_table is not None
        assert context.spark is not None
        return context.read_table(context.spark, context.table, commit)


#: Checks a preview, and raises ValidationFailed if the commit must not be published.
Validator = Callable[[TablePreview], None]


@dataclass(frozen=True)
class Validators(Hook):
    """Runs the validators of the options before each commit that changes rows."""

    context: HookContext
    #: By name. Names may occur in the options twice, and then run once.
    validators: dict[str, Validator]

    def before_commit(self, commit: PendingCommit) -> None:
        """Run the validators one after the other. Do nothing for a compaction or clustering.

        Raises:
            OptionError: there is no Spark session.
            ValidationFailed: a validator refuses the commit, or fails with an error of Spark or of the user's function.
        """
        if self.context.read_table is None:
            return  # a table service that moves rows and changes none
        if self.context.spark is None:
            raise OptionError(f"{o.PRECOMMIT_VALIDATORS.key} needs a Spark session, which reads the table for the validators")
        preview = TablePreview(self.context, commit)
        for name, validate in self.validators.items():
            try:
                validate(preview)
            except PenstockError:
                raise
            except Exception as e:  # of Spark, or of a function of the user
                first_line = str(e).strip().partition("\n")[0]
                raise ValidationFailed(f"validator {name} raised {type(e).__name__}: {first_line}. Nothing was written") from e


def make_validators(context: HookContext) -> Hook | None:
    """Return the hook that runs the validators of the options; None if there are none.

    Raises:
        OptionError: a validator lacks its queries, or is not registered.
    """
    options = context.table.options
    validators: dict[str, Validator] = {}
    for name in options[o.PRECOMMIT_VALIDATORS]:
        validators[name] = _make_validator(name, options)
    return Validators(context, validators) if validators else None


def _make_validator(name: str, options: Options) -> Validator:
    """Return the validator with a name: one of Hudi's SQL validators by its Java class, or a function that a user registered."""
    if name == o.EQUALITY_VALIDATOR:
        return SameResult(name, _split_queries(name, o.PRECOMMIT_EQUALITY_QUERIES, options))
    if name == o.INEQUALITY_VALIDATOR:
        return OtherResult(name, _split_queries(name, o.PRECOMMIT_INEQUALITY_QUERIES, options))
    if name == o.SINGLE_RESULT_VALIDATOR:
        return SingleResult(name, _split_queries(name, o.PRECOMMIT_SINGLE_VALUE_QUERIES, options))
    return OwnValidator(name, find_validator(name))


def _split_queries(name: str, option: Option[str], options: Options) -> tuple[str, ...]:
    """Return the queries of a SQL validator. The option holds them as one text, separated by semicolons.

    Args:
        name: the Java name of the validator.
        option: the option with the queries.

    Raises:
        OptionError: the option has no query; or a query lacks the placeholder for the table, or the expected value that the
            validator needs.
    """
    queries = tuple(query.strip() for query in options[option].split(";") if query.strip())
    if not queries:
        raise OptionError(f"validator {name} needs {option.key}: its queries, separated by semicolons")
    for query in queries:
        if name == o.SINGLE_RESULT_VALIDATOR and "#" not in query:
            raise OptionError(f"{option.key} has the query {query!r} without an expected value; write <query>#<value>")
        if _TABLE not in query:
            raise OptionError(f"{option.key} has the query {query!r} without {_TABLE}, which stands for the table")
    return queries


@dataclass(frozen=True)
class SameResult:
    """Refuses a commit after which a row is missing from the result of one of the queries. As in Hudi, rows may be added."""

    name: str
    queries: tuple[str, ...]

    def __call__(self, preview: TablePreview) -> None:
        """Raise ValidationFailed if a query does not return all of its rows any more."""
        for query in self.queries:
            with _results(query, preview) as (old, new):
                if not _has_all_rows(new, old):
                    raise _refuse(self.name, preview, query, f"{_show(old)}, as before the commit", _show(new))


@dataclass(frozen=True)
class OtherResult:
    """Refuses a commit after which one of the queries still returns all of its rows, perhaps with others."""

    name: str
    queries: tuple[str, ...]

    def __call__(self, preview: TablePreview) -> None:
        """Raise ValidationFailed if a query still returns all of its rows after the commit."""
        for query in self.queries:
            with _results(query, preview) as (old, new):
                if _has_all_rows(new, old):
                    raise _refuse(self.name, preview, query, "another result than before the commit", _show(new))


@dataclass(frozen=True)
class SingleResult:
    """Refuses a commit after which one of the queries does not return exactly one row with the expected value.

    A query is `<query>#<value>`. Its value is compared as text with the first column of the result.
    """

    name: str
    queries: tuple[str, ...]

    def __call__(self, preview: TablePreview) -> None:
        """Raise ValidationFailed if a query returns another value, or not one row."""
        for text in self.queries:
            query, _, expected = text.rpartition("#")
            with _result(query, preview.after) as frame:
                numbered = frame.toDF(*[f"column{at}" for at in range(len(frame.columns))])
                rows = numbered.selectExpr("cast(column0 as string)").limit(2).collect()
            found = [row[0] for row in rows]
            if found != [expected.strip()]:
                raise _refuse(self.name, preview, query.strip(), expected.strip(), _show_single(found))


@dataclass(frozen=True)
class OwnValidator:
    """Calls a function of the user with the preview of a commit.

    The function accepts the commit by returning None or True. It refuses the commit by returning False, or a text that says why.
    """

    name: str
    function: Callable[[TablePreview], Any]

    def __call__(self, preview: TablePreview) -> None:
        """Raise ValidationFailed unless the user's function returns None or True. The message has the text that it returns."""
        answer = self.function(preview)
        if answer is None or answer is True:
            return
        why = answer if isinstance(answer, str) else f"it returned {answer!r}"
        raise ValidationFailed(f"validator {self.name} refuses {_name_commit(preview)}: {why}. Nothing was written")


@contextmanager
def _result(query: str, table: DataFrame) -> Iterator[DataFrame]:
    """Yield the result of a query over a DataFrame, as a lazy DataFrame that is valid in the `with` block.

    Args:
        query: the SQL text, with a placeholder for the table.
        table: the rows that take the placeholder's place.

    Raises:
        OptionError: Spark cannot run the query.
    """
    from pyspark.errors import AnalysisException, ParseException

    # The name of the view must be unique in the session: several writes may be validated at the same time.
    view = f"penstock_validated_{id(table)}"
    table.createOrReplaceTempView(view)
    try:
        yield table.sparkSession.sql(query.replace(_TABLE, view))
    except (AnalysisException, ParseException) as e:
        first_line = str(e).strip().partition("\n")[0]
        raise OptionError(f"the query {query.strip()!r} of a validator cannot be run: {first_line}. Nothing was written") from e
    finally:
        table.sparkSession.catalog.dropTempView(view)


@contextmanager
def _results(query: str, preview: TablePreview) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield two results of a query: over the table before the commit, and over the table after it."""
    with _result(query, preview.before) as old, _result(query, preview.after) as new:
        yield old, new


def _has_all_rows(new: DataFrame, old: DataFrame) -> bool:
    """Whether `new` has all rows of `old`, each row as often or more often. The order does not count."""
    return bool(old.exceptAll(new).isEmpty())


def _show(frame: DataFrame) -> str:
    """Return a query result as text, for an error message: the value if there is only one, otherwise the first rows."""
    rows = [tuple(row) for row in frame.limit(_ROWS_SHOWN + 1).collect()]
    if len(rows) == 1 and len(rows[0]) == 1:
        return str(rows[0][0])
    shown = ", ".join(str(row) for row in rows[:_ROWS_SHOWN])
    return f"[{shown}{', …' if len(rows) > _ROWS_SHOWN else ''}]"


def _show_single(values: list[str | None]) -> str:
    """Return the first column of a query result as text, for the error of a query that must return one row.

    Args:
        values: the values of at most two rows.
    """
    if not values:
        return "no row"
    return str(values[0]) if len(values) == 1 else "more than one row"


def _name_commit(preview: TablePreview) -> str:
    """Return the operation and instant of a commit in words, for an error."""
    return f"the {preview.notice.operation} at {preview.notice.instant} of {preview.notice.base_path}"


def _refuse(name: str, preview: TablePreview, query: str, expected: str, found: str) -> ValidationFailed:
    """Return the error of a validator whose query does not have the expected result.

    Args:
        name: the Java name of the validator.
        preview: the table before and after the commit, for the message.
        expected: the expected result, as text.
        found: the result after the commit, as text.
    """
    error = ValidationFailed(
        f"validator {name.rpartition('.')[2]} refuses {_name_commit(preview)}: the query {query!r} would return {found}; "
        f"expected {expected}. Nothing was written"
    )
    error.query = query
    error.expected = expected
    error.found = found
    return error
