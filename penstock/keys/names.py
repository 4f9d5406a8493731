"""Names of key generators: what an option or a table may call them, and which one is meant when none is named.

Pure. The classes behind the names are in `generators.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from penstock.errors import OptionError, Unsupported
from penstock.keys.generator import GENERATOR_CLASS_OPTION, GENERATOR_TYPE_OPTION, KeySettings

_PACKAGE = "org.apache.hudi.keygen."
SIMPLE = f"{_PACKAGE}SimpleKeyGenerator"
COMPLEX = f"{_PACKAGE}ComplexKeyGenerator"
TIMESTAMP = f"{_PACKAGE}TimestampBasedKeyGenerator"
CUSTOM = f"{_PACKAGE}CustomKeyGenerator"
NONPARTITIONED = f"{_PACKAGE}NonpartitionedKeyGenerator"
GLOBAL_DELETE = f"{_PACKAGE}GlobalDeleteKeyGenerator"
SQL = "org.apache.spark.sql.hudi.command.SqlKeyGenerator"

TYPES = {
    "SIMPLE": SIMPLE,
    "COMPLEX": COMPLEX,
    "TIMESTAMP": TIMESTAMP,
    "CUSTOM": CUSTOM,
    "NON_PARTITION": NONPARTITIONED,
    "GLOBAL_DELETE": GLOBAL_DELETE,
}
"""Values of the type option; each exists with the suffix `_AVRO` too."""

CLASSES = {
    **{java_class: java_class for java_class in (*TYPES.values(), SQL)},
    f"{_PACKAGE}SimpleAvroKeyGenerator": SIMPLE,
    f"{_PACKAGE}ComplexAvroKeyGenerator": COMPLEX,
    f"{_PACKAGE}TimestampBasedAvroKeyGenerator": TIMESTAMP,
    f"{_PACKAGE}CustomAvroKeyGenerator": CUSTOM,
    f"{_PACKAGE}NonpartitionedAvroKeyGenerator": NONPARTITIONED,
    f"{_PACKAGE}GlobalAvroDeleteKeyGenerator": GLOBAL_DELETE,
}
"""Every class name Hudi stores or accepts, to the one that writes for Spark."""


def infer_generator(settings: KeySettings) -> str:
    """Give the Java class name of the generator: the named class, else the named type, else by the number of fields.

    Raises:
        Unsupported: the class is not one of Hudi's own.
        OptionError: the type is unknown.
    """
    if settings.generator_class:
        return class_named(settings.generator_class)
    if settings.generator_type:
        return _class_of_type(settings.generator_type)
    return _class_by_fields(settings)


def class_named(name: str, *, option: str = GENERATOR_CLASS_OPTION) -> str:
    """Give the class that a class name, also that of an Avro variant, stands for."""
    if name.strip() in CLASSES:
        return CLASSES[name.strip()]
    near = get_close_matches(name, CLASSES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(set(CLASSES.values())))}."
    raise Unsupported(f"{option}={name}: only Hudi's own key generators are available, Java classes cannot run. {hint}")


def split_typed_field(field: str) -> tuple[str, str] | None:
    """Split `name:TYPE` of the custom generator; None when there is no known type."""
    name, colon, kind = field.rpartition(":")
    kind = kind.strip().upper()
    return (name.strip(), kind) if colon and name.strip() and kind in ("SIMPLE", "TIMESTAMP") else None


def partition_columns(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that partition path fields name: the custom generator's `:TYPE` is cut off."""
    return tuple(field.split(":")[0] for field in fields)


def _class_of_type(name: str) -> str:
    plain = name.strip().upper().removesuffix("_AVRO")
    if plain not in TYPES:
        raise OptionError(f"{GENERATOR_TYPE_OPTION}={name}: unknown key generator type. Use one of {', '.join(TYPES)}.")
    return TYPES[plain]


def _class_by_fields(settings: KeySettings) -> str:
    keys, partitions = settings.record_key_fields, settings.partition_path_fields
    if not partitions:
        return NONPARTITIONED
    if all(split_typed_field(field) for field in partitions):
        return CUSTOM
    return SIMPLE if len(keys) <= 1 and len(partitions) == 1 else COMPLEX
