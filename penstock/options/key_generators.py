"""The table of key generators: the names that options and tables have for them, and the modules with their classes.

A new key generator is one file in `penstock/keys` and one entry here. `penstock/keys/generator_table.py` makes generators, and
the option catalogue accepts the names of this table. The class has the name of the Java class.
"""

from __future__ import annotations

from dataclasses import dataclass

_PACKAGE = "org.apache.hudi.keygen."
SIMPLE = f"{_PACKAGE}SimpleKeyGenerator"
COMPLEX = f"{_PACKAGE}ComplexKeyGenerator"
TIMESTAMP = f"{_PACKAGE}TimestampBasedKeyGenerator"
CUSTOM = f"{_PACKAGE}CustomKeyGenerator"
NONPARTITIONED = f"{_PACKAGE}NonpartitionedKeyGenerator"
GLOBAL_DELETE = f"{_PACKAGE}GlobalDeleteKeyGenerator"
SQL = "org.apache.spark.sql.hudi.command.SqlKeyGenerator"


@dataclass(frozen=True)
class GeneratorEntry:
    """A key generator under all its names."""

    #: The class that Spark writers use; tables store its name.
    java_class: str
    #: The module of `penstock.keys` with the class.
    module: str
    #: The value of `hoodie.datasource.write.keygenerator.type`; each exists with the suffix `_AVRO` too. None: it has none.
    type_name: str | None = None
    #: The class that other Hudi writers use, which tables may store; None: there is none.
    avro_class: str | None = None


GENERATORS = (
    GeneratorEntry(SIMPLE, "simple", "SIMPLE", f"{_PACKAGE}SimpleAvroKeyGenerator"),
    GeneratorEntry(COMPLEX, "complex", "COMPLEX", f"{_PACKAGE}ComplexAvroKeyGenerator"),
    GeneratorEntry(TIMESTAMP, "timestamp", "TIMESTAMP", f"{_PACKAGE}TimestampBasedAvroKeyGenerator"),
    GeneratorEntry(CUSTOM, "custom", "CUSTOM", f"{_PACKAGE}CustomAvroKeyGenerator"),
    GeneratorEntry(NONPARTITIONED, "nonpartitioned", "NON_PARTITION", f"{_PACKAGE}NonpartitionedAvroKeyGenerator"),
    GeneratorEntry(GLOBAL_DELETE, "global_delete", "GLOBAL_DELETE", f"{_PACKAGE}GlobalAvroDeleteKeyGenerator"),
    GeneratorEntry(SQL, "sql"),
)

#: Every class name that Penstock accepts: those of Spark writers first.
GENERATOR_CLASSES = (
    *(entry.java_class for entry in GENERATORS),
    *(entry.avro_class for entry in GENERATORS if entry.avro_class),
)
#: The values of `hoodie.datasource.write.keygenerator.type`.
GENERATOR_TYPES = tuple(entry.type_name for entry in GENERATORS if entry.type_name)
