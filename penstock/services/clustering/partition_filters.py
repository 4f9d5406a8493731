"""Which partitions a clustering looks at: kernels over partition paths. A new filter is one entry. Paths compare as text."""

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
    """What the filters go by."""

    mode: str = "NONE"
    #: How many of the newest partitions; 0 or less for all of them. And how many are passed over before.
    lookback: int = 2
    skip: int = 0
    begin: str | None = None
    end: str | None = None
    pattern: str | None = None
    #: These partitions and no others, if given.
    named: tuple[str, ...] = ()
    #: The hour of the day.
    hour: int = 0


def selection_of(options: Options, mode: str | None = None) -> Selection:
    """What the options ask for.

    Args:
        mode: the filter that a plan strategy stands for, whatever the options say.
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
    """The partitions that are looked at, of all there are. Raises OptionError for a pattern that is none."""
    if selection.named:
        named = set(selection.named)
        found = [path for path in paths if path in named]
    else:
        found = _matching(paths, selection.pattern)
    return FILTERS[selection.mode](found, selection)


def _matching(paths: Sequence[str], pattern: str | None) -> list[str]:
    if not pattern:
        return list(paths)
    try:
        whole = re.compile(pattern)
    except re.error as e:
        raise OptionError(f"{o.CLUSTERING_PARTITION_REGEX.key}={pattern!r} is no regular expression: {e}") from None
    return [path for path in paths if whole.fullmatch(path)]


def recent(paths: Sequence[str], selection: Selection) -> list[str]:
    """The newest partitions, the newest first."""
    newest = sorted(paths, reverse=True)[selection.skip :]
    return newest[: selection.lookback] if selection.lookback > 0 else newest


def between(paths: Sequence[str], selection: Selection) -> list[str]:
    """Partitions from one to another, both included."""
    first, last = selection.begin or "", selection.end
    return [path for path in paths if path >= first and (last is None or path <= last)]


def rolling(paths: Sequence[str], selection: Selection) -> list[str]:
    """A twenty-fourth of the partitions, another one each hour."""
    return sorted(paths)[selection.hour :: 24]


Filter = Callable[[Sequence[str], Selection], list[str]]

FILTERS: dict[str, Filter] = {
    "NONE": lambda paths, selection: list(paths),
    "RECENT_DAYS": recent,
    "SELECTED_PARTITIONS": between,
    "DAY_ROLLING": rolling,
}
