"""The values of partition columns in partition paths: which folder holds the value of which column, and the value as text.

Queries on Spark turn the values into Spark expressions (`partition_values.py`). Queries without Spark add them to the rows that
they read (`arrow_scan.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from penstock.keys.partition_path import DEFAULT_PARTITION
from penstock.read.plan import QueryPlan


@dataclass(frozen=True)
class FolderValues:
    """Which folder of a partition path holds the value of each partition column, and in which form. Pickled to the workers."""

    #: Column → the folder of the partition path that holds its value, counted from 0; None: the whole path is the value.
    places: Mapping[str, int | None] = field(default_factory=dict)
    #: How many folders a partition path has.
    depth: int = 0
    hive_style: bool = False
    url_encode: bool = False

    def nulls_of(self, partition_path: str) -> frozenset[str]:
        """Return the partition columns that are null or empty in a partition, because their folder is the default partition."""
        folders = partition_path.split("/")
        nulls: set[str] = set()
        for name, place in self.places.items():
            if place is not None and self._folder_value(name, folders[place]) == DEFAULT_PARTITION:
                nulls.add(name)
        return frozenset(nulls)

    def text_in(self, name: str, partition_path: str) -> str:
        """Return the value of the column `name` in a partition path, as a string."""
        place = self.places[name]
        text = partition_path if place is None else self._folder_value(name, partition_path.split("/")[place])
        return unquote(text) if self.url_encode else text

    def _folder_value(self, name: str, folder: str) -> str:
        """Return the partition value in a folder's name: the name without `name=` in front if folders are `column=value`.

        Args:
            name: the partition column.
        """
        return folder.removeprefix(f"{name}=") if self.hive_style else folder


def find_places(plan: QueryPlan, exact: Collection[str], texts: Collection[str]) -> dict[str, int | None]:
    """Return the partition columns among `exact`, each with the position of its folder in the partition path.

    None instead of a position: the whole path is the value, which has slashes. The result is empty if the partition paths of
    the plan do not have one folder per partition column.

    Args:
        exact: the columns of types for which the name of a folder determines the value exactly.
        texts: the columns of type string.
    """
    config = plan.table.config
    fields = config.partition_fields
    paths = list(plan.slices)
    depths = {len(path.split("/")) for path in paths}
    if len(depths) != 1:
        return {}
    depth = depths.pop()
    # A value with slashes, such as 2024/01/31, becomes several folders. Only a text has slashes.
    if len(fields) == 1 and depth > 1 and not config.hive_style and fields[0] in texts:
        return {fields[0]: None}
    if depth != len(fields):
        return {}
    if config.hive_style and not all(_is_hive_style(path, fields) for path in paths):
        return {}
    return {name: place for place, name in enumerate(fields) if name in exact}


def _is_hive_style(path: str, fields: Iterable[str]) -> bool:
    """Whether each folder of a partition path begins with `column=`, for the partition columns `fields` in order."""
    return all(folder.startswith(f"{name}=") for folder, name in zip(path.split("/"), fields, strict=True))


def keeps_values_in_folders(plan: QueryPlan) -> bool:
    """Whether the table's key generator maps the values of partition columns to folders one to one."""
    key_generator = plan.table.config.key_generator_class or ""
    return not any(kind in key_generator for kind in ("Timestamp", "Custom", "Nonpartitioned", "Global"))
