"""Schema evolution: computes the table's schema after a write from its schema before and the schema of the incoming rows.

`evolve` is called once per write on the driver, before any row is written. One error reports all columns that do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import SchemaError
from penstock.schema import model as m
from penstock.schema.avro import Avro, AvroRecord, avro_to_struct, struct_to_avro
from penstock.schema.meta_columns import without_meta_columns
from penstock.schema.model import (
    Decimal,
    Field,
    Fixed,
    List,
    Map,
    Path,
    Simple,
    Struct,
    Type,
    check_names,
    dotted,
    drop_record_names,
    text,
)

#: The record name that Spark's Avro converter uses for a schema without one.
_UNNAMED = "topLevelRecord"


def evolve(
    table: Avro | None,
    incoming: Avro,
    *,
    set_null_for_missing: bool,
    allow_drop: bool,
    reconcile: bool,
    validate: bool,
    schema_on_read: bool = False,
    ordering: str | None = None,
) -> AvroRecord:
    """Return the schema of the table after a write of rows with the schema `incoming`, without meta columns.

    Columns and nested fields are matched by name. A column that is in both schemas is nullable if it is nullable in either. If
    the types of a column differ, its type is the table's type if Hudi can cast incoming values to it; otherwise the incoming
    type, if existing files can be read with it (int → long → float → double → string). A new column is added as nullable, because
    existing rows have no value for it.

    For a column of the table that the incoming rows lack, the first of these rules holds:

    - `reconcile`: it is kept and filled with null.
    - `set_null_for_missing`, without `allow_drop` and `validate`: it is kept and filled with null.
    - `allow_drop`: it is dropped from the table.
    - Otherwise it is an error.

    Columns have the order of the incoming rows, with two exceptions. With the second rule they have the table's order. With
    `reconcile` they have it if a column is missing, if none is new, or if `schema_on_read` is set.

    Args:
        table: the schema of the table before the write; None if the write creates the table.
        set_null_for_missing: the option `hoodie.write.set.null.for.missing.columns`.
        allow_drop: the option `hoodie.datasource.write.schema.allow.auto.evolution.column.drop`.
        reconcile: the option `hoodie.datasource.write.reconcile.schema`.
        validate: the option `hoodie.avro.schema.validate`.
        schema_on_read: the option `hoodie.schema.on.read.enable`.
        ordering: the ordering column, whose numbers must not become text: text has another order.

    Raises:
        SchemaError: columns are missing or have types that do not fit. The message lists all of them and the options that help.
    """
    named = avro_to_struct(without_meta_columns(incoming))
    new = drop_record_names(named)
    check_names(new)
    if table is None:
        return struct_to_avro(new, named.full_name or _UNNAMED)
    old = avro_to_struct(without_meta_columns(table))
    fills_by_option = set_null_for_missing and not allow_drop and not validate
    merge = SchemaMerge(
        fills=reconcile or fills_by_option,
        drops=allow_drop,
        table_order=schema_on_read if reconcile else fills_by_option,
        ordering=ordering,
    )
    merged = merge.merge_structs(old, new)
    merge.raise_if_unfit()
    return struct_to_avro(merged, old.full_name or _UNNAMED)


@dataclass(frozen=True)
class SchemaMerge:
    """Merges the schema of incoming rows into the table's schema, and collects all columns that do not fit.

    Attributes:
        fills: whether columns that the incoming rows lack stay in the table, as nullable columns.
        drops: whether columns that the incoming rows lack are dropped from the table.
        table_order: whether columns keep the table's order even if no column is missing and some are new. Counts only with
            `fills`.
        ordering: the ordering column, as `a` or, for a field of a struct, `a.b`; None: the table has none.
        missing: collects columns that the incoming rows lack and that are neither filled nor dropped.
        unfit: collects a message for each column whose type or name does not fit.
    """

    fills: bool
    drops: bool
    table_order: bool
    ordering: str | None = None
    missing: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)

    def merge_structs(self, old: Struct, new: Struct, path: Path = ()) -> Struct:
        """Merge the columns of the table (`old`) with those of the incoming rows (`new`), nested structs included.

        Columns that do not fit are added to `missing` and `unfit`.

        Args:
            path: the names of the columns that enclose the structs; empty for the top level.
        """
        old_fields = {column.name: column for column in old.fields}
        self._check_case(old_fields, new, path)
        merged = []
        for column in new.fields:
            if column.name in old_fields:
                merged.append(self._merge_field(old_fields[column.name], column, path))
            else:
                merged.append(replace(column, nullable=True))
        names = {column.name for column in merged}
        missing = [column for column in old.fields if column.name not in names]
        if self.fills:
            return Struct(self._fill_missing(old, merged, missing), old.full_name)
        if not self.drops:
            self.missing.extend(f"{dotted((*path, column.name))} ({text(column.type)})" for column in missing)
        return Struct(tuple(merged), old.full_name)

    def raise_if_unfit(self) -> None:
        """Raise SchemaError if `missing` or `unfit` is not empty. The message lists these columns and the options that help."""
        faults = []
        if self.missing:
            faults.append(
                f"columns of the table are missing in the data: {', '.join(self.missing)}; "
                "hoodie.write.set.null.for.missing.columns=true (with hoodie.avro.schema.validate=false) writes null "
                "there, hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true drops them from the table"
            )
        if self.unfit:
            faults.append(f"columns do not fit the table: {'; '.join(self.unfit)}; cast or rename them before writing")
        if faults:
            raise SchemaError(". Also, ".join(faults))

    def _merge_types(self, old: Type, new: Type, path: Path) -> Type:
        """Return the type of a column after the write, given its type in the table (`old`) and in the incoming rows (`new`).

        If the types do not fit, a message is added to `unfit`.
        """
        if isinstance(old, Struct) and isinstance(new, Struct):
            return self.merge_structs(old, new, path)
        if isinstance(old, List) and isinstance(new, List):
            element = self._merge_types(old.element, new.element, (*path, "element"))
            return List(element, old.nullable or new.nullable)
        if isinstance(old, Map) and isinstance(new, Map):
            value = self._merge_types(old.value, new.value, (*path, "value"))
            return Map(value, old.nullable or new.nullable)
        if old == new or _casts_up(new, old):
            return old
        is_ordering_text = new == m.STRING and ".".join(path) == self.ordering
        if is_ordering_text or not _reads_as(old, new):
            hint = ", and text orders otherwise than numbers ('10' before '9')" if is_ordering_text else ""
            self.unfit.append(f"{dotted(path)} is {text(old)} in the table and {text(new)} in the data{hint}")
        return new

    def _merge_field(self, old: Field, new: Field, path: Path) -> Field:
        """Return a column after the write, given the column of the table (`old`) and of the incoming rows (`new`)."""
        kind = self._merge_types(old.type, new.type, (*path, new.name))
        return Field(new.name, kind, old.nullable or new.nullable, new.doc or old.doc)

    def _check_case(self, old_fields: Mapping[str, Field], new: Struct, path: Path) -> None:
        """Add to `unfit` each incoming column whose name differs from a column of the table only by case: Spark ignores case.

        Args:
            old_fields: the columns of the table, by name.
        """
        by_lower_case = {name.lower(): name for name in old_fields}
        for column in new.fields:
            old_name = by_lower_case.get(column.name.lower(), column.name)
            if column.name not in old_fields and old_name != column.name:
                new_place = dotted((*path, column.name))
                old_place = dotted((*path, old_name))
                self.unfit.append(f"{new_place} differs only by case from {old_place} of the table")

    def _fill_missing(self, old: Struct, merged: Sequence[Field], missing: Sequence[Field]) -> tuple[Field, ...]:
        """Return the merged columns and the missing ones, which become nullable.

        Columns have the order of the incoming rows if some are new, none is missing and `table_order` is not set. Otherwise they
        have the table's order. A new column is then inserted where it comes before every table column that follows it in the
        incoming rows: table columns `a, b, c` and incoming columns `a, new, c` make `a, b, new, c`.

        Args:
            old: the columns of the table.
            merged: the columns of the incoming rows, with merged types.
            missing: columns of the table that the incoming rows lack.
        """
        position = {column.name: number for number, column in enumerate(old.fields)}
        has_new = any(column.name not in position for column in merged)
        if has_new and not missing and not self.table_order:
            return tuple(merged)
        end = len(position)
        new_before: dict[int, list[Field]] = {}  # by the position of the table's column
        for number, column in enumerate(merged):
            if column.name not in position:
                following = [position[later.name] for later in merged[number:] if later.name in position]
                new_before.setdefault(min(following, default=end), []).append(column)
        by_name = {column.name: column for column in merged}
        for column in missing:
            by_name[column.name] = replace(column, nullable=True)
        filled: list[Field] = []
        for number, column in enumerate(old.fields):
            filled += new_before.get(number, ())
            filled.append(by_name[column.name])
        filled += new_before.get(end, ())
        return tuple(filled)


def _casts_up(source: Type, target: Type) -> bool:
    """Whether incoming values of type `source` may be cast to the table's type `target`, by the rules of Hudi."""
    if isinstance(source, Decimal):
        return target == m.STRING or (isinstance(target, Decimal) and _is_wider(target, source))
    if isinstance(target, Decimal):
        return source in (m.INT, m.LONG, m.FLOAT, m.DOUBLE, m.STRING)
    if isinstance(target, Fixed):
        return source == m.BYTES
    return isinstance(source, Simple) and target in _CASTS_UP.get(source, ())


