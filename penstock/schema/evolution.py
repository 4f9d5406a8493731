"""Which schema a write leaves behind, given the table's and that of the incoming rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import SchemaError
from penstock.schema import model as m
from penstock.schema.model import Decimal, Field, Fixed, List, Map, Path, Simple, Struct, Type, dotted, text


@dataclass(frozen=True)
class Merge:
    """Puts an incoming schema onto a table's; collects all that does not fit instead of stopping at the first."""

    fills: bool  # columns that are missing in the data come back, as nullable ones
    drops: bool  # they may go
    table_order: bool  # even where nothing is missing
    missing: list[str] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)

    def structs(self, table: Struct, rows: Struct, path: Path = ()) -> Struct:
        """The columns of both, at every depth."""
        old = {column.name: column for column in table.fields}
        self._note_other_case(old, rows, path)
        merged = [
            self._column(old[column.name], column, path) if column.name in old else replace(column, nullable=True)
            for column in rows.fields
        ]
        names = {column.name for column in merged}
        missing = [column for column in table.fields if column.name not in names]
        if self.fills:
            return Struct(self._filled(table, merged, missing), table.full_name)
        if not self.drops:
            self.missing.extend(f"{dotted((*path, column.name))} ({text(column.type)})" for column in missing)
        return Struct(tuple(merged), table.full_name)

    def raise_if_unfit(self) -> None:
        """Afterwards nothing is missing and everything fits.

        Raises:
            SchemaError: it does not; the message lists every column and what helps.
        """
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

    def _types(self, table: Type, rows: Type, path: Path) -> Type:
        if isinstance(table, Struct) and isinstance(rows, Struct):
            return self.structs(table, rows, path)
        if isinstance(table, List) and isinstance(rows, List):
            return List(self._types(table.element, rows.element, (*path, "element")), table.nullable or rows.nullable)
        if isinstance(table, Map) and isinstance(rows, Map):
            return Map(self._types(table.value, rows.value, (*path, "value")), table.nullable or rows.nullable)
        if table == rows or _casts_up(rows, table):
            return table
        if not _reads_as(table, rows):
            self.unfit.append(f"{dotted(path)} is {text(table)} in the table and {text(rows)} in the data")
        return rows

    def _column(self, old: Field, new: Field, path: Path) -> Field:
        kind = self._types(old.type, new.type, (*path, new.name))
        return Field(new.name, kind, old.nullable or new.nullable, new.doc or old.doc)

    def _note_other_case(self, old: Mapping[str, Field], rows: Struct, path: Path) -> None:
        by_lower = {name.lower(): name for name in old}
        for column in rows.fields:
            known = by_lower.get(column.name.lower(), column.name)
            if column.name not in old and known != column.name:
                here, there = dotted((*path, column.name)), dotted((*path, known))
                self.unfit.append(f"{here} differs only by case from {there} of the table")

    def _filled(self, table: Struct, merged: Sequence[Field], missing: Sequence[Field]) -> tuple[Field, ...]:
        """All columns of both. In the table's order, a new one stands before the first one it preceded in the data."""
        position = {column.name: at for at, column in enumerate(table.fields)}
        has_new = any(column.name not in position for column in merged)
        if has_new and not missing and not self.table_order:
            return tuple(merged)
        after: dict[int, list[Field]] = {}
        for at, column in enumerate(merged):
            if column.name not in position:
                later = [position[other.name] for other in merged[at:] if other.name in position]
                after.setdefault(min(later, default=len(position)), []).append(column)
        kept = {column.name: column for column in merged} | {c.name: replace(c, nullable=True) for c in missing}
        filled: list[Field] = []
        for at, column in enumerate(table.fields):
            filled += [*after.get(at, ()), kept[column.name]]
        return (*filled, *after.get(len(position), ()))


def _casts_up(source: Type, target: Type) -> bool:
    """Whether incoming values of `source` may be cast to the table's `target`."""
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
    """Whether values that files hold as `stored` can be read as `asked`, so that the column may widen."""
    if isinstance(stored, Decimal) and isinstance(asked, Decimal):
        same_bytes = m.bytes_of_decimal(stored.precision) == m.bytes_of_decimal(asked.precision)
        return same_bytes and stored.scale == asked.scale and asked.precision >= stored.precision
    return isinstance(stored, Simple) and asked in _WIDENS.get(stored, ())


_WIDENS: dict[Type, tuple[Type, ...]] = {
    m.INT: (m.LONG, m.FLOAT, m.DOUBLE),
    m.LONG: (m.FLOAT, m.DOUBLE),
    m.FLOAT: (m.DOUBLE,),
    m.MILLIS: (m.MICROS,),
    m.LOCAL_MILLIS: (m.LOCAL_MICROS,),
}


def _is_wider(wide: Decimal, narrow: Decimal) -> bool:
    return wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
