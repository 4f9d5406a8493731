"""Chooses the partitions that a clustering plan considers, by their paths alone. Paths are compared as strings.

A new filter is one entry of `FILTERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.errors import OptionError
from penstock.options import Options


@dataclass(frozen=True)
class Selection:
    """The options that choose the partitions of a clustering plan: the filter and its parameters."""

    #: Name of the filter: a key of `FILTERS`.
    mode: str = "NONE"
    #: How many of the newest partitions RECENT_DAYS chooses; 0 or less for all of them.
    lookback: int = 2
    #: How many of the newest partitions RECENT_DAYS skips first.
    skip: int = 0
    begin: str | None = None
    end: str | None = None
    #: A regular expression that the whole partition path has to match.
    pattern: str | None = None
    #: Consider only these partitions; if empty, those that match `pattern`.
    named: tuple[str, ...] = ()
    #: The current hour of the day in the time zone of this machine, for DAY_ROLLING.
    hour: int = 0


def selection_of(options: Options, mode: str | None = None) -> Selection:
    """Read the partition filter and its parameters from the options.

    Args:
        mode: the filter that the plan strategy implies; None: the filter that `hoodie.clustering.plan.partition.filter.mode`
            names.
    """
    return Selection(
        mode=mode or options[o.CLUSTERING_PARTITION_FILTER],
        lookback=options[o.CLUSTERING_LOOKBACK_PARTITIONS],
        skip=options[o.CLUSTERING_SKIP_LATEST_PARTITIONS],
        begin=options[o.CLUSTERING_BEGIN_PARTITION],
        end=options[o.CLUSTERING_END_PARTITION],
        pattern=options[o.CLUSTERING_PARTITION_REGEX],
        named=options[o.CLUSTERING_PARTITIONS],
        hour=clock.local_now().hour,
    )


def choose_partitions(paths: Sequence[str], selection: Selection) -> list[str]:
    """Return the partitions among `paths` that a plan considers. Raise OptionError if the pattern is no regular expression.

    First keep the named partitions or, if none is named, those that match the pattern; then apply the filter.
    """
    if selection.named:
        named = set(selection.named)
        candidates = [path for path in paths if path in named]
    else:
        candidates = _match(paths, selection.pattern)
    return FILTERS[selection.mode](candidates, selection)


def _match(paths: Sequence[str], pattern: str | None) -> list[str]:
    """Return the paths that match the regular expression as a whole; all paths if `pattern` is None or empty."""
    if not pattern:
        return list(paths)
    try:
        expression = re.compile(pattern)
    except re.error as e:
        raise OptionError(f"{o.CLUSTERING_PARTITION_REGEX.key}={pattern!r} is no regular expression: {e}") from None
    return [path for path in paths if expression.fullmatch(path)]


def choose_all(paths: Sequence[str], selection: Selection) -> list[str]:
    """Return all partitions: filter NONE."""
    return list(paths)


def choose_recent(paths: Sequence[str], selection: Selection) -> list[str]:
    """Return `lookback` partitions, newest first, after skipping the newest `skip` partitions: filter RECENT_DAYS.

    The newest partition is the last one in string order. With a `lookback` of 0 all partitions that are not skipped are returned.
    """
    newest = sorted(paths, reverse=True)[selection.skip :]
    return newest[: selection.lookback] if selection.lookback > 0 else newest


def choose_between(paths: Sequence[str], selection: Selection) -> list[str]:
    """Return the partitions from `selection.begin` to `selection.end`, both included: filter SELECTED_PARTITIONS.

    If `begin` or `end` is None, there is no limit on that side.
    """
    first = selection.begin or ""
    last = selection.end
    return [path for path in paths if path >= first and (last is None or path <= last)]


def choose_rolling(paths: Sequence[str], selection: Selection) -> list[str]:
    """Return every 24th partition in string order, beginning with partition number `selection.hour`: filter DAY_ROLLING.

    So in the course of a day each partition is chosen once.
    """
    return sorted(paths)[selection.hour :: 24]


Filter = Callable[[Sequence[str], Selection], list[str]]

FILTERS: dict[str, Filter] = {
    "NONE": choose_all,
    "RECENT_DAYS": choose_recent,
    "SELECTED_PARTITIONS": choose_between,
    "DAY_ROLLING": choose_rolling,
}