_CASTS_UP: dict[Type, tuple[Type, ...]] = {
    m.INT: (m.LONG, m.FLOAT, m.DOUBLE, m.STRING),
    m.LONG: (m.FLOAT, m.DOUBLE, m.STRING),
    m.FLOAT: (m.DOUBLE, m.STRING),
    m.DOUBLE: (m.STRING,),
    m.DATE: (m.STRING,),
    m.BYTES: (m.STRING,),
    m.STRING: (m.DATE, m.BYTES),
    m.MILLIS: (m.MICROS,),
    m.LOCAL_MILLIS: (m.LOCAL_MICROS,),
}


def _reads_as(stored: Type, asked: Type) -> bool:
    """Whether values stored in existing files as `stored` can be read as the type `asked`, so that the column may widen to it.

    Base files hold decimals as fixed-length bytes, so a decimal can only widen to a decimal with the same number of bytes.
    """
    if isinstance(stored, Decimal) and isinstance(asked, Decimal):
        same_bytes = m.decimal_size(stored.precision) == m.decimal_size(asked.precision)
        return same_bytes and stored.scale == asked.scale and asked.precision >= stored.precision
    return isinstance(stored, Simple) and asked in _WIDENS.get(stored, ())


_WIDENS: dict[Type, tuple[Type, ...]] = {
    m.INT: (m.LONG, m.FLOAT, m.DOUBLE, m.STRING),
    m.LONG: (m.FLOAT, m.DOUBLE, m.STRING),
    m.FLOAT: (m.DOUBLE, m.STRING),
    m.DOUBLE: (m.STRING,),
    m.MILLIS: (m.MICROS,),
    m.LOCAL_MILLIS: (m.LOCAL_MICROS,),
}


def _is_wider(wide: Decimal, narrow: Decimal) -> bool:
    """Whether every value of the decimal type `narrow` fits the decimal type `wide`."""
    return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
